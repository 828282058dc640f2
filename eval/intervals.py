"""A figure with its 95 % interval: Wilson's for rates, a bootstrap over scenarios for Ask-F1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Z_95 = 1.959963984540054
DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value, the ends of its 95 % interval, and how many scenarios it rests on.

    All three are None where nothing was measured.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


NOT_MEASURED = Estimate(None, None, None, 0)


def plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Estimates inside nested mappings as plain JSON values."""
    return {
        key: plain(inner) if isinstance(inner, Mapping) else inner.to_dict()
        for key, inner in figures.items()
    }


def rate(outcomes: Sequence[bool]) -> Estimate:
    """A share with Wilson's score interval, which stays inside [0, 1] and off zero width."""
    n = len(outcomes)
    if n == 0:
        return NOT_MEASURED
    share = sum(outcomes) / n
    spread = 1 + Z_95**2 / n
    centre = (share + Z_95**2 / (2 * n)) / spread
    half = Z_95 * math.sqrt(share * (1 - share) / n + Z_95**2 / (4 * n * n)) / spread
    return _rounded(share, min(share, max(0.0, centre - half)), max(share, centre + half), n)


@dataclass(frozen=True, slots=True, order=True)
class Questions:
    """What one scenario adds to Ask-F1."""

    asked: int
    """Questions in the turn."""
    hits: int
    """Of those, how many ask for something that is missing."""
    missing: int
    """Arguments that are missing."""


def ask_f1(questions: Sequence[Questions], seed: int, draws: int = DRAWS) -> Estimate:
    """Harmonic mean of question precision and missing-argument recall, pooled over scenarios.

    Zero where nothing that is missing was asked for; not measured where nothing is missing.
    The percentile interval is the same for every order of the scenarios: (multiset, seed, draws)
    fix it.
    """
    import numpy as np

    if not any(q.missing for q in questions):
        return NOT_MEASURED
    table = np.array([(q.asked, q.hits, q.missing) for q in sorted(questions)], dtype=float)
    rng = np.random.default_rng(seed)
    picks = rng.integers(0, len(table), (draws, len(table)))
    drawn = [_f1(*sums) for sums in table[picks].sum(axis=1)]
    low, high = np.quantile(drawn, (0.025, 0.975))
    return _rounded(_f1(*table.sum(axis=0)), float(low), float(high), len(table))


def _f1(asked: float, hits: float, missing: float) -> float:
    """Harmonic mean of hits / asked and hits / missing."""
    return float(2 * hits / (asked + missing)) if hits else 0.0


def _rounded(value: float, low: float, high: float, n: int) -> Estimate:
    return Estimate(round(value, 4), round(low, 4), round(min(high, 1.0), 4), n)
