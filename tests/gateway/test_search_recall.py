"""The requests that recall is measured with, and the script that measures it."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec, load_catalog
from breadcrumbs.gateway.search import stems

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("BREADCRUMBS_SHARED", ROOT.parent / "shared"))
REQUESTS = Path(__file__).with_name("search_requests.jsonl")


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location(
        "search_recall", ROOT / "scripts/search_recall.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_requests_name_tools_that_exist_in_words_of_their_own(script: Any) -> None:
    catalog = load_catalog()
    cases = script.own_cases(REQUESTS)
    assert len(cases) >= 300
    assert len({case.request for case in cases}) == len(cases)
    shared = []
    for case in cases:
        spec = catalog.tools[case.tool]
        own = set(stems(f"{spec.name.replace('_', ' ')} {spec.description}"))
        asked = set(stems(case.request))
        assert asked
        shared.append(len(asked & own) / len(asked))
    assert sum(shared) / len(shared) < 0.2  # "phrased unlike": few words in common


def test_no_request_of_the_measure_stands_in_the_catalog(script: Any) -> None:
    """What is measured with must not be what search was given."""
    foreseen = {
        text: set(stems(text)) for spec in load_catalog().tools.values() for text in spec.requests
    }
    assert len(foreseen) > 700
    cases = script.own_cases(REQUESTS)
    assert _likest({cases[0].request: set(stems(cases[0].request))}, cases)[0] == 1  # control
    share, pair = _likest(foreseen, cases)
    assert share < 0.5, pair


def _likest(foreseen: dict[str, set[str]], cases: list[Any]) -> tuple[float, tuple[str, str]]:
    """The largest share of words in common, and between which two."""
    return max(
        (len(own & asked) / len(own | asked), (text, case.request))
        for case in cases
        for asked in [set(stems(case.request))]
        for text, own in foreseen.items()
    )


def test_recall_counts_what_is_found_and_what_is_not(script: Any) -> None:
    tools = Catalog(
        {name: ToolSpec(name, "", {}, Risk.READ, "made") for name in ("open_door", "close_door")}
    )
    cases = [
        script.Case("open door", "open_door"),
        script.Case("door", "open_door"),
        script.Case("sing", "open_door"),
    ]
    found = script.measure(tools, cases)
    assert found["recall@1"]["value"] == pytest.approx(1 / 3, abs=1e-3)
    assert found["recall@5"]["value"] == pytest.approx(2 / 3, abs=1e-3)
    assert found["recall@5"]["n"] == 3
    assert script.answered(tools, ["sing", "open the door"])["value"] == 0.5


def test_only_messages_answered_by_one_call_are_requests(script: Any, tmp_path: Path) -> None:
    turns = [[{"role": "user", "content": text}] for text in ("One.", "Two.", "None.", "Twice.")]
    calls = [["cd(folder='a')"], ["cd(folder='a')", "ls()"], [], ["ls()", "ls(a=True)"]]
    (tmp_path / "possible_answer").mkdir()
    name = "BFCL_v4_multi_turn_base.json"
    (tmp_path / name).write_text(json.dumps({"id": "1", "question": turns}))
    (tmp_path / "possible_answer" / name).write_text(json.dumps({"id": "1", "ground_truth": calls}))
    assert script.bfcl_cases(tmp_path) == [script.Case("One.", "cd"), script.Case("Twice.", "ls")]


def test_an_answer_that_is_no_plain_call_is_refused(script: Any) -> None:
    with pytest.raises(ValueError, match="no plain call"):
        script._called("__import__('os').system('true')")


def test_real_requests_can_be_read(script: Any) -> None:
    folder = SHARED / "data/catalogs/bfcl_v4"
    if not folder.is_dir():
        pytest.skip(f"no catalogs at {folder}")
    assert len(script.bfcl_cases(folder)) > 300
