"""What MCP clients send, before the SDK reads it: a call with a key that stands twice is marked.

The SDK keeps the last of two values and says nothing; whoever keeps the first sees another call
than the one that is held. A marked call is answered by a field error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import anyio
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TWICE = "breadcrumbs/key-stands-twice"
"""The key of a call's `_meta` that names the one that stands twice."""


def marked(text: str) -> str:
    """A message as it came; where it is a call with a key that stands twice, with its mark."""
    twice: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                twice.append(key)
            found[key] = value
        return found

    try:
        message = json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError):  # the SDK says so itself
        return text
    if not twice or not isinstance(message, dict) or message.get("method") != "tools/call":
        return text
    params = message.get("params")
    if not isinstance(params, dict):
        return text
    meta = params.get("_meta")
    params["_meta"] = {**(meta if isinstance(meta, dict) else {}), TWICE: twice[0]}
    return json.dumps(message)


class StandardInput:
    """The lines of standard input, as the SDK's server reads them."""

    def __init__(self) -> None:
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        self._file = anyio.wrap_file(sys.stdin)

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._file:
            yield marked(line)


class MarkedBodies:
    """An app that reads bodies marked; one over `max_bytes` goes on as it is, to be refused."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body whole, and hand it on."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        read: list[Message] = []
        size, more = 0, True
        while more and size <= self._max_bytes:
            read.append(await receive())
            size += len(read[-1].get("body", b""))
            more = read[-1].get("more_body", False)
        if not more and read[-1]["type"] == "http.request":
            body = b"".join(part.get("body", b"") for part in read)
            read = [{**read[-1], "body": _marked_bytes(body)}]

        async def again() -> Message:
            return read.pop(0) if read else await receive()

        await self._app(scope, again, send)


def _marked_bytes(body: bytes) -> bytes:
    try:
        return marked(body.decode()).encode()
    except UnicodeDecodeError:
        return body
