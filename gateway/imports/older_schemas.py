"""Keywords of older drafts and of OpenAPI 3.0, rewritten in the words of JSON Schema 2020-12."""

from __future__ import annotations

from typing import Any

_NULL = {"type": "null"}


def modernise(raw: dict[str, Any]) -> dict[str, Any]:
    """A shallow copy of one subschema in today's words; what is inside it stays as it is."""
    node = dict(raw)
    _exclusive_bounds(node)
    _tuples(node)
    _dependencies(node)
    _examples(node)
    if isinstance(node.get("required"), bool):  # a property's word about itself, not a list
        del node["required"]
    return _nullable(node)


def _exclusive_bounds(node: dict[str, Any]) -> None:
    for exclusive, plain in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(exclusive), bool) and node.pop(exclusive) and plain in node:
            node[exclusive] = node.pop(plain)


def _tuples(node: dict[str, Any]) -> None:
    if isinstance(node.get("items"), list):
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node["additionalItems"]


def _dependencies(node: dict[str, Any]) -> None:
    older = node.get("dependencies")
    if not isinstance(older, dict):
        return
    names = {key: value for key, value in older.items() if isinstance(value, list)}
    schemas = {key: value for key, value in older.items() if not isinstance(value, list)}
    if names:
        node.setdefault("dependentRequired", names)
    if schemas:
        node.setdefault("dependentSchemas", schemas)


def _examples(node: dict[str, Any]) -> None:
    if "example" in node:
        node.setdefault("examples", [node["example"]])
    if "examples" in node and not isinstance(node["examples"], list):
        node["examples"] = [node["examples"]]


def implied_type(node: dict[str, Any]) -> tuple[str, ...]:
    """The type that a schema without one means: whoever lists properties means an object."""
    if isinstance(node.get("properties"), dict):
        return ("object",)
    return ("array",) if "items" in node or "prefixItems" in node else ()


def _nullable(node: dict[str, Any]) -> dict[str, Any]:
    if node.get("nullable") is not True:
        return node
    kind = node.get("type")
    if kind is None:
        inner = {key: value for key, value in node.items() if key != "nullable"}
        return {"anyOf": [inner, dict(_NULL)]} if inner else inner
    node["type"] = [*(kind if isinstance(kind, list) else [kind]), "null"]
    if isinstance(node.get("enum"), list) and None not in node["enum"]:
        node["enum"] = [*node["enum"], None]
    return node
