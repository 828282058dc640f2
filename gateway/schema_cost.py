"""What it can cost to hold arguments against a schema, counted once for each tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from breadcrumbs.gateway.patterns import steps
from breadcrumbs.messages import compact_json


@dataclass(frozen=True, slots=True)
class SchemaCost:
    """A schema's size in three ways, by which those of the arguments are multiplied."""

    values: int
    steps: int
    """Of its patterns."""
    characters: int
    """Of its JSON."""


def cost_of(schema: Mapping[str, Any]) -> SchemaCost:
    """The cost of a schema in the project's shape."""
    return SchemaCost(count_values(schema), steps(schema), len(compact_json(schema)))


def count_values(value: Any) -> int:
    """How many values there are in a plain JSON value, itself included."""
    if isinstance(value, Mapping):
        return 1 + sum(map(count_values, value.values()))
    return 1 + sum(map(count_values, value)) if isinstance(value, list | tuple) else 1
