"""Per-segment attention of chosen query rows, while the model runs its own fast attention.

For a query row r, head h and segment s the stored primitive is the log-partition
LSE_s = log sum_{j in s} exp(z_rj), with z the scaled (and soft-capped) logits of the visible
keys, in float32. Masses, log-odds and sink-free masses are closed forms of it. Work per layer
is one row times all keys; a T x T matrix is never formed, and the model's output is untouched.

Shapes: B batch (always 1), H heads, K key/value heads, R probed rows, T tokens, S segments,
D head width, L attention layers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from breadcrumbs.errors import ProbeError

STREAM_BLOCK = 4096
"""Keys handled at a time; bounds the float32 copy of the keys at long contexts."""


@dataclass(frozen=True, slots=True)
class SegmentStats:
    """What was captured in one forward."""

    lse: torch.Tensor
    """float32 [L, H, R, S]; -inf where a segment has no visible key (unreachable, not zero)."""
    virtual_sink: torch.Tensor
    """float32 [L, H]: the learned sink logit of models that have one, else -inf."""
    entropy: torch.Tensor
    """float32 [L, H, R], nats over real keys; exp of it is the effective number of tokens."""
    layers: tuple[int, ...]
    """Index of each captured attention layer; layers without attention are absent."""

    def total(self) -> torch.Tensor:
        """Log of the whole partition, virtual sink included: [L, H, R]."""
        keys = torch.logsumexp(self.lse, -1)
        return torch.logaddexp(keys, self.virtual_sink[..., None].expand_as(keys))

    def mass(self) -> torch.Tensor:
        """Share of attention on each segment: [L, H, R, S]; sums to one less the virtual sink."""
        return torch.exp(self.lse - self.total()[..., None])

    def mass_without(self, excluded: Sequence[int]) -> torch.Tensor:
        """Masses renormalised over all but the excluded segments (and the virtual sink).

        Computed from log-partitions: m / (1 - m_sink) loses all its digits in float32.
        """
        kept = self.lse.clone()
        kept[..., list(excluded)] = -torch.inf
        return torch.exp(kept - torch.logsumexp(kept, -1, keepdim=True))

    def log_odds(self, above: int, below: int) -> torch.Tensor:
        """LSE of one segment minus another's: [L, H, R]. Independent of all other text."""
        return self.lse[..., above] - self.lse[..., below]


@dataclass(slots=True)
class Capture:
    """Collects during a forward; read `stats()` afterwards."""

    segments: torch.Tensor
    """int64 [T], the segment of every token."""
    n_segments: int
    rows: tuple[int, ...]
    """Absolute positions of the query rows to measure."""
    seconds: float = 0.0
    """Thread CPU seconds spent measuring."""
    _layers: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = field(
        default_factory=dict
    )

    def stats(self) -> SegmentStats:
        """The captured values, layers in order.

        Raises:
            ProbeError: no attention layer ran.
        """
        if not self._layers:
            raise ProbeError(
                "no attention layer was seen; this model has none, or uses its own kernel"
            )
        order = sorted(self._layers)
        lse, sink, entropy = zip(*(self._layers[i] for i in order), strict=True)
        return SegmentStats(torch.stack(lse), torch.stack(sink), torch.stack(entropy), tuple(order))

    def observe(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        mask: torch.Tensor | None,
        scaling: float,
        options: dict[str, Any],
    ) -> None:
        """Measure one attention call; `query` [1, H, T, D], `key` [1, K, T, D].

        Raises:
            ProbeError: the call is not one whole unpadded prompt.
        """
        began = time.thread_time()
        tokens = self.segments.numel()
        if query.shape[0] != 1 or query.shape[2] != tokens or key.shape[2] != tokens:
            raise ProbeError(
                f"attention call has shape {tuple(query.shape)} over {key.shape[2]} keys, expected"
                f" one prompt of {tokens} tokens; pass the prompt whole, without a cache"
            )
        rows = torch.tensor(self.rows, device=query.device)
        picked = query[0, :, rows].float()
        accumulator = _Accumulator(picked.shape[0], rows.numel(), self.n_segments, query.device)
        for start in range(0, tokens, STREAM_BLOCK):
            block = slice(start, min(start + STREAM_BLOCK, tokens))
            logits = _logits(picked, key[0, :, block].float(), scaling, options.get("softcap"))
            hidden = ~_visible(rows, block, mask, options.get("sliding_window"))
            accumulator.add(logits.masked_fill(hidden, -torch.inf), self.segments[block])
        lse, entropy = accumulator.finish()
        sink = options.get("s_aux")
        virtual = (
            torch.full((picked.shape[0],), -torch.inf)
            if sink is None
            else sink.detach().float().reshape(-1).cpu()
        )
        self._layers[layer] = (lse.cpu(), virtual, entropy.cpu())
        self.seconds += time.thread_time() - began


class _Accumulator:
    """Online log-sum-exp per segment over blocks of keys, with the sum of p times z."""

    def __init__(self, heads: int, rows: int, segments: int, device: torch.device) -> None:
        self.lse = torch.full((heads, rows, segments), -torch.inf, device=device)
        self.weighted = torch.zeros((heads, rows), device=device)
        self.total = torch.full((heads, rows), -torch.inf, device=device)

    def add(self, logits: torch.Tensor, segments: torch.Tensor) -> None:
        for segment in torch.unique(segments).tolist():
            part = torch.logsumexp(logits[..., segments == segment], -1)
            self.lse[..., segment] = torch.logaddexp(self.lse[..., segment], part)
        block = torch.logsumexp(logits, -1)
        total = torch.logaddexp(self.total, block)
        shares = torch.exp(logits - total[..., None])
        sums = (shares * logits.masked_fill(shares == 0, 0.0)).sum(-1)
        self.weighted = self.weighted * torch.exp(self.total - total) + sums
        self.total = total

    def finish(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.lse, self.total - self.weighted


@contextmanager
def capturing(
    model: Any, segments: Sequence[int], n_segments: int, rows: Sequence[int]
) -> Iterator[Capture]:
    """Measure every attention layer of `model` inside the block.

    The function registered for the model's attention implementation is wrapped and put back
    afterwards; masks and configuration are untouched, so logits stay bit-identical. Only calls
    from this model's own modules are measured.

    Raises:
        ProbeError: the attention implementation cannot be wrapped, or a row is out of range.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    implementation = base.config._attn_implementation
    if implementation not in ALL_ATTENTION_FUNCTIONS and implementation != "eager":
        raise ProbeError(
            f"attention implementation {implementation!r} cannot be wrapped; load with sdpa"
        )
    if not rows or min(rows) < 0 or max(rows) >= len(segments):
        raise ProbeError(f"probe rows {list(rows)} do not lie in a prompt of {len(segments)}")
    capture = Capture(torch.tensor(list(segments)), n_segments, tuple(rows))
    own = {id(module) for module in base.modules()}
    inner = _attention_function(base, implementation)

    def wrapped(
        module: Any, query: Any, key: Any, value: Any, mask: Any, *args: Any, **kw: Any
    ) -> Any:
        output = inner(module, query, key, value, mask, *args, **kw)
        if id(module) in own:
            scaling = kw.get("scaling") or query.shape[-1] ** -0.5
            with torch.no_grad():
                capture.observe(module.layer_idx, query, key, mask, scaling, kw)
        return output

    ALL_ATTENTION_FUNCTIONS[implementation] = wrapped
    try:
        yield capture
    finally:
        del ALL_ATTENTION_FUNCTIONS[implementation]  # the local entry; the library's shows again


def _attention_function(base: Any, implementation: str) -> Any:
    if implementation != "eager":
        return ALL_ATTENTION_FUNCTIONS[implementation]
    for module in base.modules():
        if "Attention" in type(module).__name__:
            function = getattr(
                sys.modules[type(module).__module__], "eager_attention_forward", None
            )
            if function is not None:
                return function
    raise ProbeError("no eager attention function found in this model; load it with sdpa")


def _logits(
    query: torch.Tensor, key: torch.Tensor, scaling: float, softcap: float | None
) -> torch.Tensor:
    """[H, R, D] x [K, t, D] -> [H, R, t] in float32; head h reads key head h // (H / K)."""
    heads, rows, width = query.shape
    shared = query.reshape(key.shape[0], -1, width)
    logits = torch.matmul(shared, key.transpose(1, 2)).reshape(heads, rows, -1) * scaling
    return torch.tanh(logits / softcap) * softcap if softcap else logits


def _visible(
    rows: torch.Tensor, block: slice, mask: torch.Tensor | None, window: int | None
) -> torch.Tensor:
    """Bool [.., R, t]: which keys each probed row may see."""
    if mask is not None and mask.ndim == 4:
        part = mask[0][:, rows][..., block]
        return part if part.dtype == torch.bool else part > torch.finfo(part.dtype).min / 2
    positions = torch.arange(block.start, block.stop, device=rows.device)
    visible = positions[None, :] <= rows[:, None]
    if window is not None:
        visible = visible & (positions[None, :] > rows[:, None] - window)
    if mask is not None and mask.ndim == 2:
        visible = visible & mask[0, block].bool()
    return visible
