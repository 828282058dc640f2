"""OpenAPI 3 documents: one tool for each operation, its parameters and body as arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Risk
from breadcrumbs.gateway.imports.drafts import Draft, Refusal, domain_name
from breadcrumbs.gateway.imports.references import resolve_pointer

_METHODS = ("get", "head", "options", "trace", "put", "post", "patch", "delete")
_HINTS = {"get": Risk.READ, "delete": Risk.DESTRUCTIVE}
"""What a method claims. POST claims nothing: many a search is one, and it counts as a write."""
_NOT_ARGUMENTS = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that OpenAPI itself tells readers to ignore."""
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
_MAX_REFERENCES = 16
"""`$ref` to `$ref` in a row."""


def find_operations(
    document: Mapping[str, Any], source: str, domain: str
) -> Iterator[Draft | Refusal]:
    """One draft for each operation; what cannot be read is refused by its own name.

    Raises:
        CatalogError: the document is not OpenAPI 3, or has no map of paths.
    """
    version = document.get("openapi", document.get("swagger"))
    if not isinstance(version, str) or not version.startswith("3."):
        raise CatalogError(f"{source}: OpenAPI {str(version)[:20]!r}; convert it to OpenAPI 3")
    paths = document.get("paths", {})
    if not isinstance(paths, Mapping):
        raise CatalogError(f"{source}: paths is {type(paths).__name__}, not a map")
    info = document.get("info")
    domain = domain_name(info.get("title") if isinstance(info, Mapping) else None, domain)
    for path, item in paths.items():
        yield from _operations(document, path, item, f"{source}: {path}", domain)


def _operations(
    document: Mapping[str, Any], path: str, item: Any, source: str, domain: str
) -> Iterator[Draft | Refusal]:
    try:
        item = _followed(document, item)
    except CatalogError as error:
        yield Refusal(path[:128], f"{source}: {error}")
        return
    for method in _METHODS:
        operation = item.get(method)
        if operation is None:
            continue
        place = f"{source}: {method.upper()}"
        name = _name(operation, method, path)
        try:
            schema = _arguments(document, item, operation)
        except CatalogError as error:
            yield Refusal(name, f"{place}: {error}")
            continue
        yield Draft(
            name=name,
            description=_description(operation),
            schema=schema,
            source=place,
            domain=domain,
            hint=_HINTS.get(method),
            document=document,
        )


def _name(operation: Any, method: str, path: str) -> str:
    given = operation.get("operationId") if isinstance(operation, Mapping) else None
    text = given if isinstance(given, str) and given else f"{method}{path}"
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", text).strip("_")[:128] or method


def _description(operation: Mapping[str, Any]) -> str:
    parts = [operation.get("summary"), operation.get("description")]
    texts = [part.strip() for part in parts if isinstance(part, str) and part.strip()]
    return "\n".join(dict.fromkeys(texts))


def _arguments(document: Mapping[str, Any], item: Any, operation: Any) -> dict[str, Any]:
    if not isinstance(operation, Mapping):
        raise CatalogError(f"the operation is {type(operation).__name__}, not a map")
    properties: dict[str, Any] = {}
    required: list[str] = []
    for raw in [*_list(item, "parameters"), *_list(operation, "parameters")]:
        parameter = _followed(document, raw)
        name = parameter.get("name")
        if not isinstance(name, str):
            raise CatalogError("a parameter has no name")
        if parameter.get("in") == "header" and name.lower() in _NOT_ARGUMENTS:
            continue
        properties[name] = _parameter_schema(parameter, name)
        if parameter.get("required") is True and name not in required:
            required.append(name)
    if "requestBody" in operation:
        _add_body(document, operation["requestBody"], properties, required)
    return {"type": "object", "properties": properties, "required": required}


def _parameter_schema(parameter: Mapping[str, Any], name: str) -> Any:
    schema = parameter.get("schema")
    content = parameter.get("content")
    if schema is None and isinstance(content, Mapping) and content:
        first = next(iter(content.values()))
        schema = first.get("schema") if isinstance(first, Mapping) else None
    if schema is None:
        schema = {}
    if not isinstance(schema, Mapping):
        raise CatalogError(f"the schema of parameter {name[:80]!r} is no map")
    said = parameter.get("description")
    # A parameter says of itself whether it is required; its schema has no word in that.
    return {**schema, "description": said} if isinstance(said, str) else dict(schema)


def _add_body(
    document: Mapping[str, Any], raw: Any, properties: dict[str, Any], required: list[str]
) -> None:
    """The fields of a plain object join the arguments; any other body is one argument, `body`."""
    body = _followed(document, raw)
    content = body.get("content")
    schema = _body_schema(content if isinstance(content, Mapping) else {})
    flat = _followed(document, schema) if isinstance(schema, Mapping) else {}
    fields = flat.get("properties")
    mixed = {"allOf", "anyOf", "oneOf"} & set(flat) or flat.get("additionalProperties")
    if isinstance(fields, Mapping) and not mixed and not set(fields) & set(properties):
        sent = {name: inner for name, inner in fields.items() if not _is_read_only(inner)}
        properties.update(sent)
        if body.get("required") is True:
            required += [name for name in _list(flat, "required") if name in sent]
        return
    name = "body" if "body" not in properties else "request_body"
    properties[name] = schema
    if body.get("required") is True:
        required.append(name)


def _body_schema(content: Mapping[str, Any]) -> Any:
    for kind, media in content.items():
        is_json = kind.split(";")[0].strip().endswith(("/json", "+json"))
        if (is_json or kind in _FORMS) and isinstance(media, Mapping):
            return media.get("schema", {})
    return {"type": "string"}


def _is_read_only(inner: Any) -> bool:
    return isinstance(inner, Mapping) and inner.get("readOnly") is True


def _followed(document: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
    """What stands at the end of a chain of local references."""
    for _ in range(_MAX_REFERENCES):
        if not isinstance(value, Mapping):
            raise CatalogError(f"expected a map, got {type(value).__name__}")
        if "$ref" not in value:
            return value
        value = resolve_pointer(document, value["$ref"])
    raise CatalogError(f"more than {_MAX_REFERENCES} references in a row")


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key, [])
    if not isinstance(found, list):
        raise CatalogError(f"{key} is {type(found).__name__}, not a list")
    return found
