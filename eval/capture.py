"""Per-segment attention of chosen query rows, while the model runs its own fast attention.

The functions that the model's modules look up are wrapped for the length of a block; masks,
configuration and outputs stay as they are, so logits are bit-identical. What cannot be measured
is refused with the reason: a zero would read as a finding.

Shapes: H heads, R rows, T tokens, S segments, D head width, V value width.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.model_hooks import followed_positions, wrapped_attention
from breadcrumbs.eval.partitions import (
    Labels,
    Rows,
    fits_output,
    make_labels,
    partition,
    position_bias,
    segment_outputs,
    visible_keys,
)
from breadcrumbs.eval.segment_stats import Coverage, Piece, SegmentStats

TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2, torch.bfloat16: 6e-2}
"""How far the outputs recomputed from measured weights may lie from the model's own, relative to
the largest: the kernel rounds, but an attention that does something else misses by far more."""
UNDEFINED = {"diffllama": "its attention is a difference of two softmaxes, so no share is defined"}


@dataclass(slots=True)
class Capture:
    """Collects while the model runs; read `stats()` afterwards."""

    segments: torch.Tensor
    """int64 [T], the segment of every prompt token."""
    n_segments: int
    rows: tuple[int, ...]
    """Absolute positions of the query rows to measure."""
    generated: int | None = None
    """Segment of the tokens behind the prompt; given, their rows are measured too."""
    layers: frozenset[int] | None = None
    """Layers to measure; None: all."""
    with_outputs: bool = False
    """Keep each segment's part of the head outputs."""
    seconds: float = 0.0
    """Thread CPU seconds spent measuring."""
    reached: int = 0
    """Position behind the last token that ran."""
    span: tuple[int, int] | None = None
    """First position of the running forward and the one behind its last."""
    coverage: Callable[[], Coverage] | None = None
    """Says which attention was seen so far."""
    _found: dict[int, list[Piece]] = field(default_factory=dict)
    _labels: dict[tuple[int, int, torch.device], Labels] = field(default_factory=dict)
    _checked: set[int] = field(default_factory=set)

    def stats(self) -> SegmentStats:
        """The captured values, layers in order.

        Raises:
            ProbeError: no attention layer ran, or not the whole prompt did.
        """
        if not self._found:
            raise ProbeError(
                "no attention layer was seen: this model has none, or computes attention with"
                " code of its own; probe a model that uses transformers' attention interface"
            )
        if self.reached < self.segments.numel():
            raise ProbeError(
                f"{self.reached} of {self.segments.numel()} prompt tokens ran; run the whole prompt"
            )
        layers = sorted(self._found)
        positions = self._rows_ran(layers[0])
        for layer in layers:
            if self._rows_ran(layer) != positions:
                raise ProbeError(
                    f"layers {layers[0]} and {layer} saw different rows; they cannot be compared"
                )
        missing = sorted(set(self.rows) - set(positions))
        if missing:
            raise ProbeError(f"rows {missing} never ran; they lie in a prefix computed before")
        began = time.thread_time()
        coverage = self.coverage() if self.coverage else None
        stats = SegmentStats.joined(
            tuple(layers), tuple(positions), [self._found[i] for i in layers], coverage
        )
        self.seconds += time.thread_time() - began
        return stats

    def observe(
        self,
        module: Any,
        tensors: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        mask: Any,
        output: torch.Tensor,
        options: dict[str, Any],
    ) -> None:
        """Measure one attention call: query [1, H, Q, D], key [1, K, T, D], value [1, K, T, V].

        Raises:
            ProbeError: the call is of a kind that cannot be measured; the message says why.
        """
        began = time.thread_time()
        layer = _layer_of(module)
        if self.layers is not None and layer not in self.layers:
            return
        query, key, value = tensors
        first, last = self._span_of(module, query, key)
        _refuse_odd_call(module, mask, (query.shape[2], key.shape[2]), options)
        wanted = self._wanted(first, last)
        if not wanted:
            return
        if set(wanted) & set(self._rows_ran(layer)):
            raise ProbeError(
                f"layer {layer} ran twice over row {wanted[0]}: open a new capture for every run"
                " (a model whose layers share a module, or have cross-attention, cannot be probed)"
            )
        rows = rows_of(wanted, first, (query, key), mask, options)
        labels = self._labels_of(last - key.shape[2], last, key.device)
        found = partition(rows, labels)
        own = output[0, [row - first for row in wanted]]
        piece = Piece(wanted, found)
        if self.with_outputs:
            found.require_keys()
            parts = segment_outputs(rows, value[0], found.total(), labels.runs, self.n_segments)
            _check_outputs(module, parts, own)
            piece = Piece(wanted, found, parts, own.detach())
        elif layer not in self._checked:  # one row shows whether the attention is known
            found.require_keys()
            everything = ((0, key.shape[2], 0),)
            whole = segment_outputs(rows.last(), value[0], found.total()[:, -1:], everything, 1)
            _check_outputs(module, whole, own[-1:])
            self._checked.add(layer)
        self._found.setdefault(layer, []).append(piece)
        self.seconds += time.thread_time() - began

    def _rows_ran(self, layer: int) -> list[int]:
        return [row for piece in self._found.get(layer, ()) for row in piece.rows]

    def _wanted(self, first: int, last: int) -> list[int]:
        wanted = {row for row in self.rows if first <= row < last}
        if self.generated is not None:
            wanted |= set(range(max(first, self.segments.numel()), last))
        return sorted(wanted)

    def _span_of(self, module: Any, query: torch.Tensor, key: torch.Tensor) -> tuple[int, int]:
        name = type(module).__name__
        if self.span is None:
            raise ProbeError(f"{name} ran outside the model's own forward; call the model itself")
        first, last = self.span
        if query.shape[0] != 1:
            raise ProbeError(f"a batch of {query.shape[0]} prompts; probe one prompt at a time")
        if query.shape[2] != last - first:
            raise ProbeError(
                f"{name} attends from {query.shape[2]} positions where {last - first} tokens run;"
                " cross-attention and image towers cannot be probed"
            )
        if key.shape[2] > last:
            raise ProbeError(
                f"{name} attends to {key.shape[2]} keys where {last} tokens are there; use a"
                " dynamic cache (a static one pads keys to its full length)"
            )
        return first, last

    def _labels_of(self, first: int, last: int, device: torch.device) -> Labels:
        found = self._labels.get((first, last, device))
        if found is None:
            known = self.segments[first:last]
            if last > self.segments.numel():
                assert self.generated is not None  # `enter` refuses else
                behind = last - max(first, self.segments.numel())
                known = torch.cat([known, torch.full((behind,), self.generated)])
            if len(self._labels) > 8:  # every generated token brings new ones
                self._labels.clear()
            found = self._labels[(first, last, device)] = make_labels(
                known.to(device), self.n_segments
            )
        return found

    def enter(self, tokens: int, cached: int, limit: int | None) -> None:
        """A forward over `tokens` begins behind `cached` ones.

        Raises:
            ProbeError: it reaches beyond the segments or the model's `limit`.
        """
        last = cached + tokens
        known = self.segments.numel()
        if last > known and self.generated is None:
            raise ProbeError(
                f"{last} tokens run, but segments cover {known}: label every token, or name the"
                " segment of `generated` ones"
            )
        if limit is not None and last > limit:
            raise ProbeError(
                f"{last} tokens are beyond the model's {limit} positions; shorten the prompt"
            )
        self.span = (cached, last)
        self.reached = max(self.reached, last)

    def leave(self) -> None:
        """The forward has ended."""
        self.span = None


@contextmanager
def capturing(
    model: Any,
    segments: Sequence[int],
    n_segments: int,
    rows: Sequence[int] | None = None,
    *,
    generated: int | None = None,
    layers: Collection[int] | None = None,
    with_outputs: bool = False,
) -> Iterator[Capture]:
    """Measure the attention layers of `model` for one prompt inside the block.

    `segments` labels every prompt token with a number below `n_segments`. `rows` are absolute
    positions; None is the decision position, the prompt's last token. With `generated`, the
    segment that tokens behind the prompt count to, every generated token's row is measured too.
    The prompt may run whole, in chunks with a dynamic cache, behind a prefix that is cached
    already, or inside `generate`. Adapters are measured as they are switched.

    Raises:
        ProbeError: rows or segments do not fit, or the model cannot be measured; calls inside
            the block raise it too, once they meet something that has no defined share.
    """
    positions = (len(segments) - 1,) if rows is None else tuple(rows)
    _check_request(segments, n_segments, positions, generated)
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    _refuse_model(model, base)
    kept = None if layers is None else frozenset(layers)
    capture = Capture(
        torch.tensor(list(segments)), n_segments, positions, generated, kept, with_outputs
    )
    own = {id(module) for module in base.modules()}
    seen: set[int] = set()
    capture.coverage = lambda: _coverage(base, seen)

    def watch(module: Any, tensors: Any, mask: Any, output: torch.Tensor, options: Any) -> None:
        if id(module) in own:
            with torch.no_grad():
                capture.observe(module, tensors, mask, output, options)
            seen.add(id(module))

    with wrapped_attention(base, watch), followed_positions(base, capture.enter, capture.leave):
        yield capture


def rows_of(
    wanted: Sequence[int],
    first: int,
    tensors: tuple[torch.Tensor, torch.Tensor],
    mask: torch.Tensor | None,
    options: dict[str, Any],
) -> Rows:
    """The `wanted` positions of a call whose queries begin at `first`, and what they may see."""
    query, key = tensors
    keys = key.shape[2]
    window = options.get("sliding_window")
    visible, bias = visible_keys(wanted, first + query.shape[2] - keys, query, keys, mask, window)
    within = [row - first for row in wanted]
    extra = position_bias(options, within)
    if extra is not None:
        bias = extra if bias is None else bias + extra
    scaling = options.get("scaling")
    return Rows(
        query=query[0, :, within],
        keys=key[0],
        scaling=query.shape[-1] ** -0.5 if scaling is None else float(scaling),
        softcap=options.get("softcap"),
        sink=options.get("s_aux"),
        visible=visible,
        bias=bias,
    )


def _check_request(
    segments: Sequence[int], n_segments: int, rows: Sequence[int], generated: int | None
) -> None:
    if not segments or min(segments) < 0 or max(segments) >= n_segments:
        raise ProbeError(f"every token needs a segment from 0 to {n_segments - 1}")
    if not rows or min(rows) < 0 or max(rows) >= len(segments):
        raise ProbeError(f"probe rows {list(rows)} do not lie in a prompt of {len(segments)}")
    if generated is not None and not 0 <= generated < n_segments:
        raise ProbeError(f"generated segment {generated} is not from 0 to {n_segments - 1}")


def _refuse_model(model: Any, base: Any) -> None:
    reason = UNDEFINED.get(base.config.model_type)
    if reason:
        raise ProbeError(f"{base.config.model_type} cannot be probed: {reason}")
    if hasattr(model, "_orig_mod") or base._compiled_call_impl is not None:
        raise ProbeError("a compiled model runs code of its own; probe it before compiling")
    if "flex" in str(base.config.get_text_config()._attn_implementation):
        raise ProbeError("flex attention hides its mask in code; load with sdpa or eager")


def _refuse_odd_call(
    module: Any, mask: Any, shape: tuple[int, int], options: dict[str, Any]
) -> None:
    name = type(module).__name__
    queries, keys = shape
    if mask is not None and (not isinstance(mask, torch.Tensor) or mask.shape[-1] != keys):
        raise ProbeError(f"{name} has a mask of an unknown kind; load with sdpa or eager")
    if options.get("indices") is not None:
        raise ProbeError(f"{name} selects keys inside its kernel; load with sdpa or eager")
    if options.get("cu_seq_lens_q") is not None:
        raise ProbeError(f"{name} runs packed sequences; probe one prompt at a time")
    if mask is None:
        kernel = getattr(getattr(module, "config", None), "_attn_implementation", None)
        if 1 < queries < keys and "flash" not in str(kernel):  # those need no mask
            raise ProbeError(
                f"{name} attends from {queries} to {keys} positions without a mask: some kernels"
                " then drop keys; pass an attention_mask of ones"
            )
        causal = options.get("is_causal")
        if queries > 1 and not (getattr(module, "is_causal", True) if causal is None else causal):
            raise ProbeError(f"{name} is not causal; only causal attention can be probed")


def _layer_of(module: Any) -> int:
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise ProbeError(
            f"{type(module).__name__} does not say which layer it is; it cannot be probed"
        )
    return int(layer)


def _check_outputs(module: Any, parts: torch.Tensor, output: torch.Tensor) -> None:
    """Refuse a model whose own output is not what the measured weights give."""
    difference = fits_output(parts.sum(2).transpose(0, 1), output)
    if difference > TOLERANCE.get(output.dtype, 6e-2):
        raise ProbeError(
            f"{type(module).__name__}: the measured weights do not give the model's own output"
            f" (off by {difference:.2g} of its largest value): it attends in a way that is not"
            " known here, or runs in training mode; call model.eval()"
        )


def _coverage(base: Any, seen: set[int]) -> Coverage:
    unmeasured: dict[str, int] = {}
    measured = set()
    for module in base.modules():
        layer = getattr(module, "layer_idx", None)
        if not isinstance(layer, int):
            continue
        if id(module) in seen:
            measured.add(layer)
        elif "Attention" in type(module).__name__:
            name = type(module).__name__
            unmeasured[name] = unmeasured.get(name, 0) + 1
    total = base.config.get_text_config().num_hidden_layers
    return Coverage(len(measured), int(total), unmeasured)
