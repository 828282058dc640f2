"""A tool's schema made longer by optional fields that nobody asks for.

They have no defaults, so that a call, its stored arguments and the world are what they were.
"""

from __future__ import annotations

import dataclasses
from random import Random

from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.gateway.schema_growth import add_fields, quarter_characters
from breadcrumbs.gateway.synthetic import optional_fields
from breadcrumbs.messages import compact_json


def schema_length(spec: ToolSpec) -> int:
    """Tokens of a tool's schema, four characters each."""
    return quarter_characters(compact_json(dict(spec.input_schema)))


def lengthened(spec: ToolSpec, tokens: int) -> ToolSpec:
    """The tool with a schema of about so many tokens, never more; one that is longer stays.

    The required fields stay in front; the tool's own optional ones stand anywhere among the others.
    """
    rng = Random(f"{spec.name}/{tokens}")
    properties = dict(spec.input_schema["properties"])
    missing = tokens - schema_length(spec)
    if missing <= 0:
        return spec
    add_fields(properties, optional_fields(rng, properties), missing, quarter_characters)
    longer = _of(spec, properties)
    while schema_length(longer) > tokens and len(properties) > len(spec.input_schema["properties"]):
        properties.popitem()
        longer = _of(spec, properties)
    optional = [name for name in properties if name not in spec.required]
    rng.shuffle(optional)
    return _of(spec, {name: properties[name] for name in (*spec.required, *optional)})


def _of(spec: ToolSpec, properties: dict[str, object]) -> ToolSpec:
    schema = {**spec.input_schema, "properties": properties}
    return dataclasses.replace(spec, input_schema=schema)
