"""The shape of what a model sees in a scenario, beside what the scenario is about.

Plain data. `shaping` draws it, `episodes` puts it into effect; the twins of a blueprint share it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.namings import OWN, Naming, naming_of

NO_NAMING = OWN.name
Facts = tuple[tuple[str, str], ...]
"""What one shape is counted by: axes with values."""
_LENGTHS = (250, 500, 1000, 2000, 4000, 8000)
"""Schema tokens up to which lengths are counted together."""
_CROWDS = (0, 5, 15, 29)
"""Made-up tools up to which scenarios are counted together."""


@dataclass(frozen=True, slots=True)
class Past:
    """An earlier request of the same conversation, done before the one that a scenario is about."""

    request: str
    query: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """As it stands, that of every scenario for which no config asks for more."""

    naming: str = NO_NAMING
    """Under which names and payload shapes the meta-tools are shown."""
    hits: int = 0
    """Hits a search shows at most; 0 leaves it to the data set's `max_hits`."""
    near: tuple[str, ...] = ()
    """Made-up tools with names near the right one's that are in the catalog too."""
    read: tuple[str, ...] = ()
    """The tools whose schemas are read in one call, the right one among them; none: it alone."""
    schema_tokens: int = 0
    """About how long the right tool's schema is made; 0 leaves it as it is."""
    history: tuple[Past, ...] = ()
    """What was asked for and done before."""

    def words(self) -> Naming:
        """What turns the gateway's words into the shown ones.

        Raises:
            ConfigError: there is no naming of that name.
        """
        return naming_of(self.naming)


def shape_from_dict(data: Mapping[str, Any]) -> Shape:
    """Read a shape back from plain JSON values.

    Raises:
        DataError: a key is unknown.
    """
    body = dict(data)
    for name in ("near", "read"):
        if name in body:
            body[name] = tuple(body[name])
    try:
        if "history" in body:
            body["history"] = tuple(Past(**past) for past in body["history"])
        return Shape(**body)
    except TypeError as error:
        raise DataError(f"shape: {error}; regenerate the data") from error


def facts_of(shape: Shape) -> Facts:
    """What a shape is counted by."""
    length = f"up to {_upper(_LENGTHS, shape.schema_tokens)}" if shape.schema_tokens else "as it is"
    near = f"up to {_upper(_CROWDS, len(shape.near))}" if shape.near else "none"
    return (
        ("naming", shape.naming),
        ("search hits", str(shape.hits or "max_hits")),
        ("made-up near tools", near),
        ("schemas in one call", str(len(shape.read) or 1)),
        ("schema tokens", length),
        ("earlier requests", str(len(shape.history))),
    )


def _upper(bounds: tuple[int, ...], number: int) -> int:
    return bounds[min(bisect_left(bounds, number), len(bounds) - 1)]


def count_shapes(found: Iterable[Facts]) -> dict[str, dict[str, int]]:
    """Rows by naming and so on; nothing where every shape is the plain one."""
    rows = Counter(found)
    if not set(rows) - {facts_of(Shape())}:
        return {}
    counts: dict[str, Counter[str]] = {axis: Counter() for axis, _ in facts_of(Shape())}
    for facts, number in rows.items():
        for axis, value in facts:
            counts[axis][value] += number
    return {
        axis: {value: values[value] for value in sorted(values, key=lambda v: (len(v), v))}
        for axis, values in counts.items()
    }
