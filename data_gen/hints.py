"""Hints: how people talk about a tool. One YAML file per domain, beside no code at all.

A hint says what to search for, how a request begins, which values an argument takes, how each
value is said, and which question asks for it. Everything else is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT, parse, read_yaml
from breadcrumbs.data_gen.values import Records, draw, kind_of
from breadcrumbs.errors import CatalogError, ConfigError
from breadcrumbs.gateway.catalog import Catalog, ToolSpec

CHECK_DAY = datetime(2026, 3, 2, 9, 0)
_CHECK_DRAWS = 5


@dataclass(config=STRICT)
class ArgumentHint:
    """How one parameter is valued, said and asked for."""

    label: str
    values: dict[str, Any] = field(default_factory=dict)
    clauses: tuple[str, ...] | dict[bool, tuple[str, ...]] = ()
    questions: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    def clauses_for(self, value: Any) -> tuple[str, ...]:
        """The clauses that can say `value`; booleans have their own per truth value."""
        if isinstance(self.clauses, Mapping):
            return self.clauses.get(bool(value), ())
        return self.clauses


@dataclass(config=STRICT)
class Composed:
    """A text the assistant words itself: a good one, and what it must and must not hold."""

    write: str
    must: tuple[str, ...] = ()
    must_not: tuple[str, ...] = ()


@dataclass(config=STRICT)
class Topic:
    """What a request is about, and the arguments that are worded from it."""

    say: str
    compose: dict[str, Composed]


@dataclass(config=STRICT)
class ToolHint:
    """Everything a request for one tool is built from."""

    search: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()
    arguments: dict[str, ArgumentHint] = field(default_factory=dict)
    topics: tuple[Topic, ...] = ()
    unsaid: dict[str, str] = field(default_factory=dict)
    """Optional arguments that no request says, and why."""

    @property
    def composed(self) -> frozenset[str]:
        """Arguments the assistant words itself."""
        return frozenset(name for topic in self.topics for name in topic.compose)


@dataclass(config=STRICT)
class _File:
    domain: str
    tools: dict[str, ToolHint]


def load_hints(paths: Sequence[str | Path] | None = None) -> dict[str, ToolHint]:
    """Hints by tool name; `None` reads every file that ships with the package.

    Raises:
        CatalogError: a file is missing, malformed, or names a tool twice.
    """
    hints: dict[str, ToolHint] = {}
    for path in _shipped() if paths is None else [Path(p) for p in paths]:
        try:
            parsed = parse(read_yaml(path), _File, str(path))
        except ConfigError as error:
            raise CatalogError(str(error)) from error
        for name, hint in parsed.tools.items():
            if name in hints:
                raise CatalogError(f"{path}: tool {name!r} has hints in another file already")
            hints[name] = hint
    return hints


def hint_files() -> list[Path]:
    """The hint files that ship with the package, in order."""
    return _shipped()


def _shipped() -> list[Path]:
    folder = Path(str(resources.files("breadcrumbs.configs"))) / "generate" / "hints"
    return sorted(folder.glob("*.yaml"))


def records_of(catalog: Catalog, domain: str) -> Records:
    """The world records of one domain, by collection."""
    return {name: c.records for name, c in catalog.collections.get(domain, {}).items()}


def check_hints(hints: Mapping[str, ToolHint], catalog: Catalog) -> list[str]:
    """Every fault between hints and catalog, one line each; empty means usable.

    A fault is a tool or parameter without hints, a hint for a parameter that does not exist,
    a value the schema refuses, a parameter that can be neither said nor worded.
    """
    faults = [f"{name}: no such tool in the catalog" for name in hints if not catalog.tool(name)]
    for name in catalog.names():
        spec = catalog.tool(name)
        assert spec is not None
        if name not in hints:
            faults.append(f"{name}: no hints")
            continue
        faults.extend(f"{name}: {fault}" for fault in tool_faults(spec, hints[name], catalog))
    return faults


def tool_faults(spec: ToolSpec, hint: ToolHint, catalog: Catalog) -> list[str]:
    """Every fault between one tool and its hint; empty means usable."""
    properties = spec.input_schema.get("properties", {})
    faults = [f"argument {n!r} is not a parameter" for n in hint.arguments if n not in properties]
    for name, schema in properties.items():
        argument = hint.arguments.get(name)
        if argument is None and name in hint.unsaid and name not in spec.required:
            continue
        if argument is None:
            faults.append(f"parameter {name!r} has no hint")
        elif name not in hint.composed:
            faults.extend(_argument_faults(spec, name, schema, argument, catalog))
    for topic in hint.topics:
        faults.extend(_topic_faults(topic, properties))
    faults += [f"no {part} text" for part in ("search", "intents") if not getattr(hint, part)]
    marked = ["{topic}" in intent for intent in hint.intents]
    if hint.topics and not all(marked):
        faults.append("has topics, so every intent needs {topic}")
    if not hint.topics and any(marked):
        faults.append("an intent has {topic}, but there are no topics")
    return faults


def _topic_faults(topic: Topic, properties: Mapping[str, Any]) -> list[str]:
    faults = []
    for name, composed in topic.compose.items():
        if name not in properties:
            faults.append(f"topic composes {name!r}, which is not a parameter")
        for must in composed.must:
            if must.lower() not in composed.write.lower():
                faults.append(f"topic {topic.say!r}: {name} must hold {must!r} but does not")
    return faults


def _argument_faults(
    spec: ToolSpec, name: str, schema: Mapping[str, Any], hint: ArgumentHint, catalog: Catalog
) -> list[str]:
    from breadcrumbs.gateway.arguments import check_arguments

    faults: list[str] = []
    rng = random.Random(f"{spec.name}/{name}")
    try:
        kind = kind_of(hint.values)
        records = records_of(catalog, spec.domain)
        drawn = [draw(hint.values, schema, records, CHECK_DAY, rng) for _ in range(_CHECK_DRAWS)]
    except (CatalogError, KeyError, TypeError, ValueError) as error:
        return [f"{name}: values cannot be drawn: {error}"]
    for value in drawn:
        checked = check_arguments(spec, {name: value})
        wrong = [e for e in checked.errors if name in e.path.split(".")[0].split("/")]
        faults.extend(
            f"{name}: value {value!r}: {e.message}" for e in wrong if "required" not in e.message
        )
        if not hint.clauses_for(value):
            faults.append(f"{name}: no clause says {value!r}")
    if kind != "boolean" and any("{value}" not in c for c in hint.clauses_for(drawn[0])):
        faults.append(f"{name}: a clause lacks {{value}}")
    if name in spec.input_schema.get("required", ()) and not hint.questions:
        faults.append(f"{name}: required, but no question asks for it")
    return faults
