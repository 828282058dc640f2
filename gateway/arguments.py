"""Check what a model sent against a tool's schema, field by field, and fill in defaults."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import compact_json

MAX_DEPTH = 32
MAX_BYTES = 256 * 1024
MAX_INTEGER = 2**53 - 1
"""Beyond it JSON numbers lose digits on their way through other systems."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: where, and what was expected there."""

    path: str
    message: str

    def to_dict(self) -> dict[str, str]:
        """The shape payloads carry."""
        return {"field": self.path, "problem": self.message}


@dataclass(frozen=True, slots=True)
class CheckedArguments:
    """Arguments ready to run, defaults filled in; or the faults that forbid it."""

    values: dict[str, Any]
    errors: tuple[FieldError, ...] = ()


def check_arguments(spec: ToolSpec, arguments: Mapping[str, Any]) -> CheckedArguments:
    """Validate against the schema; defaults of unsaid fields are applied to a copy."""
    unfit = next(_unfit(arguments, "", 0), None)
    if unfit is not None:
        return CheckedArguments({}, (unfit,))
    if len(compact_json(arguments).encode("utf-8")) > MAX_BYTES:
        return CheckedArguments({}, (FieldError("", f"larger than {MAX_BYTES} bytes"),))
    values = copy.deepcopy(dict(arguments))
    for name, schema in spec.input_schema["properties"].items():
        if "default" in schema and name not in values:
            values[name] = copy.deepcopy(schema["default"])
    errors = tuple(_field_error(error, spec) for error in spec.validator.iter_errors(values))
    return CheckedArguments({} if errors else values, errors)


def _field_error(error: jsonschema_rs.ValidationError, spec: ToolSpec) -> FieldError:
    path = ".".join(str(part) for part in error.instance_path)
    if error.kind.name == "required":
        missing = str(error.kind.as_dict()["property"])
        return FieldError(f"{path}.{missing}" if path else missing, "required, but not given")
    if error.kind.name == "additionalProperties":
        unexpected = ", ".join(error.kind.as_dict()["unexpected"])
        known = ", ".join(spec.input_schema["properties"])
        return FieldError(path or unexpected, f"no such field: {unexpected}; fields are: {known}")
    return FieldError(path, error.message)


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
                yield from _unfit(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list | tuple):
        for place, inner in enumerate(value):
            yield from _unfit(inner, f"{path}.{place}", depth + 1)
    elif isinstance(value, str):
        if not _encodable(value):
            yield FieldError(path, "text holds half of a surrogate pair")
    elif isinstance(value, float) and not math.isfinite(value):
        yield FieldError(path, "not a finite number")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        yield FieldError(path, f"integer beyond {MAX_INTEGER}; pass it as text")
    elif value is not None and not isinstance(value, bool | int | float):
        yield FieldError(path, f"{type(value).__name__} is not a JSON value")


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
