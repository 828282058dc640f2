"""Calls written as literals that are not JSON: LFM2's Python-like ones and Gemma's own.

Read by a small reader with a depth of its own: nothing here evaluates, and every fault is a
`ValueError` that the two readers turn into a problem.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from breadcrumbs.call_reading import Found, Types, behind, call_problem, reason_of, shown
from breadcrumbs.messages import STRICT_JSON

MAX_DEPTH = 64
_BLANKS = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z]+(?!\w)")
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_BARE_KEY = re.compile(r"[^\s:{}\[\],<>|\"']+")
_KEYWORD = re.compile(r"[^\s=(){}\[\],'\"]+")
_GEMMA_QUOTE = '<|"|>'
_ESCAPES = MappingProxyType({"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"})
_JSON_WORDS = {"true": True, "false": False, "null": None}
Read = Callable[[str, int], tuple[str, int]]


@dataclass(frozen=True, slots=True)
class _Dialect:
    text: Read
    """Reads quoted text at a position."""
    key: Read
    """Reads a key of a mapping."""
    words: Mapping[str, Any]


def read_pythonic(text: str, start: int, _types: Types) -> tuple[list[Found], int]:
    """LFM2: a list of calls with keyword arguments, `[name(key='value', …), …]`."""
    closer = "<|tool_call_end|>"
    try:
        calls, end = _calls(text, start)
        if not text.startswith(closer, end := _skip(text, end)):
            raise ValueError("text stands behind its list" if end < len(text) else "it was cut off")
    except ValueError as error:
        return [call_problem(reason_of(error), shown(text, start))], behind(text, closer, start)
    return calls, end + len(closer)


def read_gemma(text: str, start: int, _types: Types) -> tuple[list[Found], int]:
    """Gemma 4: `call:name{key:value,…}` with text between `<|"|>`."""
    closer = "<tool_call|>"
    try:
        if not text.startswith("call:", start):
            raise ValueError("it does not begin with call:")
        name, at = _match(_NAME, text, start + len("call:"), "the name of a tool")
        arguments, end = _value(text, at, _GEMMA, 0)
        if not isinstance(arguments, dict):
            raise ValueError("its arguments are no mapping")
        if not text.startswith(closer, end := _skip(text, end)):
            raise ValueError("text stands behind it" if end < len(text) else "it was cut off")
    except ValueError as error:
        return [call_problem(reason_of(error), shown(text, start))], behind(text, closer, start)
    return [(name, arguments)], end + len(closer)


def _calls(text: str, at: int) -> tuple[list[Found], int]:
    at = _expect(text, at, "[")
    calls: list[Found] = []
    while True:
        name, at = _match(_NAME, text, _skip(text, at), "the name of a tool")
        arguments, at = _pairs(text, _expect(text, at, "("), "=", ")", _keyword, _PYTHONIC, 0)
        calls.append((name, arguments))
        at = _skip(text, at)
        if text.startswith("]", at):
            return calls, at + 1
        at = _expect(text, at, ",")


def _value(text: str, at: int, dialect: _Dialect, depth: int) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    at = _skip(text, at)
    if text.startswith("{", at):
        return _pairs(text, at + 1, ":", "}", dialect.key, dialect, depth)
    if text.startswith("[", at):
        return _items(text, at + 1, dialect, depth)
    if number := _NUMBER.match(text, at):
        return STRICT_JSON.decode(number[0]), number.end()
    word = _WORD.match(text, at)
    if word and word[0] in dialect.words:
        return dialect.words[word[0]], word.end()
    return dialect.text(text, at)


def _pairs(
    text: str, at: int, between: str, closer: str, key: Read, dialect: _Dialect, depth: int
) -> tuple[dict[str, Any], int]:
    pairs: dict[str, Any] = {}
    at = _skip(text, at)
    if text.startswith(closer, at):
        return pairs, at + 1
    while True:
        name, at = key(text, _skip(text, at))
        if name in pairs:
            raise ValueError(f"the key {name[:40]!r} stands twice")
        pairs[name], at = _value(text, _expect(text, at, between), dialect, depth + 1)
        at = _skip(text, at)
        if text.startswith(closer, at):
            return pairs, at + 1
        at = _expect(text, at, ",")


def _items(text: str, at: int, dialect: _Dialect, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    at = _skip(text, at)
    if text.startswith("]", at):
        return items, at + 1
    while True:
        item, at = _value(text, at, dialect, depth + 1)
        items.append(item)
        at = _skip(text, at)
        if text.startswith("]", at):
            return items, at + 1
        at = _expect(text, at, ",")


def _python_text(text: str, at: int) -> tuple[str, int]:
    """Text in double quotes as JSON writes it, or in single ones as LFM2's template does."""
    if text.startswith('"', at):
        value, end = STRICT_JSON.raw_decode(text, at)
        return value, end
    chars: list[str] = []
    place = _expect(text, at, "'")
    while place < len(text):
        char = text[place]
        if char == "'":
            return "".join(chars), place + 1
        if char == "\\":
            place += 1
            if text[place : place + 1] not in _ESCAPES:
                raise ValueError("a text holds an unknown escape")
            char = _ESCAPES[text[place]]
        chars.append(char)
        place += 1
    raise ValueError("it was cut off")


def _gemma_text(text: str, at: int) -> tuple[str, int]:
    begin = _expect(text, at, _GEMMA_QUOTE)
    end = text.find(_GEMMA_QUOTE, begin)
    if end < 0:
        raise ValueError("it was cut off")
    return text[begin:end], end + len(_GEMMA_QUOTE)


def _gemma_key(text: str, at: int) -> tuple[str, int]:
    if text.startswith(_GEMMA_QUOTE, at):
        return _gemma_text(text, at)
    return _match(_BARE_KEY, text, at, "a key")


def _keyword(text: str, at: int) -> tuple[str, int]:
    return _match(_KEYWORD, text, at, "a key")


def _match(pattern: re.Pattern[str], text: str, at: int, what: str) -> tuple[str, int]:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError(f"{what} is missing" if at < len(text) else "it was cut off")
    return found[0], found.end()


def _expect(text: str, at: int, mark: str) -> int:
    at = _skip(text, at)
    if not text.startswith(mark, at):
        raise ValueError(f"{mark} is missing" if at < len(text) else "it was cut off")
    return at + len(mark)


def _skip(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()


_PYTHONIC = _Dialect(
    _python_text,
    _python_text,
    MappingProxyType({**_JSON_WORDS, "True": True, "False": False, "None": None}),
)
_GEMMA = _Dialect(
    _gemma_text,
    _gemma_key,
    MappingProxyType({**_JSON_WORDS, "None": None}),  # as its first templates write null
)
