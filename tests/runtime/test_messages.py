"""Messages round-trip and refuse what templates would mangle."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.errors import DataError
from breadcrumbs.messages import (
    Message,
    ToolCall,
    compact_json,
    json_object,
    message_from_dict,
    messages_from_dicts,
)

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
calls = st.builds(ToolCall, st.text(), st.text(), st.dictionaries(st.text(), values, max_size=3))
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.text(),
    st.lists(calls, max_size=2).map(tuple),
    st.none() | st.text(),
    st.booleans(),
)


@given(messages)
def test_round_trip(message: Message) -> None:
    assert message_from_dict(message.to_dict()) == message


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"role": "robot"}, "role 'robot'"),
        ({"content": None}, "content must be text"),
        ({"tool_calls": [{"id": "a", "name": "b", "arguments": "{}"}]}, "must be an object"),
    ],
)
def test_bad_messages_are_named_with_their_place(change: dict[str, Any], fault: str) -> None:
    good = Message("assistant", "hi").to_dict()
    with pytest.raises(DataError, match=f"message 1: .*{fault}"):
        messages_from_dicts([good, {**good, **change}])


def test_compact_json_refuses_nan_and_keeps_order() -> None:
    assert compact_json({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'
    with pytest.raises(ValueError, match="Out of range"):
        compact_json({"a": float("nan")})


@pytest.mark.parametrize(
    ("text", "held"),
    [('{"a": 1}', {"a": 1}), ("[1]", {}), ("word", {}), ("", {}), ('{"a": 1', {})],
)
def test_the_object_a_text_holds(text: str, held: dict[str, Any]) -> None:
    assert json_object(text) == held


MARKERS = [
    *("<|im_end|>", "<|start_header_id|>", "<｜tool▁calls▁begin｜>", "</s>", "<end_of_turn>"),
    *("<tool_call>", "</tool_response>", "<think>", "[/INST]", "[TOOL_RESULTS]", "<<SYS>>"),
]


@given(values, st.lists(st.sampled_from([*MARKERS, "\\", '"', "x"]), min_size=1).map("".join))
def test_a_templates_markers_travel_escaped_and_arrive_whole(value: Any, hostile: str) -> None:
    for whole in (value, {"said": hostile, hostile: [value, hostile]}):
        text = compact_json(whole)
        assert json.loads(text) == whole
        assert not any(marker in text for marker in MARKERS)


def test_what_is_no_marker_stays_as_it_is() -> None:
    plain = {"html": "<b>a</b> 1 <| 2 [INST", "list": [["INST"]]}
    assert compact_json(plain) == json.dumps(plain, separators=(",", ":"))
