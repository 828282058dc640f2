"""Outside benchmarks item by item: loaders, replay through the gateway, scores of single turns."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.call_format import parse_turn
from breadcrumbs.errors import DataError
from breadcrumbs.eval.outside import load_items, spread
from breadcrumbs.eval.outside_bfcl import load_bfcl, read_call
from breadcrumbs.eval.outside_config import OutsideConfig
from breadcrumbs.eval.outside_items import Item
from breadcrumbs.eval.outside_replay import ASKED, OutsideCase, replay_all
from breadcrumbs.eval.outside_scores import outside_turn, score_outside
from breadcrumbs.eval.outside_when2call import load_when2call
from breadcrumbs.files import write_json_lines
from breadcrumbs.messages import ToolCall, json_object
from breadcrumbs.turns import Turn

EXAMPLES = Path(__file__).parent / "outside"
SHARED = Path(os.environ.get("BREADCRUMBS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
REAL = SHARED / "data" / "catalogs" / "bfcl_v4"
REAL_W2C = SHARED / "data" / "when2call" / "when2call_test_llm_judge.jsonl"


def sides(items: Any) -> Counter[tuple[str, str]]:
    return Counter((item.group, item.side) for item in items)


def find(items: Any, key: str) -> Item:
    return next(item for item in items if item.id == key)


def test_every_turn_is_on_the_side_its_gold_calls_put_it(outside: OutsideConfig) -> None:
    loaded = load_items(outside)
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


def test_a_sample_is_spread_over_each_side(outside: OutsideConfig) -> None:
    items = [
        dataclasses.replace(find(load_items(outside).items, key), id=f"{key}-{i}")
        for i in range(6)
        for key in ("ask", "call")
    ]
    assert [item.id for item in spread(items, 2)] == ["ask-0", "call-0", "ask-3", "call-3"]
    assert spread(items, None) == spread(items, 99) == items


def test_an_item_is_replayed_through_the_gateway(outside: OutsideConfig) -> None:
    items = load_items(outside).items
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


def test_where_nothing_is_on_offer_the_turn_follows_the_search(outside: OutsideConfig) -> None:
    items = load_items(outside).items
    nothing, single = replay_all(
        [find(items, "nothing"), find(items, "live_relevance_0")], breadcrumb=True
    )
    assert json_object(nothing.messages[-1].content)["matches"] == []
    assert single.messages[0].content.endswith("\nYou count.")
    assert [t["name"] for t in json_object(single.messages[-1].content)["disclosed"]] == [
        "mean",
        "round_number",
    ]


def case_of(outside: OutsideConfig, key: str) -> OutsideCase:
    return replay_all([find(load_items(outside).items, key)], breadcrumb=True)[0]


def execute(name: str, **arguments: Any) -> Turn:
    call = {"tool_name": name, "arguments": arguments}
    return Turn("", (ToolCall("c", "execute_tool", call),))


def test_a_turn_that_acts_need_not_fit(outside: OutsideConfig) -> None:
    case = case_of(outside, "multi_turn_base_0#1")
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


def test_what_is_no_call_is_told_apart(outside: OutsideConfig) -> None:
    case = case_of(outside, "multi_turn_miss_param_1#0")
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
    acting = case_of(outside, "multi_turn_base_1#0")
    assert score_outside(Turn("Shall I proceed?"), acting).stall == "permission_ask"
    assert score_outside(parse_turn("<tool_call>{"), acting).stall == "malformed_call"
    cannot = case_of(outside, "irrelevance_0")
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


def test_files_that_are_not_the_benchmarks_are_refused(outside: OutsideConfig) -> None:
    assert outside.bfcl is not None
    assert outside.when2call is not None
    answers = outside.bfcl / "possible_answer" / "BFCL_v4_multi_turn_base.json"
    right = answers.read_text()
    answers.write_text(right.replace(", []]", "]"))
    with pytest.raises(DataError, match="multi_turn_base_1: possible_answer has no answer"):
        load_items(outside)
    answers.write_text(right)
    questions = outside.bfcl / "BFCL_v4_irrelevance.json"
    asked = [[{"role": "user", "content": "Why?"}]]
    write_json_lines(questions, [{"id": "x", "question": "Why?", "function": []}])
    with pytest.raises(DataError, match="line 1: question: .*the benchmark's own file"):
        load_items(outside)
    tools = [
        {"name": name, "parameters": {"type": "dict", "properties": {"a": {"type": kind}}}}
        for name, kind in (("bad", "violet"), ("good", "string"))
    ]
    write_json_lines(
        questions, [{"id": t["name"], "question": asked, "function": [t]} for t in tools]
    )
    loaded = load_items(outside)
    assert loaded.left_out["bfcl_single_turn"] == {"a tool cannot be imported": 1}
    assert find(loaded.items, "good").read == ("good",)
    text = outside.when2call.read_text()
    outside.when2call.write_text(text.replace('"cannot_answer"', '"shrug"'))
    with pytest.raises(DataError, match="correct_answer 'shrug'"):
        load_items(outside)
    outside.when2call.write_text(text.replace("play.song", "other.song", 1))
    with pytest.raises(DataError, match="'other.song', which is not offered"):
        load_items(outside)


@pytest.mark.skipif(
    not REAL.is_dir(), reason=f"needs BFCL's files in {REAL}; set BREADCRUMBS_SHARED"
)
def test_bfcl_itself_has_the_turns_it_is_known_for() -> None:
    loaded = load_bfcl(REAL)
    assert sides(loaded.items) == {
        ("bfcl_base", "dispatch"): 731,
        ("bfcl_miss_param", "dispatch"): 731,
        ("bfcl_miss_param", "clarify"): 203,
        ("bfcl_single_turn", "dispatch"): 16,
        ("bfcl_single_turn", "decline"): 240,
    }
    assert loaded.left_out["bfcl_base"] == {"no gold call in the base set": 3}


@pytest.mark.skipif(not REAL_W2C.is_file(), reason=f"needs {REAL_W2C}; set BREADCRUMBS_SHARED")
def test_when2call_itself_has_ten_faulty_questions() -> None:
    assert sides(load_when2call(REAL_W2C).items) == {
        ("when2call", "dispatch"): 100,
        ("when2call", "clarify"): 90,
        ("when2call", "decline"): 100,
        ("when2call_faulty", "clarify"): 10,
    }


def test_the_real_turn_of_a_scripted_system_follows_its_case(outside: OutsideConfig) -> None:
    case = case_of(outside, "ask")
    (call,) = outside_turn("always_dispatch", case).calls
    assert call.arguments["tool_name"] == "play.song"
    assert outside_turn("always_ask", case).text == "What is the title?"
    assert outside_turn("oracle", case_of(outside, "call")).calls
    (lost,) = outside_turn("always_dispatch", case_of(outside, "nothing")).calls
    assert lost.arguments == {"tool_name": "unknown", "arguments": {}}
