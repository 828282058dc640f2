"""Recorded runs from a file somebody else made: its shape is read off its content.

Known are OpenAI chat messages, one object a line, and spans or events of OpenTelemetry's GenAI
semantic conventions (1.37 on: `gen_ai.input.messages`, `gen_ai.output.messages`,
`gen_ai.system_instructions`, `gen_ai.tool.definitions`) as OTLP JSON, as a list, or one a line.
All become the inner messages; no run is judged here.

Every model call is recorded with all that came before it. A conversation that another one goes
on with is a part of that one, and no run of its own.

What lies beyond a bound (size, depth, a key that stands twice) refuses the file: somebody built it
so. What is merely broken or strange refuses its line or span, with a reason of our own wording.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from breadcrumbs.call_format import THINK_CLOSER, THINK_OPENER
from breadcrumbs.errors import CatalogError, DataError
from breadcrumbs.files import read_text
from breadcrumbs.gateway.imports.reading import parse_json
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.openai_wire import ChatRequest, RequestError, messages_in
from breadcrumbs.turns import Turn

MAX_FILE_BYTES = 256 * 1024 * 1024
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
SYSTEM, TOOLS = "gen_ai.system_instructions", "gen_ai.tool.definitions"
_NESTED = (("resourceSpans", "scopeSpans", "spans"), ("resourceLogs", "scopeLogs", "logRecords"))
_OLD_EVENTS = frozenset(
    f"gen_ai.{name}"
    for name in ("system.message", "user.message", "assistant.message", "tool.message", "choice")
)
_INT64 = re.compile(r"-?[0-9]{1,19}")
"""OTLP JSON writes whole numbers as text."""
NOT_JSON = "not JSON"
NO_RUN = "neither chat messages nor a span or event with attributes"
NO_MESSAGES = "a span or event without gen_ai.input.messages"
OLD_CONVENTION = "an event for each message, as before 1.37 of the GenAI conventions"
NOT_TEXT = "a message holds more than text, reasoning and tool calls"
NOT_CHAT = "its messages have not the shape of chat messages"
NO_OBJECT = "a call's arguments are no JSON object, or an answer names no call"
BAD_ATTRIBUTE = "an attribute is neither JSON nor a list of messages"
BAD_ANSWER = "a tool's answer is JSON beyond the bounds, or names a key twice"
_ALIKE = 20
"""Lines that are looked at to tell JSON lines from one document."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One run as it was recorded."""

    where: str
    """Line, item, span: counted, never a name out of the file."""
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    """What the model was offered, in OpenAI's shape; empty where the record does not say."""


@dataclass(frozen=True, slots=True)
class Refused:
    """What is no run that can be used."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file holds, in its order."""

    runs: tuple[Recorded, ...]
    refused: tuple[Refused, ...]
    parts: int
    """Records that only repeat another run, or the beginning of one."""


class _UnusableError(Exception):
    """One record cannot be used; the text is the reason."""


def read_runs(path: Path) -> Reading:
    """Every run of a file, and what in it is none.

    Raises:
        DataError: it cannot be read, is beyond a bound, or holds nothing at all.
    """
    found: list[Recorded] = []
    refused: list[Refused] = []
    for where, record in _records(path):
        if isinstance(record, str):
            refused.append(Refused(where, record))
            continue
        try:
            found.append(_recorded(where, record))
        except _UnusableError as fault:
            refused.append(Refused(where, str(fault)))
    if not found and not refused:
        raise DataError(f"{path}: holds nothing; name a file of chat messages or GenAI spans")
    runs = _whole(found)
    return Reading(tuple(runs), tuple(refused), len(found) - len(runs))


def spoken_text(message: Message) -> str:
    """What an assistant message says, without its reasoning."""
    before, opened, rest = message.content.partition(THINK_OPENER)
    return before + rest.partition(THINK_CLOSER)[2].lstrip("\n") if opened else before


def _records(path: Path) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """Requests in OpenAI's shape, or the reason why there is none, each with its place."""
    text = read_text(path, MAX_FILE_BYTES, DataError)
    for where, document in _documents(text, str(path)):
        if isinstance(document, _UnusableError):
            yield where, str(document)
        elif not isinstance(document, dict):
            yield where, NO_RUN
        elif "messages" in document:
            yield where, document
        elif any(outer in document for outer, _, _ in _NESTED):
            for number, span in enumerate(_nested(document), 1):
                yield from _of_span(f"{where} span {number}", span, str(path))
        elif "attributes" in document:
            yield from _of_span(where, document, str(path))
        else:
            yield where, NO_RUN


def _documents(text: str, shown: str) -> Iterator[tuple[str, Any]]:
    lines = [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if any(line[0] == "{" and line.rstrip()[-1] == "}" for _, line in lines[:_ALIKE]):
        for number, line in lines:
            try:
                yield f"line {number}", _parsed(line, f"{shown}:{number}", NOT_JSON)
            except _UnusableError as fault:
                yield f"line {number}", fault
        return
    if not lines:
        return
    try:
        whole = _parsed(text, shown, NOT_JSON)
    except _UnusableError as fault:
        raise DataError(f"{shown}: neither JSON nor JSON lines; export the runs again") from fault
    for number, item in enumerate(whole if isinstance(whole, list) else [whole], 1):
        yield f"item {number}", item


def _parsed(text: str, where: str, reason: str) -> Any:
    """JSON within the bounds; text that is none makes its record unusable."""
    try:
        return parse_json(text, where)
    except CatalogError as error:
        if isinstance(error.__cause__, json.JSONDecodeError):
            raise _UnusableError(reason) from error
        raise DataError(str(error)) from error


def _nested(document: Mapping[str, Any]) -> Iterator[Any]:
    for outer, middle, inner in _NESTED:
        for resource in _objects(document.get(outer)):
            for scope in _objects(resource.get(middle)):
                yield from _objects(scope.get(inner))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _of_span(
    where: str, span: Mapping[str, Any], shown: str
) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """The model calls a span or log record tells of, in its own attributes or its events'."""
    holders = [span, *_objects(span.get("events"))]
    told = [found for holder in holders if INPUT in (found := _attributes(holder))]
    if not told:
        old = any(_name(holder) in _OLD_EVENTS for holder in holders)
        yield where, OLD_CONVENTION if old else NO_MESSAGES
    for attributes in told:
        try:
            yield where, _request(attributes, f"{shown}: {where}")
        except _UnusableError as fault:
            yield where, str(fault)


def _name(holder: Mapping[str, Any]) -> str:
    named = holder.get("eventName") or holder.get("name") or _attributes(holder).get("event.name")
    return named if isinstance(named, str) else ""


def _attributes(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as a plain object, or OTLP's list of keys and typed values."""
    given = holder.get("attributes")
    if isinstance(given, dict):
        return given
    return {str(item.get("key")): _value(item.get("value")) for item in _objects(given)}


def _value(typed: Any) -> Any:
    """A typed value of OTLP JSON as a plain one; depth is bounded by the document's."""
    if not isinstance(typed, dict) or len(typed) != 1:
        return None
    ((kind, value),) = typed.items()
    if kind in ("arrayValue", "kvlistValue"):
        values = _objects(value.get("values") if isinstance(value, dict) else None)
        if kind == "arrayValue":
            return [_value(item) for item in values]
        return {str(item.get("key")): _value(item.get("value")) for item in values}
    return int(value) if kind == "intValue" and _INT64.fullmatch(str(value)) else value


def _request(attributes: Mapping[str, Any], where: str) -> dict[str, Any]:
    """One model call as a chat request, its answer at the end."""
    system = _parts_in(attributes.get(SYSTEM), where)
    messages = [{"role": "system", "content": _text(system)}] if system else []
    spoken = _parts_in(attributes[INPUT], where) + _parts_in(attributes.get(OUTPUT), where)[:1]
    messages += [message for part in spoken for message in _from_parts(part)]
    return {"messages": messages, "tools": _parts_in(attributes.get(TOOLS), where)}


def _parts_in(value: Any, where: str) -> list[dict[str, Any]]:
    """A list of objects, as it stands or as JSON text."""
    if isinstance(value, str):
        value = _parsed(value, where, BAD_ATTRIBUTE)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise _UnusableError(BAD_ATTRIBUTE)
    return value


def _text(parts: Sequence[Mapping[str, Any]]) -> str:
    texts = [part.get("content") for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise _UnusableError(NOT_TEXT)
    return "".join(str(text) for text in texts)


def _from_parts(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A message in parts as chat messages; each tool's answer is one of its own."""
    parts = _objects(message.get("parts"))
    kinds = {str(part.get("type")) for part in parts}
    if not parts or not kinds <= {"text", "reasoning", "tool_call", "tool_call_response"}:
        raise _UnusableError(NOT_TEXT)

    def of(kind: str) -> list[dict[str, Any]]:
        return [part for part in parts if part.get("type") == kind]

    for answer in of("tool_call_response"):
        content = _as_text(answer.get("response"))
        yield {"role": "tool", "tool_call_id": answer.get("id"), "content": content}
    if kinds != {"tool_call_response"}:
        yield {
            "role": message.get("role"),
            "content": _text(of("text")),
            "reasoning": _text(of("reasoning")),
            "tool_calls": [_call(part) for part in of("tool_call")] or None,
        }


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    arguments = part.get("arguments")
    text = "{}" if arguments is None else _as_text(arguments)
    return {"id": part.get("id"), "function": {"name": part.get("name"), "arguments": text}}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else compact_json(value)


def _recorded(where: str, record: Mapping[str, Any]) -> Recorded:
    wire = {"model": "", "messages": record["messages"], "tools": record.get("tools")}
    try:
        request = ChatRequest.model_validate(wire)
        messages = messages_in(request)
    except RequestError as error:
        raise _UnusableError(NO_OBJECT) from error
    except ValidationError as error:
        raise _UnusableError(NOT_CHAT) from error
    told = zip(messages, record["messages"], strict=True)
    return Recorded(
        where,
        tuple(_read_message(message, raw) for message, raw in told),
        tuple(_definition(tool) for tool in request.tools or ()),
    )


def _read_message(message: Message, raw: Mapping[str, Any]) -> Message:
    """Reasoning between think tags, as the loop keeps it; a payload as the gateway writes it."""
    if message.role == "assistant":
        thought = raw.get("reasoning_content") or raw.get("reasoning")
        if not isinstance(thought, str) or THINK_OPENER in message.content:
            return message
        content = Turn(message.content, message.tool_calls, thought).content
        return dataclasses.replace(message, content=content)
    if message.role != "tool":
        return message
    try:
        payload = parse_json(message.content, where="answer")
    except CatalogError as error:
        if isinstance(error.__cause__, json.JSONDecodeError):
            return message
        raise _UnusableError(BAD_ANSWER) from error
    if isinstance(payload, dict) and "layer" in payload:
        return dataclasses.replace(message, content=compact_json(payload))
    return message


def _definition(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool in OpenAI's shape; the conventions write the function's fields beside `type`."""
    if isinstance(tool.get("function"), dict):
        return dict(tool)
    return {"type": "function", "function": {k: v for k, v in tool.items() if k != "type"}}


def _whole(runs: Sequence[Recorded]) -> list[Recorded]:
    """Runs that no other goes on with, each once, at its first place."""
    begun: set[bytes] = set()
    ends: dict[bytes, Recorded] = {}
    for run in runs:
        digest = b""
        for number, message in enumerate(run.messages, 1):
            digest = hashlib.sha256(digest + _key(message)).digest()
            if number < len(run.messages):
                begun.add(digest)
        ends.setdefault(digest, run)
    return [run for digest, run in ends.items() if digest not in begun]


def _key(message: Message) -> bytes:
    """What makes two messages the same: reasoning and ids are not always recorded alike."""
    calls = [[call.name, call.arguments] for call in message.tool_calls]
    said = spoken_text(message).strip() if message.role == "assistant" else message.content
    return json.dumps([message.role, said, calls]).encode()
