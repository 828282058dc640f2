"""The `openai` client, sync and async, and LiteLLM against the running server."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import openai
import pytest

from breadcrumbs.messages import ToolCall
from breadcrumbs.turns import Turn, Usage

Start = Callable[..., str]
TOOL = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}
CALL = ToolCall("c1", "get_time", {"zone": "UTC"})
HI: list[Any] = [{"role": "user", "content": "hi"}]


def sync(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)


async def test_G74_the_async_client_whole_streamed_and_with_its_helper(start: Start) -> None:
    turns = [Turn("One.", usage=Usage(7, 2)), Turn("Two.", thinking="hm"), Turn("", (CALL,))]
    url = start(*turns)
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as api:
        whole = await api.chat.completions.create(model="small", messages=HI)
        assert whole.choices[0].message.content == "One."
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.total_tokens) == (7, 9)
        stream = await api.chat.completions.create(model="small", messages=HI, stream=True)
        deltas = [chunk.choices[0].delta async for chunk in stream]
        assert "".join(delta.content or "" for delta in deltas) == "Two."
        thoughts = [(delta.model_extra or {}).get("reasoning_content") for delta in deltas]
        assert [each for each in thoughts if each] == ["hm"]
        tools: Any = [TOOL]
        helper = api.chat.completions.stream(model="small", messages=HI, tools=tools)
        async with helper as streamed:
            final = await streamed.get_final_completion()
        (call,) = final.choices[0].message.tool_calls or []
        assert (call.function.name, call.function.arguments) == ("get_time", '{"zone":"UTC"}')


def test_G74_usage_is_a_last_chunk_only_where_asked_for(start: Start) -> None:
    turn = Turn("Hi.", usage=Usage(7, 2))
    with sync(start(turn, turn, Turn("Hi."))) as api:
        plain = list(api.chat.completions.create(model="small-loop", messages=HI, stream=True))
        assert all(chunk.choices for chunk in plain)
        options: Any = {"include_usage": True}
        for expected in (9, None):  # None: a policy that does not count
            *rest, last = api.chat.completions.create(
                model="small-loop", messages=HI, stream=True, stream_options=options
            )
            assert last.choices == []
            assert (last.usage.total_tokens if last.usage else None) == expected
            assert rest[-1].choices[0].finish_reason == "stop"


def test_a_client_goes_on_after_a_late_decision_by_the_runs_id(
    start: Start, script: Any, gateway: Any
) -> None:
    url = start(*script.prelude, script.execute, Turn("It waits."), Turn("It is open now."))
    with sync(url) as api:
        first = api.chat.completions.create(
            model="small-loop", messages=[{"role": "user", "content": script.request}]
        )
        (row,) = gateway.gateway.journal.pending()
        assert gateway.gateway.journal.decide(row.id, approve=True, by="ann")
        import time

        deadline = time.monotonic() + 30
        while gateway.gateway.journal.rows()[0].state != "done":
            assert time.monotonic() < deadline
            time.sleep(0.05)
        run = (first.model_extra or {})["x_run_id"]
        second = api.chat.completions.create(
            model="small-loop", messages=[*HI], extra_body={"x_run_id": run}
        )
        assert second.choices[0].message.content == "It is open now."
        with pytest.raises(openai.NotFoundError, match="run_x"):
            api.chat.completions.create(
                model="small-loop", messages=HI, extra_body={"x_run_id": "run_x"}
            )


@pytest.fixture(scope="module")
def litellm() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network for prices
    module = pytest.importorskip("litellm", exc_type=ImportError)
    module.suppress_debug_info = True
    return module


@pytest.mark.filterwarnings("ignore")  # LiteLLM's own
@pytest.mark.parametrize("prefix", ["openai", "hosted_vllm"])
def test_G74_litellm_whole_streamed_and_with_tools(prefix: str, litellm: Any, start: Start) -> None:
    turns = [Turn("One.", thinking="hm"), Turn("Two.", thinking="hm"), Turn("", (CALL,))]
    place = {"api_base": f"{start(*turns)}/v1", "api_key": "none", "timeout": 60}
    whole = litellm.completion(model=f"{prefix}/small", messages=HI, **place)
    assert whole.choices[0].message.content == "One."
    assert whole.choices[0].message.reasoning_content == "hm"
    chunks = list(
        litellm.completion(model=f"{prefix}/small-loop", messages=HI, stream=True, **place)
    )
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert "".join(delta.content or "" for delta in deltas) == "Two."
    thoughts = [getattr(delta, "reasoning_content", None) for delta in deltas]
    assert [each for each in thoughts if each] == ["hm"]
    called = litellm.completion(model=f"{prefix}/small", messages=HI, tools=[TOOL], **place)
    assert called.choices[0].finish_reason == "tool_calls"
    (call,) = called.choices[0].message.tool_calls
    assert call.function.arguments == '{"zone":"UTC"}'


@pytest.mark.filterwarnings("ignore")
async def test_G74_litellm_async_and_its_typed_errors(litellm: Any, start: Start) -> None:
    place = {"api_base": f"{start(Turn('Hi.'))}/v1", "api_key": "none", "max_retries": 0}
    answer = await litellm.acompletion(model="openai/small-loop", messages=HI, **place)
    assert answer.choices[0].message.content == "Hi."
    with pytest.raises(litellm.NotFoundError, match="no model"):
        await litellm.acompletion(model="openai/large", messages=HI, **place)
