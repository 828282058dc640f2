"""Messages and tool calls as plain frozen values, in the one shape used everywhere inside.

Arguments are objects here; they become JSON text only at the OpenAI border (`service`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from breadcrumbs.errors import DataError

Role = Literal["system", "user", "assistant", "tool"]
_ROLES: frozenset[str] = frozenset({"system", "user", "assistant", "tool"})


def json_object(text: str) -> dict[str, Any]:
    """The JSON object a text holds, such as a tool message's payload; empty where it holds none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the assistant makes: `id` pairs it with exactly one tool message."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    `synthetic` marks a turn the runtime wrote itself (a nudge, a late approval).
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    synthetic: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The record shape: every key present, arguments as an object."""
        return {
            "role": self.role,
            "content": self.content,
            "tool_calls": [
                {"id": c.id, "name": c.name, "arguments": dict(c.arguments)}
                for c in self.tool_calls
            ],
            "tool_call_id": self.tool_call_id,
            "synthetic": self.synthetic,
        }

    def to_template(self) -> dict[str, Any]:
        """The shape chat templates read (OpenAI's, with `arguments` as an object)."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": dict(c.arguments)},
                }
                for c in self.tool_calls
            ]
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        return message


def message_from_dict(data: Mapping[str, Any]) -> Message:
    """Read the record shape back.

    Raises:
        DataError: a key is missing, a role is unknown, or arguments are not an object.
    """
    role = data.get("role")
    if role not in _ROLES:
        raise DataError(f"message role {role!r} is not one of {sorted(_ROLES)}")
    content = data.get("content")
    if not isinstance(content, str):
        raise DataError(f"{role} message: content must be text, got {type(content).__name__}")
    calls = []
    for call in data.get("tool_calls") or ():
        if not isinstance(call.get("arguments"), Mapping):
            raise DataError(f"tool call {call.get('name')!r}: arguments must be an object")
        calls.append(ToolCall(str(call["id"]), str(call["name"]), dict(call["arguments"])))
    return Message(
        role=role,
        content=content,
        tool_calls=tuple(calls),
        tool_call_id=data.get("tool_call_id"),
        synthetic=bool(data.get("synthetic", False)),
    )


def messages_from_dicts(rows: Iterable[Mapping[str, Any]]) -> list[Message]:
    """`message_from_dict` over a conversation; errors name the message's position.

    Raises:
        DataError: as `message_from_dict`, with the index in front.
    """
    messages = []
    for index, row in enumerate(rows):
        try:
            messages.append(message_from_dict(row))
        except DataError as error:
            raise DataError(f"message {index}: {error}") from error
    return messages


TEMPLATE_MARKER = re.compile(
    r"<\|[\w ]{2,40}\|>|<｜[^｜<>]{1,40}｜>|</s>|<<SYS>>|<(?:start|end)_of_turn>"
    r"|</?(?:tool_calls?|tool_response|function_results|system|think)>"
    r"|\[/?(?:INST|TOOL_RESULTS|TOOL_CALLS|AVAILABLE_TOOLS)\]"
)
"""What chat templates write around turns, and tokenizers read as more than its letters."""
_MARKER_HINTS = ("<", "INST]", "TOOL_RESULTS]", "TOOL_CALLS]", "AVAILABLE_TOOLS]")


def compact_json(value: Any) -> str:
    r"""JSON without spaces, keys in given order, non-ASCII kept: the form payloads travel in.

    A template's marker inside a text, which would end the tool message it stands in and begin
    another turn, is written with an escape (`\u003c|im_end|>`): the same text to every reader of
    JSON, and no marker to a tokenizer.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    if not any(hint in text for hint in _MARKER_HINTS):
        return text
    return TEMPLATE_MARKER.sub(lambda found: f"\\u{ord(found[0][0]):04x}{found[0][1:]}", text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique: dict[str, Any] = {}
    for key, value in pairs:
        if key in unique:
            raise ValueError(f"the key {key[:40]!r} stands twice in one object")
        unique[key] = value
    return unique


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


STRICT_JSON = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
"""Reads JSON that others wrote: a key that stands twice, NaN and Infinity are a `ValueError`.

Python's own reader would keep the last of two values, so that one party sees another call.
"""
