"""The gap between right and wrong at the decision, on tools held out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.train.config import DpoConfig
from breadcrumbs.train.pairs import build_pair, read_pairs
from breadcrumbs.train.run import GAPS


@pytest.fixture(scope="module")
def config(data: Path, adapter: Path, model_folder: Path) -> DpoConfig:
    return DpoConfig(
        adapter=str(adapter),
        data=str(data),
        out="",
        model=str(model_folder),
        steps=4,
        warmup=0,
        save_every=2,
        learning_rate=1e-2,
        anchor=0.0,
    )


def test_a_gap_is_of_log_probabilities_where_the_turns_part(
    config: DpoConfig, renderer: Any, adapted: Any
) -> None:
    import torch

    from breadcrumbs.train.gaps import gap

    for pair in read_pairs(config):
        example = build_pair(pair, renderer)
        turned = dataclasses.replace(
            example, chosen_ids=example.rejected_ids, rejected_ids=example.chosen_ids
        )
        both = zip(example.chosen_ids, example.rejected_ids, strict=False)
        shared = next(place for place, (right, wrong) in enumerate(both) if right != wrong)
        ids = [*example.prompt_ids, *example.chosen_ids]
        with torch.no_grad():
            rated = adapted(torch.tensor([ids])).logits[0].log_softmax(-1)
        at = rated[len(example.prompt_ids) + shared - 1]
        expected = at[example.chosen_ids[shared]] - at[example.rejected_ids[shared]]
        assert gap(adapted, example) == pytest.approx(float(expected), abs=1e-4)
        assert gap(adapted, turned) == pytest.approx(-gap(adapted, example), abs=1e-4)


def test_a_run_says_how_the_gaps_grow_on_tools_held_out(
    config: DpoConfig, renderer: Any, tmp_path: Path
) -> None:
    from breadcrumbs.train.dpo import build_trainer
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.gaps import held_out
    from breadcrumbs.train.preference import fit_pairs

    known = held_out(config, renderer)
    assert set(known) == {"dispatch_over_stall", "ask_over_invention"}
    trained = {pair.row.id for pair in read_pairs(config)}
    assert trained.isdisjoint(one.id for side in known.values() for one in side)
    mine = dataclasses.replace(config, out=str(tmp_path / "run"))
    with quiet_libraries():
        fit_pairs(mine, read_pairs(mine), mine.model, renderer, build_trainer)
    lines = [json.loads(line) for line in (tmp_path / "run" / GAPS).read_text().splitlines()]
    assert [line["step"] for line in lines] == [0, 2, 4]
    for name in known:
        assert lines[-1][name] > lines[0][name]


def test_data_without_tools_held_out_is_trained_without_gaps(
    config: DpoConfig, renderer: Any
) -> None:
    from breadcrumbs.train.gaps import held_out

    assert held_out(dataclasses.replace(config, data="nowhere"), renderer) == {}
