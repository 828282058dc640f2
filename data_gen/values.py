"""Argument values: how a hint draws one, and how a person says it in a sentence.

Every draw comes from a seeded `random.Random`; the same state gives the same value.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from breadcrumbs.errors import CatalogError

KINDS = frozenset(
    {
        "pool",
        "records",
        "integer",
        "number",
        "enum",
        "datetime",
        "date",
        "time",
        "boolean",
        "email",
        "person",
        "list",
        "object",
    }
)
_OPTIONS = frozenset({"field", "step", "decimals", "length"})
_HUMP = re.compile(r"(?<=[a-z0-9])[A-Z](?=[a-z])")
_FIRST = """Ada Amir Ana Ben Carla Chen Dana Diego Elif Emma Farah Finn Grace Hana Igor Ines Jonas
    Kofi Lena Liam Maya Mina Nadia Noah Olga Omar Petra Priya Rosa Ravi Sara Sofia Tariq Tom
    Uma Vera Wei Yara Yusuf Zoe""".split()
_LAST = """Adler Bauer Costa Dogan Eriksen Farkas Garcia Haddad Ito Jansen Keller Larsen Mehta Novak
    Okafor Petrov Quinn Rossi Silva Tanaka Ueda Vargas Weber Xu Yilmaz Zeller""".split()
_HOSTS = ("example.com", "example.org", "mail.example.net", "team.example.com")

Records = Mapping[str, Sequence[Mapping[str, Any]]]
"""Records of one domain's world, by collection."""


def kind_of(source: Mapping[str, Any]) -> str:
    """The one kind a value source names.

    Raises:
        CatalogError: none or several kinds, or an option nobody knows.
    """
    kinds = [key for key in source if key in KINDS]
    unknown = [key for key in source if key not in KINDS and key not in _OPTIONS]
    if len(kinds) != 1 or unknown:
        raise CatalogError(
            f"values {dict(source)!r}: name one of {', '.join(sorted(KINDS))}"
            + (f"; unknown {', '.join(map(str, unknown))}" if unknown else "")
        )
    return kinds[0]


def draw(
    source: Mapping[str, Any],
    schema: Mapping[str, Any],
    records: Records,
    now: datetime,
    rng: random.Random,
) -> Any:
    """One value for a parameter with JSON Schema `schema`.

    Raises:
        CatalogError: the source names a collection, field or enum that does not exist.
    """
    kind = kind_of(source)
    if kind == "pool":
        return rng.choice(source["pool"])
    if kind == "records":
        return rng.choice(_record_values(source, records))
    if kind == "enum":
        return rng.choice(_enum(schema))
    if kind == "list":
        return _draw_list(source, schema, records, now, rng)
    if kind == "object":
        properties = schema.get("properties", {})
        parts = source["object"].items()
        return {k: draw(v, properties.get(k, {}), records, now, rng) for k, v in parts}
    return _draw_scalar(kind, source, now, rng)


def _draw_scalar(kind: str, source: Mapping[str, Any], now: datetime, rng: random.Random) -> Any:
    if kind == "integer":
        low, high = source["integer"]
        return rng.randrange(low, high + 1, source.get("step", 1))
    if kind == "number":
        low, high = source["number"]
        return round(rng.uniform(low, high), source.get("decimals", 2))
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "person":
        return f"{rng.choice(_FIRST)} {rng.choice(_LAST)}"
    if kind == "email":
        return f"{rng.choice(_FIRST)}.{rng.choice(_LAST)}@{rng.choice(_HOSTS)}".lower()
    moment = now + timedelta(days=rng.randrange(1, 60))
    moment = moment.replace(hour=rng.randrange(7, 21), minute=rng.choice((0, 15, 30, 45)))
    return moment.strftime(
        {"datetime": "%Y-%m-%dT%H:%M", "date": "%Y-%m-%d", "time": "%H:%M"}[kind]
    )


def _draw_list(
    source: Mapping[str, Any],
    schema: Mapping[str, Any],
    records: Records,
    now: datetime,
    rng: random.Random,
) -> list[Any]:
    low, high = source.get("length", (1, 3))
    items: list[Any] = []
    for _ in range(20 * rng.randint(low, high)):
        item = draw(source["list"], schema.get("items", {}), records, now, rng)
        if item not in items:
            items.append(item)
        if len(items) == high:
            break
    return items[: rng.randint(low, max(low, len(items)))]


def _record_values(source: Mapping[str, Any], records: Records) -> list[Any]:
    collection, name = source["records"], str(source.get("field"))
    found = [record[name] for record in records.get(collection, ()) if name in record]
    if not found:
        raise CatalogError(f"values: no record of {collection!r} has the field {name!r}")
    return found


def _enum(schema: Mapping[str, Any]) -> Sequence[Any]:
    values = schema.get("enum")
    if not values:
        raise CatalogError("values {enum: true}: the parameter has no enum")
    return list(values)


def spoken(value: Any, schema: Mapping[str, Any], joiner: str = " and ") -> str:
    """How a person writes the value inside a sentence; the value stays recognisable in it.

    `joiner` stands before the last item of a list.
    """
    if isinstance(value, list):
        parts = [spoken(item, schema.get("items", {}), joiner) for item in value]
        return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}{joiner}{parts[-1]}"
    if isinstance(value, Mapping):
        inner = schema.get("properties", {})
        return ", ".join(f"{words(k)} {spoken(v, inner.get(k, {}))}" for k, v in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str) and "enum" in schema:
        return words(value)
    return str(value)


def words(name: str) -> str:
    """`due_date`, `due-date` and `dueDate` as people write them."""
    spaced = name.replace("_", " ").replace("-", " ")
    return _HUMP.sub(lambda hump: f" {hump[0].lower()}", spaced)
