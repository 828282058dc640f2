"""Puts the gateway in front of real MCP servers, and serves it over stdio or HTTP until stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import textwrap
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import click
import uvicorn
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware, get_access_token
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from breadcrumbs.callers import LOOPBACK, caller_of, keys_for, read_keys
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.gateway.gateway import Gateway
from breadcrumbs.gateway.imports.drafts import Draft, Refusal
from breadcrumbs.gateway.imports.live import LiveServer
from breadcrumbs.gateway.imports.sources import load_servers, read_source
from breadcrumbs.gateway.upstream import UpstreamExecutor
from breadcrumbs.gateway.upstream_session import CALL_S, Masker, UpstreamLimits
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.mcp_input import MarkedBodies, StandardInput
from breadcrumbs.mcp_server import MAX_SESSIONS, FaceSettings, McpFace
from breadcrumbs.visible import plain, visible

logger = logging.getLogger(__name__)
PATH = "/mcp"
MAX_BODY_BYTES = 1_000_000
SWEEP_S = 60.0
"""How often writes are looked for that a gateway left behind when it died."""


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says."""

    upstream: Path
    labels: tuple[Path, ...] = ()
    journal: str = "approvals.sqlite"
    encoder: Path | None = None
    http: str | None = None
    form_approval: bool = False
    approval_page: str | None = None
    call_timeout_s: float = CALL_S
    roles: tuple[str, ...] = ()
    """Of who calls without a key."""


def serve_gateway(options: ServeOptions) -> None:
    """Serve until the client leaves (stdio) or a signal comes.

    Raises:
        ConfigError: the address, the page or the keys cannot be used.
        CatalogError: the servers file or a labels file cannot be used, or a server does not start.
        DataError: the journal cannot be opened.
        ModelError: the encoder cannot be loaded.
    """
    if options.approval_page is not None:
        _check_page(options.approval_page)
    servers = load_servers(options.upstream)
    labels = [draft for path in options.labels for draft in read_source(path)]
    listener = None if options.http is None else listen(options.http)
    _log_to_stderr(servers)
    asyncio.run(_serve(options, servers, labels, listener))


def listen(address: str) -> socket.socket:
    """A listening socket for HOST:PORT.

    Raises:
        ConfigError: it is no address, is in use, or is reachable from outside without keys.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--http {address}: write HOST:PORT, such as 127.0.0.1:8765")
    keys_for(host, "--http")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, int(port)), family=family)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError(f"--http {address}: cannot listen there: {reason}") from error


def _check_page(url: str) -> None:
    """Clients open this address, with an approval's id behind it, and may show it to people."""
    try:
        address = urlsplit(url)
        fits = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        fits = False
    if not fits or set("?#@\\ ") & set(url) or visible(url) != url:
        raise ConfigError(
            f"--approval-page {url}: write http(s)://HOST/PATH, without user, query and fragment"
        )


async def _serve(
    options: ServeOptions,
    servers: Sequence[LiveServer],
    labels: Sequence[Draft | Refusal],
    listener: socket.socket | None,
) -> None:
    limits = UpstreamLimits(call_s=options.call_timeout_s)
    executor = UpstreamExecutor(servers, labels, limits)
    catalog = await executor.open()
    try:
        # Longer than any call may take, so that no other gateway's write is taken for lost.
        lost_after_s = 2 * (limits.start_s + limits.call_s)
        gateway = open_gateway(
            catalog,
            options.journal,
            executor=executor,
            lost_after_s=lost_after_s,
            encoder=options.encoder,
        )
        executor.prepare, executor.on_catalog = gateway.prepare, gateway.take_catalog
        face = McpFace(
            gateway,
            FaceSettings(
                options.form_approval, options.approval_page, options.journal, options.roles
            ),
        )
        counted = f"servers: {len(servers)}, tools: {len(catalog.tools)}"
        click.echo(f"breadcrumbs: {counted}", err=True)
        ended = True
        if listener is None:
            ended = await _over_stdio(face.server(), gateway, lost_after_s)
        else:
            await _over_http(face.server(), gateway, lost_after_s, listener)
    finally:
        await executor.close()
    if not ended:  # a thread still waits for the client's next line, and cannot be woken
        os._exit(0)


@asynccontextmanager
async def _at_work(gateway: Gateway, lost_after_s: float) -> AsyncGenerator[None, None]:
    """Runs what is approved elsewhere; at the end waits for its own writes."""
    tasks = [
        asyncio.create_task(gateway.writes.follow()),
        asyncio.create_task(_sweep(gateway, lost_after_s)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await gateway.writes.drain()
        gateway.journal.close()


async def _sweep(gateway: Gateway, lost_after_s: float) -> None:
    while True:
        await asyncio.sleep(SWEEP_S)
        with suppress(DataError):
            gateway.journal.recover(older_than_s=lost_after_s)


async def _over_stdio(server: Server[Any], gateway: Gateway, lost_after_s: float) -> bool:
    """Serve until the client closes our input; False where a signal came first."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with _at_work(gateway, lost_after_s):
        serving = asyncio.create_task(_stdio(server))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if serving.done():
            serving.result()
    return not stop.is_set()


async def _stdio(server: Server[Any]) -> None:
    # The SDK's own reader keeps the last of two values and says nothing.
    lines = cast("anyio.AsyncFile[str]", StandardInput())
    async with stdio_server(stdin=lines) as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def _over_http(
    server: Server[Any], gateway: Gateway, lost_after_s: float, listener: socket.socket
) -> None:
    host, port = listener.getsockname()[:2]
    app = http_app(server, gateway, lost_after_s, host)
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"breadcrumbs: serving MCP on http://{shown}:{port}{PATH}", err=True)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
    await uvicorn.Server(config).serve(sockets=[listener])


def http_app(server: Server[Any], gateway: Gateway, lost_after_s: float, host: str) -> Starlette:
    """The ASGI app of one MCP endpoint, guarded by the keys if there are any."""
    local = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[f"{name}:*" for name in ("127.0.0.1", "localhost", "[::1]")],
        allowed_origins=[f"http://{name}:*" for name in ("127.0.0.1", "localhost", "[::1]")],
    )
    keys = keys_for(host, "--http")
    names = [caller.name for caller in read_keys(keys) if caller.may("chat")]
    callers: set[str | None] = {*names} if keys else {None}
    managers = {
        caller: StreamableHTTPSessionManager(
            server,
            security_settings=local if host in LOOPBACK else None,
            max_request_body_size=MAX_BODY_BYTES,
            max_sessions=MAX_SESSIONS,
        )
        for caller in callers
    }
    endpoint: ASGIApp = MarkedBodies(_ByCaller(managers), MAX_BODY_BYTES)
    guards = []
    if keys:
        endpoint = RequireAuthMiddleware(endpoint, required_scopes=[])
        guards = [
            Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_Keys(keys))),
            Middleware(AuthContextMiddleware),
        ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as running:
            for manager in managers.values():
                await running.enter_async_context(manager.run())
            async with _at_work(gateway, lost_after_s):
                yield

    return Starlette(routes=[Route(PATH, endpoint=endpoint)], middleware=guards, lifespan=lifespan)


class _ByCaller:
    """Sessions of each caller by themselves: one that opens all it may shuts no other out."""

    def __init__(self, managers: Mapping[str | None, StreamableHTTPSessionManager]) -> None:
        self._managers = managers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = get_access_token()
        manager = self._managers[None if token is None else token.client_id]
        await manager.handle_request(scope, receive, send)


class _Keys:
    """The keys of this gateway, as the SDK asks for them."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys

    async def verify_token(self, token: str) -> AccessToken | None:
        caller = caller_of(f"Bearer {token}", self._keys)
        if caller is None:
            return None
        return AccessToken(token=token, client_id=caller.name, scopes=list(caller.roles))


class _Masked(logging.Formatter):
    """Writes no secret of the servers file, and no text that a terminal obeys, whoever logs it."""

    def __init__(self, mask: Masker) -> None:
        super().__init__("breadcrumbs: %(message)s")
        self._mask = mask

    def formatMessage(self, record: logging.LogRecord) -> str:
        """One line, whatever is in it."""
        return visible(self._mask(super().formatMessage(record)))

    def formatException(self, fault: Any) -> str:
        """The lines of a traceback, set in so that none passes for a line of ours."""
        return textwrap.indent(plain(self._mask(super().formatException(fault))), "  ")


def _log_to_stderr(servers: Sequence[LiveServer]) -> None:
    logging.getLogger("breadcrumbs").setLevel(logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Masked(Masker(servers)))
