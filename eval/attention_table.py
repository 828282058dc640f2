"""Measures as a table for anyone's own analysis: one row a query row, layer, head and segment.

A value that is not defined (a segment out of reach, an attribution that was refused) is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attribution import Attribution
from breadcrumbs.eval.segment_stats import SegmentStats

COLUMNS: Mapping[str, str] = {
    "position": "the query row's place in the prompt, from 0",
    "layer": "index of the attention layer",
    "head": "index of the head",
    "segment": "segment, or a part of one written segment.part",
    "part_of": "the segment that a part belongs to; null for segments, which alone sum to one",
    "tokens": "tokens of it in the prompt",
    "visible": "how many of them the row sees through window and mask",
    "lse": "log of the sum of exp(logit) over them, float32",
    "peak": "the greatest logit among them",
    "total": "log of the sum over all keys, the learned sink included",
    "mass": "share of attention: exp(lse - total)",
    "sink_free_mass": "the same over all segments but `sink` and the learned sink",
    "log2_density": "log2 of mass per visible token over that of uniform attention",
    "mean_logit": "sum of p * logit over them, p over real keys",
    "squares": "sum of p squared over them",
    "effective_tokens": "of the head: exp of the entropy over real keys",
    "value_norm": "length of what they write through the output projection",
    "value_share": "the same over the sum of the head's segments (null for parts)",
    "logit_attribution": "what they write, read as call openers over prose openers, logits",
}
"""Every column and its meaning; the facts given for all rows stand in front."""


def attention_table(
    stats: SegmentStats,
    names: Sequence[str],
    tokens: Sequence[int],
    facts: Mapping[str, str | int | float],
    *,
    sink: int,
    attribution: Attribution | None = None,
    parts: Mapping[int, str] | None = None,
) -> Any:
    """A pyarrow table; segments without a token in the prompt are left out.

    `names` and `tokens` go by segment, `sink` is the segment that sink-free masses leave out.
    With `parts` (segment -> what it is a part of) only those are kept, as parts; attributions
    belong to the last row, the decision position.
    """
    import pyarrow

    kept = [at for at in (parts or range(len(names))) if tokens[at]]
    layers, heads, rows, _ = stats.lse.shape
    shape = (rows, layers, heads, len(kept))

    def by_segment(values: torch.Tensor) -> numpy.ndarray[Any, Any]:
        """[L, H, R, S] in the table's order."""
        return values[..., kept].permute(2, 0, 1, 3).reshape(-1).numpy()

    def spread_out(values: Sequence[Any], axis: int) -> numpy.ndarray[Any, Any]:
        """One value for each place of an axis of the table's order."""
        sizes = [1, 1, 1, 1]
        sizes[axis] = len(values)
        flat = numpy.asarray(values).reshape(sizes)
        return numpy.broadcast_to(flat, shape).reshape(-1)

    def last_row(values: torch.Tensor | None) -> numpy.ndarray[Any, Any]:
        """[L, H, S] of the last row; the others have none."""
        filled = torch.full(stats.lse.shape, torch.nan)
        if values is not None:
            filled[:, :, -1] = values
        return by_segment(filled)

    hidden = ~stats.reachable()
    share = None if attribution is None or parts else attribution.value_share()
    columns = {
        "position": spread_out(stats.rows, 0).astype("int32"),
        "layer": spread_out(stats.layers, 1).astype("int16"),
        "head": spread_out(range(heads), 2).astype("int16"),
        "segment": spread_out([names[at] for at in kept], 3),
        "part_of": spread_out([parts[at] if parts else None for at in kept], 3),
        "tokens": spread_out([tokens[at] for at in kept], 3).astype("int32"),
        "visible": by_segment(stats.visible),
        "lse": by_segment(stats.lse.masked_fill(hidden, torch.nan)),
        "peak": by_segment(stats.peak.masked_fill(hidden, torch.nan)),
        "total": by_segment(stats.total()[..., None].expand_as(stats.lse)),
        "mass": by_segment(stats.mass()),
        "sink_free_mass": by_segment(stats.mass_without([sink])),
        "log2_density": by_segment(stats.log2_density()),
        "mean_logit": by_segment(stats.mean_logit.masked_fill(hidden, torch.nan)),
        "squares": by_segment(stats.squares.masked_fill(hidden, torch.nan)),
        "effective_tokens": by_segment(stats.effective_tokens()[..., None].expand_as(stats.lse)),
        "value_norm": last_row(None if attribution is None else attribution.norms),
        "value_share": last_row(share),
        "logit_attribution": last_row(None if attribution is None else attribution.logits),
    }
    text = pyarrow.string()
    arrays = {
        name: pyarrow.array(
            column, text if name in ("segment", "part_of") else None, from_pandas=True
        )
        for name, column in columns.items()
    }
    length = len(columns["layer"])
    constant = {name: pyarrow.array([value] * length) for name, value in facts.items()}
    return pyarrow.table(constant | arrays)


def write_table(path: Path, tables: Sequence[Any]) -> None:
    """Write tables of one shape as one Parquet file; it appears whole or not at all.

    Raises:
        ProbeError: the place cannot be written.
    """
    import pyarrow
    from pyarrow import parquet

    fresh = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(pyarrow.concat_tables(tables), fresh, compression="zstd")
        fresh.replace(path)
    except OSError as error:
        raise ProbeError(f"{path}: cannot write here: {error.strerror or error}") from error
