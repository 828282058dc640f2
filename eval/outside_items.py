"""One turn of an outside benchmark in this gateway's terms: what stands before it, what is right.

The texts are the user's own copy of a benchmark and hostile like any other: they are read within
bounds, never run, and a file that is not what it should be is one clear error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from breadcrumbs.data_gen.outside import read_outside
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.imports.definitions import find_definitions
from breadcrumbs.gateway.imports.importing import Import, import_drafts

Side = Literal["dispatch", "clarify", "decline"]
SIDES: tuple[Side, ...] = ("dispatch", "clarify", "decline")
AS_WRITTEN = ConfigDict(extra="ignore", frozen=True)
"""A benchmark's record: what is known of it is checked, what else it holds is passed over."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GoldCall:
    """A call that the benchmark has as right."""

    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier request and the calls that are right after it; none where asking was."""

    request: str
    calls: tuple[GoldCall, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """One turn that is scored."""

    id: str
    group: str
    """The set that it is counted in."""
    cluster: str
    """Items of one name are drawn together: they share their wording."""
    side: Side
    request: str
    catalog: Catalog
    read: tuple[str, ...]
    """The tools whose schemas are read before the turn; none where nothing is on offer."""
    calls: tuple[GoldCall, ...] = ()
    """What is right to call, or would be once nothing is missing."""
    history: tuple[Exchange, ...] = ()
    system: str = ""
    """What the benchmark itself has as system prompt; it stands behind the gateway's."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a loader made of its files."""

    items: tuple[Item, ...]
    left_out: Mapping[str, Counter[str]] = field(default_factory=dict)
    """By set: turns that are on no side, by reason."""
    files: tuple[Path, ...] = ()
    """What was read; results name them by their hash."""


def read_lines(path: Path, shape: type[T]) -> list[T]:
    """The records of a file with one JSON document a line.

    Raises:
        DataError: it is missing, not such a file, or a record is not of this shape.
    """
    adapter = TypeAdapter(shape)
    records = []
    for place, document in read_outside(path):
        try:
            records.append(adapter.validate_python(document))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "record"
            raise DataError(
                f"{path}, {place}: {where}: {first['msg']}; is this the benchmark's own file?"
            ) from error
    return records


def import_tools(definitions: Iterable[Any], source: str, domain: str) -> Import:
    """Tool definitions as the gateway takes them, without risk labels: unknown is a write."""
    found = find_definitions(list(definitions), source, domain)
    return import_drafts(found)
