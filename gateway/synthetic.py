"""Synthetic tools in any number, with schemas of any length: for scale, never for meaning.

(seed, index, length) fixes a tool to the byte, whatever else is made beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.schema_growth import Count, add_fields, quarter_characters
from breadcrumbs.gateway.synthetic_words import (
    ATTRIBUTES,
    CHOICES,
    ENTITIES,
    PADDING,
    PARTS,
    QUALIFIERS,
    REMARKS,
    VERBS,
)
from breadcrumbs.messages import compact_json

MIN_SCHEMA_TOKENS, MAX_SCHEMA_TOKENS = 100, 32_000
_THINGS = tuple((domain, thing) for domain, things in ENTITIES for thing in things.split())
_NAMES = len(VERBS) * len(QUALIFIERS) * len(_THINGS)
_STRIDE = 1_000_003
"""Prime to `_NAMES`: a walk in such steps meets every name once before it comes round."""
_MAX_NESTING = 3
_ROOMY = 300
"""Tokens from which a schema has room for several required fields."""
Field = dict[str, Any]


def synthetic_catalog(size: int, seed: int = 0, schema_tokens: int = 200) -> Catalog:
    """A catalog of `size` synthetic tools with distinct names."""
    specs = (synthetic_tool(seed, index, schema_tokens) for index in range(size))
    return Catalog({spec.name: spec for spec in specs})


def synthetic_tool(
    seed: int, index: int, schema_tokens: int, count: Count = quarter_characters
) -> ToolSpec:
    """One tool whose schema, as compact JSON, is `schema_tokens` long, or a word more.

    The length is measured by `count`. Tools of one seed have names of their own.

    Raises:
        CatalogError: the length is outside 100 to 32 000 or too short for how `count` counts, or
            the index is below zero.
    """
    if not MIN_SCHEMA_TOKENS <= schema_tokens <= MAX_SCHEMA_TOKENS:
        raise CatalogError(
            f"schema_tokens is {schema_tokens};"
            f" give {MIN_SCHEMA_TOKENS} to {MAX_SCHEMA_TOKENS} tokens"
        )
    if index < 0:
        raise CatalogError(f"index is {index}; count tools from 0")
    lap, place = divmod(index, _NAMES)
    place = (place * _STRIDE + seed) % _NAMES
    place, verb_place = divmod(place, len(VERBS))
    qualifier_place, thing_place = divmod(place, len(_THINGS))
    verb, doing, risk = VERBS[verb_place]
    domain, thing = _THINGS[thing_place]
    qualifier = QUALIFIERS[qualifier_place]
    rng = Random(f"{seed}/{index}")
    return ToolSpec(
        name=f"{verb}_{qualifier}_{thing}" + (f"_{lap + 1}" if lap else ""),
        description=f"{doing} the {qualifier} {thing}. {rng.choice(REMARKS)}",
        input_schema=_schema(rng, thing, schema_tokens, count),
        risk=risk,
        domain=f"synthetic_{domain}",
        requires_approval=risk != "read",
    )


def _schema(rng: Random, thing: str, tokens: int, count: Count) -> Field:
    required = {f"{thing}_id": _identifier(rng, thing)}
    more = rng.randint(0, 3) if tokens >= _ROOMY else 0
    for attribute in rng.sample(ATTRIBUTES, more):
        required[attribute] = rng.choice((_choice, _moment, _text))(rng, attribute)
    schema = {
        "type": "object",
        "required": list(required),
        "properties": required,
        "additionalProperties": False,
    }
    _grow(schema, rng, tokens, count)
    _pad(schema, tokens, count)
    return schema


def _grow(schema: Field, rng: Random, tokens: int, count: Count) -> None:
    """Optional fields as far as they fit: first of every kind, then plain ones into the rest."""
    properties = schema["properties"]
    for makers in (_EVERY_KIND, _PLAIN):
        while (missing := tokens - count(compact_json(schema))) > 0:
            add_fields(properties, _fields(rng, properties, makers), missing, count)
        while count(compact_json(schema)) > tokens:
            if len(properties) == len(schema["required"]):
                raise CatalogError(f"{tokens} tokens, so counted, hold no schema; give more")
            properties.popitem()


def _pad(schema: Field, tokens: int, count: Count) -> None:
    """Words on the last field's description, up to the length."""
    last = schema["properties"][next(reversed(schema["properties"]))]
    last["description"] = last["description"].rstrip(".")
    words = 0
    while count(compact_json(schema)) < tokens:
        last["description"] += f" {PADDING[words % len(PADDING)]}"
        words += 1


def optional_fields(rng: Random, taken: dict[str, Field]) -> Iterator[tuple[str, Field]]:
    """Fields of every kind without end, under names that are not in `taken`; none has a default."""
    for name, field in _fields(rng, taken, _EVERY_KIND):
        yield name, _without_defaults(field)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_defaults(v) for k, v in value.items() if k != "default"}
    return value


def _fields(
    rng: Random, taken: dict[str, Field], makers: tuple[_Maker, ...], depth: int = 1
) -> Iterator[tuple[str, Field]]:
    """Fields without end, under names that are not taken."""
    while True:
        part, attribute = rng.choice(PARTS), rng.choice(ATTRIBUTES)
        name = rng.choice((attribute, f"{part}_{attribute}"))
        if name in taken:
            name = f"{name}_{len(taken)}"
        if depth < _MAX_NESTING and makers is _EVERY_KIND and rng.random() < 0.15:
            yield name, _nested(rng, attribute, depth)
        else:
            yield name, rng.choice(makers)(rng, attribute)


def _nested(rng: Random, attribute: str, depth: int) -> Field:
    inner: dict[str, Field] = {}
    for name, field in _fields(rng, inner, _EVERY_KIND, depth + 1):
        inner[name] = field
        if len(inner) == 2 or rng.random() < 0.3:
            break
    thing = {
        "type": "object",
        "description": _about(rng, attribute),
        "properties": inner,
        "additionalProperties": False,
    }
    if rng.random() < 0.5:
        thing["required"] = [next(iter(inner))]
    if rng.random() < 0.3:
        return {"type": "array", "description": thing.pop("description"), "items": thing}
    return thing


def _about(rng: Random, attribute: str) -> str:
    text = rng.choice(
        (f"The {attribute}.", f"{attribute.capitalize()} to use.", f"Its {attribute}.")
    )
    return f"{text} {rng.choice(REMARKS)}" if rng.random() < 0.3 else text


def _identifier(rng: Random, attribute: str) -> Field:
    prefix = attribute[:3]
    return {
        "type": "string",
        "description": f"Which {attribute}, such as {prefix}_{rng.randrange(16**6):06x}.",
        "pattern": f"^{prefix}_[0-9a-f]{{6}}$",
    }


def _text(rng: Random, attribute: str) -> Field:
    return {
        "type": "string",
        "description": _about(rng, attribute),
        "maxLength": rng.choice((64, 255, 2000)),
    }


def _choice(rng: Random, attribute: str) -> Field:
    choices = list(rng.choice(CHOICES))
    field = {"type": "string", "description": _about(rng, attribute), "enum": choices}
    if rng.random() < 0.5:
        field["default"] = rng.choice(choices)
    return field


def _moment(rng: Random, attribute: str) -> Field:
    kind = rng.choice(("date", "date-time"))
    return {"type": "string", "description": _about(rng, attribute), "format": kind}


def _whole(rng: Random, attribute: str) -> Field:
    top = rng.choice((10, 100, 365, 10_000))
    field = {"type": "integer", "description": _about(rng, attribute), "minimum": 0, "maximum": top}
    if rng.random() < 0.5:
        field["default"] = rng.randint(0, top)
    return field


def _amount(rng: Random, attribute: str) -> Field:
    return {"type": "number", "description": _about(rng, attribute), "exclusiveMinimum": 0}


def _switch(rng: Random, attribute: str) -> Field:
    text = f"Whether the {attribute} counts."
    return {"type": "boolean", "description": text, "default": rng.random() < 0.5}


def _nullable(rng: Random, attribute: str) -> Field:
    kinds = [{"type": rng.choice(("string", "integer", "number"))}, {"type": "null"}]
    return {"anyOf": kinds, "description": _about(rng, attribute), "default": None}


def _several(rng: Random, attribute: str) -> Field:
    item = {"type": "string", "enum": list(rng.choice(CHOICES))}
    return {
        "type": "array",
        "description": _about(rng, attribute),
        "items": rng.choice((item, {"type": "string"})),
        "maxItems": rng.choice((5, 20, 50)),
        "uniqueItems": True,
    }


def _mapping(rng: Random, attribute: str) -> Field:
    values = {"type": rng.choice(("string", "number"))}
    text = _about(rng, attribute)
    return {"type": "object", "description": text, "additionalProperties": values}


_Maker = Callable[[Random, str], Field]
_PLAIN: tuple[_Maker, ...] = (_text, _moment, _amount, _switch)
_EVERY_KIND: tuple[_Maker, ...] = (
    *_PLAIN,
    _identifier,
    _choice,
    _whole,
    _nullable,
    _several,
    _mapping,
)
