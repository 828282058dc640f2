"""Bring any tool's argument schema to the project's shape, or refuse it with a reason.

The outcome is plain JSON Schema 2020-12: an object with `properties` and `required`, closed unless
it says otherwise, every `$ref` written out, only known keywords, within the bounds below. Doing it
twice changes nothing. Nothing is fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.arguments import MAX_INTEGER
from breadcrumbs.gateway.imports.older_schemas import implied_type, modernise
from breadcrumbs.gateway.imports.references import resolve_pointer
from breadcrumbs.gateway.imports.schema_checks import (
    MAX_BYTES,
    check_compiles,
    check_values,
    without_lying_defaults,
)
from breadcrumbs.gateway.imports.type_words import Type, read_type

MAX_DEPTH = 32
MAX_SUBSCHEMAS = 10_000
_FREE_SUBSCHEMAS, _SHORTEST = 1_000, len("{}")
"""A schema that carries its own definitions may become this many subschemas, beyond those that it
could write out itself: thousands of short tools that all grow to the bound would take hours.
"""
MAX_PROPERTIES = 500
"""Of one object."""
MAX_UNEVALUATED = 4
"""`unevaluated…` inside one another: the validator's work doubles with each."""
_MAX_PATH = 128
"""Characters of a path that are kept: every subschema has one."""

_ARGUMENT_NAME = re.compile(r"[\w$@.\[\]:/-]{1,128}")
"""Names of arguments enter the breadcrumb: no quotes, spaces, braces or line ends."""
_ANNOTATIONS = frozenset("title description default examples deprecated readOnly writeOnly".split())
_SCHEMA = frozenset(
    "additionalProperties contains else if items not propertyNames then unevaluatedItems"
    " unevaluatedProperties".split()
)
_SCHEMA_MAP = frozenset("dependentSchemas patternProperties properties".split())
_SCHEMA_LIST = frozenset("allOf anyOf oneOf prefixItems".split())
_BOUNDS = frozenset("exclusiveMaximum exclusiveMinimum maximum minimum".split())
_AS_IS = _ANNOTATIONS | frozenset(
    "const contentEncoding contentMediaType dependentRequired enum format maxContains maxItems"
    " maxLength maxProperties minContains minItems minLength minProperties multipleOf pattern"
    " required uniqueItems".split()
)
_WEIGHED = _AS_IS | {"type"}


@dataclass(frozen=True, slots=True)
class Normalised:
    """A schema in the project's shape, and what had to be left out or added on the way."""

    schema: dict[str, Any]
    notes: tuple[str, ...] = ()


def normalise(raw: Any, document: Any = None) -> Normalised:
    """The schema of a tool's arguments in the project's shape.

    Args:
        raw: plain JSON values, as `reading` returns them; `None` means no arguments.
        document: what `#/` pointers look into, where that is not `raw` itself.

    Raises:
        CatalogError: it breaks a bound, points outside or at itself, or is no schema of an
            object. The message is the reason alone; the caller knows which tool it is.
    """
    if document is None:
        own = _FREE_SUBSCHEMAS + _length(raw) // _SHORTEST
        walk = _Walk(raw, min(MAX_SUBSCHEMAS, own))
    else:
        walk = _Walk(document)
    body = walk.schema({} if raw is None else raw, "", 1, ())
    shaped = _as_arguments(body, walk.notes)
    check_compiles(shaped)
    return Normalised(without_lying_defaults(shaped, walk.notes), tuple(walk.notes))


@dataclass
class _Walk:
    """One pass over one schema: counts what it has seen, and remembers what it changed."""

    document: Any
    most: int = MAX_SUBSCHEMAS
    notes: list[str] = field(default_factory=list)
    seen: int = 0
    size: int = 0
    """Characters of what is kept, references written out."""
    unevaluated: int = 0
    """How many of the subschemas around this one have an `unevaluated…`."""

    def schema(self, raw: Any, path: str, depth: int, inside: tuple[str, ...]) -> dict[str, Any]:
        """One subschema; `inside` are the pointers that are being written out around it."""
        self.seen += 1
        if self.seen > self.most:
            raise CatalogError(f"more than {self.most} subschemas, references written out")
        if depth > MAX_DEPTH:
            raise CatalogError(f"nested deeper than {MAX_DEPTH} levels at {_place(path)}")
        if isinstance(raw, bool):
            return {} if raw else {"not": {}}
        if isinstance(raw, str):
            raw = {"type": raw}
        if not isinstance(raw, dict):
            raise CatalogError(f"{_place(path)} is {type(raw).__name__}, not a schema")
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in raw:
                raise CatalogError(f"{keyword} at {_place(path)} cannot be written out")
        self._weigh(len(raw))
        node = modernise(raw)
        if "$ref" in node:
            return self._reference(node, path, depth, inside)
        return self._keywords(node, path, depth, inside)

    def _reference(
        self, node: dict[str, Any], path: str, depth: int, inside: tuple[str, ...]
    ) -> dict[str, Any]:
        pointer = node.pop("$ref")
        target = resolve_pointer(self.document, pointer)
        self._weigh(len(pointer))
        if pointer in inside:
            raise CatalogError(f"the schema holds itself: $ref {pointer[:80]!r}; limit its depth")
        found = self.schema(target, path, depth + 1, (*inside, pointer))
        beside = self._keywords(node, path, depth, inside)
        if set(beside) <= _ANNOTATIONS:
            return {**found, **beside}
        return {**beside, "allOf": [*beside.get("allOf", ()), found]}

    def _keywords(
        self, node: dict[str, Any], path: str, depth: int, inside: tuple[str, ...]
    ) -> dict[str, Any]:
        shaped: dict[str, Any] = {}
        self._weigh(sum(_length(value) for key, value in node.items() if key in _WEIGHED))
        self._nest(node, path)
        kind = read_type(node["type"]) if "type" in node else Type()
        if kind.items is not None:
            node.setdefault("items", kind.items)
        names = kind.names or implied_type(node)
        if names:
            shaped["type"] = names[0] if len(names) == 1 else list(names)
        for key, value in node.items():
            place = _below(path, key)
            if key in _AS_IS:
                shaped[key] = value
            elif key in _BOUNDS:
                self._bound(shaped, key, value)
            elif key in _SCHEMA:
                plain = isinstance(value, bool)
                shaped[key] = value if plain else self.schema(value, place, depth + 1, inside)
            elif key in _SCHEMA_LIST:
                shaped[key] = [
                    self.schema(inner, _below(place, str(index)), depth + 1, inside)
                    for index, inner in enumerate(_listed(value, place))
                ]
            elif key in _SCHEMA_MAP:
                shaped[key] = self._members(value, place, depth, inside)
        self.unevaluated -= _unevaluated(node)
        self._require(shaped, node, path)
        check_values(shaped, _place(path))
        return shaped

    def _members(
        self, value: Any, place: str, depth: int, inside: tuple[str, ...]
    ) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise CatalogError(f"{_place(place)} is {type(value).__name__}, not a map of schemas")
        if len(value) > MAX_PROPERTIES:
            raise CatalogError(f"{len(value)} entries in {_place(place)}; at most {MAX_PROPERTIES}")
        self._weigh(sum(map(len, value)))
        return {
            name: self.schema(inner, _below(place, name), depth + 1, inside)
            for name, inner in value.items()
        }

    def _weigh(self, characters: int) -> None:
        """Stops before references to a few large parts are written out into gigabytes."""
        self.size += characters
        if self.size > MAX_BYTES:
            raise CatalogError(f"over {MAX_BYTES} bytes, references written out; make it shorter")

    def _nest(self, node: Mapping[str, Any], path: str) -> None:
        self.unevaluated += _unevaluated(node)
        if self.unevaluated > MAX_UNEVALUATED:
            raise CatalogError(
                f"more than {MAX_UNEVALUATED} unevaluatedProperties or unevaluatedItems inside one"
                f" another at {_place(path)}"
            )

    def _bound(self, shaped: dict[str, Any], key: str, value: Any) -> None:
        """Whole numbers end at 2^53 here anyway, so a bound beyond it says nothing."""
        beyond = isinstance(value, int) and abs(value) > MAX_INTEGER
        if beyond and (value > 0) is ("aximum" in key):
            self.notes.append(f"{key} beyond 2^53 left out")
        else:
            shaped[key] = value

    def _require(self, shaped: dict[str, Any], node: Mapping[str, Any], path: str) -> None:
        """One list of names, from what the object says and what its properties say."""
        properties = node.get("properties")
        members = properties if isinstance(properties, dict) else {}
        listed = shaped.pop("required", [])
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            raise CatalogError(f"required at {_place(path)} is not a list of names")
        own = [name for name, inner in members.items() if _says(inner, "required") is True]
        names = [name for name in dict.fromkeys([*listed, *own]) if not _is_optional(members, name)]
        if names:
            shaped["required"] = names


def _unevaluated(node: Mapping[str, Any]) -> int:
    return sum(key in node for key in ("unevaluatedItems", "unevaluatedProperties"))


def _length(value: Any) -> int:
    """Characters of a plain value's JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _is_optional(members: Mapping[str, Any], name: str) -> bool:
    """Whether a property says of itself that it may be left out."""
    inner = members.get(name)
    kind = _says(inner, "type") if isinstance(inner, dict) else inner
    if _says(inner, "optional") is True or _says(inner, "required") is False:
        return True
    return isinstance(kind, str) and read_type(kind).optional


def _says(raw: Any, key: str) -> Any:
    return raw.get(key) if isinstance(raw, dict) else None


def _as_arguments(body: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    kind = body.get("type", "object")
    if "object" not in ([kind] if isinstance(kind, str) else kind):
        raise CatalogError(f"arguments are {kind!r}; a tool takes an object")
    properties: dict[str, Any] = body.get("properties", {})
    required = body.get("required", [])
    for name in [*properties, *required]:
        if not _ARGUMENT_NAME.fullmatch(name):
            raise CatalogError(
                f"argument name {name[:80]!r}: use letters, digits, _ . : / - $ @ []"
            )
    for name in required:
        if name not in properties:
            notes.append(f"required {name!r} had no schema; it takes any value")
    rest = {
        key: value
        for key, value in body.items()
        if key not in ("type", "properties", "required", "title", "default", "additionalProperties")
    }
    first = {name: properties.get(name, {}) for name in required}
    return {
        "type": "object",
        "required": required,
        "properties": {**first, **properties},
        # Closed, so that a made-up argument is refused, unless that would refuse a real one.
        "additionalProperties": body.get("additionalProperties", _brings_names(rest, properties)),
        **rest,
    }


def _brings_names(schema: Mapping[str, Any], known: Collection[str]) -> bool:
    """Whether a part that rules the same object, such as `anyOf`, has properties of its own."""
    if set(schema.get("properties", ())) - set(known) or "patternProperties" in schema:
        return True
    parts = [schema[key] for key in ("if", "then", "else", "not") if key in schema]
    parts += [part for key in ("allOf", "anyOf", "oneOf") for part in schema.get(key, ())]
    parts += schema.get("dependentSchemas", {}).values()
    return any(isinstance(part, dict) and _brings_names(part, known) for part in parts)


def _listed(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise CatalogError(f"{_place(place)} is {type(value).__name__}, not a list of schemas")
    return value


def _below(path: str, step: str) -> str:
    return f"{path}/{step}"[:_MAX_PATH]


def _place(path: str) -> str:
    return path.strip("/")[:120] or "the root"
