"""Live MCP servers, as an `mcpServers` file names them: asked for their tools, never called.

Naming such a file starts the commands in it, as a desktop client would. A server that hangs, dies,
answers nonsense or without end is one refusal; the others are still imported.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import httpx2
from mcp import Client, MCPError
from mcp.client.session import MessageHandlerFnT
from mcp.client.streamable_http import streamable_http_client
from pydantic import ValidationError

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.imports.bounded_http import READ_TIMEOUT_S, TooLarge, bounded_client
from breadcrumbs.gateway.imports.bounded_stdio import bounded_stdio
from breadcrumbs.gateway.imports.definitions import find_definitions
from breadcrumbs.gateway.imports.drafts import Draft, Refusal, domain_name
from breadcrumbs.gateway.imports.reading import check_plain
from breadcrumbs.gateway.imports.secret_scan import redact

TIMEOUT_S = 30.0
"""For one server: start, handshake and every page of tools."""
MAX_PAGES = 100
MAX_TOOLS = 5_000
"""Of one server."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""All tools of one server, as JSON; and one line of its output."""
_MAX_REASON = 200
MAX_CLEANED = 64 * 1024
"""Characters of an error that are searched for credentials; what follows is never shown."""
_MARGIN = 2_048
"""Characters beside a cut that may be part of a credential, which no form fits then."""
MAX_COMPLAINTS = 4096
"""The end of what a server said on its error stream, in bytes or characters."""
FAULTS = (MCPError, OSError, ValueError, RuntimeError, httpx2.HTTPError, ExceptionGroup)


@dataclass(frozen=True, slots=True)
class LiveServer:
    """How to reach one server: a command to start, or an address."""

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def parse_servers(value: Mapping[str, Any], where: str) -> list[LiveServer | Refusal]:
    """The servers of an `mcpServers` file, in its order; an entry that names none is refused.

    So is one whose name becomes the domain of a server before it: labels go by domain, and what
    was said of one server's tools must not hold for another's. Keys that only concern a desktop
    client are passed over.

    Raises:
        CatalogError: `mcpServers` is no map.
    """
    entries = value.get("mcpServers")
    if not isinstance(entries, Mapping):
        raise CatalogError(f"{where}: mcpServers must map names to servers")
    names: dict[str, str] = {}
    servers: list[LiveServer | Refusal] = []
    for name, entry in entries.items():
        place = f"{where}: server {name!r}"
        server = _server(name, entry, place)
        if isinstance(server, LiveServer):
            first = names.setdefault(server_domain(name), name)
            if first != name:
                reason = f"its name and {first!r} both become the domain {server_domain(name)!r}"
                server = Refusal(name, f"{place}: {reason}; rename one of them")
        servers.append(server)
    return servers


def server_domain(name: Any) -> str:
    """The domain of a server's tools."""
    return domain_name(name, "server")


def read_servers(
    servers: Sequence[LiveServer | Refusal], *, timeout_s: float = TIMEOUT_S
) -> Iterator[Draft | Refusal]:
    """Ask all servers at once; their tools come in the order of the servers."""
    live = [server for server in servers if isinstance(server, LiveServer)]
    answers = iter(asyncio.run(_ask_all(live, timeout_s)))
    for server in servers:
        if isinstance(server, Refusal):
            yield server
            continue
        answer = next(answers)
        if isinstance(answer, Refusal):
            yield answer
        else:
            yield from find_tools(server, answer)


async def list_tools(server: LiveServer, *, timeout_s: float = TIMEOUT_S) -> list[dict[str, Any]]:
    """Every tool a server offers, as MCP writes it on the wire.

    Raises:
        CatalogError: it cannot be started or reached, hangs, dies, or answers too much.
    """
    garbled: list[Exception] = []

    async def note_garbled(message: object) -> None:
        if isinstance(message, Exception):  # a line that is no message; the rest may still be fine
            garbled.append(message)

    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        try:
            async with (
                asyncio.timeout(timeout_s),
                connected(server, complaints, note_garbled) as client,
            ):
                return await all_tools(client)
        except TimeoutError as error:
            reason = f"no complete answer within {timeout_s:g} s"
            if garbled:
                reason += f", and {len(garbled)} that cannot be read as MCP"
            raise CatalogError(f"{reason}{_said(complaints)}") from error
        except CatalogError:
            raise
        except FAULTS as error:
            fault = next((said for said in garbled if isinstance(said, TooLarge)), error)
            raise CatalogError(f"{first_fault(fault)}{_said(complaints)}") from error


def find_tools(server: LiveServer, tools: Sequence[dict[str, Any]]) -> Iterator[Draft | Refusal]:
    """The drafts of what `list_tools` returned; one that is no plain JSON is refused alone."""
    domain = server_domain(server.name)
    for tool in tools:
        source = f"server {server.name!r}"
        try:
            check_plain(tool, source)
        except CatalogError as error:
            yield Refusal(str(tool.get("name", server.name))[:128], str(error))
        else:
            yield from find_definitions(tool, source, domain, upstream=server.name)


async def _ask_all(
    servers: Sequence[LiveServer], timeout_s: float
) -> list[list[dict[str, Any]] | Refusal]:
    return await asyncio.gather(*(_ask(server, timeout_s) for server in servers))


async def _ask(server: LiveServer, timeout_s: float) -> list[dict[str, Any]] | Refusal:
    try:
        return await list_tools(server, timeout_s=timeout_s)
    except CatalogError as error:
        return Refusal(server.name, f"server {server.name!r}: {error}")


@asynccontextmanager
async def connected(
    server: LiveServer,
    complaints: IO[str],
    on_message: MessageHandlerFnT,
    read_timeout_s: float | None = READ_TIMEOUT_S,
) -> AsyncIterator[Client]:
    """A session with a server, open inside the block; its error stream goes to `complaints`.

    Raises:
        One of `FAULTS`, from the block too when the connection breaks.
    """
    async with AsyncExitStack() as stack:
        if server.url is not None:
            client = bounded_client(server.headers, MAX_ANSWER_BYTES, read_timeout_s)
            http = await stack.enter_async_context(client)
            transport = streamable_http_client(
                server.url, http_client=http, max_sse_event_size=MAX_ANSWER_BYTES
            )
        else:
            command = (server.command or "", *server.args)
            transport = bounded_stdio(command, server.env, server.cwd, complaints, MAX_ANSWER_BYTES)
        yield await stack.enter_async_context(
            Client(transport, cache=None, message_handler=on_message)
        )


async def all_tools(client: Client) -> list[dict[str, Any]]:
    """Every page of a connected server's tools, as MCP writes them on the wire.

    Raises:
        CatalogError: the pages have no end, or are over `MAX_ANSWER_BYTES`.
    """
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    size = 0
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            plain = tool.model_dump(by_alias=True, exclude_none=True)
            size += len(json.dumps(plain, default=str))
            if size > MAX_ANSWER_BYTES:
                raise CatalogError(f"its tools are over {MAX_ANSWER_BYTES} bytes")
            tools.append(plain)
        if len(tools) > MAX_TOOLS:
            raise CatalogError(f"it has more than {MAX_TOOLS} tools; let it offer fewer")
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise CatalogError(f"its tool list goes on after {MAX_PAGES} pages")


def _server(name: str, entry: Any, where: str) -> LiveServer | Refusal:
    if not isinstance(entry, Mapping):
        return Refusal(name, f"{where}: not a map; give it command and args, or url")
    if entry.get("disabled") is True:
        return Refusal(name, f"{where}: disabled in the file")
    if entry.get("type") == "sse":
        return Refusal(name, f"{where}: the SSE transport is gone from MCP; use streamable HTTP")
    command, url = entry.get("command"), entry.get("url")
    args = entry.get("args", [])
    maps = [entry.get(key, {}) for key in ("env", "headers")]
    if isinstance(command, str) is isinstance(url, str):
        return Refusal(name, f"{where}: give it either command or url, as text")
    if isinstance(url, str) and not url.startswith(("http://", "https://")):
        return Refusal(name, f"{where}: url must start with http:// or https://")
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        return Refusal(name, f"{where}: args must be a list of texts")
    if not all(_is_text_map(part) for part in maps):
        return Refusal(name, f"{where}: env and headers must map names to texts")
    cwd = entry.get("cwd")
    if cwd is not None and not (isinstance(cwd, str) and Path(cwd).is_dir()):
        return Refusal(name, f"{where}: cwd is no folder")
    return LiveServer(name, command, tuple(args), maps[0], cwd, url, maps[1])


def _is_text_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for text in value.values())


def first_fault(error: BaseException, clean: Callable[[str], str] = redact) -> str:
    """The reason in an error of `FAULTS`, on one short line, `clean` of credentials."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(cleaned(str(error), clean).split())
    if isinstance(error, ValidationError):
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(step) for step in fault["loc"])
        text = clean(f"its answer breaks the protocol at {place}: {fault['msg']}")
    elif not isinstance(error, CatalogError | TooLarge | MCPError | OSError) or not text:
        text = f"{type(error).__name__}: {text}"
    return text[:_MAX_REASON]


def cleaned(text: str, clean: Callable[[str], str]) -> str:
    """A text `clean` of credentials; of a long one the beginning, and nothing near the cut."""
    begin = clean(text[:MAX_CLEANED])
    return begin if len(text) <= MAX_CLEANED else begin[:-_MARGIN]


def last_line(complaints: str, clean: Callable[[str], str] = redact) -> str:
    """The last thing a server said on its error stream, which is often why it died.

    `complaints` are at most the last `MAX_COMPLAINTS` of it.
    """
    lines = [line.strip() for line in complaints.splitlines() if line.strip()]
    if not lines:
        return ""
    said = clean(lines[-1])
    if len(lines) == 1 and len(complaints.encode(errors="replace")) >= MAX_COMPLAINTS:
        said = f"… {said[_MARGIN:]}"  # it may begin within a credential
    return f" (it said: {said[:_MAX_REASON]})"


def _said(complaints: IO[str]) -> str:
    complaints.seek(0)
    return last_line(complaints.read()[-MAX_COMPLAINTS:])
