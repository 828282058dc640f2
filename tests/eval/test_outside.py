"""Runs on outside benchmarks: both sides' figures, what is kept, the page, the command."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs import config as configs
from breadcrumbs.cli import main
from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.compare import compare_runs
from breadcrumbs.eval.outside import OutsideRun, run_outside
from breadcrumbs.eval.outside_config import OutsideConfig
from breadcrumbs.eval.outside_view import NOT_COMPARABLE, outside_table
from breadcrumbs.eval.report import write_report

SHARED = Path(os.environ.get("BREADCRUMBS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
REAL = SHARED / "data" / "catalogs" / "bfcl_v4"
REAL_W2C = SHARED / "data" / "when2call" / "when2call_test_llm_judge.jsonl"


def _silent(done: int, total: int, note: str = "") -> None:
    pass


def value(results: dict[str, Any], system: str, group: str, figure: str) -> tuple[Any, int]:
    found = results["outside"][system][group][figure]
    return found["value"], found["n"]


def test_constant_policies_stand_in_the_corners(outside: OutsideConfig) -> None:
    results = run_outside(outside, _silent)
    for group, call, ask, cannot in (
        ("bfcl_base", 3, 0, 0),
        ("bfcl_miss_param", 3, 2, 0),
        ("bfcl_single_turn", 1, 0, 2),
        ("when2call", 1, 1, 2),
    ):
        for system, acts in (("always_dispatch", 1.0), ("always_ask", 0.0), ("do_nothing", 0.0)):
            waits = (1 - acts, ask) if ask else (None, 0)
            refrains = (1 - acts, cannot) if cannot else (None, 0)
            balanced = (0.5, call + ask + cannot) if ask + cannot else (None, 0)
            assert value(results, system, group, "acts") == (acts, call)
            assert value(results, system, group, "stalls") == (1 - acts, call)
            assert value(results, system, group, "waits") == waits
            assert value(results, system, group, "refrains") == refrains
            assert value(results, system, group, "balanced") == balanced
        for figure, n in (("fits", call), ("asks", ask), ("declines", cannot)):
            assert value(results, "oracle", group, figure) == ((1.0, n) if n else (None, 0))
    assert value(results, "do_nothing", "when2call", "asks") == (0.0, 1)
    assert value(results, "always_ask", "when2call", "declines") == (0.0, 2)
    assert value(results, "always_ask", "when2call_faulty", "waits") == (1.0, 1)
    assert results["counts"]["bfcl_base"]["left_out"] == {"no gold call in the base set": 1}
    text = outside_table(results)
    assert NOT_COMPARABLE in text
    assert "dispatch 3 of 3, clarify 2 of 2" in text
    assert json.loads((outside.out / "outside.json").read_text()) == results


def test_what_was_written_is_kept_and_scored_anew(outside: OutsideConfig) -> None:
    run = OutsideRun.prepare(outside, _silent)
    results = run.run()
    assert len(run.made) == 4 * 5
    again = OutsideRun.prepare(outside, _silent)
    assert (again.run(), again.made) == (results, [])
    path = outside.out / "cells" / "always_ask_bfcl_base.jsonl"
    head, first, *rest = path.read_text().splitlines()
    row = json.loads(first)
    row["turn"] = json.loads(
        (outside.out / "cells" / "oracle_bfcl_base.jsonl").read_text().splitlines()[1]
    )["turn"]
    row["score"] = {"made": "up"}
    path.write_text("\n".join([head, json.dumps(row), *rest]) + "\n")
    changed = run_outside(outside, _silent)
    assert value(changed, "always_ask", "bfcl_base", "acts") == (0.3333, 3)
    path.unlink()
    assert run_outside(outside, _silent) == results
    other = OutsideRun.prepare(dataclasses.replace(outside, breadcrumb=False), _silent)
    other.run()
    assert len(other.made) == 4 * 5  # other prompts: nothing of it may be used again


def test_a_sample_is_named(outside: OutsideConfig) -> None:
    results = run_outside(dataclasses.replace(outside, per_side=1), _silent)
    assert results["counts"]["bfcl_miss_param"]["scored"] == {"dispatch": 1, "clarify": 1}
    assert results["counts"]["bfcl_miss_param"]["of"] == {"dispatch": 3, "clarify": 2}
    assert results["config"]["per_side"] == 1


def test_the_page_shows_both_sides_and_the_turns_behind_them(
    outside: OutsideConfig, serving: Any
) -> None:
    words = "<script>alert(1)</script> Which file?"
    with serving(_server(words)) as address:
        body = {
            **configs.to_dict(outside),
            "systems": ["endpoint", "always_dispatch"],
            "endpoint": {"base_url": f"{address}/v1", "model": "m", "tries": 1},
        }
        asked = configs.parse(body, OutsideConfig, "test")
        results = run_outside(asked, _silent)
    assert value(results, "endpoint", "bfcl_miss_param", "asks") == (1.0, 2)
    assert value(results, "endpoint", "bfcl_miss_param", "acts") == (0.0, 3)
    assert results["models"]["endpoint"] == {"endpoint": "m", "options": "{}"}
    shutil.rmtree(outside.out / "cells")
    assert run_outside(asked, _silent) == results  # the server is gone; its answers are kept
    page = write_report(outside.out).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert NOT_COMPARABLE[1:] in html.unescape(page)
    assert 'data-open="t-outside-endpoint-bfcl_miss_param" data-figure="waits"' in page
    assert "t-outside-always_dispatch" not in page
    assert page.count('class="transcript"') == sum(
        sum(counts["scored"].values()) for counts in results["counts"].values()
    )
    waiting = [yes for yes in re.findall(r'data-yes="([^"]*)"', page) if "waits" in yes.split()]
    assert len(waiting) == 2 + 1 + 1  # miss_param, When2Call and its faulty item
    page = write_report(_beside(outside.out)).read_text()
    assert "Outside benchmarks" in page


def _beside(folder: Path) -> Path:
    """A run folder that holds the results in a folder of their own."""
    run = folder.parent / "run"
    shutil.copytree(folder, run / "outside")
    return run


def _server(words: str) -> Any:
    """Says the same each time."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def answer(request: Request) -> JSONResponse:
        message = {"role": "assistant", "content": words}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"id": "1", "object": "chat.completion", "choices": [choice]})

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])


def test_a_model_is_scored_and_what_is_too_long_for_it_is_counted(
    outside: OutsideConfig, tiny_model_folder: Path
) -> None:
    config = dataclasses.replace(
        outside,
        systems=("base",),
        when2call=None,
        model=str(tiny_model_folder),
        dtype="float32",
        max_new_tokens=8,
        per_side=1,
    )
    results = run_outside(config, _silent)
    assert results["too_long"] == {}
    for group, counts in results["counts"].items():
        assert value(results, "base", group, "acts") == (0.0, counts["scored"]["dispatch"])
    run = OutsideRun.prepare(dataclasses.replace(config, max_new_tokens=8100), _silent)
    short = run.run()  # of 8192 positions nothing is left for a prompt
    assert short["too_long"]["base"] == {
        group: sum(counts["scored"].values()) for group, counts in short["counts"].items()
    }
    assert value(short, "base", "bfcl_base", "acts") == (None, 0)
    assert "base: too long for the model and not scored: 1 of bfcl_base" in outside_table(short)
    assert OutsideRun.prepare(run.config, _silent).run() == short


def test_two_systems_are_compared_item_by_item(outside: OutsideConfig) -> None:
    run_outside(outside, _silent)
    found = compare_runs(outside.out, outside.out, "always_ask=always_dispatch")
    rows = {(row.where, row.figure): row.difference for row in found.rows}
    name = "always_ask=always_dispatch bfcl_miss_param"
    assert (rows[name, "acts"].a, rows[name, "acts"].b, rows[name, "acts"].n) == (0, 1, 3)
    assert (rows[name, "guesses"].a, rows[name, "guesses"].b) == (0, 1)
    same = compare_runs(outside.out, outside.out, "oracle=oracle")
    assert {row.verdict for row in same.rows} == {"noise"}


def _status(*words: str) -> int:
    try:
        main(["eval", "outside", *words])
    except SystemExit as stopped:
        return int(str(stopped.code))
    return 0


def test_the_command_says_in_one_line_what_is_wrong(
    outside: OutsideConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = ("--config", "configs/eval/outside.yaml", "--set", f"out={outside.out}")
    mine = ("--set", f"bfcl={outside.bfcl}", "--set", f"when2call={outside.when2call}")
    assert _status(*shipped, *mine) == 0
    assert "always_dispatch" in capsys.readouterr().out
    assert _status(*shipped, "--set", f"bfcl={tmp_path / 'nowhere'}") == 2
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 1
    assert "nowhere" in shown[0]
    assert _status(*shipped, "--set", "bfcl=null", "--set", "when2call=null") == 2
    assert "docs/outside.md" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"systems": ["oracle", "oracle"]}, "named twice"),
        ({"systems": ["adapter"]}, "has no folder"),
        ({"systems": ["endpoint"]}, "has no address"),
        ({"systems": ["nobody"]}, "systems"),
    ],
)
def test_a_config_that_cannot_run_is_refused(change: dict[str, Any], message: str) -> None:
    body = {"version": 1, "out": "o", "bfcl": "b", "systems": ["oracle"]}
    assert configs.parse(body, OutsideConfig, "test").systems == ("oracle",)
    with pytest.raises(ConfigError, match=message):
        configs.parse({**body, **change}, OutsideConfig, "test")


@pytest.mark.skipif(
    not REAL.is_dir(), reason=f"needs BFCL's files in {REAL}; set BREADCRUMBS_SHARED"
)
def test_constant_policies_stand_in_the_corners_of_bfcl(tmp_path: Path) -> None:
    config = OutsideConfig(
        out=tmp_path, systems=("oracle", "always_dispatch", "always_ask"), bfcl=REAL
    )
    results = run_outside(config, _silent)
    for system, acts in (("always_dispatch", 1.0), ("always_ask", 0.0)):
        assert value(results, system, "bfcl_base", "acts") == (acts, 731)
        assert value(results, system, "bfcl_miss_param", "acts") == (acts, 731)
        assert value(results, system, "bfcl_miss_param", "waits") == (1 - acts, 203)
        assert value(results, system, "bfcl_miss_param", "balanced") == (0.5, 934)
        assert value(results, system, "bfcl_single_turn", "refrains") == (1 - acts, 240)
    assert value(results, "oracle", "bfcl_miss_param", "balanced") == (1.0, 934)


@pytest.mark.skipif(not REAL_W2C.is_file(), reason=f"needs {REAL_W2C}; set BREADCRUMBS_SHARED")
def test_constant_policies_stand_in_the_corners_of_when2call(tmp_path: Path) -> None:
    config = OutsideConfig(
        out=tmp_path, systems=("always_dispatch", "always_ask"), when2call=REAL_W2C
    )
    results = run_outside(config, _silent)
    for system, acts in (("always_dispatch", 1.0), ("always_ask", 0.0)):
        assert value(results, system, "when2call", "acts") == (acts, 100)
        assert value(results, system, "when2call", "waits") == (1 - acts, 90)
        assert value(results, system, "when2call", "refrains") == (1 - acts, 100)
        assert value(results, system, "when2call_faulty", "waits") == (1 - acts, 10)
        assert value(results, system, "when2call", "balanced") == (0.5, 290)
