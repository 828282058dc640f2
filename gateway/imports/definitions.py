"""Tool definitions in the shapes the world writes them in, recognised by their content.

MCP's `tools/list`, OpenAI's tools and functions, BFCL's function docs, alone, in lists, in request
or response bodies, and one a line. OpenAPI and the project's own files have modules of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from breadcrumbs.gateway.catalog import Risk
from breadcrumbs.gateway.imports.drafts import Draft, Refusal, domain_name, highest, hint_of

Found = Iterator[Draft | Refusal]
KNOWN = (
    "known are the project's YAML, an MCP tools/list answer, an mcpServers file, OpenAPI 3,"
    " OpenAI tools and BFCL function docs"
)
_PLAIN = {type(None): "empty", str: "text", list: "a list", bool: "true or false"}
"""What stands where a definition should, in words."""
_LISTS = ("tools", "functions", "function")
_NAMES = ("server", "server_name", "serverInfo")


def find_definitions(value: Any, source: str, domain: str, *, upstream: str | None = None) -> Found:
    """Every tool definition in a plain JSON value.

    What is none, where one should stand, is a refusal; nothing is passed over in silence.
    """
    if isinstance(value, list):
        for place, item in enumerate(value):
            yield from find_definitions(item, f"{source}[{place}]", domain, upstream=upstream)
        return
    inner = _listed(value)
    if inner is not None:
        own = domain_name(_server_name(value), domain)
        for place, item in enumerate(inner):
            yield _definition(item, f"{source}[{place}]", own, upstream)
    else:
        yield _definition(value, source, domain, upstream)


def _listed(value: Any) -> list[Any] | None:
    """The list of definitions that a body carries, if it is such a body."""
    if not isinstance(value, Mapping):
        return None
    if isinstance(value.get("result"), Mapping):  # a JSON-RPC answer
        value = value["result"]
    for key in _LISTS:
        if isinstance(value.get(key), list):
            found: list[Any] = value[key]
            return found
    return None


def _server_name(value: Mapping[str, Any]) -> Any:
    for key in _NAMES:
        name = value.get(key)
        if isinstance(name, Mapping):
            name = name.get("name")
        if isinstance(name, str):
            return name
    return None


def _definition(item: Any, source: str, domain: str, upstream: str | None) -> Draft | Refusal:
    if not isinstance(item, Mapping):
        what = _PLAIN.get(type(item), "a number")
        return Refusal(source, f"{source}: {what}, not a tool definition; {KNOWN}")
    body = item["function"] if isinstance(item.get("function"), Mapping) else item
    name = body.get("name")
    shown = name[:128] if isinstance(name, str) and name else source
    kind = item.get("type")
    for key in ("inputSchema", "input_schema", "parameters"):
        if key in body:
            schema = body[key]
            break
    else:
        if kind != "function" or name is None:
            return Refusal(shown, f"{source}: {_unknown(item, kind)}")
        schema = None  # OpenAI: no parameters at all
    return Draft(
        name=name,
        description=body.get("description"),
        schema=schema,
        source=source,
        domain=domain,
        hint=highest(hint_of(item.get("annotations")), _stated(item.get("risk"))),
        upstream=upstream,
    )


def _unknown(item: Mapping[str, Any], kind: Any) -> str:
    if isinstance(kind, str) and kind != "function" and "name" not in item:
        return f"a hosted tool ({kind[:40]!r}) has no schema to import"
    keys = ", ".join(list(item)[:6])[:120]
    return f"no tool definition (keys: {keys}); it needs inputSchema or parameters; {KNOWN}"


def _stated(risk: Any) -> Risk | None:
    """A dump's own word is still its author's: a hint."""
    return Risk(risk) if isinstance(risk, str) and risk in list(Risk) else None
