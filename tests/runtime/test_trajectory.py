import json
from dataclasses import replace

import pytest

from breadcrumbs.errors import DataError
from breadcrumbs.events import Done, Event, Text, ToolCallEvent
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.trajectory import Trajectory, events_as_dicts, trajectory_from_dict

CALL = ToolCall("c1", "search_tool_catalog", {"query": "ä"})
EVENTS: list[Event] = [ToolCallEvent(CALL), Text("Fertig."), Done("answered", "Fertig.")]
RECORD = Trajectory(
    scenario_id="s1",
    policy="oracle",
    messages=(
        Message("user", "Hallo"),
        Message("assistant", "", tool_calls=(CALL,)),
        Message("tool", "{}", tool_call_id="c1"),
        Message("user", "nudge", synthetic=True),
        Message("assistant", "Fertig."),
    ),
    events=events_as_dicts(EVENTS),
    gateway_log=({"name": "search_tool_catalog", "arguments": {"query": "ä"}, "payload": {}},),
    outcome="answered",
    seed=7,
)


def test_a_record_survives_json() -> None:
    again = trajectory_from_dict(json.loads(json.dumps(RECORD.to_dict())))
    assert again == replace(
        RECORD, events=tuple(json.loads(json.dumps(RECORD.to_dict()))["events"])
    )
    assert again.messages == RECORD.messages
    assert again.messages[3].synthetic


def test_events_say_their_type() -> None:
    assert [event["type"] for event in events_as_dicts(EVENTS)] == ["tool_call", "text", "done"]


def test_another_version_is_refused() -> None:
    with pytest.raises(DataError, match="schema_version 2, expected 1"):
        trajectory_from_dict({**RECORD.to_dict(), "schema_version": 2})
