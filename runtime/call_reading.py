"""Reading calls out of text that a model wrote: the parts all syntaxes share, and JSON bodies.

A reader gets the text, the position behind a call's opener and the tools' parameter types. It
never raises: whatever is no call comes back as a sentence that says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from breadcrumbs.messages import STRICT_JSON

EXCERPT_CHARS = 80
Types = Mapping[str, Mapping[str, Any]]
"""The schema of each parameter, by tool and by name."""
Found = tuple[str, dict[str, Any]] | str
"""Name and arguments of a call, or why it is none."""
Reader = Callable[[str, int, Types], tuple[list[Found], int]]

_HARMONY_HEAD = re.compile(
    r"([\w.\-]+)\s*(?:<\|channel\|>commentary)?\s*(?:<\|constrain\|>)?(?:json)?\s*<\|message\|>"
)
_MISTRAL_HEAD = re.compile(r"\s*([\w.\-]+)(?:\[CALL_ID\]\w+)?\[ARGS\]")


def call_problem(reason: str, excerpt: str) -> str:
    """Why something that looked like a call is none, with the beginning of it."""
    excerpt = " ".join(shown(excerpt, 0).split())
    if len(excerpt) > EXCERPT_CHARS:
        excerpt = excerpt[: EXCERPT_CHARS - 1] + "…"
    return f"The tool call cannot be read: {reason}: {excerpt}"


def shown(text: str, at: int) -> str:
    """As much of a text from `at` on as an excerpt can need."""
    return text[at : at + 10 * EXCERPT_CHARS]


def argument_types(tools: Sequence[Mapping[str, Any]]) -> Types:
    """What the declared tools say of their parameters; empty where they say nothing."""
    types: dict[str, Mapping[str, Any]] = {}
    for tool in tools:
        function = tool.get("function", tool)
        parameters = function.get("parameters")
        properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
        types[str(function.get("name"))] = properties if isinstance(properties, Mapping) else {}
    return types


def behind(text: str, closer: str, at: int) -> int:
    """The position behind the next `closer`, or the end of the text."""
    found = text.find(closer, at)
    return len(text) if found < 0 else found + len(closer)


def tagged_json(closer: str) -> Reader:
    """Hermes and Qwen: one JSON object with `name` and `arguments` before `closer`."""

    def read(text: str, start: int, _types: Types) -> tuple[list[Found], int]:
        try:
            # The JSON's own end counts: an argument may hold the closer as text.
            value, end = STRICT_JSON.raw_decode(text, _skip_blanks(text, start))
        except (ValueError, RecursionError) as error:
            end = text.find(closer, start)
            reason = "it was cut off" if end < 0 else _malformed(error)
            excerpt = text[start:end] if end >= 0 else shown(text, start)
            return [call_problem(reason, excerpt)], behind(text, closer, start)
        place = text.find(closer, end)
        if place < 0:
            return [call_problem(f"{closer} is missing", shown(text, start))], len(text)
        after = text[end:place]
        if after.strip():
            problem = call_problem(f"text stands between its JSON and {closer}", after)
            return [problem], place + len(closer)
        return [_named(value, "arguments")], place + len(closer)

    return read


def read_bare_json(text: str, start: int, _types: Types) -> tuple[list[Found], int]:
    """Llama 3: the whole turn is one JSON object with `name` and `parameters`, and no more."""
    begin = text.rfind("{", 0, start)
    try:
        value, end = STRICT_JSON.raw_decode(text, begin)
    except (ValueError, RecursionError) as error:
        return [call_problem(_malformed(error), shown(text, begin))], len(text)
    if text[end:].strip():
        return [call_problem("text stands behind its JSON", shown(text, end))], len(text)
    if strange := set(value) - {"name", "parameters", "type"}:
        problem = f"it has a key that no call has ({sorted(strange)[0][:40]!r})"
        return [call_problem(problem, shown(text, begin))], len(text)
    return [_named(value, "parameters")], len(text)


def read_mistral(text: str, start: int, _types: Types) -> tuple[list[Found], int]:
    """Mistral: a JSON list of calls, or `name[ARGS]` and a JSON object."""
    head = _MISTRAL_HEAD.match(text, start)
    at = _skip_blanks(text, head.end() if head else start)
    try:
        value, end = STRICT_JSON.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        return [call_problem(_malformed(error), shown(text, start))], len(text)
    if head is not None:
        return [_named({"name": head[1], "arguments": value}, "arguments")], end
    if not isinstance(value, list) or not value:
        return [call_problem("it is not a list of calls", shown(text, start))], end
    return [_named(one, "arguments") for one in value], end


def read_harmony(text: str, start: int, _types: Types) -> tuple[list[Found], int]:
    """gpt-oss: a recipient, a header, and a JSON object up to the end of the turn."""
    head = _HARMONY_HEAD.match(text, start)
    if head is None:
        return [call_problem("its header is not one of a call", shown(text, start))], len(text)
    try:
        value, end = STRICT_JSON.raw_decode(text, _skip_blanks(text, head.end()))
    except (ValueError, RecursionError) as error:
        return [call_problem(_malformed(error), shown(text, start))], len(text)
    if text[end:].strip():
        return [call_problem("text stands behind its JSON", shown(text, end))], len(text)
    return [_named({"name": head[1], "arguments": value}, "arguments")], len(text)


def reason_of(error: Exception) -> str:
    """An error's reason without the position that JSON's own messages carry."""
    if isinstance(error, json.JSONDecodeError):
        return error.msg
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _malformed(error: Exception) -> str:
    return f"its JSON is malformed ({reason_of(error)})"


def _named(value: Any, key: str) -> Found:
    if not isinstance(value, dict):
        return call_problem("it is not a JSON object", "".join(_beginning(value)))
    name, arguments = value.get("name"), value.get(key, {})
    if not isinstance(name, str) or not name:
        return call_problem('"name" must be the name of a tool', "".join(_beginning(value)))
    if not isinstance(arguments, dict):
        return call_problem(f'"{key}" must be a JSON object', "".join(_beginning(value)))
    return name, arguments


def _beginning(value: Any) -> Iterator[str]:
    """JSON text of a value as far as an excerpt can show it."""
    chars = 0
    try:
        for piece in json.JSONEncoder().iterencode(value):
            yield piece
            chars += len(piece)
            if chars > EXCERPT_CHARS:
                return
    except RecursionError:
        return


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
