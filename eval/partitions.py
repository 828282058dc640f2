"""Log-partitions of a few query rows over labelled keys: the arithmetic behind the probe.

For a query row r, head h and segment s the primitive is LSE_s = log sum_{j in s} exp(z_rj), with z
the scaled (soft-capped, biased) logits of the visible keys, in float32. Each segment is summed
against its own maximum, so that one far below the others keeps its digits. Keys are read in
blocks; a T x T matrix is never formed.

Shapes: H heads, K key/value heads, R rows, T keys, S segments, D head width, V value width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from breadcrumbs.errors import ProbeError

BLOCK_BYTES = 8 * 2**20
"""Float32 working memory of one block of keys; bounds the extra memory at any context length."""
_NOTHING = -1e30
"""Stands for the maximum of no keys: finite, so that differences of maxima stay defined."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The segment of every key of one call, ready for summing."""

    ids: torch.Tensor
    """int64 [T]."""
    one_hot: torch.Tensor
    """float32 [T, S]."""
    runs: tuple[tuple[int, int, int], ...]
    """(first key, key after the last, segment) of neighbours with one segment."""


def make_labels(ids: torch.Tensor, n_segments: int) -> Labels:
    """Prepare the segments [T] of a call's keys."""
    values, lengths = torch.unique_consecutive(ids, return_counts=True)
    ends = lengths.cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    return Labels(
        ids,
        torch.zeros(ids.numel(), n_segments, device=ids.device).scatter_(1, ids[:, None], 1.0),
        tuple(zip(starts, ends, values.tolist(), strict=True)),
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """The chosen rows of one attention call, and what they may see."""

    query: torch.Tensor
    """[H, R, D] as the model made it, position encoding applied."""
    keys: torch.Tensor
    """[K, T, D]; head h reads key head h // (H / K)."""
    scaling: float
    softcap: float | None = None
    sink: torch.Tensor | None = None
    """[H], the learned logit of a sink that is no key."""
    visible: torch.Tensor | None = None
    """bool [1|H, R, T]; None: every row sees every key."""
    bias: torch.Tensor | None = None
    """[1|H, 1|R, T], added to the logits."""

    @property
    def block(self) -> int:
        """Keys handled at a time."""
        heads, rows, _ = self.query.shape
        key_heads, _, width = self.keys.shape
        return max(256, BLOCK_BYTES // (4 * (key_heads * width + 4 * heads * rows)))

    def logits(self, block: slice) -> torch.Tensor:
        """float32 [H, R, t] of a block of keys; -inf where a row sees a key not."""
        heads, rows, width = self.query.shape
        shared = self.query.float().reshape(self.keys.shape[0], -1, width)
        keys = self.keys[:, block].float()
        values = torch.matmul(shared, keys.transpose(1, 2)).reshape(heads, rows, -1) * self.scaling
        if self.softcap:
            values = torch.tanh(values / self.softcap) * self.softcap
        if self.bias is not None:
            values = values + self.bias[..., block].float()
        if self.visible is not None:
            values = values.masked_fill(~self.visible[..., block], -torch.inf)
        return values


@dataclass(frozen=True, slots=True)
class Partitions:
    """The primitives of one layer's rows; every mass and log-odds is a closed form of them."""

    lse: torch.Tensor
    """float32 [H, R, S]; -inf where a segment has no visible key: unreachable, not zero."""
    visible: torch.Tensor
    """int32 [H, R, S], keys of the segment that the row sees."""
    peak: torch.Tensor
    """float32 [H, R, S], the greatest logit; -inf where there is none."""
    mean_logit: torch.Tensor
    """float32 [H, R, S], sum of p z over the segment, p the softmax over all real keys."""
    squares: torch.Tensor
    """float32 [H, R, S], sum of p squared over the segment."""
    sink: torch.Tensor
    """float32 [H], the learned sink's logit; -inf where the model has none."""

    def total(self) -> torch.Tensor:
        """Log of the whole partition, the learned sink included: [H, R]."""
        return torch.logaddexp(torch.logsumexp(self.lse, -1), self.sink[:, None])

    def require_keys(self) -> None:
        """Refuse rows that see nothing.

        Raises:
            ProbeError: there is one.
        """
        if torch.isneginf(self.lse).all(-1).any():
            raise ProbeError("a probed row sees no key: it is padding; choose another row")


def partition(rows: Rows, labels: Labels) -> Partitions:
    """Sum every segment's keys, block by block."""
    heads, count, _ = rows.query.shape
    keys, n_segments = labels.one_hot.shape
    shape = (heads, count, n_segments)
    sums = torch.zeros(3, *shape, device=rows.query.device)
    peak = torch.full(shape, _NOTHING, device=rows.query.device)
    for start in range(0, keys, rows.block):
        block = slice(start, min(start + rows.block, keys))
        logits = rows.logits(block)
        where = labels.ids[block].expand_as(logits)
        found = torch.full_like(peak, _NOTHING).scatter_reduce_(-1, where, logits, "amax")
        before, peak = peak, torch.maximum(peak, found)
        shares = torch.exp(logits - peak.gather(-1, where))
        if rows.visible is not None:
            logits = logits.clamp_min(_NOTHING)  # zero times -inf would be NaN
        stack = torch.stack((shares, shares * logits, shares * shares))
        rescale = torch.exp(before - peak)
        sums = sums * torch.stack((rescale, rescale, rescale * rescale))
        sums += stack @ labels.one_hot[block]
    lse = peak + torch.log(sums[0])
    norm = torch.exp(peak - torch.logsumexp(lse, -1, keepdim=True))
    sink = torch.full((heads,), -torch.inf) if rows.sink is None else rows.sink.reshape(-1).float()
    return Partitions(
        lse=lse,
        visible=_visible_counts(rows.visible, labels).expand(shape).int(),
        peak=peak.masked_fill(torch.isneginf(lse), -torch.inf),
        mean_logit=sums[1] * norm,
        squares=sums[2] * norm * norm,
        sink=sink.to(lse.device),
    )


def _visible_counts(visible: torch.Tensor | None, labels: Labels) -> torch.Tensor:
    """[1|H, 1|R, S]; exact in float32 up to 2^24 keys."""
    if visible is None:
        return labels.one_hot.sum(0)[None, None]
    return visible.float() @ labels.one_hot


def segment_outputs(
    rows: Rows, values: torch.Tensor, total: torch.Tensor, labels: Labels
) -> torch.Tensor:
    """What each segment adds to the head's output: o_s = sum of p v, float32 [H, R, S, V].

    `values` [K, T, V]; `total` [H, R] as of `Partitions.total`. Over the segments they sum to the
    attention function's own output.
    """
    heads, count, _ = rows.query.shape
    key_heads, keys, width = values.shape
    n_segments = labels.one_hot.shape[1]
    outputs = torch.zeros(n_segments, heads, count, width, device=values.device)
    for start in range(0, keys, rows.block):
        stop = min(start + rows.block, keys)
        weights = torch.exp(rows.logits(slice(start, stop)) - total[..., None])
        shared = weights.reshape(key_heads, -1, stop - start)
        for first, after, segment in labels.runs:
            low, high = max(first, start), min(after, stop)
            if low < high:
                part = shared[..., low - start : high - start] @ values[:, low:high].float()
                outputs[segment] += part.reshape(heads, count, width)
    return outputs.permute(1, 2, 0, 3)


def visible_keys(
    rows: Sequence[int],
    first_key: int,
    query: torch.Tensor,
    keys: int,
    mask: torch.Tensor | None,
    window: int | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """What the rows see, and the bias that a float mask adds: bool [1|H, R, T] and float, or None.

    `rows` are absolute positions; `query` [1, H, Q, D] and its T `keys` end at the same position,
    keys beginning at `first_key`. A mask [1, 1|H, Q, T] is the truth; without one rows
    see what stands before them, through `window` and a padding mask [1, T].
    """
    last = first_key + keys - 1
    if mask is None and min(rows) == last and (window is None or keys <= window):
        return None, None
    at = torch.tensor(rows, device=query.device)
    if mask is not None and mask.ndim == 4:
        part = mask[0][:, at - (last + 1 - query.shape[2])]
        if part.dtype == torch.bool:
            return part, None
        # Some models add position biases in the mask; others hide with the smallest number.
        visible = part > torch.finfo(part.dtype).min / 2
        return visible, part.masked_fill(~visible, 0.0)
    positions = torch.arange(first_key, last + 1, device=query.device)
    seen = positions[None, :] <= at[:, None]
    if window is not None:
        seen &= positions[None, :] > at[:, None] - window
    if mask is not None:
        seen &= mask[0, -keys:].bool()
    return seen[None], None


def fits_output(computed: torch.Tensor, output: torch.Tensor) -> float:
    """Largest difference between the rows' outputs, relative to the largest value there."""
    scale = max(float(output.abs().max()), 1e-6)
    difference = float((computed.float() - output.float()).abs().max()) / scale
    return difference if math.isfinite(difference) else math.inf


def position_bias(options: dict[str, Any], rows: Sequence[int]) -> torch.Tensor | None:
    """The `position_bias` [1, 1|H, 1|Q, T] of a call, for `rows` counted within the call."""
    bias = options.get("position_bias")
    if bias is None:
        return None
    return bias[0] if bias.shape[2] == 1 else bias[0][:, list(rows)]
