"""Every metric against turns with known scores, in both directions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from breadcrumbs.call_format import parse_turn
from breadcrumbs.data_gen.episodes import OraclePolicy
from breadcrumbs.eval.decision import constant_turn
from breadcrumbs.eval.metrics import (
    Case,
    Scored,
    calls_search,
    refuses,
    same_value,
    score_turn,
    summarise,
)
from breadcrumbs.messages import ToolCall
from breadcrumbs.turns import Turn

MakeCase = Callable[..., Case]
GOLD = {"title": "Budget sync", "start": "2026-03-09T14:00", "minutes": 45, "rate": 25}


def execute(arguments: Any, tool: str = "plan_meeting", **extra: Any) -> Turn:
    given = {"tool_name": tool, "arguments": arguments, **extra}
    return Turn("", (ToolCall("call_3", "execute_tool", given),))


def without(*names: str, **changes: Any) -> dict[str, Any]:
    return {k: v for k, v in {**GOLD, **changes}.items() if k not in names}


@pytest.mark.parametrize("breadcrumbs", [True, False])
def test_the_gold_turn_scores_one(make_case: MakeCase, breadcrumbs: bool) -> None:
    for behaviour in ("dispatch", "clarify", "decline"):
        case = make_case(behaviour, breadcrumbs)
        score = score_turn(OraclePolicy(case.scenario, case.spec).turn(case.messages), case)
        assert (score.dispatched, score.exact) == ((behaviour == "dispatch"),) * 2
        assert score.executed == (behaviour == "dispatch")
        assert score.declined == (behaviour == "decline")
        assert score.asked == (("start",) if behaviour == "clarify" else ())
        assert score.stall is None
        assert score.invented == ()


def test_the_prefix_is_what_the_gateway_said(make_case: MakeCase) -> None:
    shown, bare = make_case("dispatch"), make_case("dispatch", False)
    assert [m.role for m in shown.messages] == ["system", "user"] + ["assistant", "tool"] * 2
    assert '"layer":"2_schema_disclosure"' in shown.messages[-1].content
    assert "next_step" in shown.messages[-1].content
    assert not any("next_step" in m.content for m in bare.messages)


@pytest.mark.parametrize(
    ("turn", "fault"),
    [
        (execute(GOLD, tool="cancel_meeting"), "not the right one"),
        (execute(without("start")), "start: required"),
        (execute(without(start="soon")), "start"),
        (execute(without(minutes="45")), "minutes"),
        (execute({**GOLD, "colour": "red"}), "colour"),
        (execute(without(start="2026-03-10T14:00")), "start: grounded nowhere"),
        (execute(without(title="Retro")), "title: grounded nowhere"),
        (execute("everything"), "not an object"),
        (execute(GOLD, approval_id="appr_1"), "approval"),
        (Turn("", execute(GOLD).calls * 2), "2 executions"),
    ],
)
def test_a_wrong_call_is_no_dispatch_and_no_stall(
    make_case: MakeCase, turn: Turn, fault: str
) -> None:
    score = score_turn(turn, make_case("dispatch"))
    assert score.executed
    assert not score.dispatched
    assert not score.exact
    assert score.stall is None
    assert any(fault in found for found in score.faults)


def test_a_right_call_with_wrong_optional_arguments_is_dispatched_but_inexact(
    make_case: MakeCase,
) -> None:
    case = make_case("dispatch")
    for arguments in (
        without("minutes"),  # 45 was asked for, the default is 30
        without("rate"),
        {**GOLD, "note": "bring coffee"},  # nobody said so
        without(minutes=50),
        {**GOLD, "private": True},
    ):
        score = score_turn(execute(arguments), case)
        assert (score.dispatched, score.exact) == (True, False), arguments
    assert score_turn(execute({**GOLD, "note": "bring coffee"}), case).invented == ("note",)


def test_defaults_and_spellings_do_not_make_a_call_inexact(make_case: MakeCase) -> None:
    case = make_case("dispatch")
    for arguments in (
        GOLD,
        {**GOLD, "private": False},
        without(rate=25.0),
        without(title=" budget  SYNC "),
        without(start="2026-03-09T14:00:00"),
    ):
        score = score_turn(execute(arguments), case)
        assert (score.dispatched, score.exact) == (True, True), arguments


def test_worded_arguments_are_compared_by_what_they_must_say(make_case: MakeCase) -> None:
    case = make_case("worded")
    start = {"start": "2026-03-09T14:00"}
    good = score_turn(execute({**start, "title": "Hiring and budget"}), case)
    assert (good.dispatched, good.exact) == (True, True)
    for title in ("Hiring", "Budget and hiring tomorrow", "Meeting"):
        bad = score_turn(execute({**start, "title": title}), case)
        assert (bad.dispatched, bad.exact) == (False, False), title


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "announce_without_call"),
        ("Would you like me to proceed?", "permission_ask"),
        ("- title: text\n- start: date\n- minutes: number\nPlease fill these in.", "param_dump"),
        ("I will now plan the meeting.", "announce_without_call"),
        ("Die Besprechung ist am Montag.", "other_text"),
        ("会议已经安排好了。🙂", "other_text"),
        ("execute_tool(tool_name='plan_meeting', arguments={})", "fake_call_in_text"),
        ('<tool_call>\n{"name": "execute_tool", "arguments": {"tool', "malformed_call"),
        ("<tool_call>\n{'name': 1}\n</tool_call>", "malformed_call"),
    ],
)
def test_a_turn_without_a_call_is_a_stall_of_some_kind(
    make_case: MakeCase, text: str, kind: str
) -> None:
    score = score_turn(parse_turn(text), make_case("dispatch"))
    assert not score.executed
    assert not score.dispatched
    assert score.stall == kind
    assert score.malformed == (kind == "malformed_call")


def test_a_search_at_the_decision_point_is_neither_dispatch_nor_stall(make_case: MakeCase) -> None:
    turn = Turn("", (ToolCall("call_3", "search_tool_catalog", {"query": "meeting"}),))
    score = score_turn(turn, make_case("dispatch"))
    assert score.other_call
    assert not score.executed
    assert not score.dispatched
    assert score.stall is None


def test_any_execution_where_something_is_missing_is_reckless(make_case: MakeCase) -> None:
    case = make_case("clarify")
    assert score_turn(execute(without(start="2026-03-09T14:00")), case).executed
    assert score_turn(execute({}, tool="cancel_meeting"), case).executed
    assert not score_turn(Turn("When should it start?"), case).executed
    cut = parse_turn('<tool_call>\n{"name": "execute_tool", "arguments": {"tool_name": "pl')
    assert not score_turn(cut, case).executed
    assert score_turn(cut, case).malformed
    assert score_turn(cut, case).stall is None


@pytest.mark.parametrize(
    ("text", "asked", "questions"),
    [
        ("When should it start?", ("start",), 1),
        ("What should the title be?", ("title",), 1),
        ("What should the title be? And when should it start?", ("title", "start"), 2),
        ("Would you like me to proceed?", (), 1),
        ("Done.", (), 0),
        ("", (), 0),
    ],
)
def test_questions_are_counted(
    make_case: MakeCase, text: str, asked: tuple[str, ...], questions: int
) -> None:
    score = score_turn(Turn(text), make_case("clarify"))
    assert (score.asked, score.questions) == (asked, questions)


def test_a_turn_that_calls_asks_nothing(make_case: MakeCase) -> None:
    turn = dataclasses.replace(execute(GOLD), text="When should it start?")
    assert score_turn(turn, make_case("clarify")).questions == 0


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("Sorry, no tool here can do that.", True),
        ("There is no such tool, so this can’t be done.", True),
        ("I cannot do that. Shall I try something else?", False),
        ("Done, the meeting is planned.", False),
        ("", False),
    ],
)
def test_declining_says_so(make_case: MakeCase, text: str, good: bool) -> None:
    assert refuses(text) is good
    assert score_turn(Turn(text), make_case("decline")).declined is good


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (
            '<tool_call>\n{"name": "search_tool_catalog", "arguments": {"query": "a"}}\n</tool_call>',
            1,
        ),
        (
            '<tool_call>\n{"name": "search_tool_catalog", "arguments": {"query": " "}}\n</tool_call>',
            0,
        ),
        (
            '<tool_call>\n{"name": "search_tool_catalog", "arguments": {"query": 3}}\n</tool_call>',
            0,
        ),
        ('<tool_call>\n{"name": "execute_tool", "arguments": {"query": "a"}}\n</tool_call>', 0),
        ('<tool_call>\n{"name": "search_tool_catalog", "argum', 0),
        ('{"name": "search_tool_catalog", "arguments": {"query": "a"}}', 0),
        ("", 0),
    ],
)
def test_a_search_call_needs_its_syntax(text: str, good: int) -> None:
    assert calls_search(parse_turn(text)) == bool(good)


def test_values_are_compared_by_meaning() -> None:
    date = {"type": "string", "format": "date-time"}
    assert same_value("2026-03-09 14:00", "2026-03-09T14:00", date)
    assert not same_value("2026-03-09T15:00", "2026-03-09T14:00", date)
    assert same_value("14:00:00", "14:00", {"format": "time"})
    assert same_value(["A@x.org", "b@x.org"], ["a@x.org", "b@x.org"], {"items": {}})
    assert not same_value(["b", "a"], ["a", "b"], {"items": {}})
    assert not same_value(["a"], ["a", "b"], {"items": {}})
    assert same_value({"a": 1, "b": "X"}, {"b": "x", "a": 1.0}, {})
    assert not same_value({"a": 1}, {"a": 1, "b": 2}, {})
    assert not same_value(True, 1, {})
    assert not same_value("1", 1, {})
    assert not same_value("", "x", {})
    assert same_value("MTG_1", "mtg_1", {})
    assert not same_value("MTG_1", "mtg_1", {}, exact_case=True)


def figures(make_case: MakeCase, system: str) -> dict[str, float | None]:
    cases = [make_case(b) for b in ("dispatch", "clarify", "decline")]
    scored = [
        Scored(c.scenario.behaviour, c.scenario.missing, score_turn(constant_turn(system, c), c))
        for c in cases
    ]
    return {name: found.value for name, found in summarise(scored, seed=0).items()}


def test_constant_policies_win_one_side_and_lose_the_other(make_case: MakeCase) -> None:
    act, ask = figures(make_case, "always_dispatch"), figures(make_case, "always_ask")
    assert (act["dad"], act["oar"], act["uar"], act["ask_f1"]) == (1.0, 0.0, 1.0, 0.0)
    assert (ask["dad"], ask["oar"], ask["uar"]) == (0.0, 1.0, 0.0)
    assert act["decline_told"] == ask["decline_told"] == 0.0
    assert act["end_state"] is ask["search_call_parsed"] is None


def test_summary_does_not_depend_on_order(make_case: MakeCase) -> None:
    act, ask = make_case("dispatch"), make_case("clarify")
    turns = [execute(GOLD), Turn("When should it start?"), Turn(""), Turn("Which title?")]
    scored = [
        Scored(c.scenario.behaviour, c.scenario.missing, score_turn(turn, c))
        for turn in turns
        for c in (act, ask)
    ]
    assert summarise(scored, seed=5) == summarise(scored[::-1], seed=5)
    assert summarise(scored, seed=5)["dad"].to_dict()["value"] == 0.25
