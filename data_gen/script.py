"""What a scenario of a special kind adds to the plain one: steps before, a rule, an odd world.

Plain data. `kinds` writes it, the oracle follows it, `kind_checks` holds the row against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from breadcrumbs.errors import DataError

Kind = Literal["held", "denied", "expired"]


@dataclass(frozen=True, slots=True)
class Step:
    """A whole search, disclosure and call that comes before the one that is decided about."""

    query: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Script:
    """The kind of a scenario, and what only its kind needs."""

    kind: Kind
    steps: tuple[Step, ...] = ()


def script_from_dict(data: Mapping[str, Any]) -> Script:
    """Read a script back from plain JSON values.

    Raises:
        DataError: a key is missing or unknown.
    """
    body = dict(data)
    try:
        body["steps"] = tuple(Step(**step) for step in body["steps"])
        return Script(**body)
    except (KeyError, TypeError) as error:
        raise DataError(f"script: {error}; regenerate the data") from error
