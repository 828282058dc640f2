"""`breadcrumbs radar`: what it prints, what it refuses, and that it looks at no label."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.radar import LAYERS
from breadcrumbs.radar_cli import _LAYERS

CASES = Path(__file__).parent / "data" / "radar_cases.jsonl"


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    status = 0
    try:
        main(["radar", *map(str, words)])
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def line(**changes: Any) -> dict[str, Any]:
    context = {
        "user": "Open a ticket called Lift",
        "tool": "create_ticket",
        "parameters": [{"name": "title", "type": "string", "required": True}],
        "history": ["schema"],
    }
    case = {
        "text": "Shall I proceed?",
        "label": "stall",
        "language": "en",
        "kind": "permission_ask",
    }
    return {**case, "context": context, **changes}


def written(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(json.dumps(one) for one in lines), encoding="utf-8")
    return path


def test_score_prints_one_object_with_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "score", CASES, "--json")
    result = json.loads(out)
    assert status == 0
    assert list(result) == ["overall", "by_language", "by_kind", "layers", "markers"]
    blocks = [result["overall"], result["markers"]]
    for part in ("by_language", "by_kind", "layers"):
        blocks += result[part].values()
    assert all({"precision", "recall", "f1", "n"} <= set(block) for block in blocks)
    assert set(result["by_language"]) == {"en", "de", "fr", "es", "pt", "zh", "ja"}
    assert tuple(result["layers"]) == LAYERS == _LAYERS
    assert sum(block["n"] for block in result["by_language"].values()) == result["overall"]["n"]


def test_shares_are_what_the_counts_say(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hit, false, miss = line(), line(label="legitimate", kind="final_answer"), line(text="Hm.")
    _, out, _ = run(capsys, "score", written(tmp_path / "c.jsonl", hit, hit, false, miss), "--json")
    result = json.loads(out)
    overall = result["overall"]
    assert (overall["precision"], overall["recall"], overall["f1"]) == (2 / 3, 2 / 3, 2 / 3)
    assert result["by_kind"]["final_answer"]["recall"] is None
    assert result["overall"]["non_english"]["n"] == 0
    assert result["layers"]["permission"]["hits"] == 2
    assert result["layers"]["permission"]["without"]["flagged"] == 0


def test_a_layer_can_be_switched_off(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = written(tmp_path / "c.jsonl", line())
    _, out, _ = run(capsys, "score", file, "--json", "--without", "permission")
    assert json.loads(out)["overall"]["flagged"] == 0
    assert "permission" not in json.loads(out)["layers"]


def test_nothing_but_text_and_context_is_looked_at(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    cases = [json.loads(one) for one in CASES.read_text(encoding="utf-8").splitlines()]
    changed = [
        {**case, "label": "legitimate", "kind": "x", "language": "y", "source": "z", "id": "w"}
        for case in cases
    ]
    flagged = []
    cases, changed = cases[::4], changed[::4]
    for name, lines in (("a", cases), ("b", changed[::-1])):
        _, out, _ = run(capsys, "score", written(tmp_path / name, *lines), "--json")
        flagged.append(json.loads(out)["overall"]["flagged"])
    assert flagged[0] == flagged[1] > 0


def test_the_table_shows_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "score", CASES)
    assert status == 0
    assert "overall" in out
    assert "not English" in out
    assert "markers" in out


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "holds no case"),
        ([line(), "x"], ":2: line: "),
        ([line(label="maybe")], ":1: label: "),
        ([line(context={})], "context.user"),
        ([line(text=3)], ":1: text: "),
    ],
)
def test_a_bad_file_is_one_line_and_status_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, lines: list[Any], said: str
) -> None:
    status, out, err = run(capsys, "score", written(tmp_path / "c.jsonl", *lines))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_file_that_is_not_there_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    status, _, err = run(capsys, "score", tmp_path / "none.jsonl")
    assert status == 2
    assert "No such file" in err


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from breadcrumbs.cli import main\n"
        "try: main(['radar', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('pydantic', 'breadcrumbs.radar_phrases') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"
