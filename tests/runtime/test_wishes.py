"""Limits and sampling that a client asks for: served on every route, or refused in OpenAI's shape."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from breadcrumbs.conversations import Conversations
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.local_model import LocalModel
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message
from breadcrumbs.monitoring import Monitor
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.remote_model import open_remote
from breadcrumbs.runs import Runs
from breadcrumbs.turns import Turn, Usage, Wishes, wishing

Start = Callable[..., str]
HI: list[Any] = [{"role": "user", "content": "hi"}]


class Obliging:
    """Writes its script, and keeps what each turn was wished to be."""

    def __init__(self, *turns: Turn) -> None:
        self.script = ScriptedPolicy(turns)
        self.asked: list[Wishes] = []

    def wishing(self, wishes: Wishes) -> Any:
        outer = self

        class Wished:
            async def stream(
                self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
            ) -> AsyncGenerator[str | Turn, None]:
                outer.asked.append(wishes)
                async for item in outer.script.stream(messages, tools):
                    yield item

        return Wished()

    def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        return self.wishing(Wishes()).stream(messages, tools)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def model(tiny_model_folder: Path) -> LocalModel:
    return LocalModel.load(str(tiny_model_folder), dtype="float32", device="cpu")


@contextmanager
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60) as opened:
        yield opened


@pytest.fixture
def api(start: Start, model: LocalModel) -> Iterator[openai.OpenAI]:
    """A real model, small and random, behind the service."""
    with client(start(Conversations(model, max_new_tokens=24), turns_at_once=8)) as opened:
        yield opened


def whole(api: openai.OpenAI, **wishes: Any) -> tuple[str, str, int]:
    """Text, why it ended, and its tokens."""
    answer = api.chat.completions.create(model="small", messages=HI, **wishes)
    assert answer.usage is not None
    (choice,) = answer.choices
    return choice.message.content or "", choice.finish_reason, answer.usage.completion_tokens


def streamed(api: openai.OpenAI, **wishes: Any) -> tuple[str, str, int]:
    text, finish, tokens = "", "", 0
    options: Any = {"include_usage": True}
    for chunk in api.chat.completions.create(
        model="small", messages=HI, stream=True, stream_options=options, **wishes
    ):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
        tokens = chunk.usage.completion_tokens if chunk.usage is not None else tokens
    return text, finish, tokens


@pytest.mark.parametrize("ask", [whole, streamed])
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_a_limit_of_tokens_cuts_and_says_length(ask: Any, field: str, api: openai.OpenAI) -> None:
    full, finish, tokens = ask(api)
    assert (finish, tokens) == ("length", 24)  # the model's own limit
    text, finish, tokens = ask(api, **{field: 3})
    assert (finish, tokens) == ("length", 3)
    assert full.startswith(text)
    assert text != full


@pytest.mark.parametrize("ask", [whole, streamed])
def test_a_seed_repeats_what_a_temperature_draws(ask: Any, api: openai.OpenAI) -> None:
    greedy = ask(api)
    assert ask(api, temperature=0) == greedy
    drawn = ask(api, temperature=1.2, seed=5)
    assert drawn == ask(api, temperature=1.2, seed=5)
    assert drawn != greedy
    assert drawn != ask(api, temperature=1.2, seed=6)
    assert ask(api, top_p=0.95, seed=5) != greedy
    assert ask(api, top_p=1e-6, seed=5) == greedy


@pytest.mark.parametrize("ask", [whole, streamed])
def test_a_turn_ends_before_a_stop_text(ask: Any, api: openai.OpenAI) -> None:
    full = ask(api)[0]
    middle = re.findall("[a-z]{2,}", full[1:])[-1]  # a word: others may be halves of characters
    before = full[: full.index(middle)]
    for stop in (middle, ["\u0000never", middle]):
        text, finish, tokens = ask(api, stop=stop)
        assert (text.strip(), finish) == (before.strip(), "stop")
        assert tokens < 24
    assert ask(api, stop="\u0000never")[0] == full


def test_the_loop_spends_no_more_than_the_run_may(api: openai.OpenAI) -> None:
    answer = api.chat.completions.create(model="small-loop", messages=HI, max_tokens=4)
    assert answer.choices[0].finish_reason == "length"
    assert (answer.model_extra or {})["x_done"] == "out_of_tokens"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 4


def test_a_response_is_cut_and_says_incomplete(api: openai.OpenAI) -> None:
    made = api.responses.create(
        model="small-loop", input="hi", max_output_tokens=4, temperature=0.5, top_p=0.9
    )
    assert made.status == "incomplete"
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == "max_output_tokens"
    assert made.usage is not None
    assert made.usage.output_tokens == 4
    assert (made.temperature, made.top_p, made.max_output_tokens) == (0.5, 0.9, 4)
    last = list(
        api.responses.create(model="small-loop", input="hi", max_output_tokens=4, stream=True)
    )[-1]
    assert last.type == "response.incomplete"


async def test_each_turn_of_a_run_may_take_what_is_left_and_draws_of_its_own(
    gateway: SimulatedGateway, script: Any
) -> None:
    search = Turn("", script.search.calls, usage=Usage(9, 3))
    policy = Obliging(search, Turn("Done.", usage=Usage(9, 2)))
    runs = Runs(policy, gateway.gateway, LoopSettings(), Monitor("small"))
    wishes = Wishes(max_tokens=10, temperature=0.5, seed=2**63 - 1)
    run = runs.start([Message("user", "hi")], "ann", wishes=wishes)
    told = [event async for _, event in run.follow()]
    assert told[-1].reason == "answered"
    assert [(each.max_tokens, each.seed) for each in policy.asked] == [(10, 2**63 - 1), (7, 0)]
    assert {each.temperature for each in policy.asked} == {0.5}


async def test_a_turn_that_was_cut_ends_a_run_only_where_its_tokens_are_spent(
    gateway: SimulatedGateway,
) -> None:
    for limit, reason in ((3, "out_of_tokens"), (9, "answered"), (None, "answered")):
        policy = Obliging(Turn("Hello th", usage=Usage(9, 3), cut=True))
        runs = Runs(policy, gateway.gateway, LoopSettings(), Monitor("small"))
        run = runs.start([Message("user", "hi")], "ann", wishes=Wishes(max_tokens=limit))
        told = [event async for _, event in run.follow()]
        assert told[-1].reason == reason
        assert told[-2].text == "Hello th"


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "hot"}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"seed": 2**63}, "seed"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"stop": ["x" * 257]}, "stop"),
        ({"model": "small-loop", "stop": "x"}, "stop"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"presence_penalty": -1}, "presence_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
)
def test_what_cannot_be_served_is_refused_in_openais_shape(
    change: dict[str, Any], param: str, start: Start
) -> None:
    policy = Obliging(Turn("unused"))
    body = {"model": "small", "messages": HI, **change}
    answer = httpx.post(f"{start(policy)}/v1/chat/completions", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param), error
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert policy.asked == []


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": 3}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
    ],
)
def test_a_response_that_cannot_be_served_is_refused_too(
    change: dict[str, Any], param: str, start: Start
) -> None:
    policy = Obliging(Turn("unused"))
    body = {"model": "small-loop", "input": "hi", **change}
    answer = httpx.post(f"{start(policy)}/v1/responses", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert policy.asked == []


def test_what_changes_nothing_is_taken(start: Start) -> None:
    policy = Obliging(Turn("Hi."))
    given = {
        "n": 1,
        "stop": None,
        "temperature": None,
        "logprobs": False,
        "frequency_penalty": 0,
        "logit_bias": {},
        "response_format": {"type": "text"},
        "max_tokens": 5,
        "max_completion_tokens": 5,
    }
    body = {"model": "small", "messages": HI, **given}
    answer = httpx.post(f"{start(policy)}/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    assert policy.asked == [Wishes(max_tokens=5)]


def test_a_model_that_writes_in_one_way_says_so_and_nothing_is_decided(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    url = start(*script.prelude, script.execute, Turn("It waits."))
    with client(url) as api:
        for create in (
            lambda: api.chat.completions.create(model="small", messages=HI, temperature=0.5),
            lambda: api.chat.completions.create(model="small-loop", messages=HI, max_tokens=5),
        ):
            with pytest.raises(openai.BadRequestError, match="writes in one way"):
                create()
        first = api.responses.create(model="small-loop", input=script.request)
        yes: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": first.output[-2].id,
            "approve": True,
        }
        with pytest.raises(openai.BadRequestError, match="writes in one way"):
            api.responses.create(
                model="small-loop", input=[yes], previous_response_id=first.id, temperature=0.5
            )
    assert [card.state for card in gateway.gateway.journal.rows()] == ["pending"]


async def test_a_remote_model_is_told_the_wishes(start: Start) -> None:
    policy = Obliging(Turn("Hi.", usage=Usage(1, 1), cut=True), Turn("Hi."))
    config = EndpointConfig(base_url=f"{start(policy)}/v1", model="small", timeout_s=60)
    wishes = Wishes(5, 0.5, 0.9, 7, ("END",))
    async with open_remote(config) as remote:
        items = [item async for item in wishing(remote, wishes).stream([Message("user", "hi")], [])]
        assert isinstance(items[-1], Turn)
        assert items[-1].cut
        assert [item async for item in remote.stream([Message("user", "hi")], [])][-1] == Turn(
            "Hi."
        )
    assert policy.asked == [wishes, Wishes()]
