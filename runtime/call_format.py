"""How a model writes a tool call as text, and how such text is read back.

A frozen table says which chat template writes which format. Reading never raises: what looks
like a call and is none becomes a problem of the turn, so that the loop can name it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from breadcrumbs.messages import STRICT_JSON, ToolCall
from breadcrumbs.turns import Turn

EXCERPT_CHARS = 80
THINK_OPENER, THINK_CLOSER = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class CallFormat:
    """One way of writing calls: the texts around a call's JSON, and what ends the turn."""

    kind: str
    opener: str
    closer: str
    stop_text: str

    def parse_turn(self, text: str, first_id: int = 1) -> Turn:
        """Read one assistant turn; see the module's `parse_turn`."""
        return parse_turn(text, self, first_id)

    def format_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write calls as the template does; see the module's `format_calls`."""
        return format_calls(calls, self)


HERMES = CallFormat("hermes", "<tool_call>", "</tool_call>", "<|im_end|>")

FORMATS: Mapping[str, CallFormat] = MappingProxyType(
    {
        # Keyed by the first 16 hex digits of the SHA-256 of the chat template's text.
        "cd8e9439f0570856": HERMES,  # Qwen2.5
        "64f85b198065d0fb": HERMES,  # Qwen3-Instruct-2507
        "a55ee1b1660128b7": HERMES,  # Qwen3
    }
)

_PROBE_CALL = ToolCall("call_1", "probe_name", {"probe_key": "probe_value"})


def find_format(template_hash: str, rendered_probe: str) -> CallFormat | None:
    """The format a template writes: by its hash, else by how it rendered `probe_call()`.

    None where neither tells: such a template must not be used, its calls could not be read.
    """
    known = FORMATS.get(template_hash[:16])
    if known is not None:
        return known
    return HERMES if format_calls([_PROBE_CALL], HERMES) in rendered_probe else None


def probe_call() -> ToolCall:
    """The call that a template must render for `find_format`."""
    return _PROBE_CALL


def format_calls(calls: Sequence[ToolCall], form: CallFormat = HERMES) -> str:
    """Calls as text, one block each, joined by a newline; the inverse of `parse_turn`."""
    return "\n".join(
        f'{form.opener}\n{{"name": "{call.name}", "arguments": '
        f"{json.dumps(dict(call.arguments), ensure_ascii=False)}}}\n{form.closer}"
        for call in calls
    )


def parse_turn(text: str, form: CallFormat = HERMES, first_id: int = 1) -> Turn:
    """Read one assistant turn as it came from the model. Never raises.

    Calls are numbered from `first_id`: `call_1`, `call_2`…; give one more than the conversation
    has calls, so that ids stay unique in it. A malformed or cut call becomes a problem, and so
    does one left in the thinking of a turn that says nothing else.
    """
    text = text.split(form.stop_text, 1)[0]
    thinking, text = split_thinking(text)
    pieces: list[str] = []
    calls: list[ToolCall] = []
    problems: list[str] = []
    at = 0
    while (start := text.find(form.opener, at)) >= 0:
        pieces.append(text[at:start])
        found, at = _read_call(text, start + len(form.opener), form)
        if isinstance(found, str):
            problems.append(found)
        else:
            calls.append(ToolCall(f"call_{first_id + len(calls)}", *found))
    pieces.append(text[at:])
    said = "".join(pieces).strip()
    lost = thinking.find(form.opener)
    if lost >= 0 and not (said or calls or problems):
        problems.append(
            call_problem("it stands in the thinking, which is not read", thinking[lost:])
        )
    return Turn(said, tuple(calls), thinking, tuple(problems))


class TextStream:
    """The visible text of a turn while it is being written.

    Joined, what `push` and `finish` return equals the turn's `text`: thinking and calls are
    held back, and so is whatever may still become the opening of either.
    """

    def __init__(self, form: CallFormat = HERMES, first_id: int = 1) -> None:
        self._form = form
        self._first_id = first_id
        self._raw = ""
        self._sent = 0
        self._closed = False
        self._thinking: bool | None = None  # None until the first characters tell

    def push(self, delta: str) -> str:
        """Add what the model wrote; returns the text that may be shown now."""
        self._raw += delta
        if self._closed:
            return ""
        visible = self._visible()
        ready, self._sent = visible[self._sent :], max(self._sent, len(visible))
        return ready

    def finish(self) -> tuple[str, Turn]:
        """The text not shown yet, and the turn."""
        turn = parse_turn(self._raw, self._form, self._first_id)
        return turn.text[self._sent :], turn

    def _visible(self) -> str:
        raw, stopped, _ = self._raw.partition(self._form.stop_text)  # ends a thought as well
        self._closed = bool(stopped)
        if self._thinking is None:
            start = raw.lstrip()
            if THINK_OPENER.startswith(start[: len(THINK_OPENER)]) and len(start) < len(
                THINK_OPENER
            ):
                return ""
            self._thinking = start.startswith(THINK_OPENER)
        if self._thinking:
            _, closed, raw = raw.partition(THINK_CLOSER)
            if not closed:
                return ""
        raw, called, _ = raw.partition(self._form.opener)
        self._closed = self._closed or bool(called)
        if not self._closed:
            raw = _without_beginning(raw, (self._form.opener, self._form.stop_text))
        return raw.strip()


def _without_beginning(text: str, marks: tuple[str, ...]) -> str:
    """`text` less a tail that is the beginning of a mark."""
    longest = max(map(len, marks)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return text[:-size]
    return text


def split_thinking(text: str) -> tuple[str, str]:
    """The reasoning a text begins with, and what follows it."""
    start = text.lstrip()
    if not start.startswith(THINK_OPENER):
        return "", text
    thinking, _, rest = start[len(THINK_OPENER) :].partition(THINK_CLOSER)
    return thinking.strip(), rest


def _read_call(
    text: str, start: int, form: CallFormat
) -> tuple[tuple[str, dict[str, Any]] | str, int]:
    """Read the call whose JSON begins at `start`: (name and arguments, or a problem; end)."""
    begin = start
    while begin < len(text) and text[begin] in " \t\r\n":
        begin += 1
    try:
        # The JSON's own end counts: an argument may hold the closer as text.
        value, end = STRICT_JSON.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        end = text.find(form.closer, start)
        reason = "it was cut off" if end < 0 else f"its JSON is malformed ({_reason(error)})"
        return call_problem(reason, text[start : end if end >= 0 else None]), _behind(
            text, end, form
        )
    closer = text.find(form.closer, end)
    after = text[end : closer if closer >= 0 else None]
    behind = _behind(text, closer, form)
    if closer < 0:
        return call_problem(f"{form.closer} is missing", text[start:]), behind
    if after.strip():
        return call_problem(f"text stands between its JSON and {form.closer}", after), behind
    return _checked(value), behind


def _behind(text: str, closer: int, form: CallFormat) -> int:
    return len(text) if closer < 0 else closer + len(form.closer)


def _checked(value: Any) -> tuple[str, dict[str, Any]] | str:
    if not isinstance(value, dict):
        return call_problem("it is not a JSON object", json.dumps(value))
    name, arguments = value.get("name"), value.get("arguments", {})
    if not isinstance(name, str) or not name:
        return call_problem('"name" must be the name of a tool', json.dumps(value))
    if not isinstance(arguments, dict):
        return call_problem('"arguments" must be a JSON object', json.dumps(value))
    return name, arguments


def call_problem(reason: str, excerpt: str) -> str:
    """Why something that looked like a call is none, with the beginning of it."""
    excerpt = " ".join(excerpt.split())
    if len(excerpt) > EXCERPT_CHARS:
        excerpt = excerpt[: EXCERPT_CHARS - 1] + "…"
    return f"The tool call cannot be read: {reason}: {excerpt}"


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
