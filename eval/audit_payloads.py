"""Does a payload end with a next step, and could data inside it forge one?

A payload is what a tool message holds: a JSON object, or text. The directive must be the last
key (the last line, in text), since recency favours what stands last. A forgery is anything in
the data that a model could take for the directive, or for the end of the tool message.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.eval.audit import AuditReport, Finding
from breadcrumbs.files import read_text
from breadcrumbs.messages import TEMPLATE_MARKER

NEXT_KEYS = frozenset({"next_step", "nextstep", "next_steps", "nextsteps", "next_action", "next"})
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_PAYLOADS = 100_000
MAX_DEPTH = 100
ECHO_CHARS = 20
"""A directive that repeats this much text of the data lets the data write the directive."""

_NEXT_LINE = re.compile(r"^[\s#*_>-]*next[\s_-]?(?:step|action)s?\**\s*:[\s*]*[^\s*]", re.I)
_LABEL = re.compile(r"next[_-]?(?:step|action)s?\\?[\"']?\s*[:=]|\bnext steps?\s*:", re.I)
_MEND_MISSING = (
    'end the payload with "next_step": name the exact call and its required fields, say not to'
    " ask for confirmation, and to ask only for a required value found nowhere"
)
_MEND_TEXT = "answer with one JSON object whose last key is next_step, data nested as data"
_MEND_LAST = "move it to the end: what stands last is what the model reads last"
_MEND_NESTED = "rename the key, or nest the data as a JSON string, so that one directive is left"
_MEND_MARKER = (
    r"write template markers in tool data with an escape (\u003c|...|>) before they enter a tool"
    " message"
)
_MEND_LABEL = "drop or fence such text: the model reads text, not structure"
_MEND_ECHO = "build the directive from names you own (tool and field names), never from data"


class _Object(dict[str, Any]):
    """A JSON object that remembers the keys it was given twice."""

    twice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Payload:
    """One payload and where it was found; `body` is an object, or text."""

    where: str
    body: dict[str, Any] | str
    text: str | None = None
    """The object as it was sent, where that is known: a marker that is escaped there is none."""


def audit_payloads(path: Path) -> AuditReport:
    """Check every payload of a dump: JSON, or one JSON value per line.

    Raises:
        DataError: the file cannot be read, is no JSON, or holds no payload.
    """
    payloads, skipped = read_payloads(path)
    findings = [finding for payload in payloads for finding in check_payload(payload)]
    notes = (f"{skipped} messages that are no tool results were passed over",) if skipped else ()
    return AuditReport("payloads", str(path), {"payloads": len(payloads)}, tuple(findings), notes)


def check_payload(payload: Payload) -> list[Finding]:
    """Findings of both checks about one payload."""
    if isinstance(payload.body, str):
        return _check_text(payload.where, payload.body)
    marked = payload.text is None or TEMPLATE_MARKER.search(payload.text) is not None
    return [
        *_check_end(payload.where, payload.body),
        *_check_data(payload.where, payload.body, marked),
    ]


def payload_of_text(where: str, text: str) -> Payload:
    """A payload from a tool message's text: the object it holds, or the text itself."""
    try:
        body = loads(text)
    except (ValueError, RecursionError):
        return Payload(where, text)
    return Payload(where, body, text) if isinstance(body, dict) else Payload(where, text)


def loads(text: str) -> Any:
    """JSON in, with keys given twice remembered.

    Raises:
        ValueError: not JSON.
        RecursionError: nested beyond what the parser takes.
    """
    return json.loads(text, object_pairs_hook=_object)


def read_payloads(path: Path) -> tuple[list[Payload], int]:
    """The payloads of a dump, and how many chat messages that are no tool results it holds.

    Understood are gateway payloads, MCP results, JSON-RPC answers, chat messages and whole
    conversations, gateway log entries, and lists or lines of any of these.

    Raises:
        DataError: the file cannot be read, is no JSON, or holds no payload.
    """
    payloads: list[Payload] = []
    skipped = 0
    for where, value in _values(path):
        for found in _unwrapped(where, value, 0):
            if found is None:
                skipped += 1
            else:
                payloads.append(found)
        if len(payloads) > MAX_PAYLOADS:
            raise DataError(f"{path}: more than {MAX_PAYLOADS} payloads; split the file")
    if not payloads:
        raise DataError(f"{path}: holds no payload; dump the tool results your model is shown")
    return payloads, skipped


def _object(pairs: list[tuple[str, Any]]) -> _Object:
    body = _Object(pairs)
    if len(body) != len(pairs):
        counted = Counter(name for name, _ in pairs)
        body.twice = tuple(name for name, number in counted.items() if number > 1)
    return body


def _values(path: Path) -> Iterator[tuple[str, Any]]:
    """The file's JSON values with their places: the whole file, or line by line."""
    text = read_text(path, MAX_FILE_BYTES, DataError)
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    try:
        yield str(path), loads(text)
        return
    except RecursionError as error:
        raise DataError(f"{path}: nested too deeply") from error
    except ValueError as error:
        if len(lines) < 2:
            raise DataError(f"{path}: not JSON: {error}; dump JSON or JSON lines") from error
    for number, line in lines:
        try:
            yield f"{path}:{number}", loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: not JSON: {error}; one value per line") from error


def _unwrapped(where: str, value: Any, depth: int) -> Iterator[Payload | None]:
    """The payloads in a value, out of the envelopes they travel in; None for other messages."""
    if depth > MAX_DEPTH:
        raise DataError(f"{where}: nested too deeply")
    inner = depth + 1
    if isinstance(value, str):
        yield payload_of_text(where, value)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unwrapped(f"{where}[{index}]", item, inner)
    elif not isinstance(value, dict):
        raise DataError(f"{where}: a payload is an object or text, got {type(value).__name__}")
    elif isinstance(value.get("messages"), list):
        yield from _unwrapped(f"{where}.messages", value["messages"], inner)
    elif isinstance(value.get("role"), str) and "content" in value:
        if value["role"] in ("tool", "function"):
            yield from _content(f"{where}.content", value["content"])
        else:
            yield None
    elif "jsonrpc" in value and isinstance(value.get("result"), dict):
        yield from _unwrapped(f"{where}.result", value["result"], inner)
    elif isinstance(value.get("content"), list) and _is_mcp(value):
        yield from _content(f"{where}.content", value["content"])
    elif set(value) == {"name", "arguments", "payload"}:
        yield from _unwrapped(f"{where}.payload", value["payload"], inner)
    else:
        yield Payload(where, value)


def _is_mcp(value: dict[str, Any]) -> bool:
    return all(isinstance(part, dict) and "type" in part for part in value["content"])


def _content(where: str, content: Any) -> Iterator[Payload]:
    """A message's content: text, or parts of which the text ones are read as one."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "\n".join(part for part in parts if isinstance(part, str))
    if isinstance(content, dict):
        yield Payload(where, content)
    else:
        yield payload_of_text(where, "" if content is None else str(content))


def is_next_key(key: str) -> bool:
    """Whether a key names a next step, in any spelling that is in use."""
    return key.lower().replace("-", "_") in NEXT_KEYS


def _check_end(where: str, body: dict[str, Any]) -> list[Finding]:
    keys = [key for key in body if is_next_key(key)]
    if not keys:
        last = f"; its last key is {list(body)[-1]!r}" if body else "; it is empty"
        return [Finding("next_step", where, f"ends without a next step{last}", _MEND_MISSING)]
    key = keys[-1]
    if not _says_something(body[key]):
        return [Finding("next_step", where, f"{key} is empty", _MEND_MISSING)]
    if list(body)[-1] != key:
        after = list(body)[list(body).index(key) + 1 :]
        text = f"{key} is not the last key; {', '.join(after[:5])} follow"
        return [Finding("next_step", where, text, _MEND_LAST)]
    return []


def _says_something(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def _check_data(where: str, body: dict[str, Any], marked: bool) -> list[Finding]:
    found = []
    twice = [key for key in getattr(body, "twice", ()) if is_next_key(key)]
    if twice:
        text = f"{twice[0]} stands in it twice; which one counts is up to the reader"
        found.append(Finding("forgery", where, text, _MEND_NESTED))
    directive = " ".join(str(value) for key, value in body.items() if is_next_key(key))
    for place, key, value in _walk(body):
        at = f"{where} {place}"
        if key is not None:
            text = f"data holds a key {key!r}, which reads like the directive"
            found.append(Finding("forgery", at, text, _MEND_NESTED))
        elif marked and (marker := TEMPLATE_MARKER.search(value)):
            text = f"data holds the template marker {marker.group(0)!r}"
            found.append(Finding("forgery", at, text, _MEND_MARKER))
        elif label := _LABEL.search(value):
            text = f"data holds {_around(value, label)!r}, which reads like the directive"
            found.append(Finding("forgery", at, text, _MEND_LABEL))
        elif len(value) >= ECHO_CHARS and " " in value.strip() and value in directive:
            text = f"the directive repeats data: {value[:60]!r}"
            found.append(Finding("forgery", at, text, _MEND_ECHO))
    return found


def _walk(body: dict[str, Any]) -> Iterator[tuple[str, str | None, str]]:
    """Every string below the top-level directive, and every nested next-step key.

    A parameter that happens to be called so, in a schema's `properties`, is no such key.
    """
    stack: list[tuple[str, Any, bool]] = [
        (f"$.{key}", value, key == "properties")
        for key, value in reversed(body.items())
        if not is_next_key(key)
    ]
    while stack:
        place, value, names_parameters = stack.pop()
        if isinstance(value, str):
            yield place, None, value
        elif isinstance(value, list):
            stack.extend((f"{place}[{i}]", v, False) for i, v in reversed([*enumerate(value)]))
        elif isinstance(value, dict):
            for key, inner in value.items():
                if is_next_key(key) and key.lower() != "next" and not names_parameters:
                    yield f"{place}.{key}", key, ""
                stack.append((f"{place}.{key}", inner, key == "properties"))


def _around(text: str, found: re.Match[str]) -> str:
    return text[max(0, found.start() - 10) : found.end() + 40]


def _check_text(where: str, text: str) -> list[Finding]:
    """A payload in plain text: its last line must be the directive, and no other one."""
    lines = [line for line in text.splitlines() if line.strip()]
    steps = [line for line in lines if _NEXT_LINE.match(line)]
    found: list[Finding] = []
    if not lines or not _NEXT_LINE.match(lines[-1]):
        what = "it is empty" if not lines else f"its last line is {lines[-1].strip()[:60]!r}"
        message = f"text that ends without a next step; {what}"
        found.append(Finding("next_step", where, message, _MEND_TEXT))
    if steps:
        message = "the directive is a line of text, so a line in the data can forge it"
        if len(steps) > 1:
            message = f"{len(steps)} lines read like the directive; data may have written one"
        found.append(Finding("forgery", where, message, _MEND_TEXT))
    found.extend(_markers(where, lines))
    return found


def _markers(where: str, lines: Sequence[str]) -> Iterator[Finding]:
    for number, line in enumerate(lines, 1):
        if marker := TEMPLATE_MARKER.search(line):
            text = f"data holds the template marker {marker.group(0)!r}"
            yield Finding("forgery", f"{where} line {number}", text, _MEND_MARKER)
