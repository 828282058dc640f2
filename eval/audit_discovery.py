"""Which tools are for discovery, and harmless arguments to call them with.

Only tools whose name says that they search for tools or show a tool's schema count: an audit
calls nothing else, so it changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

Stage = Literal["search", "schema"]

_THINGS = r"(?:tools?|tool_catalogs?|capabilit(?:y|ies))"
_SEARCH = re.compile(rf"(?:^|_)(?:search|find|list|discover|browse)_(?:[a-z]+_)?{_THINGS}$")
_SCHEMA = re.compile(
    rf"(?:^|_)(?:get|describe|read|show|inspect|fetch|load)_{_THINGS}"
    r"(?:_(?:schemas?|details?|definitions?|infos?|specs?))?$"
)


def stage_of(name: str) -> Stage | None:
    """What a tool of this name is for in discovery; None where it may do anything else."""
    plain = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("-", "_")
    if _SCHEMA.search(plain):
        return "schema"
    return "search" if _SEARCH.search(plain) else None


def arguments_for(schema: Mapping[str, Any], query: str, names: Sequence[str]) -> dict[str, Any]:
    """Arguments for the required parameters of a discovery tool: a query, or tool names."""
    properties = schema.get("properties") or {}
    wanted = [name for name in schema.get("required") or () if name in properties]
    if not wanted and (names or "query" in properties):
        wanted = list(properties)[:1]
    return {name: _filler(name, properties[name], query, names) for name in wanted}


def _filler(name: str, schema: Any, query: str, names: Sequence[str]) -> Any:
    schema = schema if isinstance(schema, Mapping) else {}
    if schema.get("enum"):
        return schema["enum"][0]
    for branch in schema.get("anyOf") or ():
        if isinstance(branch, Mapping) and branch.get("type") != "null":
            return _filler(name, branch, query, names)
    simple: dict[Any, Any] = {"integer": 5, "number": 5, "boolean": False, "object": {}}
    kind = schema.get("type")
    if kind in simple:
        return simple[kind]
    says_query = re.search(r"query|search|text|keyword|question|intent|task", name.lower())
    value = query if says_query or not names else names[0]
    return [value] if kind == "array" else value


def tool_names_in(value: Any) -> list[str]:
    """The names of the tools that a discovery answer lists, in order."""
    found = (item["name"] for item in _objects(value) if isinstance(item.get("name"), str))
    return list(dict.fromkeys(found))


def schemas_in(value: Any) -> dict[str, Mapping[str, Any]]:
    """The argument schemas that a discovery answer discloses, by tool name."""
    found: dict[str, Mapping[str, Any]] = {}
    for item in _objects(value):
        schema = next((s for key in _SCHEMA_KEYS if _is_schema(s := item.get(key))), None)
        if schema is not None and isinstance(item.get("name"), str):
            found.setdefault(item["name"], schema)
    return found


_SCHEMA_KEYS = ("inputSchema", "input_schema", "parameters", "schema")


def _is_schema(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("properties"), Mapping)


def _objects(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Every object of a JSON value down to a few levels; what is inside schemas is no tool."""
    if depth > 4:
        return
    if isinstance(value, Mapping):
        yield value
        for key, inner in value.items():
            if key not in _SCHEMA_KEYS:
                yield from _objects(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner, depth + 1)
