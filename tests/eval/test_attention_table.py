"""The table for anyone's own analysis: what it says equals what was measured, or is null."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pyarrow import parquet

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attention_table import COLUMNS, attention_table, write_table
from breadcrumbs.eval.attribution import Attribution
from breadcrumbs.eval.partitions import Rows, make_labels, partition
from breadcrumbs.eval.segment_stats import Piece, SegmentStats

NAMES = ("sink", "steering", "schema", "nudge")
LABELS = torch.tensor([0] + [1] * 5 + [2] * 10)
TOKENS = (1, 5, 10, 0)
FACTS = {"model": "base", "prompt_tokens": 16}


@pytest.fixture(scope="module")
def stats() -> SegmentStats:
    random = torch.Generator().manual_seed(0)
    pieces = []
    for _ in range(2):
        rows = Rows(
            query=torch.randn(3, 2, 4, generator=random),
            keys=torch.randn(1, 16, 4, generator=random),
            scaling=1.0,
            visible=torch.stack([LABELS != 1, LABELS >= 0])[None],
        )
        pieces.append([Piece([14, 15], partition(rows, make_labels(LABELS, 4)))])
    return SegmentStats.joined((0, 3), (14, 15), pieces, None)


def test_rows_are_what_was_measured(stats: SegmentStats) -> None:
    table = attention_table(stats, NAMES, TOKENS, FACTS, sink=0)
    assert table.column_names == [*FACTS, *COLUMNS]
    assert table.num_rows == 2 * 2 * 3 * 3  # rows, layers, heads, segments that are there
    records = table.to_pylist()
    for record in records:
        at = (
            stats.layers.index(record["layer"]),
            record["head"],
            stats.rows.index(record["position"]),
            NAMES.index(record["segment"]),
        )
        assert record["tokens"] == TOKENS[at[3]]
        assert record["visible"] == stats.visible[at]
        if record["segment"] == "steering" and record["position"] == 14:
            assert record["visible"] == 0
            for name in ("lse", "peak", "mass", "sink_free_mass", "log2_density", "squares"):
                assert record[name] is None, "out of reach is not zero"
        else:
            assert record["lse"] == stats.lse[at].item()
            assert record["mass"] == stats.mass()[at].item()
        assert record["logit_attribution"] is None
        assert record["part_of"] is None
        assert record["model"] == "base"
    heads = [record for record in records if record["position"] == 15 and record["layer"] == 3]
    shares = [sum(r["mass"] for r in heads if r["head"] == head) for head in range(3)]
    assert shares == pytest.approx([1.0] * 3, abs=1e-6)


def test_attributions_stand_in_the_last_row_only(stats: SegmentStats) -> None:
    norms = torch.arange(2 * 3 * 4, dtype=torch.float32).reshape(2, 3, 4) + 1
    attribution = Attribution(norms, None, 0.5, ("direct logit attribution: not here",))
    table = attention_table(stats, NAMES, TOKENS, FACTS, sink=0, attribution=attribution)
    for record in table.to_pylist():
        if record["position"] == 14:
            assert record["value_norm"] is None
        else:
            place = stats.layers.index(record["layer"]), record["head"]
            segment = NAMES.index(record["segment"])
            assert record["value_norm"] == norms[place][segment].item()
            assert record["value_share"] == pytest.approx(
                (norms[place][segment] / norms[place].sum()).item()
            )
        assert record["logit_attribution"] is None


def test_parts_are_kept_apart_from_segments(stats: SegmentStats) -> None:
    table = attention_table(stats, NAMES, TOKENS, FACTS, sink=0, parts={2: "schema", 3: "schema"})
    records: list[dict[str, Any]] = table.to_pylist()
    assert {record["segment"] for record in records} == {"schema"}
    assert {record["part_of"] for record in records} == {"schema"}
    assert {record["value_share"] for record in records} == {None}


def test_tables_are_written_whole_and_read_back(stats: SegmentStats, tmp_path: Path) -> None:
    table = attention_table(stats, NAMES, TOKENS, FACTS, sink=0)
    path = tmp_path / "heads" / "one.parquet"
    write_table(path, [table, table])
    assert parquet.read_table(path).num_rows == 2 * table.num_rows
    assert [found.name for found in path.parent.iterdir()] == ["one.parquet"]
    again = tmp_path / "again.parquet"
    write_table(again, [table, table])
    assert again.read_bytes() == path.read_bytes()
    (tmp_path / "file").write_text("")
    with pytest.raises(ProbeError, match="cannot write here"):
        write_table(tmp_path / "file" / "one.parquet", [table])
