"""The shape of what a model sees in a scenario, beside what the scenario is about.

Plain data. `shaping` draws it, `episodes` puts it into effect; the twins of a blueprint share it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.namings import OWN, Naming, naming_of

NO_NAMING = OWN.name


@dataclass(frozen=True, slots=True)
class Shape:
    """As it stands, that of every scenario for which no config asks for more."""

    naming: str = NO_NAMING
    """Under which names and payload shapes the meta-tools are shown."""

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
    try:
        return Shape(**data)
    except TypeError as error:
        raise DataError(f"shape: {error}; regenerate the data") from error


def axes_of(shape: Shape) -> dict[str, str]:
    """What a shape is counted by."""
    return {"naming": shape.naming}


def count_shapes(shapes: Iterable[Shape]) -> dict[str, dict[str, int]]:
    """Rows by naming and so on; nothing where every shape is the plain one. Takes a counter too."""
    found = Counter(shapes)
    if not set(found) - {Shape()}:
        return {}
    counts: dict[str, Counter[str]] = {axis: Counter() for axis in axes_of(Shape())}
    for shape, rows in found.items():
        for axis, value in axes_of(shape).items():
            counts[axis][value] += rows
    return {axis: dict(sorted(values.items())) for axis, values in counts.items()}
