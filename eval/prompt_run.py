"""Running one prompt for a probe: whole, or in chunks where the model gives the same in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from breadcrumbs.decoding import new_cache
from breadcrumbs.errors import ProbeError

CHUNK_TOLERANCE = {torch.float32: 1e-3}
"""Difference of logits, relative to the largest, that rounding explains; else `ROUNDED`."""
ROUNDED = 5e-2


@torch.no_grad()
def run_prompt(model: Any, ids: Sequence[int], chunk_tokens: int | None = None) -> torch.Tensor:
    """Logits [V] behind the prompt's last token.

    With `chunk_tokens` a longer prompt runs in chunks over a dynamic cache, which bounds the
    memory for activations.

    Raises:
        ProbeError: no tokens.
    """
    if not ids:
        raise ProbeError("empty prompt: nothing to probe")
    size = len(ids) if chunk_tokens is None else chunk_tokens
    tokens = torch.tensor([list(ids)], device=model.device)
    if size >= len(ids):
        whole: torch.Tensor = forward(model, tokens, len(ids)).logits[0, -1]
        return whole
    cache = new_cache(model)
    for first in range(0, len(ids), size):
        end = min(first + size, len(ids))
        output = forward(model, tokens[:, first:end], end, cache=cache)
    last: torch.Tensor = output.logits[0, -1]
    return last


def check_chunks(model: Any, ids: Sequence[int], chunk_tokens: int) -> None:
    """Prove on `ids` that this model gives the same in chunks; outside of any capture.

    Some models choose keys in a way that depends on where a chunk ends: what is measured in
    chunks is then another model.

    Raises:
        ProbeError: it does not.
    """
    whole, chunked = run_prompt(model, ids), run_prompt(model, ids, chunk_tokens)
    difference = float((whole - chunked).abs().max() / whole.abs().max().clamp_min(1e-6))
    if not difference <= CHUNK_TOLERANCE.get(whole.dtype, ROUNDED):
        raise ProbeError(
            f"in chunks of {chunk_tokens} this model gives other logits (by {difference:.2g} of the"
            " largest), without any probe: run the prompt whole"
        )


def forward(model: Any, tokens: torch.Tensor, end: int, keep: int = 1, **cache: Any) -> Any:
    """The model's output for `tokens` [1, T], which end at position `end`: logits of `keep` last.

    Given a `cache`, they go on behind what it holds, and are added to it.
    """
    ones = torch.ones(1, end, dtype=torch.long, device=tokens.device)
    return model(
        input_ids=tokens,
        attention_mask=ones,
        use_cache=bool(cache),
        logits_to_keep=keep,
        **cache,
    )
