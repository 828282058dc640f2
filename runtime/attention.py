"""Causal attention on CPU, in blocks of queries: for training on twins and for reading prompts.

Twin rows begin with the same tokens (system prompt, tool definitions). Laid out as one sequence
[prefix][rest of row 1][rest of row 2] with positions that restart after the prefix, the shared
part is computed once; a branch sees the prefix and itself, never its sibling. A block of queries
multiplies only the keys it may see, so neither a T x T matrix nor a mask over it is formed.

Measured on two cores in bfloat16 for 800-token rows: PyTorch's fused CPU kernel spends over
40 % of a training step in attention, most of it in its backward pass, and 29 % of a forward
pass; plain matrix products are twice as fast there. On a CPU with AMX tiles the fused kernel is
the faster one forward (1.8 against 6.1 ms for 816 tokens) and still the slower one backward, so
that it reads prompts there. On a GPU the model's own kernel is used.

Shapes: H heads, K key/value heads, T tokens, D head width.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch

BRANCHES = "breadcrumbs_branches"
READING = "breadcrumbs_reading"
BLOCK = 256
"""Queries at a time: large enough for fast products, small enough to skip the future."""
FUSED_BLOCK = 2048
"""Queries at a time for the fused kernel: it skips the future itself, this only bounds its mask."""


def branches_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    branches: tuple[tuple[int, int], ...] = (),
    prefix: int = 0,
    **unused: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of one packed sequence: `query` [1, H, T, D], `key` and `value` [1, K, T, D].

    `prefix` tokens come first; `branches` are the [start, end) spans behind them. Without
    branches the whole sequence is plainly causal. Returns [1, T, H, D], as the library's own.
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    spans = ((0, prefix), *branches) if branches else ((0, query.shape[2]),)
    seen = prefix if branches else 0
    mixed: torch.Tensor = _Branches.apply(  # type: ignore[no-untyped-call]  # torch has no types here
        query[0], key[0], value[0], spans, seen, scale
    )
    return mixed[None], None


def reading_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    alone: bool = False,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Blocks where one sequence is read `alone`; for everything else the library's kernel.

    `query` [1, H, T, D] are the last T tokens of `key` and `value` [1, K, N, D]; nothing in the
    sequence is padding, so that the mask is the causal one. Returns [1, T, H, D].
    """
    if not alone:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        if query.shape[2] == 1 and attention_mask is None:
            return _one_token(query, key, value, scaling), None
        plain: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **others
        )
        return plain
    _, heads, total, depth = query.shape
    scale = depth**-0.5 if scaling is None else scaling
    if _has_tiles() and query.dtype is torch.bfloat16:
        return _fused_reading(query, key, value, scale), None
    mixed = query.new_empty(1, total, heads, depth)
    past = key.shape[2] - total
    for start in range(0, total, BLOCK):
        end = min(start + BLOCK, total)
        seen = slice(0, past + end)
        out, _ = _attend_block(query[0], key[0, :, seen], value[0, :, seen], start, end, scale)
        _unfolded(mixed[0], start, end, key.shape[1]).copy_(out)
    return mixed, None


@functools.cache
def _has_tiles() -> bool:
    """Whether PyTorch's fused kernel multiplies on AMX tiles here."""
    supported = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return supported is not None and bool(supported())


def _fused_reading(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float
) -> torch.Tensor:
    """The last T tokens of one sequence by the fused kernel: [1, T, H, D].

    Shapes as in `reading_attention`. The kernel knows the causal mask by itself only where no
    keys come before the queries; behind a cache the mask is written out, a block at a time.
    """
    total, past = query.shape[2], key.shape[2] - query.shape[2]
    mixed = query.new_empty(1, total, query.shape[1], value.shape[-1])
    for start in range(0, total, FUSED_BLOCK):
        end = min(start + FUSED_BLOCK, total)
        first = past + start
        mask = None
        if first:
            mask = torch.ones(end - start, past + end, dtype=torch.bool).tril(first)
        mixed[:, start:end] = torch.nn.functional.scaled_dot_product_attention(
            query[:, :, start:end],
            key[:, :, : past + end],
            value[:, :, : past + end],
            attn_mask=mask,
            is_causal=mask is None,
            scale=scale,
            enable_gqa=True,
        ).transpose(1, 2)
    return mixed


def _one_token(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    """The newest token of each row over all of `key` and `value` [B, K, N, D]: [B, 1, H, D].

    Heads that share keys are read as queries of one head. The library does so under a mask only,
    and the kernel it takes without one is four to seven times slower on a CPU.
    """
    folded = query.view(query.shape[0], key.shape[1], -1, query.shape[-1])
    mixed = torch.nn.functional.scaled_dot_product_attention(folded, key, value, scale=scaling)
    return mixed.view(query.shape[0], 1, -1, value.shape[-1])


def _attend_block(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    start: int,
    end: int,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Queries [start, end) of [H, T, D] over their visible keys and values [K, N, D], causally.

    Returns what they mix, [K, H / K, end - start, D], and their shares, [K, H / K * width, N].
    """
    kinds, width = key.shape[0], end - start
    scores = torch.matmul(_folded(query, start, end, kinds) * scale, key.mT)
    own = scores.view(kinds, -1, width, scores.shape[-1])[..., -width:]
    future = torch.ones(width, width, dtype=torch.bool, device=query.device).triu(1)
    own.masked_fill_(future, -torch.inf)
    shares = torch.softmax(scores, -1)  # sums in float32 inside
    return torch.matmul(shares, value).view(kinds, -1, width, value.shape[-1]), shares


class _Branches(torch.autograd.Function):
    """The blocks one after the other, with their backward pass by hand.

    Autograd would answer every slice of keys and values with a gradient of full size, mostly
    zeros; here each block adds to its own span. The shares are kept from the forward pass.
    """

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        spans: tuple[tuple[int, int], ...],
        prefix: int,
        scale: float,
    ) -> torch.Tensor:
        """`query` [H, T, D], `key` and `value` [K, T, D] to [T, H, D]."""
        heads, total, depth = query.shape
        kinds = key.shape[0]
        mixed = query.new_empty(total, heads, depth)
        kept = []
        for start, end, seen in _blocks(spans, prefix):
            out, shares = _attend_block(
                query, _seen(key, seen), _seen(value, seen), start, end, scale
            )
            _unfolded(mixed, start, end, kinds).copy_(out)
            kept.append(shares)
        ctx.spans, ctx.prefix, ctx.scale = spans, prefix, scale
        ctx.save_for_backward(query, key, value, *kept)
        return mixed

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """From the gradient [T, H, D] to those of query, key and value."""
        (grad,) = grads
        query, key, value, *kept = ctx.saved_tensors
        kinds, depth = key.shape[0], key.shape[-1]
        to_query = torch.empty_like(query)
        # Many blocks add to the keys of the prefix: summed in float32.
        to_key, to_value = (torch.zeros_like(part, dtype=torch.float32) for part in (key, value))
        blocks = _blocks(ctx.spans, ctx.prefix)
        for (start, end, seen), shares in zip(blocks, kept, strict=True):
            width = end - start
            arriving = _unfolded(grad, start, end, kinds).reshape(kinds, -1, depth)
            _add(to_value, seen, torch.matmul(shares.mT, arriving))
            # Softmax: share * (its gradient - the mean of all gradients under the shares).
            slopes = torch.matmul(arriving, _seen(value, seen).mT)
            slopes = torch._softmax_backward_data(slopes, shares, -1, shares.dtype)
            to_block = torch.matmul(slopes, _seen(key, seen)) * ctx.scale
            to_query[:, start:end] = to_block.view(-1, width, depth)
            _add(to_key, seen, torch.matmul(slopes.mT, _folded(query, start, end, kinds)))
        to_key *= ctx.scale
        return to_query, to_key.to(key.dtype), to_value.to(value.dtype), None, None, None


def _folded(query: torch.Tensor, start: int, end: int, kinds: int) -> torch.Tensor:
    """A block of queries, all heads of one key head in a row: [K, H / K * width, D]."""
    return query[:, start:end].reshape(kinds, -1, query.shape[-1])


def _unfolded(mixed: torch.Tensor, start: int, end: int, kinds: int) -> torch.Tensor:
    """A block of [T, H, D] as a view [K, H / K, width, D]."""
    _, heads, depth = mixed.shape
    return mixed[start:end].view(end - start, kinds, heads // kinds, depth).permute(1, 2, 0, 3)


def _seen(part: torch.Tensor, seen: tuple[slice, ...]) -> torch.Tensor:
    """The visible keys or values [K, N, D]."""
    return torch.cat([part[:, span] for span in seen], 1) if len(seen) > 1 else part[:, seen[0]]


def _add(total: torch.Tensor, seen: tuple[slice, ...], parts: torch.Tensor) -> None:
    """Add [K, N, D] to the visible spans of `total`."""
    at = 0
    for span in seen:
        total[:, span] += parts[:, at : (at := at + span.stop - span.start)]


def _blocks(
    spans: tuple[tuple[int, int], ...], prefix: int
) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
    """(start, end, visible key spans) of every block of queries, in order."""
    for span_start, span_end in spans:
        for start in range(span_start, span_end, BLOCK):
            end = min(start + BLOCK, span_end)
            own = slice(span_start, end)
            yield start, end, (own,) if span_start == 0 else (slice(0, prefix), own)


def branches_of(position_ids: torch.Tensor) -> tuple[tuple[tuple[int, int], ...], int]:
    """The branches and the prefix length of a packed row, from where its positions (1, T) restart.

    A row without a restart has no branches: it is plainly causal.
    """
    positions = position_ids[0]
    total = len(positions)
    restarts = [at + 1 for at in (positions.diff() != 1).nonzero().flatten().tolist()]
    if not restarts:
        return (), 0
    prefix = int(positions[restarts[0]])
    return tuple(zip([prefix, *restarts], [*restarts, total], strict=True)), prefix


def no_mask(*unused_args: Any, **unused: Any) -> None:
    """The mask function registered beside the attention: this attention needs none."""
    return None


def supports_branches(config: Any) -> bool:
    """Whether a model's attention is plain and causal, so that this one computes the same."""
    plain = config.model_type in ("llama", "qwen2", "qwen3")
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    return plain and layers == {"full_attention"}


def use_branches(model: Any) -> None:
    """Switch `model` to `branches_attention`; `branches` and `prefix` go to its forward."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(BRANCHES, branches_attention)
    AttentionMaskInterface.register(BRANCHES, no_mask)
    model.set_attn_implementation(BRANCHES)


def use_reading(model: Any) -> None:
    """Switch `model` to `reading_attention`; `alone` goes to its forward."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(READING, reading_attention)
    AttentionMaskInterface.register(READING, sdpa_mask)
    model.set_attn_implementation(READING)
