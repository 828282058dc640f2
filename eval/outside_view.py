"""Figures on outside benchmarks as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from breadcrumbs.eval.outside_scores import BALANCED, FIGURES
from breadcrumbs.eval.results import show

COLUMNS = (*FIGURES, BALANCED)
NOT_COMPARABLE = (
    "not comparable with published scores: one turn after forced disclosure, through this gateway,"
    " without a judge or the benchmark's own environment; docs/outside.md says how they differ"
)


def outside_table(results: Mapping[str, Any]) -> str:
    """One line a set and system, both sides beside each other."""
    return "\n".join(_lines(results))


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'set':<18}{'system':<17}" + "".join(f"{name:>17}" for name in COLUMNS)
    for group, counts in results["counts"].items():
        for system, sets in results["outside"].items():
            values = "".join(f"{show(sets[group][name]):>17}" for name in COLUMNS)
            yield f"{group:<18}{system:<17}{values}"
        yield f"{'':<18}{_counted(counts)}"
    for system, groups in results["too_long"].items():
        said = ", ".join(f"{count} of {group}" for group, count in groups.items())
        yield f"{system}: too long for the model and not scored: {said}"
    yield (
        "value [95 % interval, turns of one conversation drawn together];"
        " higher is better but for stalls, guesses, forces"
    )
    yield NOT_COMPARABLE


def _counted(counts: Mapping[str, Any]) -> str:
    said = ", ".join(
        f"{side} {number} of {counts['of'][side]}" for side, number in counts["scored"].items()
    )
    out = "".join(f"; left out {n}: {reason}" for reason, n in counts["left_out"].items())
    return said + out
