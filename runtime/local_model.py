"""A transformers model in this process, with or without a LoRA adapter, greedy.

`LocalModel.generate` runs a batch whose common beginning is computed once; `LocalPolicy` is one
conversation that keeps its key-value cache between rounds; `BatchedPolicy` collects the turns of
many episodes into batches. Shapes: B rows, T tokens.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from breadcrumbs.errors import ModelError
from breadcrumbs.messages import Message
from breadcrumbs.models import quiet, resolve_model
from breadcrumbs.rendering import Renderer, load_renderer
from breadcrumbs.turns import Turn

Dtype = Literal["bfloat16", "float32"]
MAX_NEW_TOKENS = 256
Progress = Callable[[int, int], None]


class LocalModel:
    """Model, tokenizer rendering and adapter switch."""

    def __init__(self, model: Any, renderer: Renderer, name: str) -> None:
        self.model = model
        self.renderer = renderer
        self.name = name

    @classmethod
    def load(
        cls, name: str, *, adapter: str | Path | None = None, dtype: Dtype = "bfloat16"
    ) -> LocalModel:
        """Load a model and, on it, an adapter folder.

        Raises:
            ModelError: not found, not loadable, or the adapter was made for another template.
        """
        source = resolve_model(name)
        if adapter is not None:
            _check_adapter_folder(Path(adapter))
        with quiet():
            renderer = load_renderer(source)
            try:
                model = AutoModelForCausalLM.from_pretrained(source, dtype=getattr(torch, dtype))
            except (OSError, ValueError) as error:
                reason = str(error).splitlines()[0]
                raise ModelError(f"{name}: cannot load the model: {reason}") from error
            if adapter is not None:
                model = _with_adapter(model, Path(adapter), renderer)
        return cls(model.eval(), renderer, name)

    @property
    def has_adapter(self) -> bool:
        """Whether an adapter is loaded."""
        return hasattr(self.model, "disable_adapter")

    @contextmanager
    def base(self) -> Iterator[None]:
        """Switch the adapter off for a block; the weights in memory stay the same."""
        with self.model.disable_adapter() if self.has_adapter else nullcontext():
            yield

    @torch.inference_mode()
    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int = MAX_NEW_TOKENS,
        text_budget: int | None = None,
        batch_tokens: int = 16_384,
        progress: Progress | None = None,
    ) -> list[list[int]]:
        """Greedy continuations of each prompt, stop token left out, in the order given.

        A row whose first `text_budget` tokens hold no call opener is prose and stops there.
        Prompts are batched by length so that rows times longest stays below `batch_tokens`.
        """
        outputs: list[list[int]] = [[] for _ in prompts]
        done = 0
        for batch in _batches([len(prompt) for prompt in prompts], batch_tokens):
            rows = self._generate_batch([prompts[i] for i in batch], max_new_tokens, text_budget)
            for place, row in zip(batch, rows, strict=True):
                outputs[place] = row
            done += len(batch)
            if progress is not None:
                progress(done, len(prompts))
        return outputs

    def _generate_batch(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, text_budget: int | None
    ) -> list[list[int]]:
        shared = _common_prefix(prompts)
        cache, mask, logits = self._prefill(prompts, shared)
        written: list[list[int]] = [[] for _ in prompts]
        alive = list(range(len(prompts)))
        positions = torch.tensor([len(prompt) for prompt in prompts])
        for _ in range(max_new_tokens):
            tokens = logits.argmax(-1)
            kept = []
            for place, (row, token) in enumerate(zip(alive, tokens.tolist(), strict=True)):
                if token in self.renderer.stop_ids:
                    continue
                written[row].append(token)
                if not self._is_prose(written[row], text_budget):
                    kept.append(place)
            if not kept:
                break
            if len(kept) < len(alive):
                chosen = torch.tensor(kept)
                cache.batch_select_indices(chosen)
                alive = [alive[place] for place in kept]
                mask, tokens, positions = mask[chosen], tokens[chosen], positions[chosen]
            mask = torch.cat([mask, mask.new_ones(len(alive), 1)], 1)
            logits = self._forward(tokens[:, None], mask, positions[:, None], cache)
            positions = positions + 1
        return written

    def _prefill(
        self, prompts: Sequence[Sequence[int]], shared: int
    ) -> tuple[DynamicCache, torch.Tensor, torch.Tensor]:
        """The cache of all prompts, their mask [B, T], and the logits of their last tokens."""
        cache = DynamicCache(config=self.model.config)
        rest = [list(prompt[shared:]) for prompt in prompts]
        longest = max(len(row) for row in rest)
        if shared:
            head = torch.tensor([list(prompts[0][:shared])])
            where = torch.arange(shared)[None]
            self._forward(head, torch.ones_like(head), where, cache)
            cache.batch_repeat_interleave(len(prompts))
        pads = [longest - len(row) for row in rest]
        filler = max(self.renderer.stop_ids[0], 0)
        ids = torch.tensor([[filler] * pad + row for pad, row in zip(pads, rest, strict=True)])
        real = torch.tensor(
            [[0] * pad + [1] * len(row) for pad, row in zip(pads, rest, strict=True)]
        )
        mask = torch.cat([real.new_ones(len(prompts), shared), real], 1)
        positions = (real.cumsum(1) - 1).clamp(min=0) + shared
        return cache, mask, self._forward(ids, mask, positions, cache)

    def _forward(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, cache: DynamicCache
    ) -> torch.Tensor:
        """Logits [B, V] of the last position."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits

    def _is_prose(self, tokens: Sequence[int], text_budget: int | None) -> bool:
        if text_budget is None or len(tokens) != text_budget:
            return False
        return self.renderer.call_format.opener not in self.renderer.tokenizer.decode(tokens)

    def turn(self, tokens: Sequence[int], first_id: int = 1) -> Turn:
        """Generated tokens as a turn."""
        text = self.renderer.tokenizer.decode(tokens, skip_special_tokens=False)
        return self.renderer.call_format.parse_turn(text, first_id)


class LocalPolicy:
    """One conversation; what earlier rounds computed is kept as long as it still fits."""

    def __init__(self, model: LocalModel, max_new_tokens: int = MAX_NEW_TOKENS) -> None:
        self._model = model
        self._max_new_tokens = max_new_tokens
        self._cache = DynamicCache(config=model.model.config)
        self._ids: list[int] = []

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """Text as it is generated, then the turn; closing it stops within one token."""
        prompt = self._model.renderer.prompt_ids(messages, tools)
        queue: asyncio.Queue[str | Turn] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        first_id = 1 + sum(len(message.tool_calls) for message in messages)

        def work() -> None:
            tokens = self._write(prompt, stop, lambda t: _send(loop, queue, t))
            _send(loop, queue, self._model.turn(tokens, first_id))

        task = asyncio.create_task(asyncio.to_thread(work))
        try:
            while True:
                getter = asyncio.create_task(queue.get())
                await asyncio.wait({getter, task}, return_when=asyncio.FIRST_COMPLETED)
                if not getter.done() and task.done() and queue.empty():
                    getter.cancel()
                    task.result()  # raises what the worker raised
                    return
                item = await getter
                yield item
                if isinstance(item, Turn):
                    return
        finally:
            stop.set()
            await task

    @torch.inference_mode()
    def _write(
        self, prompt: Sequence[int], stop: threading.Event, send: Callable[[str], None]
    ) -> list[int]:
        kept = min(_common_prefix([self._ids, prompt]), len(prompt) - 1)
        self._cache.crop(kept)
        step = list(prompt[kept:])
        self._ids = list(prompt[:kept])
        tokens: list[int] = []
        shown = _ProseStream(self._model.renderer, send)
        while len(tokens) < self._max_new_tokens and not stop.is_set():
            ids = torch.tensor([step])
            begin = len(self._ids)
            positions = torch.arange(begin, begin + len(step))[None]
            mask = torch.ones(1, begin + len(step), dtype=torch.long)
            logits = self._model._forward(ids, mask, positions, self._cache)
            self._ids += step
            token = int(logits.argmax(-1))
            if token in self._model.renderer.stop_ids:
                break
            tokens.append(token)
            shown.add(tokens)
            step = [token]
        return tokens


class _ProseStream:
    """Sends text on as it grows, but nothing from where a call may begin."""

    def __init__(self, renderer: Renderer, send: Callable[[str], None]) -> None:
        self._renderer = renderer
        self._send = send
        self._sent = 0

    def add(self, tokens: Sequence[int]) -> None:
        text = str(self._renderer.tokenizer.decode(tokens))
        if text.endswith("\ufffd"):  # half of a character
            return
        end = len(text)
        for marker in (self._renderer.call_format.opener, "<think>"):
            found = text.find(marker)
            end = min(end, found if found >= 0 else _possible_start(text, marker))
        if end > self._sent:
            self._send(text[self._sent : end])
            self._sent = end


def _possible_start(text: str, marker: str) -> int:
    """Where `marker` may have begun at the end of `text`; the end where it has not."""
    for size in range(min(len(marker) - 1, len(text)), 0, -1):
        if text.endswith(marker[:size]):
            return len(text) - size
    return len(text)


@dataclass(slots=True)
class _Waiting:
    prompt: list[int]
    first_id: int
    answer: asyncio.Future[Turn]


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
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The whole turn, once its batch is done."""
        prompt = self._model.renderer.prompt_ids(messages, tools)
        first_id = 1 + sum(len(message.tool_calls) for message in messages)
        answer: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(prompt, first_id, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        turn = await answer
        if turn.text:
            yield turn.text
        yield turn

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(0.005)  # let every episode that is ready hand in its turn
            batch = self._waiting[: self._max_batch]
            del self._waiting[: self._max_batch]
            try:
                outputs = await asyncio.to_thread(
                    self._model.generate,
                    [entry.prompt for entry in batch],
                    max_new_tokens=self._max_new_tokens,
                    text_budget=self._text_budget,
                )
            except BaseException as error:
                for entry in batch:
                    entry.answer.set_exception(ModelError(f"generation failed: {error}"))
                raise
            for entry, tokens in zip(batch, outputs, strict=True):
                if not entry.answer.done():
                    entry.answer.set_result(self._model.turn(tokens, entry.first_id))


def _send(loop: asyncio.AbstractEventLoop, queue: asyncio.Queue[Any], item: str | Turn) -> None:
    loop.call_soon_threadsafe(queue.put_nowait, item)


def _common_prefix(rows: Sequence[Sequence[int]]) -> int:
    """Tokens that all rows begin with, at most one less than the shortest has."""
    shortest = min(len(row) for row in rows)
    first = rows[0]
    for place in range(shortest):
        if any(row[place] != first[place] for row in rows[1:]):
            return place
    return max(shortest - 1, 0)


def _batches(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of like length, longest first, each within the token budget."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    batch: list[int] = []
    for index in order:
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _check_adapter_folder(folder: Path) -> None:
    for name in ("adapter_config.json", "adapter_model.safetensors", "serving.json"):
        if not (folder / name).is_file():
            raise ModelError(
                f"{folder}: no {name} there; name a folder that `breadcrumbs train sft` finished"
            )


def _with_adapter(model: Any, folder: Path, renderer: Renderer) -> Any:
    from peft import PeftModel
    from safetensors import SafetensorError

    try:
        facts = json.loads((folder / "serving.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{folder}/serving.json: not JSON; train again") from error
    if facts.get("template_sha256") != renderer.template_hash:
        raise ModelError(
            f"{folder}: trained with another chat template than this model's; the text it would"
            " be served is not what it learned"
        )
    try:
        return PeftModel.from_pretrained(model, str(folder))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{folder}: cannot load the adapter: {reason}") from error
