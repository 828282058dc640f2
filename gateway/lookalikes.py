"""Texts that look like others: what who reads a card must be told, since eyes cannot see it.

Nothing is changed and nothing refused: the stored arguments run as they are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

_WORD = re.compile(r"[^\W\d_]+")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Scripts whose letters pass for one another; the Unicode name of a letter begins with its own."""
MAX_NOTES = 20
"""Texts that are named, in a card that a person reads; more are counted."""
_MAX_PLACE = 200
"""Characters of the place of a text."""


def lookalike_notes(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each text among the arguments that can pass for another, in their order.

    Flagged are letters written in another than the composed form (NFC), so that two equal-looking
    texts differ, and words that mix scripts, such as a Cyrillic letter in a Latin name.
    """
    notes = filter(None, (_note(place, text) for place, text in _texts(dict(arguments), "")))
    named = tuple(islice(notes, MAX_NOTES))
    more = sum(1 for _ in notes)
    return (*named, f"{more} more texts can pass for others") if more else named


def _note(place: str, text: str) -> str:
    faults = []
    if not unicodedata.is_normalized("NFC", text):
        faults.append("is not in composed form (NFC), so it can look equal to another text")
    mixed = next((word for word in _WORD.findall(text) if len(_scripts(word)) > 1), None)
    if mixed is not None:
        faults.append(f"mixes {' and '.join(_scripts(mixed)).lower()} letters in one word")
    return f"{place} {'; it '.join(faults)}" if faults else ""


def _scripts(word: str) -> list[str]:
    names = {unicodedata.name(letter, "").split(" ")[0] for letter in word}
    return [script for script in _SCRIPTS if script in names]


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            path = (f"{place}.{name}" if place else str(name))[:_MAX_PLACE]
            yield f"name {path}", str(name)
            yield from _texts(inner, path)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _texts(inner, f"{place}[{number}]"[:_MAX_PLACE])
