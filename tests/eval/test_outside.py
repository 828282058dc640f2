"""Outside benchmarks: loaders, replay, both sides' scores, and what is kept between runs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs import config as configs
from breadcrumbs.call_format import parse_turn
from breadcrumbs.cli import main
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.eval.compare import compare_runs
from breadcrumbs.eval.outside import OutsideRun, load_items, run_outside, spread
from breadcrumbs.eval.outside_bfcl import load_bfcl, read_call
from breadcrumbs.eval.outside_config import OutsideConfig
from breadcrumbs.eval.outside_items import Item
from breadcrumbs.eval.outside_replay import ASKED, OutsideCase, replay_all
from breadcrumbs.eval.outside_scores import outside_turn, score_outside
from breadcrumbs.eval.outside_view import NOT_COMPARABLE, outside_table
from breadcrumbs.eval.outside_when2call import load_when2call
from breadcrumbs.eval.report import write_report
from breadcrumbs.files import write_json_lines
from breadcrumbs.messages import ToolCall, json_object
from breadcrumbs.turns import Turn

EXAMPLES = Path(__file__).parent / "outside"
"""Benchmarks of a few items in the formats of the real ones, written by hand."""
SHARED = Path(os.environ.get("BREADCRUMBS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
REAL = SHARED / "data" / "catalogs" / "bfcl_v4"
REAL_W2C = SHARED / "data" / "when2call" / "when2call_test_llm_judge.jsonl"
CONSTANT = ("oracle", "always_dispatch", "always_ask", "do_nothing")


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture
def settings(tmp_path: Path) -> OutsideConfig:
    shutil.copytree(EXAMPLES, tmp_path / "copy")
    return OutsideConfig(
        out=tmp_path / "out",
        systems=CONSTANT,
        bfcl=tmp_path / "copy" / "bfcl",
        when2call=tmp_path / "copy" / "when2call.jsonl",
    )


def value(results: dict[str, Any], system: str, group: str, figure: str) -> tuple[Any, int]:
    found = results["outside"][system][group][figure]
    return found["value"], found["n"]


def sides(items: Any) -> Counter[tuple[str, str]]:
    return Counter((item.group, item.side) for item in items)


def find(items: Any, key: str) -> Item:
    return next(item for item in items if item.id == key)


def test_every_turn_is_on_the_side_its_gold_calls_put_it(settings: OutsideConfig) -> None:
    loaded = load_items(settings)
    assert sides(loaded.items) == {
        ("bfcl_base", "dispatch"): 3,
        ("bfcl_miss_param", "dispatch"): 3,
        ("bfcl_miss_param", "clarify"): 2,
        ("bfcl_single_turn", "dispatch"): 1,
        ("bfcl_single_turn", "decline"): 2,
        ("when2call", "dispatch"): 1,
        ("when2call", "clarify"): 1,
        ("when2call", "decline"): 2,
        ("when2call_faulty", "clarify"): 1,
    }
    assert {name: sum(reasons.values()) for name, reasons in loaded.left_out.items()} == {
        "bfcl_base": 1,
        "bfcl_miss_param": 0,
        "bfcl_single_turn": 0,
        "when2call": 0,
    }
    first = find(loaded.items, "multi_turn_base_0#0")
    assert first.read == ("make_folder", "move_file")
    assert "copy_file" not in first.catalog.tools  # the entry takes it away
    assert find(loaded.items, "multi_turn_base_1#0").calls[0].arguments == {"file_name": "c.txt"}
    asked = find(loaded.items, "multi_turn_miss_param_0#1")
    assert asked.read == ("move_file",)  # what the next call needs: no side tells itself apart
    assert asked.cluster == find(loaded.items, "multi_turn_base_0#1").cluster


def test_an_item_is_replayed_through_the_gateway(settings: OutsideConfig) -> None:
    items = load_items(settings).items
    item = find(items, "multi_turn_miss_param_0#2")
    (case,) = replay_all([item], breadcrumb=True)
    spoken = [m.content for m in case.messages if m.role == "user"]
    assert spoken == [exchange.request for exchange in item.history] + ["It is b.txt."]
    assert ASKED in [m.content for m in case.messages if m.role == "assistant"]
    payloads = [json_object(m.content) for m in case.messages if m.role == "tool"]
    ran = [p for p in payloads if p["layer"] == "3_execution"]
    assert [(p["tool"], p["status"]) for p in ran] == [
        ("make_folder", "done"),
        ("move_file", "done"),
    ]
    last = payloads[-1]
    assert [one["name"] for one in last["disclosed"]] == ["move_file"]
    assert last["disclosed"][0]["requiresApproval"] is True  # no label: it counts as a write
    assert list(last)[-1] == "next_step"
    assert "move_file" in [one["name"] for one in payloads[-2]["matches"]]
    answered = {m.tool_call_id for m in case.messages if m.role == "tool"}
    assert answered == {c.id for m in case.messages for c in m.tool_calls}
    (bare,) = replay_all([item], breadcrumb=False)
    assert all("next_step" not in m.content for m in bare.messages if m.role == "tool")
    assert case.said
    (unsaid,) = replay_all([dataclasses.replace(item, request="You know it.")], breadcrumb=True)
    assert not unsaid.said


def test_where_nothing_is_on_offer_the_turn_follows_the_search(settings: OutsideConfig) -> None:
    items = load_items(settings).items
    nothing, single = replay_all(
        [find(items, "nothing"), find(items, "live_relevance_0")], breadcrumb=True
    )
    assert json_object(nothing.messages[-1].content)["matches"] == []
    assert single.messages[0].content.endswith("\nYou count.")
    assert [t["name"] for t in json_object(single.messages[-1].content)["disclosed"]] == [
        "mean",
        "round_number",
    ]


def test_constant_policies_stand_in_the_corners(settings: OutsideConfig) -> None:
    results = run_outside(settings, _silent)
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
    assert json.loads((settings.out / "outside.json").read_text()) == results


def case_of(settings: OutsideConfig, key: str) -> OutsideCase:
    return replay_all([find(load_items(settings).items, key)], breadcrumb=True)[0]


def execute(name: str, **arguments: Any) -> Turn:
    call = {"tool_name": name, "arguments": arguments}
    return Turn("", (ToolCall("c", "execute_tool", call),))


def test_a_turn_that_acts_need_not_fit(settings: OutsideConfig) -> None:
    case = case_of(settings, "multi_turn_base_0#1")
    right = score_outside(execute("move_file", source="b.txt", destination="docs"), case)
    assert (right.executed, right.fits, right.waits, right.stall) == (True, True, False, None)
    for wrong in (
        execute("make_folder", folder="docs"),
        execute("move_file", source="b.txt"),
        execute("move_file", source="b.txt", destination=7),
        execute("nowhere"),
        Turn("", (ToolCall("c", "execute_tool", {"tool_name": "move_file", "arguments": "x"}),)),
    ):
        score = score_outside(wrong, case)
        assert (score.executed, score.fits, score.stall) == (True, False, None)


def test_what_is_no_call_is_told_apart(settings: OutsideConfig) -> None:
    case = case_of(settings, "multi_turn_miss_param_1#0")
    searched = score_outside(Turn("", (ToolCall("c", "search_tool_catalog", {}),)), case)
    assert (searched.executed, searched.waits) == (False, False)
    half = score_outside(parse_turn('<tool_call>{"name": "execute_tool", "argum'), case)
    assert (half.executed, half.waits, half.asks) == (False, False, False)
    for words, asks in (
        ("Which file?", True),
        ("Please tell me the file name.", True),
        ("Okay.", False),
        ("行きます。", False),
    ):
        score = score_outside(Turn(words), case)
        assert (score.waits, score.asks) == (True, asks), words
        assert score.stall is None  # asking is right here
    acting = case_of(settings, "multi_turn_base_1#0")
    assert score_outside(Turn("Shall I proceed?"), acting).stall == "permission_ask"
    assert score_outside(parse_turn("<tool_call>{"), acting).stall == "malformed_call"
    cannot = case_of(settings, "irrelevance_0")
    assert score_outside(Turn("I can't do that."), cannot).declines
    assert not score_outside(Turn("Here you are."), cannot).declines


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "move_file(source=open('x'), destination='y')",
        "move_file(source=make_folder(folder='x'), destination='y')",
        "move_file(*['a', 'b'])",
        "move_file(**{'source': 'a'})",
        "move_file('a', 'b', 'c')",
        "move_file('a', source='b')",
        "move_file",
        "move_file('a'",
        "nowhere(a=1)",
        "make_folder(folder={1, 2})",
        "make_folder(folder=b'x')",
        "make_folder(folder=1e999)",
        "make_folder(folder=" + "(" * 9000,
        "make_folder(folder='" + "x" * 30_000 + "')",
    ],
)
def test_gold_calls_are_literals_and_nothing_is_run(text: str) -> None:
    catalog = load_bfcl(EXAMPLES / "bfcl").items[0].catalog
    assert read_call("move_file('a', destination='b')", catalog, "here").arguments == {
        "source": "a",
        "destination": "b",
    }
    assert read_call("mean(numbers=(1, -2.5))", catalog, "here").arguments == {"numbers": [1, -2.5]}
    with pytest.raises(DataError, match="here: .* is no plain call of a documented function"):
        read_call(text, catalog, "here")


def test_what_was_written_is_kept_and_scored_anew(settings: OutsideConfig) -> None:
    run = OutsideRun.prepare(settings, _silent)
    results = run.run()
    assert len(run.made) == 4 * 5
    again = OutsideRun.prepare(settings, _silent)
    assert (again.run(), again.made) == (results, [])
    path = settings.out / "cells" / "always_ask_bfcl_base.jsonl"
    head, first, *rest = path.read_text().splitlines()
    row = json.loads(first)
    row["turn"] = json.loads(
        (settings.out / "cells" / "oracle_bfcl_base.jsonl").read_text().splitlines()[1]
    )["turn"]
    row["score"] = {"made": "up"}
    path.write_text("\n".join([head, json.dumps(row), *rest]) + "\n")
    changed = run_outside(settings, _silent)
    assert value(changed, "always_ask", "bfcl_base", "acts") == (0.3333, 3)
    path.unlink()
    assert run_outside(settings, _silent) == results
    other = OutsideRun.prepare(dataclasses.replace(settings, breadcrumb=False), _silent)
    other.run()
    assert len(other.made) == 4 * 5  # other prompts: nothing of it may be used again


def test_a_sample_is_spread_over_each_side_and_named(settings: OutsideConfig) -> None:
    items = [
        dataclasses.replace(find(load_items(settings).items, key), id=f"{key}-{i}")
        for i in range(6)
        for key in ("ask", "call")
    ]
    assert [item.id for item in spread(items, 2)] == ["ask-0", "call-0", "ask-3", "call-3"]
    assert spread(items, None) == spread(items, 99) == items
    results = run_outside(dataclasses.replace(settings, per_side=1), _silent)
    assert results["counts"]["bfcl_miss_param"]["scored"] == {"dispatch": 1, "clarify": 1}
    assert results["counts"]["bfcl_miss_param"]["of"] == {"dispatch": 3, "clarify": 2}
    assert results["config"]["per_side"] == 1


def test_the_page_shows_both_sides_and_the_turns_behind_them(
    settings: OutsideConfig, serving: Any
) -> None:
    words = "<script>alert(1)</script> Which file?"
    with serving(_server(words)) as address:
        body = {
            **configs.to_dict(settings),
            "systems": ["endpoint", "always_dispatch"],
            "endpoint": {"base_url": f"{address}/v1", "model": "m", "tries": 1},
        }
        asked = configs.parse(body, OutsideConfig, "test")
        results = run_outside(asked, _silent)
    assert value(results, "endpoint", "bfcl_miss_param", "asks") == (1.0, 2)
    assert value(results, "endpoint", "bfcl_miss_param", "acts") == (0.0, 3)
    assert results["models"]["endpoint"] == {"endpoint": "m", "options": "{}"}
    shutil.rmtree(settings.out / "cells")
    assert run_outside(asked, _silent) == results  # the server is gone; its answers are kept
    page = write_report(settings.out).read_text()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert NOT_COMPARABLE[1:] in page
    assert 'data-open="t-outside-endpoint-bfcl_miss_param" data-figure="waits"' in page
    assert "t-outside-always_dispatch" not in page
    assert page.count('class="transcript"') == sum(
        sum(counts["scored"].values()) for counts in results["counts"].values()
    )
    waiting = [yes for yes in re.findall(r'data-yes="([^"]*)"', page) if "waits" in yes.split()]
    assert len(waiting) == 2 + 1 + 1  # miss_param, When2Call and its faulty item
    page = write_report(_beside(settings.out)).read_text()
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
    settings: OutsideConfig, tiny_model_folder: Path
) -> None:
    config = dataclasses.replace(
        settings,
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


def test_two_systems_are_compared_item_by_item(settings: OutsideConfig) -> None:
    run_outside(settings, _silent)
    found = compare_runs(settings.out, settings.out, "always_ask=always_dispatch")
    rows = {(row.where, row.figure): row.difference for row in found.rows}
    name = "always_ask=always_dispatch bfcl_miss_param"
    assert (rows[name, "acts"].a, rows[name, "acts"].b, rows[name, "acts"].n) == (0, 1, 3)
    assert (rows[name, "guesses"].a, rows[name, "guesses"].b) == (0, 1)
    same = compare_runs(settings.out, settings.out, "oracle=oracle")
    assert {row.verdict for row in same.rows} == {"noise"}


def _status(*words: str) -> int:
    try:
        main(["eval", "outside", *words])
    except SystemExit as stopped:
        return int(str(stopped.code))
    return 0


def test_the_command_says_in_one_line_what_is_wrong(
    settings: OutsideConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = ("--config", "configs/eval/outside.yaml", "--set", f"out={settings.out}")
    mine = ("--set", f"bfcl={settings.bfcl}", "--set", f"when2call={settings.when2call}")
    assert _status(*shipped, *mine) == 0
    assert "always_dispatch" in capsys.readouterr().out
    assert _status(*shipped, "--set", f"bfcl={tmp_path / 'nowhere'}") == 2
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 1
    assert "nowhere" in shown[0]
    assert _status(*shipped, "--set", "bfcl=null", "--set", "when2call=null") == 2
    assert "docs/outside.md" in capsys.readouterr().err


def test_files_that_are_not_the_benchmarks_are_refused(settings: OutsideConfig) -> None:
    assert settings.bfcl is not None
    assert settings.when2call is not None
    answers = settings.bfcl / "possible_answer" / "BFCL_v4_multi_turn_base.json"
    right = answers.read_text()
    answers.write_text(right.replace(", []]", "]"))
    with pytest.raises(DataError, match="multi_turn_base_1: possible_answer has no answer"):
        load_items(settings)
    answers.write_text(right)
    questions = settings.bfcl / "BFCL_v4_irrelevance.json"
    asked = [[{"role": "user", "content": "Why?"}]]
    write_json_lines(questions, [{"id": "x", "question": "Why?", "function": []}])
    with pytest.raises(DataError, match="line 1: question: .*the benchmark's own file"):
        load_items(settings)
    tools = [
        {"name": name, "parameters": {"type": "dict", "properties": {"a": {"type": kind}}}}
        for name, kind in (("bad", "violet"), ("good", "string"))
    ]
    write_json_lines(
        questions, [{"id": t["name"], "question": asked, "function": [t]} for t in tools]
    )
    loaded = load_items(settings)
    assert loaded.left_out["bfcl_single_turn"] == {"a tool cannot be imported": 1}
    assert find(loaded.items, "good").read == ("good",)
    text = settings.when2call.read_text()
    settings.when2call.write_text(text.replace('"cannot_answer"', '"shrug"'))
    with pytest.raises(DataError, match="correct_answer 'shrug'"):
        load_items(settings)
    settings.when2call.write_text(text.replace("play.song", "other.song", 1))
    with pytest.raises(DataError, match="'other.song', which is not offered"):
        load_items(settings)


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
def test_bfcl_itself_has_the_turns_it_is_known_for(tmp_path: Path) -> None:
    loaded = load_bfcl(REAL)
    assert sides(loaded.items) == {
        ("bfcl_base", "dispatch"): 731,
        ("bfcl_miss_param", "dispatch"): 731,
        ("bfcl_miss_param", "clarify"): 203,
        ("bfcl_single_turn", "dispatch"): 16,
        ("bfcl_single_turn", "decline"): 240,
    }
    assert loaded.left_out["bfcl_base"] == {"no gold call in the base set": 3}


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
def test_when2call_itself_has_ten_faulty_questions(tmp_path: Path) -> None:
    assert sides(load_when2call(REAL_W2C).items) == {
        ("when2call", "dispatch"): 100,
        ("when2call", "clarify"): 90,
        ("when2call", "decline"): 100,
        ("when2call_faulty", "clarify"): 10,
    }
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


def test_the_real_turn_of_a_scripted_system_follows_its_case(settings: OutsideConfig) -> None:
    case = case_of(settings, "ask")
    (call,) = outside_turn("always_dispatch", case).calls
    assert call.arguments["tool_name"] == "play.song"
    assert outside_turn("always_ask", case).text == "What is the title?"
    assert outside_turn("oracle", case_of(settings, "call")).calls
    (lost,) = outside_turn("always_dispatch", case_of(settings, "nothing")).calls
    assert lost.arguments == {"tool_name": "unknown", "arguments": {}}
