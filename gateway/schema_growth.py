"""Schemas made longer, field by field, to a length in tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from breadcrumbs.messages import compact_json

Count = Callable[[str], int]
"""Tokens of a text."""


def quarter_characters(text: str) -> int:
    """Tokens by the rule of thumb of four characters each, rounded up; needs no tokenizer."""
    return -(-len(text) // 4)


def add_fields(
    properties: dict[str, Any],
    fields: Iterable[tuple[str, Any]],
    missing: int,
    count: Count,
) -> int:
    """Add fields to `properties` until they weigh `missing` tokens; returns what is missing still.

    The last field may pass the mark: the answer is then zero or less. It is more than zero only
    where the fields ran out.
    """
    if missing > 0:
        for name, field in fields:
            properties[name] = field
            missing -= count(compact_json({name: field}))
            if missing <= 0:
                break
    return missing
