"""Hints for tools nobody here has seen, from their names, types, enums, formats and texts.

What is derived goes through the same checks as what is written by hand. What cannot be derived is
named with its reason: a tool with a required argument of that kind is left out, an optional
argument of that kind is never said. A hint written by hand wins, argument by argument.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from breadcrumbs.data_gen.derived_values import Source, Underivable, source_of
from breadcrumbs.data_gen.derived_worlds import with_worlds
from breadcrumbs.data_gen.grounding import normalise, says
from breadcrumbs.data_gen.hints import CHECK_DAY, ArgumentHint, ToolHint, records_of, tool_faults
from breadcrumbs.data_gen.phrases import (
    clauses_of,
    label_fault,
    label_of,
    name_fault,
    questions_of,
    search_texts,
    switch_clauses,
    wishes,
)
from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.values import draw, kind_of
from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.search import ToolIndex

_TRIES = 4
"""Whole calls that are tried against the schema."""
_NO_HINT = ToolHint()


@dataclass(frozen=True, slots=True)
class Derived:
    """A catalog with its world and hints, and the tools that are not in it."""

    catalog: Catalog
    hints: Mapping[str, ToolHint]
    underivable: Mapping[str, str]
    """Reason by tool."""

    def to_dict(self) -> dict[str, Any]:
        """What manifests carry: how many tools are used, and what is not, by name and counted."""
        unsaid = {name: dict(hint.unsaid) for name, hint in self.hints.items() if hint.unsaid}
        return {
            "tools": len(self.hints),
            "underivable": dict(self.underivable),
            "underivable_reasons": _counted(self.underivable.values()),
            "unsaid": unsaid,
            "unsaid_reasons": _counted(r for reasons in unsaid.values() for r in reasons.values()),
        }


def _counted(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason stands, argument names left out; most frequent first."""
    return dict(Counter(reason.rpartition(": ")[2] for reason in reasons).most_common())


def derive(catalog: Catalog, given: Mapping[str, ToolHint], max_hits: int) -> Derived:
    """A world and hints for every tool of a catalog without them.

    Args:
        catalog: imported tools; their effects, if any, are replaced.
        given: hints written by hand, by tool; they may leave out search, intents or arguments.
        max_hits: search hits the gateway shows; a tool must be among them.

    Raises:
        CatalogError: a hint names a tool that is not in the catalog, or is not enough for it.
    """
    unknown = [name for name in given if catalog.tool(name) is None]
    if unknown:
        raise CatalogError(f"hints: {unknown[0]}: no such tool in the sources")
    worlds = with_worlds(catalog, given)
    keys: dict[str, dict[str, Source]] = defaultdict(dict)
    for (tool, argument), source in worlds.keys.items():
        keys[tool][argument] = source
    index = ToolIndex(worlds.catalog)
    hints: dict[str, ToolHint] = {}
    underivable: dict[str, str] = {}
    for name in worlds.catalog.names():
        spec = worlds.catalog.tools[name]
        hint = derive_hint(spec, given=given.get(name), keys=keys[name])
        if isinstance(hint, ToolHint):
            hint = checked(spec, hint, worlds.catalog, index, max_hits)
        if isinstance(hint, Underivable) and name in given:
            raise CatalogError(f"hints: {name}: {hint.reason}")
        if isinstance(hint, Underivable):
            underivable[name] = hint.reason
        else:
            hints[name] = hint
    return Derived(_only(worlds.catalog, hints), hints, underivable)


def _only(catalog: Catalog, names: Collection[str]) -> Catalog:
    """A catalog of some tools and the collections they work on, with a search index of its own.

    It must find what the catalog finds that is read back from its files.
    """
    tools = {name: spec for name, spec in catalog.tools.items() if name in names}
    used = {(spec.domain, spec.effect.collection) for spec in tools.values() if spec.effect}
    collections = {
        domain: {name: kind for name, kind in kinds.items() if (domain, name) in used}
        for domain, kinds in catalog.collections.items()
        if any(spec.domain == domain for spec in tools.values())
    }
    return Catalog(tools, collections)


def derive_hint(
    spec: ToolSpec, *, given: ToolHint | None = None, keys: Mapping[str, Source] | None = None
) -> ToolHint | Underivable:
    """How people would talk about a tool; nothing but the spec is looked at.

    Args:
        spec: the tool.
        given: what is known by hand already; it wins.
        keys: values of the arguments that name records of the tool's world.
    """
    known = given or _NO_HINT
    fault = name_fault(spec.name)
    if fault is not None and not known.intents:
        return Underivable(fault)
    arguments: dict[str, ArgumentHint] = {}
    unsaid: dict[str, str] = {}
    for name, schema in spec.input_schema["properties"].items():
        if name in known.arguments or name in known.unsaid:
            continue
        derived = _argument(name, schema, (keys or {}).get(name))
        if isinstance(derived, ArgumentHint):
            arguments[name] = derived
        elif name in spec.required:
            return Underivable(f"argument {name[:60]!r}: {derived.reason}")
        else:
            unsaid[name] = derived.reason
    hint = ToolHint(
        search=known.search or search_texts(spec.name, spec.description, spec.domain),
        intents=known.intents or wishes(spec.name, spec.description, spec.domain),
        arguments={**arguments, **known.arguments},
        topics=known.topics,
        unsaid={**unsaid, **known.unsaid},
    )
    hint = _with_clear_questions(spec, _with_own_clauses(hint, set(arguments)))
    return hint if known.intents else dataclasses.replace(hint, intents=_unspoilt(spec, hint))


def checked(
    spec: ToolSpec, hint: ToolHint, catalog: Catalog, index: ToolIndex, max_hits: int
) -> ToolHint | Underivable:
    """The hint with the search texts that find the tool, if it passes what hints must pass."""
    found = [
        text
        for text in hint.search
        if any(hit.name == spec.name for hit in index.search(text, max_hits, spec.allow))
    ]
    if not found:
        return Underivable("no search text made of its name and description finds it")
    faults = tool_faults(spec, hint, catalog)
    if faults:
        return Underivable(faults[0])
    fault = _call_fault(spec, hint, catalog)
    if fault is not None:
        return Underivable(fault)
    return dataclasses.replace(hint, search=tuple(found))


def _argument(
    name: str, schema: Mapping[str, Any], key: Source | None
) -> ArgumentHint | Underivable:
    fault = label_fault(name)
    if fault is not None:
        return Underivable(fault)
    source = key or source_of(name, schema)
    if isinstance(source, Underivable):
        return source
    label, kind = label_of(name), kind_of(source.values)
    if kind == "email":
        label = {"destination": "recipient", "origin": "sender"}.get(label, label)
    switches = switch_clauses(label) if kind == "boolean" else None
    return ArgumentHint(
        label=label,
        values=source.values,
        clauses=switches or clauses_of(label, quoted=source.quoted, kind=kind),
        questions=questions_of(label, kind),
        aliases=(label.split()[-1],),
    )


def _with_own_clauses(hint: ToolHint, derived: Collection[str]) -> ToolHint:
    """Without derived clauses that could speak of two arguments: nobody could tell which."""
    said = Counter(
        clause
        for a in hint.arguments.values()
        if not isinstance(a.clauses, dict)
        for clause in a.clauses
    )
    labels = [argument.label.lower() for argument in hint.arguments.values()]
    arguments = dict(hint.arguments)
    for name in derived:
        argument = hint.arguments[name]
        if isinstance(argument.clauses, dict):
            continue
        stem = argument.label.lower().rpartition(" ")[0]
        spoken_of = any(f" {stem} " in f" {intent} " for intent in hint.intents)
        alike = [label for label in labels if stem and f"{label} ".startswith(f"{stem} ")]
        own = [
            clause
            for clause in argument.clauses
            if argument.label in clause
            or (
                said[clause] == 1
                and not ((spoken_of or len(alike) > 1) and f" {stem} " in clause.lower())
            )
        ]
        arguments[name] = dataclasses.replace(argument, clauses=tuple(own))
    return dataclasses.replace(hint, arguments=arguments)


def _with_clear_questions(spec: ToolSpec, hint: ToolHint) -> ToolHint:
    """Only questions that the matcher reads as asking for exactly their argument."""
    arguments = dict(hint.arguments)
    for name, argument in hint.arguments.items():
        clear = [q for q in argument.questions if asked_parameters(q, spec, hint) == (name,)]
        arguments[name] = dataclasses.replace(argument, questions=tuple(clear))
    return dataclasses.replace(hint, arguments=arguments)


def _unspoilt(spec: ToolSpec, hint: ToolHint) -> tuple[str, ...]:
    """The intents that say no value of a required enum: the twin without it could not ask."""
    properties = spec.input_schema["properties"]
    choices = [
        (choice, properties[name])
        for name in spec.required
        for choice in properties[name].get("enum", ())
    ]
    free = [
        intent
        for intent in hint.intents
        if not any(says(normalise(intent), choice, schema) for choice, schema in choices)
    ]
    return tuple(free) or hint.intents


def _call_fault(spec: ToolSpec, hint: ToolHint, catalog: Catalog) -> str | None:
    """Whether whole calls, the required arguments alone and all that are said, pass the schema."""
    records = records_of(catalog, spec.domain)
    properties = spec.input_schema["properties"]
    composed = {n: c.write for topic in hint.topics[:1] for n, c in topic.compose.items()}
    drawn = [name for name in hint.arguments if name not in hint.composed]
    for place in range(_TRIES):
        rng = random.Random(f"{spec.name}/{place}")
        names = [name for name in drawn if name in spec.required or place % 2]
        values = {
            n: draw(hint.arguments[n].values, properties[n], records, CHECK_DAY, rng) for n in names
        }
        errors = check_arguments(spec, {**composed, **values}).errors
        if errors:
            return f"its schema ties arguments together: {errors[0].message}"
    return None
