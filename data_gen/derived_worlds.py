"""A simulated world for tools known only by name and schema.

Where name and arguments make it plain, a tool creates, lists, reads, changes or deletes records
of the thing it names. A write whose effect is not plain keeps a record of its arguments, so that
two different calls still end in two different worlds; a read of that kind only answers `ok`.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breadcrumbs.data_gen.derived_values import Source, source_of
from breadcrumbs.data_gen.hints import CHECK_DAY, ToolHint
from breadcrumbs.data_gen.phrases import parse_name, split_words
from breadcrumbs.data_gen.values import draw
from breadcrumbs.gateway.catalog import (
    Catalog,
    Collection,
    Effect,
    Operation,
    Risk,
    ToolSpec,
    compile_schema,
)

RECORDS = 8
"""Records of each thing."""
_OPERATIONS: Mapping[Operation, str] = {
    "create": "create add make insert register post submit book",
    "list": "list search find query",
    "get": "get read fetch retrieve show describe view",
    "update": "update edit modify set change patch rename",
    "delete": "delete remove destroy",
}
_VERBS = {verb: op for op, verbs in _OPERATIONS.items() for verb in verbs.split()}
_CHANGES = frozenset(("create", "update", "delete"))


@dataclass(slots=True)
class _Thing:
    """What some tools of a domain act on."""

    key: str
    records: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Worlds:
    """A catalog with effects and collections; and the values of arguments that name records."""

    catalog: Catalog
    keys: Mapping[tuple[str, str], Source]
    """By tool and argument."""


def with_worlds(catalog: Catalog, given: Mapping[str, ToolHint]) -> Worlds:
    """Derive every domain's world. An argument with a hint of its own names no derived record."""
    tools: dict[str, ToolSpec] = {}
    collections: dict[str, dict[str, Collection]] = {}
    keys: dict[tuple[str, str], Source] = {}
    for domain in catalog.domains:
        specs = [spec for spec in catalog.tools.values() if spec.domain == domain]
        things = _things(specs)
        kinds = collections.setdefault(domain, {})
        for spec in specs:
            effect = _effect(spec, things, given.get(spec.name))
            if effect is not None:
                thing = things[effect.collection]
                made = Collection(thing.key, _prefix(effect.collection), tuple(thing.records))
                kinds.setdefault(effect.collection, made)
            elif spec.risk is not Risk.READ:
                effect = Effect("record", f"{spec.name} calls")
                kinds[effect.collection] = Collection(_free_key("call_id", [spec]), "CALL")
            if effect is not None and effect.key_argument is not None:
                source = _key_source(spec, effect, things)
                assert source is not None  # or there would be no effect
                keys[spec.name, effect.key_argument] = source
            tools[spec.name] = dataclasses.replace(spec, effect=effect)
    return Worlds(Catalog(tools, collections), keys)


def _things(specs: Sequence[ToolSpec]) -> dict[str, _Thing]:
    """By collection; records are named as the first argument that names one takes them."""
    grouped: dict[str, list[ToolSpec]] = {}
    for spec in specs:
        if _operation(spec) is not None:
            grouped.setdefault(_collection(spec), []).append(spec)
    things: dict[str, _Thing] = {}
    for name, group in grouped.items():
        noun = _noun(group[0])
        thing = things[name] = _Thing(_free_key(f"{noun.replace(' ', '_')}_id", group))
        for spec in group:
            argument = _key_argument(spec)
            if argument is not None and not thing.records:
                named = _names(argument, spec.input_schema["properties"][argument])
                thing.records = [{thing.key: key} for key in named]
    return things


def _effect(spec: ToolSpec, things: Mapping[str, _Thing], given: ToolHint | None) -> Effect | None:
    op = _operation(spec)
    if op is None:
        return None
    collection = _collection(spec)
    if op == "create" or (op == "list" and things[collection].records):
        return Effect(op, collection)
    argument = _key_argument(spec)
    if op == "list" or argument is None:
        return None
    own = given.arguments.get(argument) if given is not None else None
    if own is not None and own.values.get("records") != collection:
        return None
    # What else a deletion is told would leave no trace, and an update of nothing none either.
    others = [name for name in spec.input_schema["properties"] if name != argument]
    if (op == "delete" and others) or (op == "update" and not set(spec.required) & set(others)):
        return None
    effect = Effect(op, collection, key_argument=argument)
    return effect if _key_source(spec, effect, things) else None


def _operation(spec: ToolSpec) -> Operation | None:
    """What the verb of the name does; a read that nobody labelled as one may be more."""
    parsed = parse_name(spec.name, spec.domain)
    if parsed.verb not in _VERBS or not parsed.rest or not parsed.noun:
        return None
    op = _VERBS[parsed.verb]
    return op if (op in _CHANGES) is (spec.risk is not Risk.READ) else None


def _noun(spec: ToolSpec) -> str:
    words = [word.lower() for word in parse_name(spec.name, spec.domain).noun]
    return " ".join([*words[:-1], _single(words[-1])])


def _single(word: str) -> str:
    for suffix, ending in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if word.endswith(suffix) and not word.endswith(("ss", "us", "is")):
            return word.removesuffix(suffix) + ending
    return word


def _collection(spec: ToolSpec) -> str:
    joined = _noun(spec).replace(" ", "_")
    if joined.endswith("y") and joined[-2:-1] not in "aeiou":
        return f"{joined[:-1]}ies"
    return f"{joined}es" if joined.endswith(("s", "x", "ch", "sh")) else f"{joined}s"


def _prefix(collection: str) -> str:
    return "".join(filter(str.isalpha, collection))[:4].upper() or "REC"


def _key_argument(spec: ToolSpec) -> str | None:
    """The required argument that names the record: `issue_id`, `id`, `issue`, or its name."""
    if _operation(spec) not in ("get", "update", "delete"):
        return None
    noun = _noun(spec)
    last = noun.split()[-1]
    forms = [f"{noun} id", f"{last} id", f"{noun} number", f"{last} number", "id", noun, last]
    forms += ["uuid", "key", f"{noun} name", f"{last} name", f"{last} key", f"{last} slug", "name"]
    said = {
        " ".join(word.lower() for word in split_words(name)): name
        for name in spec.required
        if spec.input_schema["properties"][name].get("type") in ("string", "integer")
    }
    return next((said[form] for form in forms if form in said), None)


def _names(argument: str, schema: Mapping[str, Any]) -> list[str]:
    """Distinct names of records, as the argument's own values would be."""
    source = source_of(argument, schema)
    if not isinstance(source, Source) or "enum" in source.values or source.quoted:
        return []
    rng = random.Random(argument)
    drawn = [draw(source.values, schema, {}, CHECK_DAY, rng) for _ in range(4 * RECORDS)]
    return list(dict.fromkeys(str(value) for value in drawn))[:RECORDS]


def _key_source(spec: ToolSpec, effect: Effect, things: Mapping[str, _Thing]) -> Source | None:
    """Values that name records of the thing; None where this tool cannot name them."""
    thing = things[effect.collection]
    schema = spec.input_schema["properties"][effect.key_argument]
    names: list[Any] = [record[thing.key] for record in thing.records]
    if schema.get("type") == "integer":
        names = [int(name) for name in names if name.isdigit()]
    validator = compile_schema(schema)
    if not names or len(names) < len(thing.records) or not all(map(validator.is_valid, names)):
        return None
    if schema.get("type") == "integer":
        return Source({"pool": names})
    return Source({"records": effect.collection, "field": thing.key})


def _free_key(wanted: str, specs: Sequence[ToolSpec]) -> str:
    """A key that is no argument's name, save where the argument names the record by it.

    Another argument of that name would be lost in the record.
    """
    taken = {
        name
        for spec in specs
        for name in spec.input_schema["properties"]
        if name != _key_argument(spec)
    }
    key = wanted
    while key in taken:
        key = f"record_{key}"
    return key
