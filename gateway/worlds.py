"""The simulated world: records by domain and collection, changed only by declared effects.

Equal calls on equal worlds give equal states: new records are named by counting, never by chance.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

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


class World:
    """All records of a catalog's domains."""

    def __init__(self, catalog: Catalog) -> None:
        self._collections = catalog.collections
        self._records: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
            (domain, name): {str(r[kind.key]): copy.deepcopy(r) for r in kind.records}
            for domain, kinds in catalog.collections.items()
            for name, kind in kinds.items()
        }
        self._made: dict[tuple[str, str], int] = {}

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
        return {f"{domain}.{name}": rows for (domain, name), rows in self._records.items()}

    def state_hash(self) -> str:
        """SHA-256 of the canonical state."""
        return hashlib.sha256(rfc8785.dumps(self.state())).hexdigest()

    def _create(self, place: tuple[str, str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        kind = self._collections[place[0]][place[1]]
        number = self._made.get(place, len(kind.records)) + 1
        while (key := f"{kind.prefix}_{number}") in self._records[place]:
            number += 1
        self._made[place] = number
        self._records[place][key] = {**copy.deepcopy(dict(arguments)), kind.key: key}
        return {kind.key: key, "status": "created"}

    def _list(self, place: tuple[str, str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        records = self._records[place].values()
        fields = {name for record in records for name in record}
        asked = {name: arguments[name] for name in fields & set(arguments)}
        found = [
            copy.deepcopy(record)
            for record in records
            if all(record.get(name) == value for name, value in asked.items())
        ]
        return {place[1]: found[:LIST_LIMIT], "total": len(found)}

    def _on_record(
        self, place: tuple[str, str], effect: Effect, arguments: Mapping[str, Any]
    ) -> dict[str, Any]:
        kind = self._collections[place[0]][place[1]]
        key = str(arguments.get(effect.key_argument or "", ""))
        record = self._records[place].get(key)
        if record is None:
            raise ToolFailure(f"no {kind.key} {key!r} in {place[1]}")
        rest = {n: copy.deepcopy(v) for n, v in arguments.items() if n != effect.key_argument}
        if effect.op == "get":
            return copy.deepcopy(record)
        if effect.op == "delete":
            del self._records[place][key]
            return {kind.key: key, "status": "deleted"}
        if effect.op == "append":
            record.setdefault(str(effect.field), []).append(rest)
            return {kind.key: key, "status": "added"}
        record.update({**rest, **copy.deepcopy(effect.set)})
        return {kind.key: key, "status": "updated"}


class WorldExecutor:
    """Runs tools in a simulated world."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the tool's effect."""
        return self.world.apply(spec, arguments)
