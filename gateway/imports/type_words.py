"""What tool authors write under `type`, as JSON Schema's own words."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from breadcrumbs.errors import CatalogError

_WORDS = {
    "string": "string str text char character byte uuid datetime",
    "integer": "integer int long short int32 int64 bigint",
    "number": "number float double decimal real",
    "boolean": "boolean bool",
    "array": "array list tuple set arraylist sequence",
    "object": "object dict dictionary map mapping hashmap struct json",
    "null": "null none nil void",
}
_NAMES = {word: name for name, words in _WORDS.items() for word in words.split()}
_ANY = frozenset({"any", "anything", "mixed", "unknown", ""})
_OUTER = re.compile(r"(?P<outer>\w+)\s*[\[<]\s*(?P<inner>.+?)\s*[\]>]", re.DOTALL)
MAX_WORD = 120
"""Characters of one `type` word that are looked at."""


@dataclass(frozen=True, slots=True)
class Type:
    """What a `type` said: the names, empty for anything; and what rode along with it."""

    names: tuple[str, ...] = ()
    optional: bool = False
    items: str | None = None
    """The word for the members, where it was written as `list[int]`."""


def read_type(value: Any) -> Type:
    """Read the value of `type`: a word, a phrase such as "int, optional", or a list of words.

    Raises:
        CatalogError: a word is none that is known.
    """
    if isinstance(value, str):
        return _phrase(value)
    if not isinstance(value, list) or not value:
        raise CatalogError(f"type is {type(value).__name__}; write a name such as string")
    parts = [read_type(word) for word in value]
    if any(not part.names for part in parts):
        return Type()
    return Type(_unique([name for part in parts for name in part.names]))


def _phrase(text: str) -> Type:
    if len(text) > MAX_WORD:
        raise CatalogError(f"type is {len(text)} characters long; write a name such as string")
    words = text.strip().lower()
    optional = words.endswith("?")
    words, *flags = [part.strip() for part in _outside_brackets(words.rstrip("?"))]
    optional = optional or "optional" in flags
    wrapped = _OUTER.fullmatch(words)
    if wrapped and wrapped["outer"] == "optional":
        inner = _phrase(wrapped["inner"])
        return Type(inner.names, True, inner.items)
    if wrapped:
        names = (_name(wrapped["outer"], text),)
        return Type(names, optional, wrapped["inner"] if names == ("array",) else None)
    choices = [part.strip() for part in re.split(r"\||\bor\b", words)]
    if any(choice in _ANY for choice in choices):
        return Type((), optional)
    return Type(_unique([_name(choice, text) for choice in choices]), optional)


def _outside_brackets(text: str) -> list[str]:
    """Split at commas, but not inside `dict[str, int]`."""
    return re.split(r",(?![^\[<]*[\]>])", text)


def _name(word: str, text: str) -> str:
    if word not in _NAMES:
        raise CatalogError(f"type {text[:40]!r} is unknown; use {', '.join(_WORDS)}")
    return _NAMES[word]


def _unique(names: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
