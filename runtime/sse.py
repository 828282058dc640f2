"""Server-sent events as every stream here sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from sse_starlette.sse import SendTimeoutError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

T = TypeVar("T")
SEND_TIMEOUT_S = 30.0
"""How long a client that reads nothing is kept."""


class EventStream(EventSourceResponse):
    """Frames with `: ping` comments between them; a client that does not read is let go."""

    def __init__(self, frames: AsyncIterator[ServerSentEvent], ping_s: float) -> None:
        super().__init__(
            frames,
            ping=ping_s,
            ping_message_factory=lambda: ServerSentEvent(comment="ping"),
            sep="\n",
            send_timeout=SEND_TIMEOUT_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as an ASGI app."""
        with suppress(SendTimeoutError):
            await super().__call__(scope, receive, send)


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of work that is stopped when its client goes away.

    Raises:
        HTTPException: it went, so nobody reads this.
    """
    task = asyncio.ensure_future(work)
    leaving = asyncio.create_task(_left(request))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise HTTPException(499, "the client went away")
    finally:
        leaving.cancel()
        task.cancel()
        await asyncio.wait({task})


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
