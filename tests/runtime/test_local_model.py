"""Batched text equals one-by-one text; the cache is reused and never wrong; streams can be shut."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import threading
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import torch

from breadcrumbs import decoding
from breadcrumbs.decoding import batches_by_length, common_prefix, new_cache
from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.gateway import META_TOOLS, GatewaySettings
from breadcrumbs.local_model import BatchedPolicy, LocalModel, LocalPolicy
from breadcrumbs.messages import Message
from breadcrumbs.models import quiet
from breadcrumbs.turns import Turn

HEAD = [5, 6, 7, 8, 9, 10, 11, 12]


@pytest.fixture(scope="module")
def model(tiny_model_folder: Path) -> LocalModel:
    return LocalModel.load(str(tiny_model_folder), dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def adapter(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA adapter with weights that change what the model says."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    loaded = LocalModel.load(str(tiny_model_folder), dtype="float32", device="cpu")
    torch.manual_seed(3)
    config = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    folder = tmp_path_factory.mktemp("adapter")
    with quiet():
        base = AutoModelForCausalLM.from_pretrained(tiny_model_folder)
        get_peft_model(base, config).save_pretrained(folder)
    facts = {"template_sha256": loaded.renderer.template_hash}
    (folder / "serving.json").write_text(json.dumps(facts))
    return folder


def _prompts(model: LocalModel, count: int, head: Sequence[int] = HEAD) -> list[list[int]]:
    draw = random.Random(count)
    words = range(3, len(model.renderer.tokenizer))
    return [[*head, *draw.choices(words, k=draw.randint(1, 30))] for _ in range(count)]


def _plain(model: LocalModel, prompt: Sequence[int], count: int) -> list[int]:
    """The greedy continuation without any cache: the definition, computed anew per token."""
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(count):
            token = int(model.model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
            if token in model.renderer.stop_ids:
                break
            ids.append(token)
    return ids[len(prompt) :]


@pytest.mark.parametrize("head", [HEAD, []])
def test_batches_write_what_each_prompt_writes_alone(model: LocalModel, head: list[int]) -> None:
    prompts = _prompts(model, 9, head)
    together = model.generate(prompts, max_new_tokens=12)
    assert together == [_plain(model, prompt, 12) for prompt in prompts]
    assert len({tuple(row) for row in together}) > 1, "all alike: nothing was told apart"
    assert model.generate(prompts, max_new_tokens=12, batch_tokens=60) == together


def test_twins_compute_their_common_beginning_once(
    model: LocalModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(4)
    words = range(3, len(model.renderer.tokenizer))
    heads = [draw.choices(words, k=30) for _ in range(3)]
    prompts = [[*head, *draw.choices(words, k=10)] for _ in range(2) for head in heads]
    computed = []
    plain = decoding.forward_last

    def counted(net: Any, ids: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        computed.append(ids.shape[1])
        return plain(net, ids, *rest, **named)

    monkeypatch.setattr(decoding, "forward_last", counted)
    rows = model.generate(prompts, max_new_tokens=8)
    assert sorted(size for size in computed if size > 1) == [10, 10, 10, 40, 40, 40]
    assert rows == [_plain(model, prompt, 8) for prompt in prompts]


def test_rows_stop_at_their_own_stop_token(model: LocalModel) -> None:
    prompts = _prompts(model, 6)
    free = model.generate(prompts, max_new_tokens=10)
    stop = free[0][4]
    renderer, before = model.renderer, model.renderer.stop_ids
    renderer.stop_ids = (stop,)
    try:
        stopped = model.generate(prompts, max_new_tokens=10)
    finally:
        renderer.stop_ids = before
    expected = [row[: row.index(stop)] if stop in row else row for row in free]
    assert stopped == expected
    assert len(set(map(len, expected))) > 1


def test_equal_prompts_and_a_single_token_are_fine(model: LocalModel) -> None:
    prompts = [[7], [7], [7, 8]]
    rows = model.generate(prompts, max_new_tokens=5)
    assert rows[0] == rows[1] == _plain(model, [7], 5)
    assert rows[2] == _plain(model, [7, 8], 5)
    assert model.generate([]) == []


def test_prose_stops_at_its_budget_and_calls_go_on(model: LocalModel) -> None:
    prompts = _prompts(model, 4)
    free = model.generate(prompts, max_new_tokens=20)
    assert [len(r) for r in model.generate(prompts, max_new_tokens=20, text_budget=5)] == [
        min(5, len(row)) for row in free
    ]
    calling = LocalModel(model.model, model.renderer, "calling")
    opener = model.renderer.tokenizer(model.renderer.call_format.opener)["input_ids"]
    assert calling.is_prose([5] * 8, 8)
    assert not calling.is_prose([*opener, 5, 5], len(opener) + 2)
    assert not calling.is_prose([5] * 9, 8)


def test_progress_counts_to_the_end(model: LocalModel) -> None:
    seen: list[tuple[int, int]] = []
    model.generate(
        _prompts(model, 5),
        max_new_tokens=2,
        batch_tokens=40,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == sorted(seen)
    assert seen[-1] == (5, 5)
    assert len(seen) > 1


def test_generation_ends_within_a_token_when_stopped(model: LocalModel) -> None:
    stop = threading.Event()
    stop.set()
    assert model.generate(_prompts(model, 2), max_new_tokens=50, stop=stop) == [[], []]


def test_prompts_without_room_are_refused(model: LocalModel) -> None:
    limit = model.model.config.max_position_embeddings
    with pytest.raises(ModelError, match=f"{limit} tokens: the model reads at most"):
        model.generate([[5] * limit])
    with pytest.raises(ModelError, match="empty prompt"):
        model.generate([[5], []])
    assert len(model.generate([[5] * (limit - 2)], max_new_tokens=9)[0]) <= 2


def test_the_roomy_cache_holds_what_the_librarys_own_holds(model: LocalModel) -> None:
    from transformers import DynamicCache

    ours, theirs = new_cache(model.model), DynamicCache(config=model.model.config)
    draw = torch.Generator().manual_seed(1)
    for step in (5, 1, 130, 1, 1):
        keys, values = torch.randn(2, 2, 2, step, 16, generator=draw)
        for cache in (ours, theirs):
            cache.update(keys, values, 0)
        if step == 130:
            for cache in (ours, theirs):
                cache.crop(-40)
        if step == 5:
            for cache in (ours, theirs):
                cache.batch_repeat_interleave(2)
                cache.batch_select_indices(torch.tensor([0, 3]))
        assert torch.equal(ours.layers[0].keys, theirs.layers[0].keys)
        assert torch.equal(ours.layers[0].values, theirs.layers[0].values)
        assert ours.get_seq_length() == theirs.get_seq_length()


def test_common_prefix_leaves_a_token_to_each_row() -> None:
    assert common_prefix([[1, 2, 3], [1, 2, 3]]) == 2
    assert common_prefix([[1, 2, 3], (1, 2), [1, 2, 9]]) == 1
    assert common_prefix([[1], [2]]) == 0
    assert common_prefix([[4, 1, 1], [4, 2, 2], [4, 1, 3]]) == 1


def test_batches_keep_their_token_budget() -> None:
    lengths = [5, 50, 7, 20, 6, 200]
    batches = list(batches_by_length(lengths, 60))
    assert sorted(index for batch in batches for index in batch) == list(range(6))
    assert [5] in batches
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= 60


# ---- one conversation


def _messages(*texts: str) -> list[Message]:
    roles = ["system", "user", "assistant", "user", "assistant", "user"]
    return [Message(role, text) for role, text in zip(roles, texts, strict=False)]  # type: ignore[arg-type]


async def _drain(policy: Any, messages: list[Message]) -> tuple[str, Turn]:
    items = [item async for item in policy.stream(messages, META_TOOLS)]
    assert isinstance(items[-1], Turn)
    assert all(isinstance(item, str) and item for item in items[:-1])
    return "".join(items[:-1]), items[-1]


def _expected(model: LocalModel, messages: list[Message], count: int) -> Turn:
    prompt = model.renderer.prompt_ids(messages, META_TOOLS)
    return model.turn(_plain(model, prompt, count))


async def test_a_conversation_keeps_its_cache_and_says_the_same(model: LocalModel) -> None:
    policy = LocalPolicy(model, max_new_tokens=10)
    talk = _messages("Act.", "Open a ticket", "Which title?", "Lift is stuck")
    for messages in (talk[:2], talk, talk[:2], _messages("Other.", "Words"), talk):
        text, turn = await _drain(policy, messages)
        assert turn == _expected(model, messages, 10)
        assert text == turn.text
    prompt = model.renderer.prompt_ids(talk, META_TOOLS)
    assert list(policy.cached_ids[: len(prompt)]) == prompt


async def test_only_what_is_new_is_computed(model: LocalModel) -> None:
    policy = LocalPolicy(model, max_new_tokens=2)
    talk = _messages("Act.", "Open a ticket", "Which title?", "Lift is stuck")
    widths: list[int] = []
    hook = model.model.get_input_embeddings().register_forward_pre_hook(
        lambda module, args: widths.append(args[0].shape[1])
    )
    try:
        await _drain(policy, talk[:2])
        first = widths[0]
        widths.clear()
        await _drain(policy, talk)
    finally:
        hook.remove()
    assert first == len(model.renderer.prompt_ids(talk[:2], META_TOOLS))
    assert widths[0] < first / 2


async def test_closing_a_stream_stops_within_a_token(model: LocalModel) -> None:
    policy = LocalPolicy(model, max_new_tokens=500)
    messages = _messages("Act.", "Open a ticket")
    async with aclosing(policy.stream(messages, META_TOOLS)) as source:
        await anext(source)
    held = len(policy.cached_ids)
    await asyncio.sleep(0.1)
    assert len(policy.cached_ids) == held
    short = LocalPolicy(model, max_new_tokens=8)
    assert (await _drain(LocalPolicy(model, 8), messages)) == (await _drain(short, messages))


async def test_cancelling_leaves_a_cache_that_is_right(model: LocalModel) -> None:
    policy = LocalPolicy(model, max_new_tokens=400)
    messages = _messages("Act.", "Open a ticket")
    for wait_s in (0.0, 0.002, 0.02, 0.05):
        task = asyncio.create_task(_drain(policy, messages))
        await asyncio.sleep(wait_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    other = _messages("Act.", "Open a box")
    policy._max_new_tokens = 8
    assert (await _drain(policy, other))[1] == _expected(model, other, 8)


async def test_the_loop_stays_free_while_text_is_written(model: LocalModel) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.001)

    ticker = asyncio.create_task(tick())
    await _drain(LocalPolicy(model, max_new_tokens=60), _messages("Act.", "Open a ticket"))
    ticker.cancel()
    assert ticks > 5


async def test_a_conversation_that_is_too_long_is_refused(model: LocalModel) -> None:
    long = _messages("Act.", "word " * 3000)
    for policy in (LocalPolicy(model), BatchedPolicy(model)):
        with pytest.raises(ModelError, match="shorten the conversation"):
            await _drain(policy, long)


# ---- many episodes


async def test_concurrent_turns_are_generated_together(model: LocalModel) -> None:
    policy = BatchedPolicy(model, max_batch=4, max_new_tokens=6)
    talks = [_messages("Act.", f"Open ticket {n}") for n in range(10)]
    answers = await asyncio.gather(*(_drain(policy, talk) for talk in talks))
    assert [turn for _, turn in answers] == [_expected(model, talk, 6) for talk in talks]
    assert sum(policy.batch_sizes) == 10
    assert max(policy.batch_sizes) == 4
    assert len(policy.batch_sizes) == 3


async def test_one_cancelled_episode_leaves_the_others_alone(model: LocalModel) -> None:
    policy = BatchedPolicy(model, max_batch=4, max_new_tokens=6)
    talks = [_messages("Act.", f"Open ticket {n}") for n in range(3)]
    tasks = [asyncio.create_task(_drain(policy, talk)) for talk in talks]
    await asyncio.sleep(0)
    tasks[1].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[1], asyncio.CancelledError)
    assert [done[0][1], done[2][1]] == [_expected(model, t, 6) for t in (talks[0], talks[2])]


async def test_a_failure_reaches_every_episode_and_ends_with_its_batch(model: LocalModel) -> None:
    class Failing(LocalModel):
        fail = True

        def generate(self, *args: Any, **kwargs: Any) -> list[list[int]]:
            if self.fail:
                raise ModelError("out of memory")
            return super().generate(*args, **kwargs)

    failing = Failing(model.model, model.renderer, "failing")
    policy = BatchedPolicy(failing, max_new_tokens=4)
    talks = [_messages("Act.", f"Open ticket {n}") for n in range(3)]
    done = await asyncio.gather(*(_drain(policy, t) for t in talks), return_exceptions=True)
    assert [str(error) for error in done] == ["out of memory"] * 3
    failing.fail = False
    assert (await _drain(policy, talks[0]))[1] == _expected(model, talks[0], 4)


# ---- adapters and loading


def test_an_adapter_changes_the_text_and_can_be_switched_off(
    model: LocalModel, tiny_model_folder: Path, adapter: Path
) -> None:
    adapted = LocalModel.load(str(tiny_model_folder), adapter=adapter, dtype="float32")
    assert adapted.has_adapter
    assert not model.has_adapter
    prompts = _prompts(model, 4)
    base = model.generate(prompts, max_new_tokens=8)
    assert adapted.generate(prompts, max_new_tokens=8) != base
    with adapted.base():
        assert adapted.generate(prompts, max_new_tokens=8) == base
    with model.base():
        assert model.generate(prompts, max_new_tokens=8) == base


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("missing", "no adapter_config.json"),
        ("no weights", "no adapter_model.safetensors"),
        ("unfinished", "no serving.json"),
        ("half json", "serving.json: cannot be read"),
        ("a list", "serving.json: not an object"),
        ("other template", "another chat template"),
        ("cut weights", "cannot load the adapter"),
        ("bad config", "cannot load the adapter"),
        ("other base", "cannot load the adapter"),
    ],
)
def test_broken_adapters_are_one_line(
    tiny_model_folder: Path, adapter: Path, tmp_path: Path, damage: str, said: str
) -> None:
    folder = tmp_path / "adapter"
    if damage != "missing":
        shutil.copytree(adapter, folder)
    weights = folder / "adapter_model.safetensors"
    if damage == "no weights":
        weights.unlink()
    elif damage == "unfinished":
        (folder / "serving.json").unlink()
    elif damage == "half json":
        (folder / "serving.json").write_text('{"template_sha')
    elif damage == "a list":
        (folder / "serving.json").write_text("[]")
    elif damage == "other template":
        (folder / "serving.json").write_text('{"template_sha256": "0"}')
    elif damage == "cut weights":
        weights.write_bytes(weights.read_bytes()[:100])
    elif damage == "bad config":
        (folder / "adapter_config.json").write_text('{"peft_type": "NOTHING"}')
    elif damage == "other base":
        from safetensors.torch import load_file, save_file

        save_file({k: t.repeat(2, 1) for k, t in load_file(weights).items()}, weights)
    with pytest.raises(ModelError, match=said) as caught:
        LocalModel.load(str(tiny_model_folder), adapter=folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["cut weights", "no weights", "bad config"])
def test_broken_models_are_one_line(tiny_model_folder: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model_folder, folder)
    weights = folder / "model.safetensors"
    if damage == "cut weights":
        weights.write_bytes(weights.read_bytes()[:1000])
    elif damage == "no weights":
        weights.unlink()
    else:
        (folder / "config.json").write_text('{"model_type": "nothing-known"}')
    with pytest.raises(ModelError) as caught:
        LocalModel.load(str(folder))
    assert "\n" not in str(caught.value)


def test_loading_is_quiet(tiny_model_folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    LocalModel.load(str(tiny_model_folder))
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""


# ---- the real model


@pytest.mark.model
def test_real_batches_write_what_each_prompt_writes_alone() -> None:
    """In float32, where ties are as good as impossible."""
    model = LocalModel.load("smollm2-135m", dtype="float32", device="cpu")
    requests = ["Open a ticket called 'Lift'", "Hi", "Book a table for two at nine on Friday"]
    prompts = [
        model.renderer.prompt_ids(_messages("Act through the gateway.", text), META_TOOLS)
        for text in requests
    ]
    together = model.generate(prompts, max_new_tokens=12)
    assert together == [model.generate([prompt], max_new_tokens=12)[0] for prompt in prompts]


def test_an_adapter_is_served_as_many_search_hits_as_it_was_trained_on(
    tiny_model_folder: Path, adapter: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "adapter"
    shutil.copytree(adapter, folder)
    facts = json.loads((folder / "serving.json").read_text())

    def served(gateway: Any) -> int:
        (folder / "serving.json").write_text(json.dumps({**facts, "gateway": gateway}))
        loaded = LocalModel.load(str(tiny_model_folder), adapter=folder)
        return loaded.gateway_settings().max_hits

    assert served({"max_hits": 3}) == 3
    plain = LocalModel.load(str(tiny_model_folder)).gateway_settings()
    assert plain == GatewaySettings()
    assert plain.max_hits != 3
    for broken in ({"max_hits": 0}, {"max_hits": "3"}, {}, []):
        with pytest.raises(ModelError, match="max_hits must be 1 or more"):
            served(broken)
