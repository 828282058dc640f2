"""Values that are read first: the user describes a record, a list shows its key.

What the list shows decides: one record that fits gives the value, none or several mean asking.
The request is the same each time; only the world differs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from breadcrumbs.data_gen import scenarios
from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.hints import ToolHint, records_of
from breadcrumbs.data_gen.localise import localised, spoken_name
from breadcrumbs.data_gen.scenarios import Blueprint, Dropped, Recipe, Scenario
from breadcrumbs.data_gen.script import Kind, Lookup, Script, Step
from breadcrumbs.data_gen.speech import filled, pick
from breadcrumbs.data_gen.values import draw, spoken, words
from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.search import ToolIndex

SHOWN = 3
"""Records in the list; the world lists no more than five."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What kinds are made from: a split's catalog and index, hints, recipe and seed."""

    catalog: Catalog
    index: ToolIndex
    hints: Mapping[str, ToolHint]
    recipe: Recipe
    seed: int


def readable(spec: ToolSpec, setting: Setting) -> list[str]:
    """Required arguments whose value is the key of a record that another tool lists."""
    return [name for name in spec.required if _readers(spec, name, setting)]


def _readers(spec: ToolSpec, name: str, setting: Setting) -> list[ToolSpec]:
    argument = setting.hints[spec.name].arguments.get(name)
    collection = argument.values.get("records") if argument else None
    found = []
    for other in map(setting.catalog.tool, setting.catalog.names()):
        if other is None or other.effect is None or other.name == spec.name:
            continue
        place = (other.domain, other.effect.op, other.effect.collection)
        if place != (spec.domain, "list", collection) or other.requires_approval:
            continue
        if other.open_to(spec.allow[:1]) and other.name in setting.hints:
            found.append(other)
    return found


def lookup_twins(kind: Kind, blueprint: Blueprint, setting: Setting) -> list[Scenario] | Dropped:
    """One record fits, and beside it: two (`candidates`), or none."""
    rng = random.Random(f"{blueprint.seed}/{kind}")
    name = blueprint.drop
    assert name is not None
    reader = rng.choice(_readers(blueprint.spec, name, setting))
    drawn = _draw_lookup(blueprint, name, reader, setting, rng)
    if drawn is None:
        return Dropped("lookup: the records cannot be told apart")
    target, others, lookup = drawn
    step = _step(blueprint, reader, target, setting, rng)
    if isinstance(step, Dropped):
        return step
    described = _description(blueprint, lookup, step, reader, setting, rng)
    request = f"{blueprint.plan.say((name,))} {described}"
    if f" {target[lookup.key]}".lower() in request.lower():
        return Dropped("lookup: the value is said")
    collection = blueprint.hint.arguments[name].values["records"]

    def script(records: Sequence[dict[str, Any]]) -> Script:
        return Script(kind, (step,), lookup, {collection: list(records)})

    acts = replace(
        scenarios.dispatch(blueprint),
        request=request,
        sources=scenarios.dispatch(blueprint).sources | {name: "read"},
        script=script(_shuffled([target, *others[1:]], rng)),  # as many as its twin sees
    )
    shown = _with_second(target, others, lookup) if kind == "candidates" else others
    shown = _shuffled(shown, rng)
    asks = replace(
        scenarios.clarify(blueprint),
        request=request,
        question=f"{_found(shown, lookup, blueprint)} {blueprint.question}",
        script=script(shown),
    )
    return [acts, asks]


def _draw_lookup(
    blueprint: Blueprint, name: str, reader: ToolSpec, setting: Setting, rng: random.Random
) -> tuple[dict[str, Any], list[dict[str, Any]], Lookup] | None:
    """The record that is meant, others beside it, and the field that tells them apart."""
    source = blueprint.hint.arguments[name].values
    key = str(source.get("field"))
    records = [
        dict(record)
        for record in records_of(setting.catalog, blueprint.spec.domain)[source["records"]]
        if key in record
    ]
    target = next((r for r in records if r[key] == blueprint.said[name]), None)
    if target is None:
        return None
    usable = [f for f in target if f != key and f not in reader.required and _plain(target[f])]
    fields = {f: len({normalise(str(r.get(f))) for r in records}) for f in usable}
    if not fields:
        return None
    chosen = max(fields, key=lambda f: fields[f])  # the one that tells most of them apart
    described = normalise(str(target[chosen]))
    others = [r for r in records if _plain(r.get(chosen)) and normalise(r[chosen]) != described]
    if len(others) < SHOWN:
        return None
    picked = [dict(record) for record in rng.sample(others, SHOWN)]
    for record in picked:  # the list is asked for by these fields, so they must not tell apart
        record.update({n: target[n] for n in reader.required if n in target})
    return target, picked, Lookup(name, key, chosen, target[chosen])


def _plain(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _step(
    blueprint: Blueprint,
    reader: ToolSpec,
    target: Mapping[str, Any],
    setting: Setting,
    rng: random.Random,
) -> Step | Dropped:
    """The list call: fields of the record where it has them, else drawn values."""
    hint, properties = setting.hints[reader.name], reader.input_schema["properties"]
    records = records_of(setting.catalog, reader.domain)
    moment = datetime.fromisoformat(blueprint.now)
    arguments: dict[str, Any] = {}
    for name in reader.required:
        try:
            drawn = draw(hint.arguments[name].values, properties[name], records, moment, rng)
        except (CatalogError, KeyError):
            return Dropped("lookup: an argument of the list cannot be drawn")
        arguments[name] = target.get(name, drawn)
    for query in rng.sample(hint.search, len(hint.search)):
        hits = setting.index.search(query, setting.recipe.max_hits, blueprint.spec.allow)
        if any(hit.name == reader.name for hit in hits):
            return Step(query, reader.name, arguments)
    return Dropped("lookup: search misses the list")


def _description(
    blueprint: Blueprint,
    lookup: Lookup,
    step: Step,
    reader: ToolSpec,
    setting: Setting,
    rng: random.Random,
) -> str:
    properties = reader.input_schema["properties"]
    texts, language = blueprint.speech.kinds, blueprint.surface.language
    hint = localised(setting.hints[reader.name], reader, language)
    how = ", ".join(
        f"{spoken_name(n, hint, language)} {spoken(v, properties[n], texts.joiner)}"
        for n, v in step.arguments.items()
    )
    return filled(
        rng.choice(texts.descriptions),
        label=blueprint.hint.arguments[lookup.argument].label,
        field=words(lookup.field),
        value=lookup.described,
        how=how or texts.whole_list,
    )


def _with_second(
    target: Mapping[str, Any], others: Sequence[dict[str, Any]], lookup: Lookup
) -> list[dict[str, Any]]:
    """Another record that is described by the same words."""
    first, *rest = others
    return [dict(target), {**first, lookup.field: target[lookup.field]}, *rest[1:]]


def _shuffled(records: Sequence[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    return rng.sample(list(records), len(records))


def fitting(records: Sequence[Mapping[str, Any]], lookup: Lookup) -> list[Any]:
    """The keys of the records that are described."""
    described = normalise(lookup.described)
    return [r.get(lookup.key) for r in records if normalise(str(r.get(lookup.field))) == described]


def listed(result: Any) -> Iterator[Mapping[str, Any]]:
    """The records in a list's result."""
    for value in result.values() if isinstance(result, Mapping) else ():
        if isinstance(value, list):
            yield from (record for record in value if isinstance(record, Mapping))


def _found(records: Sequence[Mapping[str, Any]], lookup: Lookup, blueprint: Blueprint) -> str:
    """What the list came to, in front of the question."""
    keys, texts = fitting(records, lookup), blueprint.speech.kinds
    field = words(lookup.field)
    if not keys:
        text = pick(texts.found_none, blueprint.seed, "none")
        return filled(text, field=field, value=lookup.described)
    text = pick(texts.found, blueprint.seed, "found")
    return filled(text, field=field, keys=texts.joiner.join(map(str, keys)))
