"""One measured prompt: its summary over heads, its full table, and the finished rows on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.probe_labels import FINE, PARTS, WHOLE, labels_of

if TYPE_CHECKING:
    import torch

    from breadcrumbs.eval.attribution import Measured
    from breadcrumbs.rendering import Rendered

ROW_FORMAT = 2
"""Rows on disk of another format are measured anew."""
MEASURED = ("steering", "system", "user", "catalog", "schema", "breadcrumb", "template", "sink")
Quartiles = list[float] | None
"""[lower quartile, median, upper quartile, mean] over layers and heads; null where the segment is
absent, no layer can reach it, or the measure was refused."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Which prompt, at which schema length, under which weights."""

    model: str
    scenario: str
    tool: str
    target: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from the others of a run."""
        return self.model, self.scenario, self.target

    @property
    def file(self) -> str:
        """Name of its table; scenario names may hold anything."""
        return table_name(self.key)


def table_name(key: tuple[str, str, int]) -> str:
    """The file of a cell's table, by the cell's key."""
    model, scenario, target = key
    digest = hashlib.sha256(scenario.encode()).hexdigest()[:12]
    return f"{model}-{target}-{digest}.parquet"


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """Attention of one prompt's last token, quartiles over all layers and heads."""

    model: str
    scenario: str
    tool: str
    target: int
    prompt_tokens: int
    schema_tokens: int
    steering_tokens: int
    straddling_tokens: int
    """Tokens that reach over the border of two segments; each is counted to one of them."""
    coverage: str
    """How many of the model's layers have attention that was measured."""
    mass: dict[str, Quartiles]
    sink_free_mass: dict[str, Quartiles]
    log2_density: dict[str, Quartiles]
    value_share: dict[str, Quartiles]
    logit_attribution: dict[str, Quartiles]
    """On call openers over prose openers, logits, by the direct path."""
    refusals: list[str]
    """Which of these have no meaning for this model, and why."""
    schema_part_mass: dict[str, Quartiles]
    gap: float
    """logsumexp of call openers' logits less that of prose openers'."""
    log_odds: list[float]
    """Steering minus schema log-partition, nats: quartiles and mean over heads."""
    log_odds_per_token: list[float]
    """The same less log(steering tokens / schema tokens): zero for uniform attention."""
    effective_tokens: list[float]
    layer_log_odds: list[float | None]
    """Median over heads, by layer."""


def row_of(cell: Cell, rendered: Rendered, fine: Measured, whole: Measured) -> ProbeRow:
    """The summary of a cell: measured by the fine labels of `probe_labels`, and by segments.

    Raises:
        ProbeError: steering and schema are not both there and within reach.
    """
    from breadcrumbs.eval.segment_stats import layer_profile

    stats, attribution = whole.stats, whole.attribution
    counts = _counts(rendered)
    steering, schema, sink = (WHOLE.index(name) for name in ("steering", "schema", "sink"))
    if not counts[steering] or not counts[schema]:
        raise ProbeError(f"{cell.scenario}: the rendered prompt lost its steering or its schema")
    odds = stats.log_odds(steering, schema)[:, :, -1]
    parts = fine.stats.mass()[:, :, -1]
    return ProbeRow(
        model=cell.model,
        scenario=cell.scenario,
        tool=cell.tool,
        target=cell.target,
        prompt_tokens=len(rendered.ids),
        schema_tokens=counts[schema],
        steering_tokens=counts[steering],
        straddling_tokens=len(rendered.straddling),
        coverage="" if stats.coverage is None else stats.coverage.text(),
        mass=_by_segment(stats.mass()[:, :, -1]),
        sink_free_mass=_by_segment(stats.mass_without([sink])[:, :, -1], without="sink"),
        log2_density=_by_segment(stats.log2_density()[:, :, -1]),
        value_share=_by_segment(attribution.value_share()),
        logit_attribution=_by_segment(attribution.logits),
        refusals=list(attribution.refusals),
        schema_part_mass={name: _summary(parts[..., FINE.index(name)]) for name in PARTS},
        gap=round(attribution.gap, 6),
        log_odds=_within_reach(cell, odds),
        log_odds_per_token=_within_reach(
            cell, stats.log_odds_per_token(steering, schema)[:, :, -1]
        ),
        effective_tokens=_within_reach(cell, stats.effective_tokens()[:, :, -1]),
        layer_log_odds=[
            None if layer is None else round(layer.median, 4) for layer in layer_profile(odds)
        ],
    )


def tables_of(cell: Cell, rendered: Rendered, fine: Measured, whole: Measured) -> list[Any]:
    """Every layer, head and segment of a cell, and the parts of `schema`: pyarrow tables."""
    from breadcrumbs.eval.attention_table import attention_table

    facts: dict[str, str | int | float] = {
        "model": cell.model,
        "scenario": cell.scenario,
        "tool": cell.tool,
        "target": cell.target,
        "prompt_tokens": len(rendered.ids),
        "gap": whole.attribution.gap,
    }
    labels, sink = labels_of(rendered), WHOLE.index("sink")
    tokens = [labels.count(at) for at in range(len(FINE))]
    parts = {FINE.index(name): "schema" for name in PARTS}
    return [
        attention_table(
            whole.stats,
            WHOLE,
            _counts(rendered),
            facts,
            sink=sink,
            attribution=whole.attribution,
        ),
        attention_table(
            fine.stats,
            FINE,
            tokens,
            facts,
            sink=sink,
            attribution=fine.attribution,
            parts=parts,
        ),
    ]


class RowStore:
    """Finished rows on disk; rows of another config, model or data set are not trusted."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        self.path = path
        self.fingerprint = fingerprint
        self.rows: dict[tuple[str, str, int], ProbeRow] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                entry = json.loads(line)
            except ValueError:  # the last line of a killed run
                continue
            if entry.pop("fingerprint", None) == fingerprint:
                self._keep(ProbeRow(**entry))

    def add(self, row: ProbeRow) -> None:
        """Keep a finished row, here and on disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"fingerprint": self.fingerprint, **asdict(row)}) + "\n")
        self._keep(row)

    def clear_others(self, heads: Path) -> None:
        """Remove the tables of rows that are not trusted, and forget rows without a table."""
        known = {table_name(key): key for key in self.rows}
        found = set()
        for path in heads.glob("*.parquet") if heads.is_dir() else ():
            if path.name in known:
                found.add(path.name)
            else:
                path.unlink()
        for name in known.keys() - found:
            del self.rows[known[name]]

    def _keep(self, row: ProbeRow) -> None:
        self.rows[(row.model, row.scenario, row.target)] = row


def _counts(rendered: Rendered) -> list[int]:
    return [sum(segment == name for segment in rendered.segments) for name in WHOLE]


def _by_segment(values: torch.Tensor | None, without: str = "") -> dict[str, Quartiles]:
    """Quartiles of values [L, H, S] by segment."""
    kept: Sequence[str] = [name for name in MEASURED if name != without]
    if values is None:
        return dict.fromkeys(kept)
    return {name: _summary(values[..., WHOLE.index(name)]) for name in kept}


def _within_reach(cell: Cell, values: torch.Tensor) -> list[float]:
    found = _summary(values)
    if found is None:
        raise ProbeError(
            f"{cell.scenario}: no layer sees both steering and schema from the last token, so they"
            " cannot be compared; lower schema_tokens, or use a model with a longer window"
        )
    return found


def _summary(values: torch.Tensor) -> Quartiles:
    from breadcrumbs.eval.segment_stats import spread

    found = spread(values)
    return None if found is None else [round(value, 6) for value in found[:4]]
