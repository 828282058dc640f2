"""Conversations written together say what each says alone, and none holds up or disturbs another."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs import conversations
from breadcrumbs.conversations import Conversations
from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.local_model import LocalModel, LocalPolicy
from breadcrumbs.messages import Message
from breadcrumbs.policies import SerialPolicy
from breadcrumbs.turns import Turn, Wishes, wishing


@pytest.fixture(scope="module")
def model(tiny_model_folder: Path) -> LocalModel:
    return LocalModel.load(str(tiny_model_folder), dtype="float32", device="cpu")


def talk(*texts: str) -> list[Message]:
    roles = ["system", "user", "assistant", "user"]
    return [Message(role, text) for role, text in zip(roles, texts, strict=False)]  # type: ignore[arg-type]


async def said(policy: Any, messages: list[Message]) -> Turn:
    items = [item async for item in policy.stream(messages, META_TOOLS)]
    assert isinstance(items[-1], Turn)
    assert "".join(items[:-1]) == items[-1].text
    return items[-1]


async def alone(model: LocalModel, messages: list[Message], count: int) -> Turn:
    return await said(LocalPolicy(model, max_new_tokens=count), messages)


@contextmanager
def passes(model: LocalModel) -> Iterator[list[tuple[int, int]]]:
    """Rows and tokens of each forward pass meanwhile."""
    seen: list[tuple[int, int]] = []
    hook = model.model.get_input_embeddings().register_forward_pre_hook(
        lambda module, args: seen.append(tuple(args[0].shape))
    )
    try:
        yield seen
    finally:
        hook.remove()


async def test_turns_written_together_are_what_each_is_alone(model: LocalModel) -> None:
    policy = Conversations(model, at_once=3, max_new_tokens=12)
    talks = [talk("Act.", f"Open ticket {'x ' * n}{n}") for n in range(7)]
    with passes(model) as seen:
        turns = await asyncio.gather(*(said(policy, each) for each in talks))
    assert turns == [await alone(model, each, 12) for each in talks]
    assert max(rows for rows, _ in seen) == 3
    assert all(turn.usage is not None for turn in turns)


async def test_who_comes_later_joins_and_who_leaves_takes_nothing_with_it(
    model: LocalModel,
) -> None:
    policy = Conversations(model, max_new_tokens=30)
    first, second, third = (talk("Act.", f"Open {word}") for word in ("a lift", "it", "ticket is"))
    async with aclosing(policy.stream(first, META_TOOLS)) as leaver:
        await anext(leaver)
        staying = asyncio.create_task(said(policy, second))
        await asyncio.sleep(0.02)
        late = asyncio.create_task(said(policy, third))
        await asyncio.sleep(0.02)
    assert await staying == await alone(model, second, 30)
    assert await late == await alone(model, third, 30)


async def test_a_conversation_goes_on_from_its_own_cache_between_others(model: LocalModel) -> None:
    policy = Conversations(model, max_new_tokens=6)
    system = "Act. " + "word " * 60
    begun = [talk(system, f"Open a ticket {n}") for n in range(3)]
    turns = await asyncio.gather(*(said(policy, each) for each in begun))
    for each, turn in zip(begun, turns, strict=True):
        on = [*each, Message("assistant", turn.content), Message("user", "Lift is stuck")]
        with passes(model) as seen:
            again = await said(policy, on)
        assert again == await alone(model, on, 6)
        prompt = len(model.renderer.prompt_ids(on, META_TOOLS))
        known = len(model.renderer.prompt_ids(each, META_TOOLS))
        assert seen[0][1] <= prompt - known + 1


async def test_kept_conversations_are_bounded(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversations, "KEPT", 2)
    policy = Conversations(model, max_new_tokens=2)
    for n in range(5):
        await said(policy, talk(f"{n} Act.", "Open"))
    await asyncio.sleep(0.05)
    assert len(policy._kept) == 2


async def test_G47_a_stream_that_is_closed_stops_within_one_token(model: LocalModel) -> None:
    policy = Conversations(model, max_new_tokens=500)
    with passes(model) as seen:
        async with aclosing(policy.stream(talk("Act.", "Open a ticket"), META_TOOLS)) as source:
            await anext(source)
        written = len(seen)
        await asyncio.sleep(0.2)
        assert len(seen) <= written + 1
    assert policy._driver is None


async def test_who_gives_up_waiting_is_never_begun(model: LocalModel) -> None:
    policy = Conversations(model, at_once=1, max_new_tokens=20)
    with passes(model) as seen:
        writing = asyncio.create_task(said(policy, talk("Act.", "Open a ticket")))
        await asyncio.sleep(0)
        given_up = asyncio.create_task(said(policy, talk("Act.", "Never mind")))
        await asyncio.sleep(0)
        assert len(policy._waiting) >= 1
        given_up.cancel()
        await writing
        await asyncio.sleep(0.05)
    assert sum(width > 1 for _, width in seen) == 1  # one prompt was computed


async def test_turns_are_begun_in_the_order_they_came(model: LocalModel) -> None:
    policy = SerialPolicy(Conversations(model, at_once=2, max_new_tokens=3), 2)
    ended: list[int] = []

    async def one(n: int) -> None:
        await said(policy, talk("Act.", f"Open a ticket {n}"))
        ended.append(n)

    await asyncio.gather(*(one(n) for n in range(6)))
    assert [sorted(ended[at : at + 2]) for at in (0, 2, 4)] == [[0, 1], [2, 3], [4, 5]]


async def test_wishes_are_each_turns_own(model: LocalModel) -> None:
    policy = Conversations(model, max_new_tokens=10)
    messages = talk("Act.", "Open a ticket")
    greedy = await alone(model, messages, 10)
    drawn = Wishes(temperature=1.5, seed=3)
    one, other, plain, short = await asyncio.gather(
        said(wishing(policy, drawn), messages),
        said(wishing(policy, drawn), messages),
        said(policy, messages),
        said(wishing(policy, Wishes(max_tokens=2)), messages),
    )
    assert one == other
    assert one != greedy
    assert plain == greedy
    assert short.usage is not None
    assert (short.usage.completion, short.cut) == (2, True)
    assert wishing(policy, Wishes()) is policy


async def test_what_breaks_one_turn_breaks_no_other(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Conversations(model, max_new_tokens=6)
    forward = conversations.forward_last

    def breaks(*args: Any, **kwargs: Any) -> Any:
        if args[1].shape[1] > 60:  # only the long prompt
            raise RuntimeError("out of memory")
        return forward(*args, **kwargs)

    short = talk("Act.", "Open")
    width = len(model.renderer.prompt_ids(short, []))
    assert width <= 60
    monkeypatch.setattr(conversations, "forward_last", breaks)

    async def bare(messages: list[Message]) -> Turn:
        items = [item async for item in policy.stream(messages, [])]
        assert isinstance(items[-1], Turn)
        return items[-1]

    good, bad = await asyncio.gather(
        bare(short), bare(talk("Act.", "Open " * 100)), return_exceptions=True
    )
    assert isinstance(good, Turn)
    assert isinstance(bad, RuntimeError)
    monkeypatch.setattr(conversations, "forward_last", forward)
    assert await bare(short) == good  # and the next one is served


async def test_when_all_break_each_is_told_and_the_next_is_served(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Conversations(model, max_new_tokens=6)

    def breaks(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("the device is gone")

    tasks = [asyncio.create_task(said(policy, talk("Act.", f"Open {n}"))) for n in range(2)]
    while len(policy._rows) < 2:
        await asyncio.sleep(0)
    monkeypatch.setattr(conversations, "forward_last", breaks)
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in ended] == [RuntimeError, RuntimeError]
    monkeypatch.undo()
    messages = talk("Act.", "Open 1")
    assert await said(policy, messages) == await alone(model, messages, 6)


async def test_a_conversation_that_is_too_long_is_refused(model: LocalModel) -> None:
    with pytest.raises(ModelError, match="shorten the conversation"):
        await said(Conversations(model), talk("Act.", "word " * 3000))


def test_a_cache_that_forgets_is_not_served_so(model: LocalModel) -> None:
    from types import SimpleNamespace

    from transformers import MistralConfig

    assert Conversations.can_serve(model)
    small: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = MistralConfig(**small, sliding_window=16)
    forgetful: Any = SimpleNamespace(model=SimpleNamespace(config=config))
    assert not Conversations.can_serve(forgetful)
