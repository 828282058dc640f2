"""The simulated world: records by domain and collection, changed only by declared effects.

Equal calls on equal worlds give equal states: new records are named by counting, never by chance.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import rfc8785

from breadcrumbs.gateway.catalog import Catalog, Collection, Effect, Rows, ToolSpec

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


class World:
    """All records of a catalog's domains. A collection is copied when it is first changed."""

    def __init__(self, catalog: Catalog) -> None:
        self._collections = catalog.collections
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

    def state(self) -> dict[str, Mapping[str, Mapping[str, Any]]]:
        """Business state only, as it is now: what was asked of the gateway is not in it.

        To be read: what nobody changed is shared with every other world of the catalog.
        """
        rows = {place: self._kind(place).rows for place in self._places()}
        return {
            ".".join(place): found for place, found in (rows | copy.deepcopy(self._changed)).items()
        }

    def state_hash(self) -> str:
        """SHA-256 of the state as RFC 8785 writes it; what nobody changed is not written anew."""
        # RFC 8785 orders keys by their UTF-16 code units.
        places = sorted(self._places(), key=lambda place: ".".join(place).encode("utf-16-be"))
        parts = [rfc8785.dumps(".".join(place)) + b":" + self._canonical(place) for place in places]
        return hashlib.sha256(b"{" + b",".join(parts) + b"}").hexdigest()

    def _canonical(self, place: Place) -> bytes:
        if place in self._changed:
            return bytes(rfc8785.dumps(self._changed[place]))
        return self._kind(place).canonical

    def _places(self) -> list[Place]:
        return [(domain, name) for domain, kinds in self._collections.items() for name in kinds]

    def _kind(self, place: Place) -> Collection:
        return self._collections[place[0]][place[1]]

    def _rows(self, place: Place) -> Rows:
        """The records of a collection, to be read."""
        return self._changed[place] if place in self._changed else self._kind(place).rows

    def _own_rows(self, place: Place) -> Rows:
        """The records of a collection, to be changed."""
        if place not in self._changed:
            self._changed[place] = copy.deepcopy(self._kind(place).rows)
        return self._changed[place]

    def _create(self, place: Place, arguments: Mapping[str, Any]) -> dict[str, Any]:
        kind = self._kind(place)
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
        kind = self._kind(place)
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
