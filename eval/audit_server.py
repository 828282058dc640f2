"""Ask a live MCP server for its discovery payloads, and check how each ends.

A server with tools for discovery (a search, a schema reader) is asked through them, with a tool
that exists and one that does not. A server without discloses everything by `tools/list`; there
the last word a server has is its `instructions`, which must name the next call. No other tool is
called.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.eval.audit import AuditReport, Finding
from breadcrumbs.eval.audit_discovery import arguments_for, stage_of, tool_names_in
from breadcrumbs.eval.audit_payloads import Payload, check_payload, payload_of_text

TIMEOUT_S = 30.0
MAX_PAGES = 100
NO_SUCH_TOOL = "no_such_tool_audit"
_SUMMONS = re.compile(r"\b(?:call|use|invoke|run|execute)\b", re.IGNORECASE)
_MEND_LIST = (
    "put the server behind `breadcrumbs gateway serve`, whose payloads end with the next call, or"
    " end the server's instructions with one: 'Call TOOL(FIELDS) now; ask only for a required"
    " value found nowhere.'"
)


@dataclass(frozen=True, slots=True)
class ServerSource:
    """How to reach one MCP server: an address, or a command with its environment."""

    name: str
    url: str = ""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    schema: Mapping[str, Any]
    may_write: bool


def read_sources(words: Sequence[str], entry: str | None = None) -> list[ServerSource]:
    """The servers that the command line names: a url, a JSON file, or a command.

    Raises:
        DataError: nothing is named, the file is no `mcpServers` file, or an entry is not usable.
    """
    first = words[0] if words else ""
    if len(words) == 1 and first.startswith(("http://", "https://")):
        return [ServerSource(first, url=first)]
    if len(words) == 1 and first.endswith(".json"):
        return _entries(Path(first), entry)
    command = shlex.split(first) if len(words) == 1 else list(words)
    if not command:
        raise DataError("name a server: a url, an mcpServers JSON file, or a command")
    return [ServerSource(" ".join(command), command=tuple(command))]


def _entries(path: Path, entry: str | None) -> list[ServerSource]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot read: {error.strerror or error}") from error
    except ValueError as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    servers = data.get("mcpServers") if isinstance(data, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise DataError(f"{path}: needs an object 'mcpServers' with at least one entry")
    if entry is not None and entry not in servers:
        raise DataError(f"{path}: no entry {entry!r}; there are {', '.join(servers)}")
    chosen = servers if entry is None else {entry: servers[entry]}
    return [_source(f"{path}: {name}", name, value) for name, value in chosen.items()]


def _source(where: str, name: str, value: Any) -> ServerSource:
    if isinstance(value, dict) and isinstance(value.get("url"), str):
        if value.get("headers"):
            raise DataError(f"{where}: headers are not sent by the audit; name a url without")
        return ServerSource(name, url=value["url"])
    if not isinstance(value, dict) or not isinstance(value.get("command"), str):
        raise DataError(f"{where}: needs 'command' (text) or 'url' (text)")
    arguments, env = value.get("args", []), value.get("env", {})
    if not isinstance(arguments, list) or not isinstance(env, dict):
        raise DataError(f"{where}: args is a list, env an object")
    command = (value["command"], *(str(argument) for argument in arguments))
    return ServerSource(name, "", command, {str(k): str(v) for k, v in env.items()})


def audit_server(source: ServerSource, timeout_s: float = TIMEOUT_S) -> AuditReport:
    """Check one server's discovery payloads.

    Raises:
        DataError: it cannot be started or reached, or does not answer in time.
    """
    from httpx2 import HTTPError
    from mcp import MCPError

    try:
        return asyncio.run(_audit(source, timeout_s))
    except TimeoutError as error:
        raise DataError(f"{source.name}: no answer within {timeout_s:g} s") from error
    except (OSError, MCPError, HTTPError) as error:
        raise _unreachable(source, error) from error
    except BaseExceptionGroup as group:
        known, other = group.split((OSError, MCPError, HTTPError, TimeoutError))
        if other is not None:
            raise
        raise _unreachable(source, _first(known or group)) from group


def _unreachable(source: ServerSource, error: BaseException) -> DataError:
    how = "is the address an MCP endpoint?" if source.url else "does the command start one?"
    return DataError(
        f"{source.name}: no MCP server answers: {error or type(error).__name__}; {how}"
    )


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _audit(source: ServerSource, timeout_s: float) -> AuditReport:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async with asyncio.timeout(timeout_s):
        if source.url:
            async with Client(source.url) as client:
                return await _checked(source.name, client)
        command, *arguments = source.command
        parameters = StdioServerParameters(
            command=command, args=arguments, env=dict(source.env) or None
        )
        # What the server writes to its stderr is its own talk, not part of a report.
        with Path(os.devnull).open("w", encoding="utf-8") as quiet:
            async with Client(stdio_client(parameters, errlog=quiet)) as client:
                return await _checked(source.name, client)


async def _checked(name: str, client: Any) -> AuditReport:
    tools = await _tools(client)
    by_stage = {stage: [t for t in tools if stage_of(t.name) == stage] for stage in _STAGES}
    skipped = [t.name for stage in _STAGES for t in by_stage[stage] if t.may_write]
    notes = tuple(f"{name} says that it may write, so it was not called" for name in skipped)
    payloads = await _discover(client, tools, by_stage)
    findings = [finding for payload in payloads for finding in check_payload(payload)]
    if not payloads:
        findings += _check_list(tools, client.instructions or "")
    checked = {"tools": len(tools), "discovery payloads": len(payloads) or 1}
    return AuditReport("server", name, checked, tuple(findings), notes)


_STAGES = ("search", "schema")


async def _tools(client: Any) -> list[_Tool]:
    found: list[_Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            hints = tool.annotations
            may_write = hints is not None and hints.read_only_hint is False
            found.append(_Tool(tool.name, tool.input_schema or {}, may_write))
        cursor = page.next_cursor
        if not cursor:
            break
    return found


async def _discover(
    client: Any, tools: Sequence[_Tool], by_stage: Mapping[str, Sequence[_Tool]]
) -> list[Payload]:
    """The answers of the discovery tools: a find, a miss, a schema, an unknown name."""
    payloads: list[Payload] = []
    names: list[str] = []
    for tool in (t for t in by_stage["search"] if not t.may_write):
        for query in ("create", NO_SUCH_TOOL):
            payload = await _call(client, tool, query, [])
            payloads.append(payload)
            names += tool_names_in(payload.body) if isinstance(payload.body, dict) else []
    known = names or [t.name for t in tools]
    for tool in (t for t in by_stage["schema"] if not t.may_write):
        payloads += [await _call(client, tool, name, [name]) for name in (known[0], NO_SUCH_TOOL)]
    return payloads


async def _call(client: Any, tool: _Tool, query: str, names: Sequence[str]) -> Payload:
    arguments = arguments_for(tool.schema, query, names)
    result = await client.call_tool(tool.name, arguments)
    text = "\n".join(part.text for part in result.content if part.type == "text")
    return payload_of_text(f"{tool.name}({json.dumps(arguments, ensure_ascii=False)})", text)


def _check_list(tools: Sequence[_Tool], instructions: str) -> list[Finding]:
    """`tools/list` as the discovery payload: the instructions' last sentence names a call."""
    last = re.split(r"(?<=[.!?])\s+|\n+", instructions.strip())[-1]
    if _SUMMONS.search(last) and any(tool.name in last for tool in tools):
        return []
    ending = f"its instructions end: {last[:80]!r}" if last else "it has no instructions"
    text = f"discloses {len(tools)} schemas at once and no next step after them; {ending}"
    return [Finding("next_step", "tools/list", text, _MEND_LIST)]
