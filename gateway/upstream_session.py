"""One upstream MCP server and the session that is kept open with it.

A session that died is opened again for the next question, never to repeat a call: whether a call
that got no answer has acted is not known.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, cast
from urllib.parse import unquote, unquote_plus, urlsplit

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    RequestParamsMeta,
    ToolListChangedNotification,
)

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.execution import idempotency_key, may_begin
from breadcrumbs.gateway.imports.bounded_http import TooLarge
from breadcrumbs.gateway.imports.live import (
    FAULTS,
    MAX_COMPLAINTS,
    TIMEOUT_S,
    LiveServer,
    all_tools,
    connected,
    first_fault,
    last_line,
)
from breadcrumbs.gateway.imports.secret_scan import REMOVED, is_random, redact
from breadcrumbs.gateway.worlds import OutcomeUnknown, ToolFailure

logger = logging.getLogger(__name__)
MAX_ANSWER_BYTES = 1024 * 1024
"""One answer of a tool, as JSON: more than a model can read."""
CALL_S = 60.0
KEY_META = "breadcrumbs/idempotency-key"
"""Where a call carries its approval's id, for a tool that takes an idempotency key."""
TOO_LATE = "its time was over before the server could be called; nothing was run"
_BROKEN = (*FAULTS, anyio.ClosedResourceError, anyio.BrokenResourceError)
_NOT_RUN = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND})
"""Errors by which a server says that it did not begin."""
_SHORTEST_SECRET = 4
_GOODBYE_S = 5.0
_NAMES = r"(?:token|key|secret|passw|auth|credential)"
_TELLING_NAME = re.compile(_NAMES, re.IGNORECASE)
_TELLING = re.compile(rf"{_NAMES}[\w-]*[\"']?\s*[=:]\s*[\"']?(\S[^\"']*)", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^\"']+", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9_.~+=-]{16,}")


@dataclass(frozen=True, slots=True)
class UpstreamLimits:
    """How long to wait for a server, and how much to take from it."""

    start_s: float = TIMEOUT_S
    """For the start, the handshake, and each list of its tools."""
    call_s: float = CALL_S
    answer_bytes: int = MAX_ANSWER_BYTES
    fresh_s: float = 60.0
    """How old a list of tools may be when a read is called; before a write it is always asked."""


class Masker:
    """Cuts out of a text what a servers file holds in confidence.

    That is env and headers, and of a URL and the arguments what can be a credential.
    """

    def __init__(self, servers: Iterable[LiveServer]) -> None:
        found = {secret for server in servers for secret in _secrets(server)}
        self._secrets = sorted(found, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text without any of them, and without what looks like a credential."""
        for secret in self._secrets:
            text = text.replace(secret, REMOVED)
        return redact(text)


class Upstream:
    """A server by name; see `tools` and `call`."""

    def __init__(
        self,
        server: LiveServer,
        limits: UpstreamLimits,
        mask: Masker,
        on_change: Callable[[], None],
    ) -> None:
        self.server = server
        self.limits = limits
        self.mask = mask
        self.on_change = on_change
        self._current: _Session | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def tools(self) -> list[dict[str, Any]]:
        """All its tools; a session that died meanwhile is opened anew.

        Raises:
            CatalogError: it cannot be started or reached, hangs, dies, or answers too much.
        """
        was_open = self._current is not None
        try:
            return await self._list()
        except CatalogError:
            if not was_open:
                raise
        return await self._list()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call a tool once.

        The request is sent by hand: the SDK's own `call_tool` calls again when a server asks for
        input, and matches answers against the server's patterns without a bound.

        Raises:
            ToolFailure: it was not called, or the server says that it did not begin.
            OutcomeUnknown: no answer, or one that cannot be read; the tool may have acted.
        """
        try:
            session = self._session()
            client = await session.client()
        except CatalogError as error:
            raise ToolFailure(f"{error}; nothing was run") from error
        still = may_begin.get()
        if still is not None and not still():
            raise ToolFailure(TOO_LATE)
        key = idempotency_key.get()
        meta = None if key is None else cast(RequestParamsMeta, {KEY_META: key})
        try:
            async with asyncio.timeout(self.limits.call_s):
                answer = await client.session.send_request(
                    CallToolRequest(
                        params=CallToolRequestParams(
                            name=tool, arguments=dict(arguments), _meta=meta
                        )
                    ),
                    CallToolResult,
                )
        except TimeoutError as error:
            self.on_change()  # a server that does not even list its tools is let go
            raise OutcomeUnknown(
                f"{self.named()} gave no answer within {self.limits.call_s:g} s"
            ) from error
        except _BROKEN as error:
            reason = f"{self.named()}: {session.fault or first_fault(error, self.mask)}"
            if isinstance(error, MCPError) and error.code in _NOT_RUN:
                raise ToolFailure(f"{reason}; it was not run") from error
            self.on_change()
            raise OutcomeUnknown(reason) from error
        if answer.result_type == "input_required":
            raise OutcomeUnknown(f"{self.named()} asks back, which nobody answers")
        return answer

    async def close(self) -> None:
        """End the session, and the process if it is one."""
        if self._current is not None:
            self.let_go(self._current)
        if self._leaving:
            await asyncio.wait(self._leaving)

    async def _list(self) -> list[dict[str, Any]]:
        session = self._session()
        client = await session.client()
        try:
            async with asyncio.timeout(self.limits.start_s):
                return await all_tools(client)
        except TimeoutError as error:
            self.let_go(session)
            raise CatalogError(
                f"{self.named()}: no list of its tools within {self.limits.start_s:g} s"
            ) from error
        except CatalogError as error:
            raise CatalogError(f"{self.named()}: {error}") from error
        except _BROKEN as error:
            self.let_go(session)
            await asyncio.wait([session.task], timeout=_GOODBYE_S)  # its last words come last
            reason = session.fault or first_fault(error, self.mask)
            raise CatalogError(f"{self.named()}: {reason}{session.last_words()}") from error

    def _session(self) -> _Session:
        if self._current is None or self._current.task.done():
            self._current = _Session(self)
        return self._current

    def let_go(self, session: _Session) -> None:
        """End a session; the next question opens another."""
        session.leave.set()
        if not session.task.done():
            self._leaving.add(session.task)
            session.task.add_done_callback(self._leaving.discard)
        if self._current is session:
            self._current = None

    def named(self) -> str:
        """How errors name it."""
        return f"server {self.server.name!r}"


class _Session:
    """One open connection, in a task of its own: the SDK must leave its scopes where it entered."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._words = _LastWords()
        self._opened: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._opened.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.leave = asyncio.Event()
        self.fault = ""
        """Why we let it go, if we did."""
        self.task = asyncio.create_task(self._keep())

    async def client(self) -> Client:
        """The client, once it is connected.

        Raises:
            CatalogError: it could not be.
        """
        return await asyncio.shield(self._opened)

    def last_words(self) -> str:
        """What the server said last on its error stream."""
        return last_line(self._words.text(), self._upstream.mask)

    async def _keep(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self._upstream.limits.start_s):
                    client = await stack.enter_async_context(
                        connected(self._upstream.server, self._words.stream, self._note, None)
                    )
                self._opened.set_result(client)
                await self.leave.wait()
        except TimeoutError:
            self._fail(f"does not answer within {self._upstream.limits.start_s:g} s")
        except _BROKEN as error:
            self._fail(self.fault or first_fault(error, self._upstream.mask))
        finally:
            self._opened.cancel()
            self._words.close()

    def _fail(self, reason: str) -> None:
        if not self._opened.done():
            self._words.close()
            text = f"{self._upstream.named()}: {reason}{self.last_words()}"
            self._opened.set_exception(CatalogError(text))

    async def _note(self, message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._upstream.on_change()
        if isinstance(message, TooLarge):
            self.fault = str(message)
            logger.warning("%s: %s; it was let go", self._upstream.named(), self.fault)
            self._upstream.let_go(self)


class _LastWords:
    """The end of what a process says on its error stream; the rest is let go."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.stream = os.fdopen(write, "w", encoding="utf-8")
        self._kept = b""
        # A thread, as the pipe lives until the last process that inherited it has gone.
        self._drainer = threading.Thread(target=self._drain, args=(read,), daemon=True)
        self._drainer.start()

    def text(self) -> str:
        """What is kept."""
        return self._kept.decode("utf-8", "replace")

    def close(self) -> None:
        """Close our end; what the process wrote before it ended is kept then."""
        self.stream.close()
        self._drainer.join(_GOODBYE_S / 20)

    def _drain(self, read: int) -> None:
        with os.fdopen(read, "rb", buffering=0) as pipe:
            while data := pipe.read(65536):
                self._kept = (self._kept + data)[-MAX_COMPLAINTS:]


def _secrets(server: LiveServer) -> Iterable[str]:
    parts = [*server.env.values(), *server.headers.values()]
    parts += [word for value in server.headers.values() for word in value.split()]
    parts += _in_arguments(server.args)
    for text in (server.url or "", *server.args):
        parts += [part for url in _URL.findall(text) for part in _in_url(url)]
    return [part for part in parts if len(part) >= _SHORTEST_SECRET]


def _in_arguments(words: Sequence[str]) -> Iterator[str]:
    """What follows a telling name, as `--token X`, `KEY=X` or `Authorization: X`; and tokens."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if value := _TELLING.search(word):
            yield from (value[1], *value[1].split())
        elif word.startswith("-") and _TELLING_NAME.search(word):
            yield following
        elif _TOKEN.fullmatch(word) and is_random(word):
            yield word


def _in_url(url: str) -> Iterator[str]:
    """Its user, query and fragment, and tokens in its path; as written, as sent, and decoded."""
    with suppress(ValueError, httpx2.InvalidURL):
        for text in (url, str(httpx2.URL(url))):
            address = urlsplit(text)
            parts = [address.username or "", address.password or "", address.fragment]
            parts += [address.query, *(pair.partition("=")[2] for pair in address.query.split("&"))]
            steps = address.path.split("/")
            parts += [step for step in steps if _TOKEN.fullmatch(unquote(step)) and is_random(step)]
            yield from (way(part) for part in parts for way in (str, unquote, unquote_plus))
