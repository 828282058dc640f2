"""A model behind another server: our own bare model plays that server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.gateway import META_TOOLS, SimulatedGateway
from breadcrumbs.loop import run
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.remote_model import RemoteModel, open_remote
from breadcrumbs.turns import Turn, Usage

Start = Callable[..., str]
HI = [Message("user", "hi")]


def config(url: str, model: str = "small") -> EndpointConfig:
    return EndpointConfig(base_url=f"{url}/v1", model=model, timeout_s=60)


async def take(remote: RemoteModel, messages: Sequence[Message] = HI) -> list[str | Turn]:
    return [item async for item in remote.stream(messages, META_TOOLS)]


async def test_text_streams_and_calls_reasoning_and_usage_arrive(start: Start) -> None:
    call = ToolCall("c9", "search_tool_catalog", {"query": "Ü"})
    url = start(Turn("Let me. ", (call,), "hm", usage=Usage(7, 2)), Turn("Hi."))
    async with open_remote(config(url)) as remote:
        await remote.check()
        *texts, turn = await take(remote)
        assert "".join(str(text) for text in texts) == "Let me. "
        assert turn == Turn("Let me.", (call,), "hm")
        assert isinstance(turn, Turn)
        assert turn.usage == Usage(7, 2)
        assert (await take(remote))[-1] == Turn("Hi.")


async def test_the_loop_runs_over_it(start: Start, script: Any, gateway: SimulatedGateway) -> None:
    url = start(*script.prelude, script.execute, Turn("It waits."))
    async with open_remote(config(url)) as remote:
        session = gateway.gateway.session()
        told = await run(remote, session, [Message("user", script.request)])
    assert [event.type for event in told][-4:] == ["approval", "tool_result", "text", "done"]


async def test_reasoning_in_the_text_is_never_shown(start: Start) -> None:
    class Thinks:
        async def stream(
            self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
        ) -> AsyncGenerator[str | Turn, None]:
            for piece in ("<th", "ink>sec", "ret</thi", "nk>\nHel", "lo"):
                yield piece
            yield Turn("")

    async with open_remote(config(start(Thinks()))) as remote:
        *texts, turn = await take(remote)
    assert "".join(str(text) for text in texts) == "Hello"
    assert turn == Turn("Hello", thinking="secret")


async def test_closing_the_turn_stops_the_work_behind_it(start: Start, dripping: Any) -> None:
    async with open_remote(config(start(dripping))) as remote:
        turn = remote.stream(HI, [])
        await anext(turn)
        await turn.aclose()
        async with asyncio.timeout(30):
            while dripping.writing:
                await asyncio.sleep(0.02)


async def test_what_goes_wrong_is_one_line(start: Start) -> None:
    url = start()
    async with open_remote(config(url, "other")) as remote:
        with pytest.raises(ModelError, match="has no model 'other'; there are: small, small-loop"):
            await remote.check()
        with pytest.raises(ModelError, match="answered 404: no model 'other'"):
            await take(remote)
    async with open_remote(config(url)) as remote:
        with pytest.raises(ModelError, match="broke off: the script has no further turn"):
            await take(remote)
    async with open_remote(config("http://127.0.0.1:9")) as remote:
        for asked in (remote.check(), take(remote)):
            with pytest.raises(ModelError, match="127.0.0.1:9/v1/chat/completions: "):
                await asked


def test_serve_refuses_an_endpoint_without_the_model(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["serve", "--endpoint", f"{start()}/v1", "--model", "other", "--port", "0"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "has no model 'other'" in capsys.readouterr().err
