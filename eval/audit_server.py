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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadcrumbs.errors import CatalogError, DataError
from breadcrumbs.eval.audit import AuditReport, Finding
from breadcrumbs.eval.audit_discovery import arguments_for, stage_of, tool_names_in
from breadcrumbs.eval.audit_payloads import Payload, check_payload, payload_of_text
from breadcrumbs.gateway.imports.live import (
    FAULTS,
    TIMEOUT_S,
    LiveServer,
    all_tools,
    connected,
    first_fault,
)
from breadcrumbs.gateway.imports.sources import load_servers

NO_SUCH_TOOL = "no_such_tool_audit"
_SUMMONS = re.compile(r"\b(?:call|use|invoke|run|execute)\b", re.IGNORECASE)
_MEND_LIST = (
    "put the server behind `breadcrumbs gateway serve`, whose payloads end with the next call, or"
    " end the server's instructions with one: 'Call TOOL(FIELDS) now; ask only for a required"
    " value found nowhere.'"
)


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    schema: Mapping[str, Any]
    may_write: bool


def read_sources(words: Sequence[str], entry: str | None = None) -> list[LiveServer]:
    """The servers that the command line names: a url, a JSON file, or a command.

    Raises:
        CatalogError: the file is no `mcpServers` file, or an entry is not usable.
        DataError: nothing is named, or the file has no such entry.
    """
    first = words[0] if words else ""
    if len(words) == 1 and first.startswith(("http://", "https://")):
        return [LiveServer(first, url=first)]
    if len(words) == 1 and first.endswith(".json"):
        return _entries(Path(first), entry)
    command = shlex.split(first) if len(words) == 1 else list(words)
    if not command:
        raise DataError("name a server: a url, an mcpServers JSON file, or a command")
    return [LiveServer(" ".join(command), command[0], tuple(command[1:]))]


def _entries(path: Path, entry: str | None) -> list[LiveServer]:
    servers = load_servers(path)
    chosen = [server for server in servers if entry in (None, server.name)]
    if not chosen:
        names = ", ".join(server.name for server in servers)
        raise DataError(f"{path}: no entry {entry!r}; there are {names}")
    return chosen


def audit_server(source: LiveServer, timeout_s: float = TIMEOUT_S) -> AuditReport:
    """Check one server's discovery payloads.

    Raises:
        DataError: it cannot be started or reached, or does not answer in time.
    """
    try:
        return asyncio.run(_audit(source, timeout_s))
    except TimeoutError as error:
        raise DataError(f"{source.name}: no answer within {timeout_s:g} s") from error
    except (*FAULTS, CatalogError) as error:
        how = "is the address an MCP endpoint?" if source.url else "does the command start one?"
        reason = first_fault(error)
        raise DataError(f"{source.name}: no MCP server answers: {reason}; {how}") from error


async def _audit(source: LiveServer, timeout_s: float) -> AuditReport:
    async def passed_over(message: object) -> None:
        """What the server says beside its answers."""

    # What the server writes to its stderr is its own talk, not part of a report.
    with Path(os.devnull).open("w", encoding="utf-8") as quiet:
        async with asyncio.timeout(timeout_s), connected(source, quiet, passed_over) as client:
            return await _checked(source.name, client)


async def _checked(name: str, client: Any) -> AuditReport:
    tools = [_tool(found) for found in await all_tools(client)]
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


def _tool(found: Mapping[str, Any]) -> _Tool:
    hints = found.get("annotations") or {}
    may_write = hints.get("readOnlyHint") is False or hints.get("destructiveHint") is True
    return _Tool(found["name"], found.get("inputSchema") or {}, may_write)


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
