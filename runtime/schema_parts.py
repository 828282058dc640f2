"""Where in a schema payload the risk flags, required names and descriptions stand.

Positions come from walking the JSON by its structure, so a parameter that is called `required` or
a description that quotes `"risk"` is taken for what it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class SchemaPart(StrEnum):
    """A labelled part of a disclosed schema."""

    RISK = "risk"
    """`risk` and `requiresApproval` with their values."""
    REQUIRED = "required"
    """Lists of required names, of every object in the schema."""
    DESCRIPTION = "description"
    """What the tool and its parameters say about themselves."""


PartSpan = tuple[int, int, SchemaPart]
"""Characters from the first up to, without, the second."""

_RISK_KEYS = ("risk", "requiresApproval")
_NAMED_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_ONE_SCHEMA = (
    *("items", "additionalProperties", "contains", "propertyNames", "not", "if", "then", "else"),
    "unevaluatedProperties",
)
_MANY_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


class _Member(NamedTuple):
    key: str
    start: int
    """Where the key begins."""
    value: int
    """Where the value begins."""
    end: int
    """Behind the value."""


def schema_part_spans(content: str) -> list[PartSpan]:
    """The parts of a schema payload, in order; `content` is valid JSON."""
    spans: list[PartSpan] = []
    start = _skip(content, 0)
    for member in _members(content, start):
        if member.key == "disclosed":
            for tool in _items(content, member.value):
                spans += _tool_spans(content, tool)
    return spans


def _tool_spans(text: str, at: int) -> Iterator[PartSpan]:
    for member in _members(text, at):
        if member.key in _RISK_KEYS:
            yield member.start, member.end, SchemaPart.RISK
        elif member.key == "description" and text[member.value] == '"':
            yield member.value, member.end, SchemaPart.DESCRIPTION
        elif member.key == "inputSchema":
            yield from _schema_spans(text, member.value)


def _schema_spans(text: str, at: int) -> Iterator[PartSpan]:
    for member in _members(text, at):
        key, value = member.key, member.value
        if key == "description" and text[value] == '"':
            yield value, member.end, SchemaPart.DESCRIPTION
        elif key == "required" and text[value] == "[":
            yield value, member.end, SchemaPart.REQUIRED
        elif key in _NAMED_SCHEMAS:
            for named in _members(text, value):
                yield from _schema_spans(text, named.value)
        elif key in _MANY_SCHEMAS:
            for item in _items(text, value):
                yield from _schema_spans(text, item)
        elif key in _ONE_SCHEMA:
            yield from _schema_spans(text, value)


def _members(text: str, at: int) -> Iterator[_Member]:
    """The members of the object at `at`; none where another thing stands."""
    if text[at] != "{":
        return
    at = _skip(text, at + 1)
    while text[at] != "}":
        key, behind = _DECODER.raw_decode(text, at)
        value = _skip(text, _skip(text, behind) + 1)
        end = _DECODER.raw_decode(text, value)[1]
        yield _Member(key, at, value, end)
        at = _next(text, end)


def _items(text: str, at: int) -> Iterator[int]:
    """Where the items of the array at `at` begin; none where another thing stands."""
    if text[at] != "[":
        return
    at = _skip(text, at + 1)
    while text[at] != "]":
        yield at
        at = _next(text, _DECODER.raw_decode(text, at)[1])


def _next(text: str, end: int) -> int:
    """From behind a value to the next one, or to the bracket that closes."""
    at = _skip(text, end)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
