"""The simulated world: records by domain and collection, changed only by declared effects.

Equal calls on equal worlds give equal states: new records are named by counting, never by chance.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import rfc8785

from breadcrumbs.gateway.catalog import Catalog, Effect, ToolSpec

LIST_LIMIT = 5


class ToolFailure(Exception):
    """A tool ran and reports that it could not do what was asked; the text is for the model."""


class OutcomeUnknown(Exception):
    """A tool was called, and how it ended is not known: it may have acted. For the model."""


class Executor(Protocol):
    """Runs a tool for real: in a simulated world, or on an upstream server."""

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run once and return the result.

        Raises:
            ToolFailure: the tool says that it could not do it, or was not called.
            OutcomeUnknown: it was called, and may have acted.
        """
        ...


Place = tuple[str, str]
"""Domain and collection."""
Rows = dict[str, dict[str, Any]]
"""Records by their key."""


@dataclass(frozen=True, slots=True)
class _Start:
    """How every world of a catalog begins: shared by all of them and never changed."""

    rows: Mapping[Place, Rows]
    canonical: Mapping[Place, bytes]
    """Each collection as RFC 8785 writes it."""


_STARTS: WeakKeyDictionary[Catalog, _Start] = WeakKeyDictionary()


def _start_of(catalog: Catalog) -> _Start:
    whole = catalog.whole or catalog  # what was cut from it has the same collections
    if whole not in _STARTS:
        rows = {
            (domain, name): {str(r[kind.key]): copy.deepcopy(r) for r in kind.records}
            for domain, kinds in whole.collections.items()
            for name, kind in kinds.items()
        }
        canonical = {place: rfc8785.dumps(found) for place, found in rows.items()}
        _STARTS[whole] = _Start(rows, canonical)
    return _STARTS[whole]


class World:
    """All records of a catalog's domains. A collection is copied when it is first changed."""

    def __init__(self, catalog: Catalog) -> None:
        self._collections = catalog.collections
        self._start = _start_of(catalog)
        self._changed: dict[Place, Rows] = {}
        self._made: dict[Place, int] = {}

    def apply(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a tool's effect; arguments are checked and defaulted already.

        Raises:
            ToolFailure: there is no record of that key.
        """
        effect = spec.effect
        if effect is None:
            return {"status": "ok"}
        place = (spec.domain, effect.collection)
        if effect.op == "create":
            return self._create(place, arguments)
        if effect.op == "record":  # what it changes is not known; what it was told is kept
            self._create(place, arguments)
            return {"status": "ok"}
        if effect.op == "list":
            return self._list(place, arguments)
        return self._on_record(place, effect, arguments)

    def state(self) -> dict[str, Any]:
        """Business state only: what was asked of the gateway is not in it."""
        return {".".join(place): self._rows(place) for place in self._start.rows}

    def state_hash(self) -> str:
        """SHA-256 of the state as RFC 8785 writes it; what nobody changed is not written anew."""
        # RFC 8785 orders keys by their UTF-16 code units.
        places = sorted(self._start.rows, key=lambda place: ".".join(place).encode("utf-16-be"))
        parts = [rfc8785.dumps(".".join(place)) + b":" + self._canonical(place) for place in places]
        return hashlib.sha256(b"{" + b",".join(parts) + b"}").hexdigest()

    def _canonical(self, place: Place) -> bytes:
        if place in self._changed:
            return bytes(rfc8785.dumps(self._changed[place]))
        return self._start.canonical[place]

    def _rows(self, place: Place) -> Rows:
        """The records of a collection, to be read."""
        return self._changed.get(place, self._start.rows[place])

    def _own_rows(self, place: Place) -> Rows:
        """The records of a collection, to be changed."""
        if place not in self._changed:
            self._changed[place] = copy.deepcopy(self._start.rows[place])
        return self._changed[place]

    def _create(self, place: Place, arguments: Mapping[str, Any]) -> dict[str, Any]:
        kind = self._collections[place[0]][place[1]]
        rows = self._own_rows(place)
        number = self._made.get(place, len(kind.records)) + 1
        while (key := f"{kind.prefix}_{number}") in rows:
            number += 1
        self._made[place] = number
        rows[key] = {**copy.deepcopy(dict(arguments)), kind.key: key}
        return {kind.key: key, "status": "created"}

    def _list(self, place: Place, arguments: Mapping[str, Any]) -> dict[str, Any]:
        records = self._rows(place).values()
        fields = {name for record in records for name in record}
        asked = {name: arguments[name] for name in fields & set(arguments)}
        found = [
            copy.deepcopy(record)
            for record in records
            if all(record.get(name) == value for name, value in asked.items())
        ]
        return {place[1]: found[:LIST_LIMIT], "total": len(found)}

    def _on_record(
        self, place: Place, effect: Effect, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        kind = self._collections[place[0]][place[1]]
        key = str(arguments.get(effect.key_argument or "", ""))
        if key not in self._rows(place):
            raise ToolFailure(f"no {kind.key} {key!r} in {place[1]}")
        if effect.op == "get":
            return copy.deepcopy(self._rows(place)[key])
        rows = self._own_rows(place)
        rest = {n: copy.deepcopy(v) for n, v in arguments.items() if n != effect.key_argument}
        if effect.op == "delete":
            del rows[key]
            return {kind.key: key, "status": "deleted"}
        if effect.op == "append":
            rows[key].setdefault(str(effect.field), []).append(rest)
            return {kind.key: key, "status": "added"}
        rows[key].update({**rest, **copy.deepcopy(effect.set)})
        return {kind.key: key, "status": "updated"}


class WorldExecutor:
    """Runs tools in a simulated world."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the tool's effect."""
        return self.world.apply(spec, arguments)
