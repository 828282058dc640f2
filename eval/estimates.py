"""Ratios of sums over scenarios: intervals by bootstrap over twins, and tests between systems.

Every figure of the suite is a ratio of sums: a rate is hits over scenarios, Ask-F1 is twice the
hits over questions and missing arguments, words per success are words over successes. Scenarios
made from one blueprint are drawn together, since they share their wording. Nothing depends on the
order of the scenarios: the sums of the twins are sorted before any is drawn.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from breadcrumbs.eval.intervals import DRAWS, NOT_MEASURED, Estimate, rate

ALPHA = 0.05


class Part(NamedTuple):
    """What one scenario adds to a ratio."""

    numerator: float
    denominator: float


class Unit(NamedTuple):
    """A scenario's part, and the blueprint whose twins are drawn together."""

    cluster: str
    part: Part


def ratio(units: Iterable[Unit], seed: int, draws: int = DRAWS) -> Estimate:
    """Sum over sum with a percentile interval from `draws` resamples of the clusters.

    `n` counts the units. Not measured where the denominators sum to nothing. Where every unit says
    the same zero or one, a resample cannot say anything else, so the interval is Wilson's over the
    clusters.
    """
    used = list(units)
    table = _sums(used)
    whole_numerator, whole_denominator = _added(table) if table else (0.0, 0.0)
    if not whole_denominator:
        return NOT_MEASURED
    value = whole_numerator / whole_denominator
    if value in (0.0, 1.0) and all(unit.part in ((0, 1), (1, 1)) for unit in used):
        alike = rate([value == 1.0] * len(table))
        return Estimate(alike.value, alike.low, alike.high, len(used))
    drawn = _drawn(table, seed, draws)
    low, high = _quantiles(drawn[:, 0], drawn[:, 1])
    return Estimate(round(value, 4), round(low, 4), round(high, 4), len(used))


def mean_of_two(a: Sequence[Unit], b: Sequence[Unit], seed: int, draws: int = DRAWS) -> Estimate:
    """The mean of two ratios over one set of clusters, such as balanced accuracy.

    Clusters are resampled with all they hold of both. Where each ratio is zero or one throughout,
    the ends are the means of the two intervals' own. Not measured where either is not.
    """
    first, second = ratio(a, seed, draws), ratio(b, seed, draws)
    if first.value is None or second.value is None:
        return NOT_MEASURED
    ends = [(first.low, second.low), (first.high, second.high)]
    clusters: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for unit in a:
        clusters[unit.cluster].append((*unit.part, 0.0, 0.0))
    for unit in b:
        clusters[unit.cluster].append((0.0, 0.0, *unit.part))
    table = sorted(_added(rows) for rows in clusters.values())
    total = _added(table)
    value = (total[0] / total[1] + total[2] / total[3]) / 2
    if {first.value, second.value} <= {0.0, 1.0}:
        low, high = (sum(end or 0.0 for end in pair) / 2 for pair in ends)
    else:
        drawn = _drawn(table, seed, draws)
        kept = drawn[(drawn[:, 1] > 0) & (drawn[:, 3] > 0)]
        low, high = _percentiles((kept[:, 0] / kept[:, 1] + kept[:, 2] / kept[:, 3]) / 2)
    return Estimate(round(value, 4), round(float(low), 4), round(float(high), 4), len(a) + len(b))


def _sums(units: Sequence[Unit]) -> list[tuple[float, ...]]:
    """The sums of each cluster, sorted, so that no order of scenarios shows."""
    clusters: dict[str, list[Part]] = defaultdict(list)
    for unit in units:
        clusters[unit.cluster].append(unit.part)
    return sorted(_added(parts) for parts in clusters.values())


def _added(parts: Iterable[Sequence[float]]) -> tuple[float, ...]:
    return tuple(math.fsum(column) for column in zip(*parts, strict=True))


def _drawn(table: Sequence[Sequence[float]], seed: int, draws: int) -> Any:
    """Sums [draws, columns] of as many clusters as there are, drawn with replacement."""
    import numpy as np

    values = np.array(table, dtype=float)
    rng = np.random.default_rng(seed)
    return values[rng.integers(0, len(values), (draws, len(values)))].sum(axis=1)


def _quantiles(numerators: Any, denominators: Any) -> tuple[float, float]:
    import numpy as np

    kept = denominators > 0
    low, high = np.quantile(numerators[kept] / denominators[kept], (0.025, 0.975))
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Difference:
    """B less A over the scenarios that both have, with a 95 % interval and a two-sided p."""

    a: float
    b: float
    value: float
    low: float
    high: float
    p: float
    n: int
    """Scenarios that both have."""
    test: str
    """`mcnemar` for outcomes that are yes or no, else `bootstrap`."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def paired(
    a: Mapping[str, Unit], b: Mapping[str, Unit], seed: int, draws: int = DRAWS
) -> Difference | None:
    """Compare two systems scenario by scenario; None where nothing counts for both.

    Yes-or-no outcomes are tested by McNemar's exact test over the scenarios whose outcome
    changed; others by the share of resampled differences on the far side of zero.
    """
    names = sorted(a.keys() & b.keys())
    clusters: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for name in names:
        clusters[a[name].cluster].append((*a[name].part, *b[name].part))
    table = sorted(_added(rows) for rows in clusters.values())
    total = _added(table) if table else (0.0,) * 4
    if not total[1] or not total[3]:
        return None
    first, second = total[0] / total[1], total[2] / total[3]
    differences = _resampled_differences(table, seed, draws)
    low, high = (float(q) for q in _percentiles(differences))
    pairs = [(a[name].part, b[name].part) for name in names]
    binary = all(part in ((0, 1), (1, 1)) for pair in pairs for part in pair)
    p = mcnemar(*_discordant(pairs)) if binary else _far_side(differences)
    return Difference(
        round(first, 4),
        round(second, 4),
        round(second - first, 4),
        round(low, 4),
        round(high, 4),
        p,
        len(names),
        "mcnemar" if binary else "bootstrap",
    )


def _resampled_differences(table: Sequence[Sequence[float]], seed: int, draws: int) -> Any:
    drawn = _drawn(table, seed, draws)
    kept = drawn[(drawn[:, 1] > 0) & (drawn[:, 3] > 0)]
    return kept[:, 2] / kept[:, 3] - kept[:, 0] / kept[:, 1]


def _percentiles(values: Any) -> Any:
    import numpy as np

    return np.quantile(values, (0.025, 0.975))


def _far_side(differences: Any) -> float:
    """Twice the smaller tail at zero; never zero, since only so many were drawn."""
    count = len(differences)
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return min(1.0, 2 * (tail + 1) / (count + 1))


def _discordant(pairs: Sequence[tuple[Part, Part]]) -> tuple[int, int]:
    """Scenarios that only A, and that only B, has as a yes."""
    lost = sum(a.numerator > b.numerator for a, b in pairs)
    won = sum(a.numerator < b.numerator for a, b in pairs)
    return lost, won


def mcnemar(lost: int, won: int) -> float:
    """Two-sided exact p that `lost` and `won` changes are a fair coin's (McNemar 1947)."""
    changes = lost + won
    if changes == 0:
        return 1.0
    tail = sum(math.comb(changes, k) for k in range(min(lost, won) + 1))
    return float(min(1.0, 2 * tail / 2**changes))


def holm(p_values: Sequence[float]) -> list[float]:
    """The same p values made larger for having been looked at together (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, p_values[place] * (len(p_values) - rank)))
        adjusted[place] = highest
    return adjusted


def pass_hat(successes: int, runs: int, k: int) -> float | None:
    """Chance that k runs drawn from these all succeed: C(c, k) / C(n, k), as tau-bench has it.

    None where there are fewer than k runs.
    """
    if runs < k:
        return None
    return math.comb(successes, k) / math.comb(runs, k)
