"""Bench rows of the server: conversations together, the cache kept, loop and HTTP on top."""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from bench_rows import REPEATS, row, seconds

MODEL = "smollm2-135m"
TOGETHER = 8
WRITTEN = 48
LONG = 4096
STREAMS = 200
EVENTS = 20
EVERY_S = 0.5


def _load() -> Any:
    from breadcrumbs.local_model import LocalModel

    return LocalModel.load(MODEL)


def _talk(text: str, system: str = "Act through the gateway.") -> list[Any]:
    from breadcrumbs.messages import Message

    return [Message("system", system), Message("user", text)]


async def _turn(policy: Any, messages: Sequence[Any], tokens: int) -> Any:
    from breadcrumbs.gateway.gateway import META_TOOLS
    from breadcrumbs.turns import Wishes, wishing

    written = wishing(policy, Wishes(max_tokens=tokens)).stream(messages, META_TOOLS)
    return [item async for item in written][-1]


def serve_batched_8() -> dict[str, Any]:
    """Tokens a second of eight conversations together, against one after another."""
    from breadcrumbs.conversations import Conversations

    model = _load()
    talks = [_talk(f"Tell me of harbour number {n}, at length.") for n in range(TOGETHER)]

    def speed(together: bool) -> float:
        async def run() -> int:
            policy = Conversations(model, at_once=TOGETHER)
            asked = [_turn(policy, talk, WRITTEN) for talk in talks]
            turns = await asyncio.gather(*asked) if together else [await one for one in asked]
            return sum(turn.usage.completion for turn in turns)

        began = time.perf_counter()
        return asyncio.run(run()) / (time.perf_counter() - began)

    speed(together=True)
    ratios = [speed(together=True) / speed(together=False) for _ in range(REPEATS)]
    return row(statistics.median(ratios), "x", "one after another")


def ttft_cached_4k() -> dict[str, Any]:
    """Time to the first token of the next round re-prefilled, against the cache kept."""
    from breadcrumbs.conversations import Conversations
    from breadcrumbs.gateway.gateway import META_TOOLS
    from breadcrumbs.messages import Message

    model = _load()
    talk = _talk("Go on.")
    bare = len(model.renderer.prompt_ids(talk, META_TOOLS))
    filler = "harbour " * ((LONG - bare) // model.renderer.count(" harbour"))
    talk = _talk("Go on.", f"Act through the gateway. {filler}")

    async def first(policy: Any, messages: Sequence[Any]) -> float:
        began = time.perf_counter()
        await _turn(policy, messages, 1)
        return time.perf_counter() - began

    async def once() -> float:
        kept = Conversations(model)
        said = await _turn(kept, talk, 8)
        on = [*talk, Message("assistant", said.content), Message("user", "And then?")]
        with_cache = await first(kept, on)
        return await first(Conversations(model), on) / with_cache

    ratios = [asyncio.run(once()) for _ in range(REPEATS)]
    return row(statistics.median(ratios), "x", "re-prefilled")


class _Steered:
    """A model that writes as many tokens as ever, and then says what a script says."""

    def __init__(self, inner: Any, turns: Sequence[Any]) -> None:
        self.inner, self.turns = inner, list(turns)
        self.asked: list[tuple[list[Any], Any]] = []

    async def stream(
        self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[Any, None]:
        """The script's next turn, after the model wrote its own."""
        self.asked.append((list(messages), tools))
        async for _ in self.inner.stream(messages, tools):
            pass
        yield self.turns.pop(0)


def loop_overhead() -> dict[str, Any]:
    """A run of the loop over the gateway, against its turns written by the model alone."""
    from breadcrumbs.gateway.catalog import load_catalog
    from breadcrumbs.live_gateway import open_gateway
    from breadcrumbs.local_model import LocalPolicy
    from breadcrumbs.loop import run
    from breadcrumbs.messages import ToolCall
    from breadcrumbs.turns import Turn

    model, tool = _load(), "open_support_ticket"
    gateway = open_gateway(load_catalog())
    ticket = {"subject": "Lift", "description": "It is stuck", "client_id": "cl_5103"}
    calls = [
        ("search_tool_catalog", {"query": "open a support ticket"}),
        ("get_tool_schema", {"tool_names": [tool]}),
        ("execute_tool", {"tool_name": tool, "arguments": ticket}),
    ]
    script = [Turn("", (ToolCall(f"call_{n}", *call),)) for n, call in enumerate(calls)]
    ratios = []
    for _ in range(REPEATS):
        steered = _Steered(LocalPolicy(model, WRITTEN), [*script, Turn("It waits.")])
        talk = _talk("Open a support ticket for cl_5103: the lift is stuck")
        looped = seconds(lambda s=steered, t=talk: asyncio.run(run(s, gateway.session(), t)))

        async def bare(asked: Any = steered.asked) -> None:
            policy = LocalPolicy(model, WRITTEN)
            for messages, tools in asked:
                async for _ in policy.stream(messages, tools):
                    pass

        ratios.append(looped / seconds(lambda b=bare: asyncio.run(b())))
    return row(statistics.median(ratios), "x", "the turns alone")


class Clock:
    """A scripted model whose words are the time they were said at."""

    async def stream(
        self, messages: Sequence[Any], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[Any, None]:
        """A word each `EVERY_S`."""
        from breadcrumbs.turns import Turn

        for _ in range(EVENTS):
            await asyncio.sleep(EVERY_S)
            yield f"{time.time():.6f} "
        yield Turn("")


_SERVER = """
import sys
sys.path.insert(0, "scripts")
import uvicorn
from bench_serve import STREAMS, Clock
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.service import ServiceSettings, create_app
settings = ServiceSettings(turns_at_once=STREAMS)
app = create_app("clock", Clock(), open_gateway(load_catalog()), settings)
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


def http_p99_ms() -> dict[str, Any]:
    """The 99th percentile of an event's way to its client, with 200 streams at a time."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(port)])
    try:
        while not _listens(port):
            assert server.poll() is None, "the server did not start"
            time.sleep(0.1)
        delays = asyncio.run(_delays(f"http://127.0.0.1:{port}"))
    finally:
        server.terminate()
        server.wait()
    found = statistics.quantiles(delays, n=100)[98]
    return row(found * 1000, "ms", "none", len(delays))


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


async def _delays(address: str) -> list[float]:
    """Seconds from each word to its arrival, the streams begun over one pause."""
    import json

    import httpx2

    async def one(client: Any, number: int) -> list[float]:
        await asyncio.sleep(EVERY_S * number / STREAMS)
        body = {"model": "clock", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        found = []
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                now = time.time()
                if line.startswith("data: {"):
                    said = json.loads(line[6:])["choices"][0]["delta"].get("content")
                    found += [now - float(said)] if said else []
        return found

    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=address, limits=limits, timeout=120) as client:
        streams = await asyncio.gather(*(one(client, number) for number in range(STREAMS)))
    assert all(len(each) == EVENTS for each in streams)
    return [delay for each in streams for delay in each]


ROWS = (loop_overhead, ttft_cached_4k, serve_batched_8, http_p99_ms)
