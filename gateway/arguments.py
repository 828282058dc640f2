"""Check what a model sent against a tool's schema, field by field, and fill in defaults."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jsonschema_rs

from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.gateway.schema_cost import count_values
from breadcrumbs.messages import compact_json

MAX_DEPTH = 32
MAX_BYTES = 256 * 1024
MAX_INTEGER = 2**53 - 1
"""Beyond it JSON numbers lose digits on their way through other systems."""
MAX_MESSAGE = 200
"""Characters of a validator's message or a field's path: both quote what was sent."""
MAX_EXPECTED = 1_000
"""Characters of what a fault says was expected; the whole of it stands in the schema."""
MAX_FAULTS = 20
"""Faults that are named; a model mends one at a time."""
MAX_WORK = 8_000_000
"""Characters of arguments times characters of schema: beyond it faults are not counted."""
MAX_CHECKS = 20_000_000
"""Values of arguments times values of schema that are matched, in at most a second or two."""
MAX_MATCHING = 250_000_000
"""Characters of arguments times steps of the schema's patterns: two or three seconds."""
_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern")


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: where, what is wrong, and what was expected there."""

    path: str
    message: str
    expected: str = ""

    def to_dict(self) -> dict[str, str]:
        """The shape payloads carry."""
        shape = {
            "field": self.path[:MAX_MESSAGE],
            "problem": self.message,
            "expected": _cut(self.expected, MAX_EXPECTED),
        }
        return {key: text for key, text in shape.items() if text or key == "field"}


@dataclass(frozen=True, slots=True)
class CheckedArguments:
    """Arguments ready to run, defaults filled in; or the faults that forbid it."""

    values: dict[str, Any]
    errors: tuple[FieldError, ...] = ()


def check_arguments(spec: ToolSpec, arguments: Mapping[str, Any]) -> CheckedArguments:
    """Validate against the schema; defaults of unsaid fields are applied to a copy."""
    unfit = find_unfit(arguments)
    if unfit is not None:
        return CheckedArguments({}, (unfit,))
    values = copy.deepcopy(dict(arguments))
    for name, schema in spec.input_schema["properties"].items():
        if "default" in schema and name not in values:
            values[name] = copy.deepcopy(schema["default"])
    size = len(compact_json(values))
    fault = _costs(spec, values, size)
    if fault is not None:
        return CheckedArguments({}, (fault,))
    errors = tuple(_errors(spec, values, size))
    return CheckedArguments({} if errors else values, errors)


def _costs(spec: ToolSpec, values: dict[str, Any], size: int) -> FieldError | None:
    """Arguments that would hold up everyone for long; nothing can interrupt the validator."""
    if count_values(values) * spec.cost.values > MAX_CHECKS:
        return FieldError("", "too many values to match against this schema", "fewer at a time")
    if size * spec.cost.steps > MAX_MATCHING:
        return FieldError("", "too much text to match against the patterns of this schema", "less")
    return None


def _errors(spec: ToolSpec, values: dict[str, Any], size: int) -> Iterator[FieldError]:
    """At most `MAX_FAULTS`, and how many more there are.

    The validator lists all faults before it hands out one: as many as values times rules, each
    with its whole path. Where that could be gigabytes, only the first is asked for.
    """
    if spec.validator.is_valid(values):
        return
    if size * spec.cost.characters > MAX_WORK or _longest_key(values) > MAX_MESSAGE:
        try:
            spec.validator.validate(values)
        except jsonschema_rs.ValidationError as error:
            yield from islice(_faults(error, spec), MAX_FAULTS)
        return
    faults = (fault for e in spec.validator.iter_errors(values) for fault in _faults(e, spec))
    yield from islice(faults, MAX_FAULTS)
    more = sum(1 for _ in faults)
    if more:
        yield FieldError("", f"and {more} more faults")


def find_unfit(arguments: Any) -> FieldError | None:
    """The first thing in untrusted arguments that is not safe JSON, before anything copies them."""
    if not isinstance(arguments, Mapping):
        return FieldError("", f"{type(arguments).__name__} given", "an object")
    unfit = next(_unfit(arguments, "", 0), None)
    if unfit is None and len(compact_json(arguments).encode("utf-8")) > MAX_BYTES:
        return FieldError("", "too large", f"at most {MAX_BYTES} bytes")
    return unfit


def describe(schema: Mapping[str, Any] | bool) -> str:
    """What a field takes, in a few words: its enum, or type, format and bounds."""
    if isinstance(schema, bool):  # a schema too: it takes anything, or nothing
        return "any value" if schema else "nothing"
    if "enum" in schema:
        return f"one of {compact_json(schema['enum'])}"
    kind = schema.get("type", "any value")
    words = [" or ".join(kind) if isinstance(kind, list) else str(kind)]
    if kind == "array" and "items" in schema:
        words.append(f"of {describe(schema['items'])}")
    if "format" in schema:
        words.append(f"({schema['format']})")
    words += [f"{key} {schema[key]}" for key in _BOUNDS if key in schema]
    return " ".join(words)


def _faults(error: jsonschema_rs.ValidationError, spec: ToolSpec) -> Iterator[FieldError]:
    steps = [str(step) for step in error.instance_path]
    schema = _schema_at(spec.input_schema, steps)
    if error.kind.name == "required":
        missing = str(error.kind.as_dict()["property"])
        expected = describe(schema.get("properties", {}).get(missing, {}))
        yield FieldError(".".join([*steps, missing]), "required, but not given", expected)
    elif error.kind.name == "additionalProperties":
        expected = f"only {', '.join(schema.get('properties', {}))}"
        for name in error.kind.as_dict()["unexpected"]:
            yield FieldError(".".join([*steps, str(name)]), "no such field", expected)
    else:
        yield FieldError(".".join(steps), error.message[:MAX_MESSAGE], describe(schema))


def _schema_at(schema: Mapping[str, Any], steps: Sequence[str]) -> Mapping[str, Any]:
    """The part of a schema that rules a place; empty where `$ref` or `anyOf` hides it."""
    for step in steps:
        inner = schema.get("properties", {}).get(step, schema.get("items"))
        schema = inner if isinstance(inner, Mapping) else {}
    return schema


def _unfit(value: Any, path: str, depth: int) -> Iterator[FieldError]:
    """Values that JSON, SQLite or another system would change or choke on."""
    if depth > MAX_DEPTH:
        yield FieldError(path, f"nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                yield FieldError(path, f"key {key!r} is not text")
            elif not _encodable(key):
                yield FieldError(path, "a key holds half of a surrogate pair")
            else:
                yield from _unfit(inner, _below(path, key), depth + 1)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _unfit(inner, _below(path, str(place)), depth + 1)
    elif isinstance(value, str):
        if not _encodable(value):
            yield FieldError(path, "text holds half of a surrogate pair")
    elif isinstance(value, float) and not math.isfinite(value):
        yield FieldError(path, "not a finite number")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        yield FieldError(path, f"integer beyond {MAX_INTEGER}; pass it as text")
    elif value is not None and not isinstance(value, bool | int | float):
        yield FieldError(path, f"{type(value).__name__} is not a JSON value")


def _longest_key(value: Any) -> int:
    if isinstance(value, Mapping):
        return max((max(len(key), _longest_key(inner)) for key, inner in value.items()), default=0)
    return max(map(_longest_key, value), default=0) if isinstance(value, list | tuple) else 0


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _below(path: str, step: str) -> str:
    """The path of a field; no longer than is shown, since every value has one."""
    return f"{path}.{step}"[:MAX_MESSAGE] if path else step[:MAX_MESSAGE]


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
