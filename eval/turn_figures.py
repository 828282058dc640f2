"""Figures of decision turns from their records: by scenario, for pairing, and by axis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from breadcrumbs.eval.estimates import Part, Unit, ratio
from breadcrumbs.eval.intervals import Estimate
from breadcrumbs.eval.measures import STALLS, Good

Record = Mapping[str, Any]
Read = Callable[[Record], Part | None]
_BOTH = ("dispatch", "clarify")


def _over(behaviours: tuple[str, ...], read: Callable[[Record], bool | None]) -> Read:
    """A share over the records of some behaviours that the score says something about."""

    def part(record: Record) -> Part | None:
        answer = read(record["score"]) if record["behaviour"] in behaviours else None
        return None if answer is None else Part(float(answer), 1)

    return part


def _stall(kind: str) -> Read:
    return _over(("dispatch",), lambda score: score["stall"] == kind)


def _questions(record: Record) -> Part | None:
    """Ask-F1: twice the right questions, over questions and missing arguments."""
    if record["behaviour"] not in _BOTH:
        return None
    hits = len(set(record["score"]["asked"]) & set(record["missing"]))
    return Part(2 * hits, record["score"]["questions"] + len(record["missing"]))


TURN_FIGURES: Mapping[str, tuple[Good, Read]] = {
    "dad": ("high", _over(("dispatch",), lambda s: bool(s["dispatched"]))),
    "oar": ("low", _over(("dispatch",), lambda s: s["stall"] is not None)),
    **{f"oar_{kind}": ("low", _stall(kind)) for kind in STALLS},
    "uar": ("low", _over(("clarify",), lambda s: bool(s["executed"]))),
    "ask_f1": ("high", _questions),
    "arguments_exact": ("high", _over(("dispatch",), lambda s: bool(s["exact"]))),
    "invented": ("low", _over(_BOTH, lambda s: bool(s["invented"]) if s["executed"] else None)),
    "other_call": ("low", _over(_BOTH, lambda s: bool(s["other_call"]))),
    "malformed_call": ("low", _over(_BOTH, lambda s: bool(s["malformed"]))),
    "decline_told": ("high", _over(("decline",), lambda s: bool(s["declined"]))),
}


def turn_units(records: Sequence[Record]) -> dict[str, dict[str, Unit]]:
    """The units of each figure by scenario, from turns as they were scored."""
    found: dict[str, dict[str, Unit]] = {name: {} for name in TURN_FIGURES}
    for record in records:
        # records of older evaluations name no twin
        cluster = record.get("twin", record["scenario"])
        for name, (_, read) in TURN_FIGURES.items():
            part = read(record)
            if part is not None:
                found[name][record["scenario"]] = Unit(cluster, part)
    return found


def turn_breakdown(
    records: Sequence[Record], seed: int
) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Figures by axis and value; an axis on which all records lie together is left out."""
    values: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        for axis, value in record["axes"].items():
            values[axis][value].append(record)
    return {
        axis: {value: _estimates(groups[value], seed) for value in sorted(groups)}
        for axis, groups in sorted(values.items())
        if len(groups) > 1
    }


def _estimates(records: Sequence[Record], seed: int) -> dict[str, Estimate]:
    asks = any(record["missing"] for record in records)  # else no question can be right
    found = {
        name: ratio(units.values(), seed)
        for name, units in turn_units(records).items()
        if asks or name != "ask_f1"
    }
    return {name: estimate for name, estimate in found.items() if estimate.n}
