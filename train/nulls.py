"""Nulls that a table format put into messages or tools, and nobody wrote.

Arrow merges the structs of a column: a row without a key gets it back as null. A legitimate
null survives: one whose schema allows it, or one below a keyword that takes any value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from breadcrumbs.messages import Message, json_object

_ANY_VALUE = frozenset({"default", "enum", "const", "examples"})


def injected_nulls(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Paths of nulls that no schema allows, such as `message 2 search_tool_catalog.tool_names`."""
    found = [f"tools{path}" for path in _nulls_in_schema(list(tools))]
    schemas = {
        str(_function(tool).get("name")): _function(tool).get("parameters") for tool in tools
    }
    for index, message in enumerate(messages):
        if message.role == "tool":
            schemas.update(_disclosed(message.content))
        for call in message.tool_calls:
            paths = _nulls_in_value(call.arguments, schemas.get(call.name), schemas)
            found += [f"message {index} {call.name}{path}" for path in paths]
    return found


def _function(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool


def _disclosed(content: str) -> dict[str, Any]:
    specs = json_object(content).get("disclosed")
    return {spec["name"]: spec.get("inputSchema") for spec in specs or ()}


def _nulls_in_schema(value: Any, path: str = "") -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key not in _ANY_VALUE or path.endswith(".properties"):
                yield from _nulls_in_schema(inner, f"{path}.{key}")
            elif inner is None and key != "default":
                yield f"{path}.{key}"
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _nulls_in_schema(inner, f"{path}[{index}]")


def _nulls_in_value(
    value: Any, schema: Any, schemas: Mapping[str, Any], path: str = ""
) -> Iterator[str]:
    if value is None:
        if not _allows_null(schema):
            yield path
    elif isinstance(value, Mapping):
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        for key, inner in value.items():
            below = properties.get(key) if isinstance(properties, Mapping) else None
            if key == "arguments" and not path and "tool_name" in value:
                below = schemas.get(str(value["tool_name"]), below)  # the disclosed tool's own
            yield from _nulls_in_value(inner, below, schemas, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        below = schema.get("items") if isinstance(schema, Mapping) else None
        for index, inner in enumerate(value):
            yield from _nulls_in_value(inner, below, schemas, f"{path}[{index}]")


def _allows_null(schema: Any) -> bool:
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type")
    named = {kinds} if isinstance(kinds, str) else set(kinds or ())
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return (
        "null" in named
        or None in schema.get("enum", ())
        or any(_allows_null(choice) for choice in choices)
    )
