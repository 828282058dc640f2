"""Greedy decoding: one batch at a time, its common beginning computed once.

Knows ids and a model, nothing of text. Shapes: B rows, T tokens, V vocabulary, H heads, D width.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from breadcrumbs.attention import READING

ROOM_TOKENS = 128
FILLER = 0  # masked; any id the model has
SHARED_ENOUGH = 0.5
"""Share of the shortest prompt that must be common for a batch to be computed together."""
WORTH_COPYING = 0.2
"""Share of a prompt that its neighbour must have computed for it to begin there: behind a few
tokens the mask costs more than computing them again."""
KEPT_SHARE = 0.5
"""Rows that are done leave the batch once no more than this share goes on: leaving copies the
cache of those that stay, which costs more than a few steps of computing for nothing."""


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """Keys and values [B, H, T, D] in a buffer with room to grow.

    The library's own layer copies the whole cache for every token; here a token is written in
    place, and the buffer is only copied when its room is used up or rows leave the batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append; returns all keys and values, as views of the buffer."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before = self.get_seq_length()
        after = before + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < after:
            self._grow(key_states, value_states, before, after + ROOM_TOKENS)
        assert self._buffers is not None
        keys, values = self._buffers
        keys[..., before:after, :] = key_states
        values[..., before:after, :] = value_states
        self.keys, self.values = keys[..., :after, :], values[..., :after, :]
        return self.keys, self.values

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeat every row."""
        super().batch_repeat_interleave(repeats)
        self._buffers = None

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep some rows."""
        super().batch_select_indices(indices)
        self._buffers = None

    def _grow(
        self, key_states: torch.Tensor, value_states: torch.Tensor, before: int, room: int
    ) -> None:
        keys = key_states.new_empty(*key_states.shape[:-2], room, key_states.shape[-1])
        values = value_states.new_empty(*value_states.shape[:-2], room, value_states.shape[-1])
        if before:
            keys[..., :before, :] = self.keys
            values[..., :before, :] = self.values
        self._buffers = keys, values


def new_cache(model: Any) -> DynamicCache:
    """An empty cache for `model`; plain layers get room to grow."""
    cache = DynamicCache(config=model.config)
    cache.layers = [
        RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers
    ]
    return cache


def is_plain(cache: DynamicCache) -> bool:
    """Whether rows of a cache can be cut out and put together: no layer forgets or compresses."""
    return all(type(layer) is RoomyLayer for layer in cache.layers)


@dataclass(frozen=True, slots=True)
class CachedRow:
    """One row of a plain cache; only its last `length` positions are real."""

    cache: DynamicCache
    place: int
    length: int

    def layer(self, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [1, H, length, D] of one layer, as views."""
        found = self.cache.layers[depth]
        begin = found.keys.shape[-2] - self.length
        row = slice(self.place, self.place + 1)
        return found.keys[row, :, begin:], found.values[row, :, begin:]

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing else in its cache."""
        keys = self.cache.layers[0].keys
        return bool(keys.shape[0] == 1 and keys.shape[-2] == self.length)


def joined(model: Any, rows: Sequence[CachedRow]) -> tuple[DynamicCache, torch.Tensor]:
    """A cache that holds these rows, aligned at their ends, and its mask [B, T].

    Copied, but for a row that is a cache of its own already.
    """
    longest = max(row.length for row in rows)
    mask = torch.zeros(len(rows), longest, dtype=torch.long, device=model.device)
    for place, row in enumerate(rows):
        mask[place, longest - row.length :] = 1
    if len(rows) == 1 and rows[0].is_whole:
        return rows[0].cache, mask
    cache = new_cache(model)
    for depth, layer in enumerate(cache.layers):
        parts = [row.layer(depth) for row in rows]
        layer.update(
            _end_aligned([keys for keys, _ in parts], longest),
            _end_aligned([values for _, values in parts], longest),
        )
    return cache, mask


def forward_last(
    model: Any,
    ids: torch.Tensor,
    mask: torch.Tensor,
    positions: torch.Tensor,
    cache: DynamicCache,
    alone: bool = False,
) -> torch.Tensor:
    """Logits [B, V] of the last position; the cache grows by `ids` [B, T].

    `alone` says that there is one row without padding, which `reading_attention` is fast at.
    """
    # By its place, not as `1`: a slice of the last position keeps the strides of the whole, for
    # which PyTorch copies all the weights of the output layer, once for each row of the batch.
    last = torch.tensor([ids.shape[1] - 1], device=ids.device)
    reading = alone and model.config._attn_implementation == READING
    output = model(
        input_ids=ids,
        attention_mask=mask,
        position_ids=positions,
        cache=cache,
        use_cache=True,
        logits_to_keep=last,
        **({"alone": True} if reading else {}),
    )
    logits: torch.Tensor = output.logits[:, -1]
    return logits


@torch.inference_mode()
def decode_batch(
    model: Any,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    is_finished: Callable[[list[int]], bool],
    stop_ids: Sequence[int],
    stop: threading.Event,
) -> list[list[int]]:
    """Greedy continuations, stop token left out.

    A row ends at a stop id, after `max_new_tokens`, where the model's positions end, or once
    `is_finished` says so of what it has written; the others go on without it. Setting `stop`
    ends all within one token.
    """
    written: list[list[int]] = [[] for _ in prompts]
    limit = model.config.max_position_embeddings
    cache, mask, logits = _prefill(model, prompts)
    rows = list(range(len(prompts)))  # which prompt each row of the batch belongs to
    alive = set(rows)
    positions = torch.tensor([len(prompt) for prompt in prompts], device=mask.device)
    for _ in range(max_new_tokens):
        tokens = logits.argmax(-1)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            if row not in alive:
                continue
            if token in stop_ids:
                alive.remove(row)
                continue
            written[row].append(token)
            full = len(prompts[row]) + len(written[row]) >= limit
            if full or len(written[row]) >= max_new_tokens or is_finished(written[row]):
                alive.remove(row)
        if not alive or stop.is_set():
            break
        if len(alive) <= KEPT_SHARE * len(rows):
            kept = [place for place, row in enumerate(rows) if row in alive]
            chosen = torch.tensor(kept, device=mask.device)
            cache.batch_select_indices(chosen)
            rows = [rows[place] for place in kept]
            mask, tokens, positions = mask[chosen], tokens[chosen], positions[chosen]
        mask = torch.cat([mask, mask.new_ones(len(rows), 1)], 1)
        # A row that is done stays until it is dropped; past the last position it only repeats it.
        where = positions.clamp(max=limit - 1)
        logits = forward_last(model, tokens[:, None], mask, where[:, None], cache)
        positions = positions + 1
    return written


def _prefill(
    model: Any, prompts: Sequence[Sequence[int]]
) -> tuple[DynamicCache, torch.Tensor, torch.Tensor]:
    """The cache of all prompts, their mask [B, T], and the logits [B, V] of their last tokens.

    Laid out as [common beginning][padding][rest]: padding is masked and takes no position. On a
    CPU a batch gains nothing here, and a mask costs the causal kernels: prompts that share little
    are computed one by one, without one.
    """
    cache = new_cache(model)
    device = model.device
    shared = common_prefix(prompts) if len(prompts) > 1 else 0
    if is_plain(cache) and device.type == "cpu" and shared < SHARED_ENOUGH * min(map(len, prompts)):
        return _prefill_rows(model, prompts, cache)
    if shared:
        head = torch.tensor([list(prompts[0][:shared])], device=device)
        where = torch.arange(shared, device=device)[None]
        forward_last(model, head, torch.ones_like(head), where, cache)
        cache.batch_repeat_interleave(len(prompts))
    rest = [list(prompt[shared:]) for prompt in prompts]
    longest = max(map(len, rest))
    pads = [longest - len(row) for row in rest]
    ids = [[FILLER] * pad + row for pad, row in zip(pads, rest, strict=True)]
    real = torch.tensor(
        [[0] * pad + [1] * len(row) for pad, row in zip(pads, rest, strict=True)], device=device
    )
    mask = torch.cat([real.new_ones(len(prompts), shared), real], 1)
    positions = (real.cumsum(1) - 1).clamp(min=0) + shared
    logits = forward_last(model, torch.tensor(ids, device=device), mask, positions, cache)
    return cache, mask, logits


def _prefill_rows(
    model: Any, prompts: Sequence[Sequence[int]], cache: DynamicCache
) -> tuple[DynamicCache, torch.Tensor, torch.Tensor]:
    """`_prefill` one prompt after the other, into the end of each row of `cache`.

    In the order of their ids neighbours have most in common, twins above all: each begins with
    what the one before it computed of their common beginning.
    """
    longest = max(map(len, prompts))
    mask = torch.zeros(len(prompts), longest, dtype=torch.long)
    parts: dict[int, DynamicCache] = {}
    last: dict[int, torch.Tensor] = {}
    before: int | None = None
    for row in sorted(range(len(prompts)), key=lambda at: list(prompts[at])):
        prompt = prompts[row]
        alone = new_cache(model)
        known = 0
        if before is not None:
            known = common_prefix([prompts[before], prompt])
            known = known if known >= WORTH_COPYING * len(prompt) else 0
            copy_beginning(parts[before], alone, known)
        ids = torch.tensor([list(prompt[known:])])
        where = torch.arange(known, len(prompt))[None]
        whole = torch.ones(1, len(prompt), dtype=torch.long)
        last[row] = forward_last(model, ids, whole, where, alone, alone=True)
        parts[row] = alone
        mask[row, longest - len(prompt) :] = 1
        before = row
    rows = range(len(prompts))
    for depth, layer in enumerate(cache.layers):
        layer.update(
            _end_aligned([parts[row].layers[depth].keys for row in rows], longest),
            _end_aligned([parts[row].layers[depth].values for row in rows], longest),
        )
    return cache, mask, torch.cat([last[row] for row in rows])


def copy_beginning(source: DynamicCache, target: DynamicCache, tokens: int) -> None:
    """Put the first `tokens` positions of a plain cache into an empty one."""
    if tokens:
        for kept, layer in zip(source.layers, target.layers, strict=True):
            layer.update(kept.keys[:, :, :tokens], kept.values[:, :, :tokens])


def _end_aligned(rows: Sequence[torch.Tensor], longest: int) -> torch.Tensor:
    """Rows [1, H, T, D] as one [B, H, longest, D], zeros in front of the shorter ones."""
    out = rows[0].new_zeros(len(rows), rows[0].shape[1], longest, rows[0].shape[3])
    for place, row in enumerate(rows):
        out[place, :, longest - row.shape[2] :] = row[0]
    return out


def common_prefix(rows: Sequence[Sequence[int]]) -> int:
    """Tokens that all rows begin with, at most one less than the shortest has."""
    # In order, the first and the last differ wherever any two do.
    ordered = sorted(map(list, rows))
    first, last = ordered[0], ordered[-1]
    most = max(min(map(len, rows)) - 1, 0)
    return next((at for at in range(most) if first[at] != last[at]), most)


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Indices in batches of like length, longest first, rows times longest within the budget."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda at: (-lengths[at], at)):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
