"""Log-partitions of a few query rows over labelled keys: the arithmetic behind the probe.

For a query row r, head h and segment s the primitive is LSE_s = log sum_{j in s} exp(z_rj), with z
the scaled (soft-capped, biased) logits of the visible keys, in float32. A segment far below the
others is summed against a maximum of its own, so that it keeps its digits. Keys are read in
blocks; a T x T matrix is never formed.

Shapes: H heads, K key/value heads, R rows, T keys, S segments, D head width, V value width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from breadcrumbs.errors import ProbeError

BLOCK_BYTES = 8 * 2**20
"""Float32 working memory of one block of keys; bounds the extra memory at any context length."""
FAR = 40.0
"""Nats below the row's maximum at which a segment is summed against its own instead."""
_NOTHING = -1e30
"""Stands for the logit of no key: finite, so that differences stay defined."""


@dataclass(frozen=True, slots=True)
class Labels:
    """The segment of every key of one call, ready for summing."""

    ids: torch.Tensor
    """int64 [T]."""
    one_hot: torch.Tensor
    """float32 [T, S]."""
    counts: torch.Tensor
    """float32 [S], keys of each segment."""
    runs: tuple[tuple[int, int, int], ...]
    """(first key, key after the last, segment) of neighbours with one segment."""


def make_labels(ids: torch.Tensor, n_segments: int) -> Labels:
    """Prepare the segments [T] of a call's keys."""
    values, lengths = torch.unique_consecutive(ids, return_counts=True)
    ends = lengths.cumsum(0).tolist()
    starts = [0, *ends[:-1]]
    one_hot = torch.zeros(ids.numel(), n_segments, device=ids.device)
    one_hot.scatter_(1, ids[:, None], 1.0)
    return Labels(
        ids,
        one_hot,
        one_hot.sum(0),
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

    def last(self) -> Rows:
        """The last of them alone."""
        visible, bias = self.visible, self.bias
        return replace(
            self,
            query=self.query[:, -1:],
            visible=None if visible is None else visible[:, -1:],
            bias=None if bias is None else bias[:, -1:],
        )

    def logits(self, block: slice) -> torch.Tensor:
        """float32 [H, R, t] of a block of keys; -inf where a row sees a key not."""
        heads, rows, width = self.query.shape
        shared = (self.query.float() * self.scaling).reshape(self.keys.shape[0], -1, width)
        keys = self.keys[:, block].float()
        values = torch.matmul(shared, keys.transpose(1, 2)).reshape(heads, rows, -1)
        if self.softcap:
            values = torch.tanh(values / self.softcap) * self.softcap
        if self.bias is not None:
            values = values + self.bias[..., block].float()
        if self.visible is not None:
            values = values.masked_fill(~self.visible[..., block], -torch.inf)
        return values


@dataclass(frozen=True, slots=True)
class Partitions:
    """The primitives of some rows; every mass and log-odds is a closed form of them.

    Of one layer, or of several stacked in front of H.
    """

    sums: torch.Tensor
    """float32 [3, .., H, R, S]: of exp(z - r), of z exp(z - r) and of exp(z - r) squared."""
    reference: torch.Tensor
    """float32 [.., H, R, S], the r of each segment."""
    peak: torch.Tensor
    """float32 [.., H, R, S], the greatest logit; -inf where there is none."""
    visible: torch.Tensor
    """int32 [.., H, R, S], keys of the segment that the row sees."""
    sink: torch.Tensor | None
    """float32 [.., H], the learned sink's logit, of models that have one."""

    @property
    def lse(self) -> torch.Tensor:
        """float32 [.., H, R, S]; -inf where a segment has no visible key: unreachable, not zero."""
        return self.reference + torch.log(self.sums[0])

    def total(self) -> torch.Tensor:
        """Log of the whole partition, the learned sink included: [.., H, R]."""
        keys = torch.logsumexp(self.lse, -1)
        return keys if self.sink is None else torch.logaddexp(keys, self.sink[..., None])

    def moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Sums of p z and of p squared by segment, p the softmax over all real keys."""
        norm = torch.exp(self.reference - torch.logsumexp(self.lse, -1, keepdim=True))
        return self.sums[1] * norm, self.sums[2] * norm * norm

    def require_keys(self) -> None:
        """Refuse rows that see nothing.

        Raises:
            ProbeError: there is one.
        """
        if torch.isneginf(self.peak).all(-1).any():
            raise ProbeError("a probed row sees no key: it is padding; choose another row")


def partition(rows: Rows, labels: Labels) -> Partitions:
    """Sum every segment's keys, block by block."""
    heads, count, _ = rows.query.shape
    keys, n_segments = labels.one_hot.shape
    sums = reference = peak = None
    for start in range(0, keys, rows.block):
        block = slice(start, min(start + rows.block, keys))
        found = _block_sums(rows, labels, block)
        if sums is None or reference is None or peak is None:
            sums, reference, peak = found
            continue
        # A segment that has no key in a block must not be measured against that block's maximum.
        own = found[1].masked_fill(torch.isneginf(found[2]), _NOTHING)
        reference = reference.masked_fill(torch.isneginf(peak), _NOTHING)
        common = torch.maximum(reference, own)
        sums = _rescaled(sums, reference - common) + _rescaled(found[0], own - common)
        reference, peak = common, torch.maximum(peak, found[2])
    assert sums is not None
    assert reference is not None
    assert peak is not None
    visible = labels.counts if rows.visible is None else rows.visible.float() @ labels.one_hot
    return Partitions(
        sums,
        reference,
        peak,
        visible.expand(heads, count, n_segments).int(),  # exact up to 2^24 keys
        None if rows.sink is None else rows.sink.reshape(-1).float(),
    )


def _block_sums(
    rows: Rows, labels: Labels, block: slice
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sums, reference and peak of a block of keys, as in `Partitions`."""
    logits = rows.logits(block)
    where = labels.ids[block].expand_as(logits)
    empty = logits.new_full((*logits.shape[:-1], labels.one_hot.shape[1]), -torch.inf)
    peak = empty.scatter_reduce_(-1, where, logits, "amax")
    highest = peak.amax(-1, keepdim=True).clamp_min(_NOTHING)
    far = (peak < highest - FAR) & ~torch.isneginf(peak)
    if logits.device.type == "cpu" and not far.any():
        reference, lowered = highest.expand_as(peak), logits - highest
    else:  # against the row's maximum such a segment would sum to nothing
        reference = torch.where(far, peak, highest)
        lowered = logits - reference.gather(-1, where)
    terms = logits.new_empty(3, *logits.shape)
    torch.exp(lowered, out=terms[0])
    # Zero times -inf would be NaN.
    finite = logits if rows.visible is None else logits.clamp_min(_NOTHING)
    torch.mul(terms[0], finite, out=terms[1])
    torch.mul(terms[0], terms[0], out=terms[2])
    return terms @ labels.one_hot[block], reference, peak


def _rescaled(sums: torch.Tensor, shift: torch.Tensor) -> torch.Tensor:
    factor = torch.exp(shift)
    return sums * torch.stack((factor, factor, factor * factor))


def segment_outputs(
    rows: Rows,
    values: torch.Tensor,
    total: torch.Tensor,
    runs: Sequence[tuple[int, int, int]],
    n_segments: int,
) -> torch.Tensor:
    """What each segment adds to the head's output: o_s = sum of p v, float32 [H, R, S, V].

    `values` [K, T, V]; `total` [H, R] as of `Partitions.total`; `runs` as in `Labels`. Over the
    segments they sum to the attention function's own output.
    """
    heads, count, _ = rows.query.shape
    key_heads, keys, width = values.shape
    outputs = torch.zeros(n_segments, heads, count, width, device=values.device)
    for start in range(0, keys, rows.block):
        stop = min(start + rows.block, keys)
        weights = torch.exp(rows.logits(slice(start, stop)) - total[..., None])
        shared = weights.reshape(key_heads, -1, stop - start)
        for first, after, segment in runs:
            low, high = max(first, start), min(after, stop)
            if low < high:
                part = shared[..., low - start : high - start] @ values[:, low:high].float()
                outputs[segment] += part.reshape(heads, count, width)
    return outputs.permute(1, 2, 0, 3)


def attended(
    logits: torch.Tensor, sink: torch.Tensor | None, values: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention with `logits` [H, R, T]: the output [R, H, V] and its weights [H, R, T].

    `values` [K, T, V]; `sink` as in `Rows`: its share is in no weight.
    """
    heads, count, keys = logits.shape
    if sink is not None:
        column = sink.reshape(-1, 1, 1).float().expand(heads, count, 1)
        logits = torch.cat((logits, column), -1)
    weights = torch.softmax(logits, -1)[..., :keys]
    mixed = weights.reshape(values.shape[0], -1, keys) @ values.float()
    return mixed.reshape(heads, count, values.shape[2]).transpose(0, 1), weights


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
    bias: torch.Tensor | None = options.get("position_bias")
    if bias is None:
        return None
    return bias[0] if bias.shape[2] == 1 else bias[0][:, list(rows)]
