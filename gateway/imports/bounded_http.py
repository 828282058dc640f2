"""An HTTP client whose answers have an end: past a limit the connection is dropped."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0


class TooLarge(httpx2.HTTPError):
    """An answer went past the limit."""


def bounded_client(
    headers: Mapping[str, str], max_bytes: int, read_timeout_s: float | None = READ_TIMEOUT_S
) -> httpx2.AsyncClient:
    """A client that refuses any answer over `max_bytes`, as it comes off the wire.

    With no `read_timeout_s` the caller bounds each wait itself.
    """
    return httpx2.AsyncClient(
        headers={
            **headers,
            "Accept-Encoding": "identity",
        },  # no small answer that unpacks to a big one
        timeout=httpx2.Timeout(CONNECT_TIMEOUT_S, read=read_timeout_s),
        transport=_BoundedTransport(max_bytes),
    )


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            await response.aclose()
            raise TooLarge(f"the answer is packed ({encoding[:20]}), though plain was asked for")
        stream = response.stream
        if isinstance(stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(stream, self._max_bytes)
        return response


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, max_bytes: int) -> None:
        self._inner = inner
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for chunk in self._inner:
            seen += len(chunk)
            if seen > self._max_bytes:
                raise TooLarge(f"the answer is over {self._max_bytes} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
