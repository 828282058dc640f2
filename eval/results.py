"""Results of an evaluation: made, read back, and shown as plain text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from breadcrumbs.errors import DataError
from breadcrumbs.eval.config import EvalConfig
from breadcrumbs.eval.metrics import METRICS
from breadcrumbs.eval.records import RESULTS
from breadcrumbs.progress import Report

Results = dict[str, Any]


def evaluate(config: EvalConfig, report: Report) -> Results:
    """Score base, adapter and the constant policies in every cell.

    Raises:
        ConfigError: `out` cannot be written, or the adapter has no weights.
        DataError: no complete data set, or fewer scenarios than the cells want.
        ModelError: the model cannot be loaded or broke while writing.
    """
    from breadcrumbs.eval.evaluation import Evaluation

    return Evaluation.prepare(config, report).run()


def read_results(folder: Path) -> Results:
    """Results of a run folder, or of its evaluation's own folder.

    Raises:
        DataError: there are none, or they cannot be read.
    """
    for path in (folder / "eval" / RESULTS, folder / RESULTS):
        if path.is_file():
            try:
                results: Results = json.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise DataError(f"{path}: not JSON; run the evaluation again") from error
            return results
    raise DataError(
        f"{folder}: no {RESULTS}; run: breadcrumbs eval --config configs/eval/demo.yaml"
    )


class Measured(NamedTuple):
    """One system in one cell: its metrics by name, in the order they are shown."""

    system: str
    tier: str
    split: str
    metrics: Mapping[str, Mapping[str, Any]]


def cells(results: Mapping[str, Any]) -> Iterator[Measured]:
    """Every system in every cell.

    Raises:
        DataError: these are no results of an evaluation.
    """
    try:
        for system, tiers in results["eval"].items():
            for tier, splits in tiers.items():
                for split, metrics in splits.items():
                    shown = {name: metrics[name] for name in METRICS}
                    yield Measured(system, tier, split, shown)
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{RESULTS}: not what an evaluation writes; run it again") from error


def table(results: Mapping[str, Any]) -> str:
    """The results as plain text: one line per system and cell, stall beside recklessness."""
    places = [
        place for tiers in results["eval"].values() for tier in tiers.values() for place in tier
    ]
    wide = max((len(place) + 2 for place in places), default=0)
    wide = max(wide, 16)
    head = f"{'system':<16}{'breadcrumb':<11}{'split':<{wide}}" + "".join(
        f"{name:>17}"
        for name in ("DAD", "OAR", "UAR", "Ask-F1", "args exact", "end state", "search")
    )
    lines = [head]
    for one in cells(results):
        figures = "".join(f"{show(estimate):>17}" for estimate in one.metrics.values())
        tier = one.tier.removeprefix("breadcrumb_")
        lines.append(f"{one.system:<16}{tier:<11}{one.split:<{wide}}{figures}")
    lines.append("value [95 % interval]; DAD, exact: higher is better; OAR, UAR: lower is better")
    return "\n".join(lines)


def show(estimate: Mapping[str, Any]) -> str:
    """`0.95 [.89-.98]`, or a dash where nothing was measured."""
    if estimate["value"] is None:
        return "-"
    low, high = (f"{estimate[end]:.2f}".removeprefix("0") for end in ("low", "high"))
    return f"{estimate['value']:.2f} [{low}-{high}]"
