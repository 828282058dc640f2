"""Rows that a chat template must be able to train: what each family is verified on."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from breadcrumbs.gateway.gateway import META_TOOLS

_TICKET = {
    "name": "create_ticket",
    "description": "Open a ticket.",
    "risk": "write",
    "requiresApproval": True,
    "inputSchema": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "priority": {"type": "integer"},
            "urgent": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"type": ["string", "null"]},
            "place": {"type": "object", "properties": {"floor": {"type": "number"}}},
        },
        "required": ["title"],
    },
}
_ARGUMENTS = {
    "title": 'The lift is "stuck": it\'s loud, 5 € <fine>, naïve \\ path\nnext line',
    "priority": 2,
    "urgent": True,
    "tags": ["lift", "b c", "7"],
    "note": None,
    "place": {"floor": 2.5},
}


def _say(role: str, content: str = "", **rest: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"tool_calls": [], "tool_call_id": None, "synthetic": False}
    return {"role": role, "content": content, **empty, **rest}


def _call(
    number: int, name: str, arguments: Mapping[str, Any], thought: str = ""
) -> dict[str, Any]:
    call = {"id": f"call_{number}", "name": name, "arguments": dict(arguments)}
    return _say("assistant", thought, tool_calls=[call])


def _answer(number: int, payload: Mapping[str, Any]) -> dict[str, Any]:
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return _say("tool", text, tool_call_id=f"call_{number}")


def _row(name: str, behaviour: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": name,
        "twin": name,
        "behaviour": behaviour,
        "tool": "create_ticket",
        "messages": messages,
        "tools": [dict(tool) for tool in META_TOOLS],
    }


def _opening(query: str = "open a ticket") -> list[dict[str, Any]]:
    found = {"layer": "1_catalog", "matches": [{"name": "create_ticket"}], "next_step": "Read it."}
    schema = {"layer": "2_schema_disclosure", "disclosed": [_TICKET], "next_step": "Call it."}
    return [
        _say("system", "Act through the gateway. Now: 2026-03-02T09:00."),
        _say("user", "The lift is stuck again: please open a ticket."),
        _call(1, "search_tool_catalog", {"query": query}),
        _answer(1, found),
        _call(2, "get_tool_schema", {"tool_names": ["create_ticket"]}),
        _answer(2, schema),
    ]


def _dispatch(number: int = 3, thought: str = "") -> list[dict[str, Any]]:
    arguments = {"tool_name": "create_ticket", "arguments": copy.deepcopy(_ARGUMENTS)}
    done = {"layer": "3_execution", "tool": "create_ticket", "status": "done"}
    return [_call(number, "execute_tool", arguments, thought), _answer(number, done)]


_LAST = _say("assistant", "Done: the ticket is open.")
_WHOLE = [*_opening(), *_dispatch(), _LAST]
_THOUGHT = "<think>title: the lift is stuck; nothing is missing</think>"
_HARD_QUERY = "it's a \"test\", 'quoted' \\ 7\nand a second line"
_ASKED = [_say("assistant", "What is the ticket's title?"), _say("user", "Lift stuck.")]

PLAIN, EVERY_THOUGHT = "trained = served, read back", "thought in every turn"


def _with_thoughts(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {**message, "content": f"{_THOUGHT}\n{message['content']}".rstrip()}
        if message["role"] == "assistant"
        else message
        for message in messages
    ]


FAMILY_ROWS: Mapping[str, tuple[dict[str, Any], ...]] = MappingProxyType(
    {
        PLAIN: (
            _row("whole", "dispatch", _WHOLE),
            _row("cut at the decision", "dispatch", _WHOLE[:7]),
            _row("asks", "clarify", [*_opening(), _ASKED[0]]),
        ),
        "thought before the call": (
            _row("thought", "dispatch", [*_opening(), *_dispatch(thought=_THOUGHT)][:7]),
        ),
        "thought, whole": (
            _row("thought, whole", "dispatch", [*_opening(), *_dispatch(thought=_THOUGHT), _LAST]),
        ),
        EVERY_THOUGHT: (_row("thinking", "dispatch", _with_thoughts(_WHOLE)),),
        "two user turns": (
            _row("two turns", "clarify", [*_opening(), *_ASKED, *_dispatch(), _LAST]),
        ),
        "any text as argument": (
            _row("any text", "dispatch", [*_opening(_HARD_QUERY), *_dispatch(), _LAST]),
        ),
    }
)
"""By what they show, rows that must pass every check of the preflight."""
