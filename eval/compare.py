"""Two evaluations of the same scenarios: what changed, and whether it is more than noise.

Figures are made anew from the records of both, so that only scenarios in both count and each is
compared with itself. Reads what `breadcrumbs eval` keeps of decision turns, what `eval episodes`
keeps of episodes, and what `eval outside` keeps of other people's turns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from breadcrumbs.errors import DataError
from breadcrumbs.eval.estimates import ALPHA, Difference, Part, Unit, holm, paired
from breadcrumbs.eval.measures import BY_NAME
from breadcrumbs.eval.outside_scores import FIGURES, outside_units
from breadcrumbs.eval.records import CELLS, OUTSIDE, RESULTS, SCORES, SUITE
from breadcrumbs.eval.turn_figures import TURN_FIGURES, turn_units

Verdict = Literal["better", "worse", "changed", "noise"]
Units = Mapping[str, Mapping[str, Unit]]
"""The units of each figure, by run."""
_NEW_LINES = {"better": "+", "worse": "-", "changed": "~", "noise": " "}


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of one cell, in A and in B."""

    where: str
    """System and cell."""
    figure: str
    difference: Difference
    p_adjusted: float
    """For having looked at all figures of the cell (Holm)."""
    verdict: Verdict

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "where": self.where,
            "figure": self.figure,
            **self.difference.to_dict(),
            "p_adjusted": self.p_adjusted,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that both have."""

    rows: tuple[Row, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    """Cells that the other has not."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "only_a": list(self.only_a),
            "only_b": list(self.only_b),
        }

    def lines(self) -> Iterator[str]:
        """The comparison as text, cell by cell."""
        where = ""
        for row in self.rows:
            if row.where != where:
                where = row.where
                yield f"{where}"
            d = row.difference
            yield (
                f" {_NEW_LINES[row.verdict]} {row.figure:<26}{d.a:>8.3f} -> {d.b:<8.3f}"
                f"{d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}]  n {d.n:<5} p {d.p:.3f}"
                f" ({row.p_adjusted:.3f})  {row.verdict}"
            )
        yield from (f"only in A: {name}" for name in self.only_a)
        yield from (f"only in B: {name}" for name in self.only_b)
        yield (
            "B less A on the scenarios both have, 95 % interval; p by McNemar's exact test, or by"
            " bootstrap where a figure is no yes or no; in brackets for all figures of the cell"
            f" together (Holm): under {ALPHA} it is more than noise"
        )


def compare_runs(left: Path, right: Path, systems: str | None = None, seed: int = 0) -> Comparison:
    """Compare B with A, cell by cell.

    `systems` as `base=adapter` compares one system of A with another one of B.

    Raises:
        DataError: a folder holds no evaluation, or the two share no cell.
    """
    a, b = read_units(left), read_units(right)
    if systems is not None:
        first, equals, second = systems.partition("=")
        if not equals:
            raise DataError(f"--systems {systems!r}: write A=B, for example base=adapter")
        a, b = _renamed(a, first, systems, left), _renamed(b, second, systems, right)
    shared = [where for where in a if where in b]
    if not shared:
        raise DataError(
            f"{left} and {right}: no cell in common; name the systems, such as base=adapter"
        )
    rows = tuple(row for where in shared for row in _rows(where, a[where], b[where], seed))
    if not rows:
        raise DataError(f"{left} and {right}: no scenario in common; evaluate on the same data")
    return Comparison(
        rows,
        tuple(where for where in a if where not in b),
        tuple(where for where in b if where not in a),
    )


def _renamed(cells: Mapping[str, Units], system: str, name: str, folder: Path) -> dict[str, Units]:
    found = {
        where.replace(system, name, 1): units
        for where, units in cells.items()
        if where.split(" ")[0] == system
    }
    if not found:
        known = ", ".join(dict.fromkeys(where.split(" ")[0] for where in cells))
        raise DataError(f"{folder}: no system {system!r}; there is {known}")
    return found


def _rows(where: str, a: Units, b: Units, seed: int) -> Iterator[Row]:
    found = {
        name: difference
        for name in a
        if name in b and (difference := paired(a[name], b[name], seed)) is not None
    }
    adjusted = holm([difference.p for difference in found.values()])
    for (name, difference), p in zip(found.items(), adjusted, strict=True):
        yield Row(where, name, difference, round(p, 6), _verdict(name, difference, p))


def _verdict(name: str, difference: Difference, p: float) -> Verdict:
    if p >= ALPHA or difference.value == 0:
        return "noise"
    good = _good(name)
    if good == "neither":
        return "changed"
    return "better" if (difference.value > 0) == (good == "high") else "worse"


def _good(name: str) -> str:
    if name in BY_NAME:
        return BY_NAME[name].good
    return FIGURES[name].good if name in FIGURES else TURN_FIGURES[name][0]


def read_units(folder: Path) -> dict[str, Units]:
    """The units of every cell of an evaluation, by `system cell`.

    Raises:
        DataError: there is none, or it cannot be read.
    """
    for path, read in (
        (folder / "eval" / RESULTS, _turn_cells),
        (folder / SUITE, _episode_cells),
        (folder / RESULTS, _turn_cells),
        (folder / OUTSIDE, _outside_cells),
    ):
        if path.is_file():
            return dict(read(path.parent, _results(path)))
    raise DataError(
        f"{folder}: no {RESULTS}, {SUITE} or {OUTSIDE}; name a folder that `breadcrumbs eval` wrote"
    )


def _results(path: Path) -> dict[str, Any]:
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read as JSON; run the evaluation again") from error
    return results


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read; run the evaluation again") from error


def _turn_cells(folder: Path, results: Mapping[str, Any]) -> Iterator[tuple[str, Units]]:
    for system, tiers in results["eval"].items():
        for tier, splits in tiers.items():
            for split in splits:
                _, *rows = _lines(folder / CELLS / f"{system}-{tier}-{split}.jsonl")
                yield f"{system} {tier} {split}", turn_units(rows)


def _episode_cells(folder: Path, results: Mapping[str, Any]) -> Iterator[tuple[str, Units]]:
    for policy, cells in results["episodes"].items():
        for tiers in cells:
            rows = _lines(folder / CELLS / f"{policy}_{tiers}.{SCORES}")
            yield f"{policy} tiers {tiers}", episode_units(rows)


def _outside_cells(folder: Path, results: Mapping[str, Any]) -> Iterator[tuple[str, Units]]:
    for system, groups in results["outside"].items():
        for group in groups:
            _, *rows = _lines(folder / CELLS / f"{system}_{group}.jsonl")
            scored = [row for row in rows if row["score"] is not None]
            yield f"{system} {group}", outside_units(scored)


def episode_units(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Unit]]:
    """The units of episodes as they were scored, by figure and run."""
    found: dict[str, dict[str, Unit]] = {name: {} for name in BY_NAME}
    for run in runs:
        for name, part in run["parts"].items():
            found[name][f"{run['scenario']}#{run['run']}"] = Unit(run["twin"], Part(*part))
    return found
