"""An MCP server as a process whose lines have an end: past a limit nothing more is read."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from breadcrumbs.gateway.imports.bounded_http import TooLarge

Received = SessionMessage | Exception
GRACE_S = 2.0
"""Between a closed input, SIGTERM and SIGKILL."""
_CHUNK = 65536
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@asynccontextmanager
async def bounded_stdio(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    complaints: IO[str],
    max_line_bytes: int,
) -> AsyncIterator[
    tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]
]:
    """A server's process and the messages from and to it; its error stream goes to `complaints`.

    The SDK's own client keeps a line for as long as it goes on. Here one of more than
    `max_line_bytes` arrives as `TooLarge`, and is the last thing that arrives.

    Raises:
        OSError: the process cannot be started.
    """
    reader, pipe, theirs = await _pipe(max_line_bytes)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env={**get_default_environment(), **env},
                cwd=cwd,
                stdin=PIPE,
                stdout=theirs,
                stderr=complaints,
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        arrive, received = anyio.create_memory_object_stream[Received](0)
        send, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read, reader, arrive, max_line_bytes)
            tasks.start_soon(_write, process, leaving, arrive)
            try:
                yield received, send
            finally:
                received.close()
                send.close()
                with anyio.CancelScope(shield=True):
                    await _end(process)
                tasks.cancel_scope.cancel()
    finally:
        pipe.close()


async def _pipe(max_line_bytes: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport, int]:
    """A pipe of ours: the library's own stays open while a child of the server holds it."""
    mine, theirs = os.pipe()
    reader = asyncio.StreamReader(limit=max_line_bytes)
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(mine, "rb", buffering=0)
    )
    return reader, pipe, theirs


async def _read(
    reader: asyncio.StreamReader, arrive: MemoryObjectSendStream[Received], max_line_bytes: int
) -> None:
    async with arrive:
        with suppress(*_GONE, asyncio.IncompleteReadError):  # the session, or the server
            try:
                while line := await reader.readuntil(b"\n"):
                    await arrive.send(_message(line))
            except asyncio.LimitOverrunError:
                await arrive.send(TooLarge(f"a line of its output is over {max_line_bytes} bytes"))
    while await reader.read(_CHUNK):  # a server that is stuck on a full pipe does not end
        pass


def _message(line: bytes) -> Received:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write(
    process: Process,
    leaving: MemoryObjectReceiveStream[SessionMessage],
    arrive: MemoryObjectSendStream[Received],
) -> None:
    assert process.stdin is not None
    try:
        async with leaving:
            async for message in leaving:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()
    except OSError:
        await arrive.aclose()  # it takes nothing more: whoever waits for an answer is told


async def _end(process: Process) -> None:
    """Close its input, and where it does not end by that, end it and all that it started."""
    assert process.stdin is not None
    process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with suppress(OSError):
                os.killpg(process.pid, number)
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                await process.wait()
                return
