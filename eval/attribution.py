"""What attended segments put into the residual stream, and towards a call or towards prose.

For head h and segment s, o_s = sum of p v is the segment's part of the head's output, and
W_O^h o_s what the output projection makes of it (Kobayashi et al. 2020: a large share on a value
of small norm moves little). Its direct logit attribution is its inner product with the direction
that raises call openers over prose openers, read through the final norm at its measured scale.
The direct path only: what later layers make of it is left to causal tests.

Shapes: L attention layers, H heads, S segments, V value width, E embedding width.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.capture import capturing
from breadcrumbs.eval.prompt_run import run_prompt
from breadcrumbs.eval.segment_stats import SegmentStats

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

PROJECTIONS = ("o_proj", "out_proj", "dense", "c_proj", "wo")
PROSE_OPENERS = (
    *("I", "Please", "To", "The", "Sure", "Here", "What", "Which", "Would", "Could", "Can"),
    *("Before", "Just", "Okay", "Great"),
)
"""How a turn without a call begins; the first token of each."""
SAME = {torch.float32: 1e-4}
"""How near two ways of computing one vector come, relative to its largest value; else `ROUNDED`."""
ROUNDED = 3e-2


@dataclass(frozen=True, slots=True)
class Openers:
    """Ids a turn begins with: those of a call and those of prose."""

    call: tuple[int, ...]
    prose: tuple[int, ...]


def openers_of(renderer: Renderer) -> Openers:
    """The model's own call opener against common first words of prose.

    Raises:
        ProbeError: one token begins both, so the first token does not tell them apart.
    """

    def first(text: str) -> int:
        return int(renderer.tokenizer(text, add_special_tokens=False)["input_ids"][0])

    call = (first(renderer.call_format.opener),)
    prose = tuple(dict.fromkeys(first(word) for word in PROSE_OPENERS))
    if set(call) & set(prose):
        raise ProbeError("this model's calls begin with a token that prose begins with too")
    return Openers(call, prose)


def gap_of(logits: torch.Tensor, openers: Openers) -> torch.Tensor:
    """Logsumexp of the call openers' logits less that of the prose openers'; `logits` [V]."""
    values = logits.float()
    call, prose = values[list(openers.call)], values[list(openers.prose)]
    return torch.logsumexp(call, 0) - torch.logsumexp(prose, 0)


@dataclass(frozen=True, slots=True)
class Attribution:
    """Effects of the segments at the decision position; NaN where a segment is unreachable."""

    norms: torch.Tensor | None
    """float32 [L, H, S], length of W_O^h o_s."""
    logits: torch.Tensor | None
    """float32 [L, H, S], direct attribution on the gap, in logits."""
    gap: float
    """logsumexp of the call openers' logits less that of the prose openers'."""
    refusals: tuple[str, ...]
    """Why `norms` or `logits` are not there."""

    def value_share(self) -> torch.Tensor | None:
        """Each segment's norm over the sum of the head's norms: [L, H, S]."""
        if self.norms is None:
            return None
        return self.norms / self.norms.nansum(-1, keepdim=True)


@dataclass(frozen=True, slots=True)
class Measured:
    """All measures of one prompt's decision position."""

    stats: SegmentStats
    attribution: Attribution


def measure_prompt(
    model: Any,
    ids: Sequence[int],
    segments: Sequence[int],
    n_segments: int,
    openers: Openers,
    *groupings: Sequence[Sequence[int]],
) -> list[Measured]:
    """Run a prompt once and take every measure: by its segments, then by each grouping of them.

    In a grouping the length of what a group writes is that of its segments' sum.

    Raises:
        ProbeError: attention cannot be measured at all. Where only the attribution has no
            meaning, it says so instead.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    with (
        capturing(model, segments, n_segments, with_outputs=True) as capture,
        _recorded(base) as record,
    ):
        run_prompt(model, ids)
        stats = capture.stats()
    taken = [stats, *(stats.merged(groups) for groups in groupings)]
    with torch.no_grad():
        return [Measured(each, _attribute(base, each, record, openers)) for each in taken]


@dataclass(slots=True)
class _Record:
    """Values at the last position, by module."""

    inputs: dict[int, torch.Tensor] = field(default_factory=dict)
    outputs: dict[int, torch.Tensor] = field(default_factory=dict)
    attention: dict[int, Any] = field(default_factory=dict)
    """Layer index -> attention module."""
    blocks: list[Any] = field(default_factory=list)
    """The decoder's layers."""
    logits: torch.Tensor | None = None
    """[vocabulary], as the model gave them."""

    def input_of(self, module: Any) -> torch.Tensor:
        return _known(self.inputs, module)

    def output_of(self, module: Any) -> torch.Tensor:
        return _known(self.outputs, module)


def _known(values: Mapping[int, torch.Tensor], module: Any) -> torch.Tensor:
    if id(module) not in values:
        raise ProbeError(f"{type(module).__name__} passes something else than a residual stream")
    return values[id(module)]


@contextmanager
def _recorded(base: Any) -> Iterator[_Record]:
    record = _Record()
    watched = dict(_watched(base, record))
    hooks = [
        module.register_forward_hook(_keeper(record), with_kwargs=True)
        for module in watched.values()
    ]

    def keep_logits(_: Any, __: Any, output: Any) -> None:
        record.logits = output.logits[0, -1].detach()

    hooks.append(base.register_forward_hook(keep_logits))
    try:
        yield record
    finally:
        for hook in hooks:
            hook.remove()


def _watched(base: Any, record: _Record) -> Iterator[tuple[int, Any]]:
    """Everything on the residual stream: blocks, their parts, projections, norm and head."""
    decoder = base.get_decoder()
    for module in (base.get_output_embeddings(), *decoder.children()):
        if module is not None and not isinstance(module, torch.nn.ModuleList):
            yield id(module), module
    for blocks in decoder.children():
        if not isinstance(blocks, torch.nn.ModuleList):
            continue
        record.blocks.extend(blocks)
        for block in blocks:
            yield id(block), block
            for part in block.children():
                yield id(part), part
                layer = getattr(part, "layer_idx", None)
                if isinstance(layer, int):
                    record.attention[layer] = part
                    for child in part.children():
                        yield id(child), child


def _keeper(record: _Record) -> Callable[..., None]:
    def keep(module: Any, args: Any, kwargs: Any, output: Any) -> None:
        given = args[0] if args else kwargs.get("hidden_states")
        made = output[0] if isinstance(output, tuple) else output
        if isinstance(given, torch.Tensor) and given.ndim == 3:
            record.inputs[id(module)] = given[0, -1].detach()
        if isinstance(made, torch.Tensor) and made.ndim == 3:
            record.outputs[id(module)] = made[0, -1].detach()

    return keep


def _attribute(base: Any, stats: SegmentStats, record: _Record, openers: Openers) -> Attribution:
    assert record.logits is not None
    gap = float(gap_of(record.logits, openers))
    missing = torch.isneginf(stats.lse[:, :, -1])
    refusals: list[str] = []
    direction = None
    try:
        direction = _direction(base, record, stats.layers, openers)
    except ProbeError as error:
        refusals.append(f"direct logit attribution: {error}")
    norms, logits = [], []
    try:
        for place, layer in enumerate(stats.layers):
            written = _written(record, layer, stats.outputs[place], stats.own_outputs[place])
            norms.append(written.norm(dim=-1).cpu())
            if direction is not None:
                logits.append((written @ direction).cpu())
    except ProbeError as error:
        return Attribution(None, None, gap, (*refusals, f"value-weighted share: {error}"))
    return Attribution(
        torch.stack(norms).masked_fill(missing, torch.nan),
        None if direction is None else torch.stack(logits).masked_fill(missing, torch.nan),
        gap,
        tuple(refusals),
    )


def _written(record: _Record, layer: int, parts: torch.Tensor, own: torch.Tensor) -> torch.Tensor:
    """W_O^h o_s of the last row: float32 [H, S, E]; `parts` [H, R, S, V], `own` [R, H, V]."""
    module = record.attention.get(layer)
    projection = next(
        (found for name in PROJECTIONS if (found := getattr(module, name, None)) is not None), None
    )
    if projection is None or id(projection) not in record.inputs:
        raise ProbeError(f"no output projection is known in layer {layer}'s attention")
    read = record.input_of(projection)
    heads, _, segments, width = parts.shape
    if read.numel() != heads * width:
        raise ProbeError(f"layer {layer} projects something else than its heads' outputs")
    last, output = parts[:, -1].to(read.device), own[-1].flatten().to(read.device)
    if not _same(read, output):
        # A gate or norm between attention and projection is taken at its measured value.
        last = last * _ratio(read.float(), output.float()).reshape(heads, 1, width)
    slots = torch.zeros(heads, segments, heads, width, device=read.device)
    slots[torch.arange(heads), :, torch.arange(heads)] = last
    flat = slots.flatten(2).to(read.dtype)
    offset = projection(torch.zeros_like(flat[:1, :1]))
    written: torch.Tensor = (projection(flat) - offset).float()
    whole = (record.output_of(projection) - offset[0, 0]).float()
    if not _near(written.sum((0, 1)), whole, read.dtype):
        raise ProbeError(f"layer {layer}'s output projection is not linear")
    return written


def _ratio(after: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    return torch.where(before == 0, torch.zeros_like(after), after / before)


def _direction(
    base: Any, record: _Record, layers: Collection[int], openers: Openers
) -> torch.Tensor:
    """[E], what one unit of residual stream adds to the gap, by the direct path."""
    for block in record.blocks:
        _require_sum(block, record, layers)
    head = base.get_output_embeddings()
    hidden = record.input_of(head)
    assert record.logits is not None
    if not _same(record.output_of(head), record.logits):
        raise ProbeError("the model scales or caps its logits")
    with torch.enable_grad():
        leaf = hidden[None, None].clone().requires_grad_()
        (slope,) = torch.autograd.grad(gap_of(head(leaf)[0, 0], openers), leaf)
    norms = [
        module
        for module in base.get_decoder().children()
        if id(module) in record.outputs and _same(record.output_of(module), hidden)
    ]
    if len(norms) != 1 or "RMSNorm" not in type(norms[0]).__name__:
        raise ProbeError("the stream does not reach the logits through one RMS norm")
    stream = record.input_of(norms[0])
    if not _same(stream, record.output_of(record.blocks[-1])):
        raise ProbeError("something stands between the last layer and the final norm")
    # A flat vector of the stream's own size shows the norm's factors at that size.
    size = stream.float().square().mean().sqrt().to(stream.dtype)
    factors: torch.Tensor = (norms[0](size.expand(1, 1, stream.numel()))[0, 0] / size).float()
    if not _near(stream.float() * factors, hidden.float(), stream.dtype):
        raise ProbeError("the final norm does not scale each channel by itself")
    return factors * slope[0, 0].float()


def _require_sum(block: Any, record: _Record, layers: Collection[int]) -> None:
    """A block must do no more than add its parts' outputs to the stream, attention first."""
    stream, after = record.input_of(block), record.output_of(block)
    parts = [
        part
        for part in block.children()
        if id(part) in record.outputs and record.output_of(part).shape == stream.shape
    ]
    attention = [part for part in parts if getattr(part, "layer_idx", None) in layers]
    for first in attention or parts:
        halfway = stream + record.output_of(first)
        sums = (halfway, *(halfway + record.output_of(second) for second in parts))
        if any(_same(each, after) for each in sums):
            return
    raise ProbeError(
        f"{type(block).__name__} does more than add attention and MLP to the residual stream"
    )


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and bool((one == other).all())


def _near(one: torch.Tensor, other: torch.Tensor, dtype: torch.dtype) -> bool:
    scale = other.abs().max().clamp_min(1e-6)
    return bool((one - other).abs().max() <= SAME.get(dtype, ROUNDED) * scale)
