"""Calls as text and back; nothing a model writes raises, nothing malformed becomes a call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from breadcrumbs.call_format import (
    FORMATS,
    HERMES,
    TextStream,
    find_format,
    parse_turn,
    probe_call,
)
from breadcrumbs.messages import ToolCall

NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.floats(allow_nan=False, width=32),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
).filter(lambda value: json.loads(json.dumps(value)) == value and "inf" not in repr(value).lower())
CALLS = st.lists(st.tuples(NAMES, st.dictionaries(TEXTS, VALUES, max_size=3)), max_size=3)
GOOD = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'


def format_calls(calls: list[ToolCall]) -> str:
    """As Qwen2.5's and Qwen3's templates write them."""
    return "\n".join(
        f'<tool_call>\n{{"name": "{call.name}", "arguments": '
        f"{json.dumps(call.arguments, ensure_ascii=False)}}}\n</tool_call>"
        for call in calls
    )


def _calls(pairs: list[tuple[str, dict[str, Any]]]) -> list[ToolCall]:
    return [ToolCall(f"call_{n}", name, args) for n, (name, args) in enumerate(pairs, start=1)]


@given(CALLS)
def test_calls_survive_the_round_trip(pairs: list[tuple[str, dict[str, Any]]]) -> None:
    calls = _calls(pairs)
    turn = parse_turn(format_calls(calls))
    assert list(turn.calls) == calls
    assert turn.text == ""
    assert turn.problems == ()


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_turn(text)


PIECES = ["<tool_call>", "</tool_call>", "{", "}", '"', "name", "arguments", ":", "[", "\n"]
MARKS = [*PIECES, "<think>", "</think>", "<", "Hello é ", GOOD, "<|im_end|>", "<|im"]


@given(st.lists(st.sampled_from(MARKS), max_size=12))
@example(["<think>", "<|im_end|>", "</think>", "</tool_call>"])  # the turn ends inside the thought
def test_no_mixture_of_marks_raises_and_streaming_shows_the_same_text(pieces: list[str]) -> None:
    text = "".join(pieces)
    turn = parse_turn(text)
    for size in (1, 3, 1000):
        stream = TextStream()
        shown = "".join(stream.push(text[at : at + size]) for at in range(0, len(text), size))
        rest, streamed = stream.finish()
        assert streamed == turn
        assert shown + rest == turn.text


def test_text_before_and_behind_calls_is_kept() -> None:
    turn = parse_turn(f"Let me see.\n{GOOD}\n{GOOD}\nDone.<|im_end|>\nuser: more")
    assert [call.id for call in turn.calls] == ["call_1", "call_2"]
    assert turn.text.startswith("Let me see.")
    assert turn.text.endswith("Done.")
    assert "more" not in turn.text


def test_ids_go_on_from_the_conversation() -> None:
    assert [call.id for call in parse_turn(f"{GOOD}{GOOD}", first_id=4).calls] == [
        "call_4",
        "call_5",
    ]


def test_thinking_is_kept_apart() -> None:
    turn = parse_turn(f"<think>\nhm {GOOD}\n</think>\n\nYes.")
    assert turn.thinking == f"hm {GOOD}"
    assert turn.text == "Yes."
    assert turn.calls == ()
    assert parse_turn("<think>never closed").thinking == "never closed"


def test_the_closer_may_stand_inside_an_argument() -> None:
    call = ToolCall("call_1", "f", {"a": "x</tool_call>y"})
    assert parse_turn(format_calls([call])).calls == (call,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {"a": ', "cut off"),
        ('<tool_call>\n{"name": "f", "arguments": {}}', "</tool_call> is missing"),
        ('<tool_call>\n{"name": "f", "arguments": {"a": }}\n</tool_call>', "malformed"),
        ("<tool_call>\n{'name': 'f'}\n</tool_call>", "malformed"),
        ('<tool_call>\n{"name": "f", "arguments": "{}"}\n</tool_call>', "must be a JSON object"),
        ('<tool_call>\n{"name": 3, "arguments": {}}\n</tool_call>', "name of a tool"),
        ('<tool_call>\n{"arguments": {}}\n</tool_call>', "name of a tool"),
        ("<tool_call>\n[1]\n</tool_call>", "not a JSON object"),
        ('<tool_call>\n{"name": "f", "arguments": {"a": NaN}}\n</tool_call>', "NaN"),
        ('<tool_call>\n{"name": "f", "name": "g"}\n</tool_call>', "twice"),
        ('<tool_call>\n{"name": "f", "arguments": {}} then\n</tool_call>', "text stands between"),
        ("<tool_call>" + "[" * 200_000 + "</tool_call>", "deeply"),
        ("<tool_call></tool_call>", "malformed"),
    ],
)
def test_what_is_no_call_becomes_a_problem(text: str, said: str) -> None:
    turn = parse_turn(text)
    assert turn.calls == ()
    assert len(turn.problems) == 1
    assert said in turn.problems[0]
    assert len(turn.problems[0]) < 250
    assert "\n" not in turn.problems[0]


def test_a_good_call_behind_a_bad_one_is_read() -> None:
    turn = parse_turn(f"<tool_call>{{bad}}</tool_call>{GOOD}")
    assert [call.name for call in turn.calls] == ["f"]
    assert len(turn.problems) == 1


def test_missing_arguments_mean_none() -> None:
    assert parse_turn('<tool_call>{"name": "f"}</tool_call>').calls[0].arguments == {}


def test_a_stream_holds_back_what_may_become_a_call() -> None:
    stream = TextStream()
    assert stream.push("Well ") == "Well"
    assert stream.push("<tool") == ""
    assert stream.push("box") == " <toolbox"
    assert stream.push("<tool_call>") == ""
    assert stream.push('{"name": "f"}') == ""


def test_formats_are_found_by_hash_then_by_probe() -> None:
    known = next(iter(FORMATS))
    assert find_format(known + "0" * 48, "") is HERMES
    rendered = f"<x>{format_calls([probe_call()])}</x>"
    assert find_format("f" * 64, rendered) is HERMES
    assert find_format("f" * 64, '<call> {"name": "probe_name"}') is None


def test_a_call_left_in_the_thinking_is_a_problem_where_nothing_else_was_said() -> None:
    call = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    for lost in (f"<think>so {call}</think>", f"<think>so {call}"):
        turn = parse_turn(lost)
        assert turn.calls == ()
        assert "stands in the thinking" in turn.problems[0]
    assert parse_turn(f"<think>not {call}</think>\nNo call is needed.").problems == ()
    assert parse_turn(f"<think>so {call}</think>\n{call}").problems == ()
