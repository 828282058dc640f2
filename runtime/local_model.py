"""A transformers model in this process, with or without a LoRA adapter, greedy.

`LocalModel` loads and generates in batches; `LocalPolicy` is one conversation that keeps what
earlier rounds computed; `BatchedPolicy` collects the turns of many episodes into batches. Many
conversations that are watched while they are written: `conversations`.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM

from breadcrumbs.attention import supports_branches, use_reading
from breadcrumbs.decoding import (
    batches_by_length,
    common_prefix,
    decode_batch,
    forward_last,
    new_cache,
)
from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.lora import use_fused_lora
from breadcrumbs.memory import keep_freed_memory
from breadcrumbs.messages import Message
from breadcrumbs.models import first_line, quiet, resolve_model
from breadcrumbs.rendering import Renderer, load_renderer
from breadcrumbs.turns import Turn, Wishes
from breadcrumbs.writing import Writing

Dtype = Literal["bfloat16", "float32"]
MAX_NEW_TOKENS = 256
BATCH_TOKENS = 16_384
LINGER_S = 0.01
ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors", "serving.json")


class LocalModel:
    """Model, rendering and adapter switch."""

    def __init__(
        self, model: Any, renderer: Renderer, name: str, serving: Mapping[str, Any] | None = None
    ) -> None:
        self.model = model
        self.renderer = renderer
        self.name = name
        self.serving = serving or {}  # what an adapter's serving.json says

    @classmethod
    def load(
        cls,
        name: str,
        *,
        adapter: str | Path | None = None,
        dtype: Dtype = "bfloat16",
        device: str | None = None,
    ) -> LocalModel:
        """Load a model and, on it, an adapter folder.

        `device` None takes a GPU where there is one.

        Raises:
            ModelError: not found, not loadable, or the adapter was made for another template.
        """
        serving = {} if adapter is None else _serving_facts(Path(adapter))
        source = resolve_model(name)
        keep_freed_memory()
        place = device or ("cuda" if torch.cuda.is_available() else "cpu")
        with quiet():
            renderer = load_renderer(source)
            if adapter is not None:
                _check_template(Path(adapter), serving, renderer)
            model = _load_weights(name, source, dtype)
            if adapter is not None:
                model = _with_adapter(model, Path(adapter))
            if place == "cpu" and supports_branches(model.config):
                use_reading(model)
            if place == "cpu" and adapter is not None:
                use_fused_lora(model)
        return cls(model.to(place).eval(), renderer, name, serving)

    @property
    def has_adapter(self) -> bool:
        """Whether an adapter is loaded."""
        return hasattr(self.model, "disable_adapter")

    def gateway_settings(self) -> GatewaySettings:
        """A gateway like the one its adapter was trained behind: as many search hits.

        Raises:
            ModelError: serving.json holds another thing than a number there.
        """
        gateway = self.serving.get("gateway")
        if gateway is None:  # no adapter
            return GatewaySettings()
        hits = gateway.get("max_hits") if isinstance(gateway, dict) else None
        if not isinstance(hits, int) or hits < 1:
            raise ModelError("serving.json: gateway.max_hits must be 1 or more; train again")
        return GatewaySettings(max_hits=hits)

    @contextmanager
    def base(self) -> Iterator[None]:
        """Switch the adapter off for a block; the weights in memory stay the same."""
        with self.model.disable_adapter() if self.has_adapter else nullcontext():
            yield

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        text_budget: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        progress: Callable[[int, int], None] | None = None,
        stop: threading.Event | None = None,
    ) -> list[list[int]]:
        """Greedy continuations of each prompt, stop token left out, in the order given.

        A row whose first `text_budget` tokens hold neither a call opener nor reasoning is prose and
        stops there.
        Prompts are batched by length so that rows times longest stays within `batch_tokens`.
        `progress` gets (prompts done, prompts in all) after each batch. Setting `stop` from
        another thread ends the work within one token; what was written so far is returned.

        Raises:
            ModelError: a prompt leaves the model no room to write.
        """
        self.check_room(prompts)
        stop = stop or threading.Event()
        outputs: list[list[int]] = [[] for _ in prompts]
        done = 0
        for batch in batches_by_length([len(prompt) for prompt in prompts], batch_tokens):
            if stop.is_set():
                break
            rows = decode_batch(
                self.model,
                [prompts[at] for at in batch],
                max_new_tokens,
                lambda row: self.is_prose(row, text_budget),
                self.renderer.stop_ids,
                stop,
            )
            for at, row in zip(batch, rows, strict=True):
                outputs[at] = row
            done += len(batch)
            if progress is not None:
                progress(done, len(prompts))
        return outputs

    def check_room(self, prompts: Sequence[Sequence[int]]) -> None:
        """Refuse prompts that are empty or fill the model's positions.

        Raises:
            ModelError: there is one.
        """
        limit = self.model.config.max_position_embeddings
        longest = max(map(len, prompts), default=1)
        if longest >= limit:
            raise ModelError(
                f"prompt of {longest} tokens: the model reads at most {limit - 1} and writes "
                "behind them; shorten the conversation or use a model with a longer context"
            )
        if not all(prompts):
            raise ModelError("empty prompt: a model needs at least one token to go on from")

    def begin(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], wishes: Wishes
    ) -> tuple[Writing, list[int]]:
        """The turn that is to be written next, and the prompt before it.

        Raises:
            ModelError: the conversation fills the model's context.
        """
        prompt = self.renderer.prompt_ids(messages, tools)
        self.check_room([prompt])
        room = self.model.config.max_position_embeddings - len(prompt)
        limit = min(wishes.max_tokens or MAX_NEW_TOKENS, room)
        first_id = _first_id(messages)
        return Writing(self.renderer, first_id, tools, len(prompt), limit, wishes.stop), prompt

    def turn(
        self,
        tokens: Sequence[int],
        first_id: int = 1,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> Turn:
        """Generated tokens as a turn that could call `tools`; calls count from `first_id`."""
        return self.renderer.call_format.parse_turn(self.decode(tokens), first_id, tools)

    def decode(self, tokens: Sequence[int]) -> str:
        """Tokens as text, special ones included."""
        return str(self.renderer.tokenizer.decode(list(tokens), skip_special_tokens=False))

    def is_prose(self, tokens: Sequence[int], text_budget: int | None) -> bool:
        """Whether a turn just reached its budget with neither a call opener nor reasoning."""
        if text_budget is None or len(tokens) != text_budget:
            return False
        text = self.decode(tokens)
        form = self.renderer.call_format
        return form.opener not in text and form.thinks[0] not in text and not form.starts_thinking


class LocalPolicy:
    """One conversation; what earlier rounds computed is kept as far as the ids agree."""

    def __init__(self, model: LocalModel, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        self._model = model
        self._max_new_tokens = max_new_tokens
        self._cache = new_cache(model.model)
        self._ids: list[int] = []
        self._one_at_a_time = asyncio.Lock()

    @property
    def cached_ids(self) -> tuple[int, ...]:
        """The ids whose keys and values are kept."""
        return tuple(self._ids)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """Text as it is generated, then the turn; closing it stops within one token.

        Raises:
            ModelError: the conversation fills the model's context.
        """
        writing, prompt = self._model.begin(
            messages, tools, Wishes(max_tokens=self._max_new_tokens)
        )
        async with self._one_at_a_time:
            token = await _finish_in_thread(self._begin, prompt)
            while True:
                if shown := writing.push(token):
                    yield shown
                if writing.done:
                    break
                token = await _finish_in_thread(self._advance, [token])
        rest, turn = writing.finish()
        if rest:
            yield rest
        yield turn

    def _begin(self, prompt: list[int]) -> int:
        """Compute what the cache lacks of `prompt`; the first token behind it."""
        kept = common_prefix([self._ids, prompt]) if self._ids else 0
        surplus = len(self._ids) - kept
        if surplus and not all(layer.is_croppable for layer in self._cache.layers):
            kept = surplus = 0
        if kept == 0:
            self._cache = new_cache(self._model.model)
        elif surplus:
            self._cache.crop(-surplus)
        self._ids = self._ids[:kept]
        return self._advance(prompt[kept:])

    @torch.inference_mode()
    def _advance(self, step: list[int]) -> int:
        """Feed `step`; the token that follows. A failure empties the cache."""
        before, self._ids = self._ids, []
        device = self._model.model.device
        ids = torch.tensor([step], device=device)
        positions = torch.arange(len(before), len(before) + len(step), device=device)[None]
        mask = torch.ones(1, len(before) + len(step), dtype=torch.long, device=device)
        alone = len(step) > 1  # a token at a time is the library's kernel's best
        logits = forward_last(self._model.model, ids, mask, positions, self._cache, alone=alone)
        self._ids = before + step
        return int(logits.argmax(-1))


@dataclass(slots=True)
class _Batch:
    prompts: list[list[int]] = field(default_factory=list)
    outputs: asyncio.Task[list[list[int]]] | None = None


class BatchedPolicy:
    """Turns of many episodes at once: whoever is ready when a batch starts is in it."""

    def __init__(
        self,
        model: LocalModel,
        *,
        max_batch: int = 16,
        max_new_tokens: int = MAX_NEW_TOKENS,
        text_budget: int | None = None,
    ) -> None:
        self._model = model
        self._max_batch = max_batch
        self._max_new_tokens = max_new_tokens
        self._text_budget = text_budget
        self._open: _Batch | None = None
        self._one_at_a_time = asyncio.Lock()
        self.batch_sizes: list[int] = []

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The whole turn, once its batch is done.

        Raises:
            ModelError: the conversation fills the model's context.
        """
        prompt = self._model.renderer.prompt_ids(messages, tools)
        self._model.check_room([prompt])
        batch = self._open
        if batch is None:
            batch = self._open = _Batch()
            batch.outputs = asyncio.create_task(self._generate(batch))
        place = len(batch.prompts)
        batch.prompts.append(prompt)
        if len(batch.prompts) >= self._max_batch:
            self._open = None
        assert batch.outputs is not None
        # Shielded: one episode that is cancelled must not take the others' turns with it.
        outputs = await asyncio.shield(batch.outputs)
        turn = self._model.turn(outputs[place], _first_id(messages), tools)
        if turn.text:
            yield turn.text
        yield turn

    async def _generate(self, batch: _Batch) -> list[list[int]]:
        stop = threading.Event()
        async with self._one_at_a_time:
            seen = 0
            while self._open is batch and seen < len(batch.prompts):
                seen = len(batch.prompts)
                await asyncio.sleep(LINGER_S)  # until nobody else hands in a turn
            if self._open is batch:
                self._open = None
            self.batch_sizes.append(len(batch.prompts))
            try:
                return await asyncio.to_thread(
                    self._model.generate,
                    batch.prompts,
                    max_new_tokens=self._max_new_tokens,
                    text_budget=self._text_budget,
                    stop=stop,
                )
            finally:
                stop.set()  # cancelled: the thread ends within one token


async def _finish_in_thread(work: Callable[[list[int]], int], ids: list[int]) -> int:
    """Run `work` in a thread; when cancelled, wait for it: it is writing the cache."""
    running = asyncio.ensure_future(asyncio.to_thread(work, ids))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def _first_id(messages: Sequence[Message]) -> int:
    return 1 + sum(len(message.tool_calls) for message in messages)


def _load_weights(name: str, source: Path, dtype: Dtype) -> Any:
    from safetensors import SafetensorError

    try:
        return AutoModelForCausalLM.from_pretrained(
            source, dtype=getattr(torch, dtype), local_files_only=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"{name}: cannot load the model ({first_line(error)}); give a complete model folder"
        ) from error


def _serving_facts(folder: Path) -> dict[str, Any]:
    for name in ADAPTER_FILES:
        if not (folder / name).is_file():
            raise ModelError(
                f"{folder}: no {name} there; name a folder that `breadcrumbs train sft` finished"
            )
    try:
        facts = json.loads((folder / "serving.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}/serving.json: cannot be read; train again") from error
    if not isinstance(facts, dict):
        raise ModelError(f"{folder}/serving.json: not an object; train again")
    return facts


def _check_template(folder: Path, facts: Mapping[str, Any], renderer: Renderer) -> None:
    if facts.get("template_sha256") != renderer.template_hash:
        raise ModelError(
            f"{folder}: trained with another chat template than this model's, so it would be "
            "served text it never learned; give the model it was trained on, or train again"
        )


def _with_adapter(model: Any, folder: Path) -> Any:
    from peft import PeftModel
    from safetensors import SafetensorError

    try:
        adapted = PeftModel.from_pretrained(model, str(folder))
        return adapted.to(model.dtype)  # float32 LoRA layers on a bfloat16 model only cost copies
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"{folder}: cannot load the adapter ({first_line(error)}); "
            "give the model it was trained on, or train again"
        ) from error
