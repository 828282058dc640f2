"""What a probe measured, and every number that follows from log-partitions in closed form.

Nothing here is NaN-free by accident: where a segment has no visible key (absent from the prompt,
or slid out of a window) its share is not zero but undefined, and stays NaN until a summary says
over how many heads it was taken.

Shapes: L attention layers, H heads, R rows, S segments, V value width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.partitions import Partitions


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which part of a model has attention that can be measured at all."""

    attention_layers: int
    """Layers whose attention was seen."""
    layers: int
    """All layers of the model; the rest has no softmax attention."""
    unmeasured: Mapping[str, int]
    """Attention modules by class that never reported: linear attention, or code of their own."""

    def text(self) -> str:
        """One line for a report."""
        line = f"attention in {self.attention_layers} of {self.layers} layers"
        if self.unmeasured:
            names = ", ".join(f"{name} ({n})" for name, n in sorted(self.unmeasured.items()))
            line += f"; not measured: {names}"
        return line


class Spread(NamedTuple):
    """Quartiles and mean of a measure over heads, and over how many it is defined."""

    lower: float
    median: float
    upper: float
    mean: float
    n: int


@dataclass(frozen=True, slots=True)
class Piece:
    """What one attention call gave."""

    rows: Sequence[int]
    """Absolute positions."""
    partitions: Partitions
    parts: torch.Tensor | None = None
    """float32 [H, R, S, V], each segment's part of the output."""
    output: torch.Tensor | None = None
    """[R, H, V], the model's own output."""


@dataclass(frozen=True, slots=True)
class SegmentStats:
    """What was captured of one prompt's rows."""

    layers: tuple[int, ...]
    """Index of each captured layer; layers without attention are absent."""
    rows: tuple[int, ...]
    """Absolute position of each row."""
    lse: torch.Tensor
    """float32 [L, H, R, S]; -inf where a segment has no visible key (unreachable, not zero)."""
    visible: torch.Tensor
    """int32 [L, H, R, S], visible keys."""
    peak: torch.Tensor
    """float32 [L, H, R, S], the greatest logit."""
    mean_logit: torch.Tensor
    """float32 [L, H, R, S], sum of p z, p the softmax over real keys."""
    squares: torch.Tensor
    """float32 [L, H, R, S], sum of p squared."""
    virtual_sink: torch.Tensor
    """float32 [L, H]: the learned sink logit of models that have one, else -inf."""
    outputs: tuple[torch.Tensor, ...] = ()
    """float32 [H, R, S, V] for each layer, where asked for: each segment's part of the output."""
    own_outputs: tuple[torch.Tensor, ...] = ()
    """[R, H, V] for each layer, likewise: the output as the model computed it."""
    coverage: Coverage | None = None

    @classmethod
    def joined(
        cls,
        layers: tuple[int, ...],
        rows: tuple[int, ...],
        found: Sequence[Sequence[Piece]],
        coverage: Coverage | None,
    ) -> SegmentStats:
        """One value of the pieces of each layer, in the order in which the rows ran.

        Raises:
            ProbeError: layers differ in their heads, or a row sees no key.
        """
        if len({pieces[0].partitions.peak.shape[0] for pieces in found}) > 1:
            raise ProbeError(
                "layers differ in their number of heads; measure them in groups with `layers`"
            )

        def stacked(name: str) -> torch.Tensor:
            """[.., L, H, R, S]."""
            by_layer = [
                torch.cat([getattr(piece.partitions, name).cpu() for piece in pieces], -2)
                for pieces in found
            ]
            return torch.stack(by_layer, -4)

        sinks = [pieces[0].partitions.sink for pieces in found]
        none = torch.full(found[0][0].partitions.peak.shape[:1], -torch.inf)
        sink = torch.stack([none if each is None else each.cpu() for each in sinks])
        whole = Partitions(
            stacked("sums"), stacked("reference"), stacked("peak"), stacked("visible"), sink
        )
        whole.require_keys()
        mean_logit, squares = whole.moments()
        parts = [[p.parts for p in pieces if p.parts is not None] for pieces in found]
        own = [[p.output for p in pieces if p.output is not None] for pieces in found]
        return cls(
            layers=layers,
            rows=rows,
            lse=whole.lse,
            visible=whole.visible,
            peak=whole.peak,
            mean_logit=mean_logit,
            squares=squares,
            virtual_sink=sink,
            outputs=tuple(torch.cat(each, 1).cpu() for each in parts if each),
            own_outputs=tuple(torch.cat(each).cpu() for each in own if each),
            coverage=coverage,
        )

    def reachable(self) -> torch.Tensor:
        """Bool [L, H, R, S]: the segment has a key that the row sees."""
        return self.visible > 0

    def total(self) -> torch.Tensor:
        """Log of the whole partition, virtual sink included: [L, H, R]."""
        keys = torch.logsumexp(self.lse, -1)
        return torch.logaddexp(keys, self.virtual_sink[..., None].expand_as(keys))

    def mass(self) -> torch.Tensor:
        """Share of attention on each segment: [L, H, R, S]; NaN where it is unreachable.

        The rest sums to one, less the virtual sink's share.
        """
        return self._defined(torch.exp(self.lse - self.total()[..., None]))

    def mass_without(self, excluded: Sequence[int]) -> torch.Tensor:
        """Masses renormalised over all but the excluded segments and the virtual sink.

        Computed from log-partitions: m / (1 - m_sink) loses all its digits in float32.
        """
        kept = self.lse.clone()
        kept[..., list(excluded)] = -torch.inf
        shares = torch.exp(kept - torch.logsumexp(kept, -1, keepdim=True))
        shares[..., list(excluded)] = torch.nan
        return self._defined(shares)

    def log_rest(self, excluded: Sequence[int]) -> torch.Tensor:
        """log(1 - the excluded segments' and the virtual sink's share): [L, H, R].

        A head whose rest is under log 0.01 says little by its sink-free masses.
        """
        kept = self.lse.clone()
        kept[..., list(excluded)] = -torch.inf
        return torch.logsumexp(kept, -1) - self.total()

    def log_odds(self, above: int, below: int) -> torch.Tensor:
        """LSE of one segment minus another's: [L, H, R]; NaN where either is unreachable.

        Independent of sinks, template and all other text, which masses are not.
        """
        odds = self.lse[..., above] - self.lse[..., below]
        both = self.reachable()[..., above] & self.reachable()[..., below]
        return odds.masked_fill(~both, torch.nan)

    def log_odds_per_token(self, above: int, below: int) -> torch.Tensor:
        """The same less log(visible tokens above / below): zero for uniform attention."""
        counts = self.visible.float().log()
        return self.log_odds(above, below) - counts[..., above] + counts[..., below]

    def log2_density(self) -> torch.Tensor:
        """log2 of mass per visible key over that of uniform attention: [L, H, R, S].

        Over real keys: a virtual sink has no tokens.
        """
        share = self.lse - torch.logsumexp(self.lse, -1, keepdim=True)
        even = self.visible.float().log() - self.visible.sum(-1, keepdim=True).float().log()
        return self._defined((share - even) / math.log(2))

    def entropy(self) -> torch.Tensor:
        """Of the softmax over real keys, nats: [L, H, R]; its exp is the effective tokens."""
        return torch.logsumexp(self.lse, -1) - self.mean_logit.sum(-1)

    def effective_tokens(self) -> torch.Tensor:
        """Exp of the entropy: as many keys with equal weight would spread as far."""
        return self.entropy().exp()

    def participation(self) -> torch.Tensor:
        """1 / sum of p squared: [L, H, R], the effective number that heavy keys dominate."""
        return 1 / self.squares.sum(-1)

    def merged(self, groups: Sequence[Sequence[int]]) -> SegmentStats:
        """The same measurement with segments joined; groups of no segment are unreachable."""

        def summed(values: torch.Tensor) -> torch.Tensor:
            return torch.stack([values[..., list(group)].sum(-1) for group in groups], -1)

        def highest(values: torch.Tensor) -> torch.Tensor:
            empty = torch.full_like(values[..., :1], -torch.inf)
            parts = [torch.cat((empty, values[..., list(group)]), -1) for group in groups]
            return torch.stack([part.amax(-1) for part in parts], -1)

        lse = [torch.logsumexp(self.lse[..., list(group)], -1) for group in groups]
        return SegmentStats(
            layers=self.layers,
            rows=self.rows,
            lse=torch.stack(lse, -1),
            visible=summed(self.visible).int(),
            peak=highest(self.peak),
            mean_logit=summed(self.mean_logit),
            squares=summed(self.squares),
            virtual_sink=self.virtual_sink,
            outputs=tuple(
                torch.stack([part[:, :, list(group)].sum(2) for group in groups], 2)
                for part in self.outputs
            ),
            own_outputs=self.own_outputs,
            coverage=self.coverage,
        )

    def _defined(self, shares: torch.Tensor) -> torch.Tensor:
        return shares.masked_fill(~self.reachable(), torch.nan)


def spread(values: torch.Tensor) -> Spread | None:
    """Quartiles and mean over all heads where a measure is defined; None where it is nowhere."""
    flat = values.flatten().float()
    flat = flat[~torch.isnan(flat)]
    if not flat.numel():
        return None
    lower, middle, upper = torch.quantile(flat, torch.tensor([0.25, 0.5, 0.75])).tolist()
    return Spread(lower, middle, upper, flat.mean().item(), flat.numel())


def layer_profile(values: torch.Tensor) -> list[Spread | None]:
    """`spread` over the heads of each layer; `values` are [L, H, ...]."""
    return [spread(layer) for layer in values]
