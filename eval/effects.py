"""What each tier does over the full grid of sixteen cells: main effects and all interactions.

The grid is a full 2^4 factorial on the same scenarios. The main effect of a tier is the mean of a
figure over the eight cells that have it less the mean over the eight that have not. The
interaction of two tiers is how much the effect of one grows when the other is switched on: the
difference of the two, not half of it as some books have it. The interaction of three is how much
that of two grows when the third is switched on, and so on to all four. Intervals draw blueprints,
and with one all its cells, so that what scenarios share cancels.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from breadcrumbs.eval.estimates import Unit
from breadcrumbs.eval.intervals import DRAWS
from breadcrumbs.eval.playing import Tiers

TIERS = (1, 2, 3, 4)
Cells = Mapping[Tiers, Mapping[str, Unit]]
"""The units of one figure by cell, then by run."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A difference between cells with its 95 % interval."""

    tiers: tuple[int, ...]
    """One for a main effect, two to four for an interaction."""
    value: float
    low: float
    high: float
    cells: int

    @property
    def name(self) -> str:
        """`tier 1`, or `tier 1 x tier 3`."""
        return " x ".join(f"tier {tier}" for tier in self.tiers)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**asdict(self), "name": self.name}


def effects(cells: Cells, seed: int, draws: int = DRAWS) -> list[Effect]:
    """Main effects and interactions of one figure.

    None where a cell is missing or has nothing to divide by, in more than half of the resamples
    too: there is then no telling how wide an interval is.
    """
    import numpy as np

    order = sorted(cells)
    if len(order) != 2 ** len(TIERS):
        return []
    table = np.array(_sums(cells, order))  # [clusters, cells, 2]
    whole = table.sum(axis=0) if len(table) else np.zeros((len(order), 2))
    if not whole[:, 1].all():
        return []
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(table), (draws, len(table)))
    drawn = np.stack([table[pick].sum(axis=0) for pick in picks])  # [draws, cells, 2]
    drawn = drawn[(drawn[:, :, 1] > 0).all(axis=1)]
    if 2 * len(drawn) < draws:
        return []
    ratios = drawn[:, :, 0] / drawn[:, :, 1]
    found = []
    for tiers in _terms():
        weights = np.array([_weight(cell, tiers) for cell in order])
        value = float(whole[:, 0] / whole[:, 1] @ weights)
        low, high = (float(q) for q in np.quantile(ratios @ weights, (0.025, 0.975)))
        found.append(Effect(tiers, round(value, 4), round(low, 4), round(high, 4), len(order)))
    return found


def _terms() -> list[tuple[int, ...]]:
    return [found for size in TIERS for found in itertools.combinations(TIERS, size)]


def _weight(cell: Tiers, tiers: Sequence[int]) -> float:
    """A cell's share in a difference: positive where an even number of the tiers is off."""
    sign = 1
    for tier in tiers:
        sign *= 1 if cell.flags[tier - 1] else -1
    return sign / float(2 ** (len(TIERS) - len(tiers)))


def _sums(cells: Cells, order: Sequence[Tiers]) -> list[list[tuple[float, float]]]:
    """Numerator and denominator of each cluster in each cell, clusters sorted by what they hold."""
    empty = [(0.0, 0.0)] * len(order)
    clusters: dict[str, list[tuple[float, float]]] = defaultdict(lambda: list(empty))
    for place, cell in enumerate(order):
        for unit in cells[cell].values():
            top, bottom = clusters[unit.cluster][place]
            clusters[unit.cluster][place] = (
                top + unit.part.numerator,
                bottom + unit.part.denominator,
            )
    return sorted(clusters.values())
