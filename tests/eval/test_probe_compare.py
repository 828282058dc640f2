"""Base against adapter: planted changes come out, halves are kept apart, prompts are kept."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError
from breadcrumbs.eval import probe_compare
from breadcrumbs.eval.probe_compare import CompareConfig, Compared, summary_of
from breadcrumbs.eval.probe_compare import probe_compare as compare

MOVED = (1, 2)


def compared(
    at: int, rng: random.Random, *, mass: float = 0.05, swap: float = -2.0, moved: float = 1.0
) -> Compared:
    """One prompt of a model of two layers and four heads of which one moved."""
    base = [[rng.gauss(-2, 0.1) for _ in range(4)] for _ in range(2)]
    adapter = [[old + rng.gauss(0, 0.1) for old in layer] for layer in base]
    adapter[MOVED[0]][MOVED[1]] += moved
    return Compared(
        f"s{at}",
        (-1.0, 2.0 + rng.gauss(0, 0.1)),
        (False, True),
        {"steering": (0.1, 0.1 + mass + rng.gauss(0, 0.01)), "schema": (0.3, 0.3)},
        (base, adapter),
        [0, 1],
        {
            "steering": (rng.gauss(0, 0.1), swap + rng.gauss(0, 0.1)),
            "user": (0.0, rng.gauss(0, 0.1)),
        },
    )


def study(**planted: float) -> Any:
    rng = random.Random(0)
    return summary_of([compared(at, rng, **planted) for at in range(40)], 2, 0)


def test_planted_changes_come_out_at_their_size() -> None:
    found = study()
    assert found.gap.value == pytest.approx(3, abs=0.1)
    assert found.mass["steering"].value == pytest.approx(0.05, abs=0.01)
    assert found.mass["schema"].value == 0
    assert found.log_odds.value == pytest.approx(1 / 8, abs=0.05)
    first = found.moved[0]
    assert (first.layer, first.head) == MOVED
    assert first.confirmed
    assert first.change.value == pytest.approx(1, abs=0.1)
    assert first.change.n == 20, "judged on the half it was not chosen on"
    assert found.others.value < 0.2
    assert found.acts == (0.0, 1.0)


def test_without_a_planted_head_none_stands_out() -> None:
    found = study(moved=0.0)
    assert all(abs(one.change.value or 0) < 0.15 for one in found.moved)


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        ({}, "more than the base does, and with the base's masses it loses"),
        ({"swap": 0.0}, "more than the base does, and with the base's masses it decides as"),
        ({"mass": -0.05, "swap": 0.0}, "less than the base does, and with the base's masses"),
        ({"mass": 0.0, "swap": 0.0}, "no change of steering mass is shown"),
    ],
)
def test_the_verdict_tells_restoring_from_going_round(
    planted: dict[str, float], words: str
) -> None:
    assert words in study(**planted).verdict()


def test_a_head_out_of_reach_counts_in_no_mean() -> None:
    rng = random.Random(0)
    found = [compared(at, rng) for at in range(8)]
    blind = [
        Compared(
            one.scenario,
            one.gap,
            one.acts,
            one.mass,
            ([[None] * 4, one.log_odds[0][1]], [[None] * 4, one.log_odds[1][1]]),
            one.layers,
            one.swaps,
        )
        for one in found
    ]
    result = summary_of(blind, 2, 0)
    assert result.log_odds.value == pytest.approx(1 / 4, abs=0.1)
    assert all(one.layer == 1 for one in result.moved)


@pytest.fixture
def adapted(tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an adapter whose weights are in the model that will be loaded."""
    import torch
    from peft import LoraConfig, get_peft_model

    from breadcrumbs.local_model import LocalModel

    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_model.safetensors").write_bytes(b"the weights' hash names the adapter")

    def load(_: Any) -> LocalModel:
        torch.manual_seed(0)
        plain = LocalModel.load(str(tiny_model_folder), dtype="float32")
        settings = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
        plain.model = get_peft_model(plain.model, settings).eval()
        return plain

    monkeypatch.setattr(probe_compare, "load_model", load)
    return folder


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_a_real_comparison_adds_up_and_is_the_same_twice(
    tiny_model_folder: Path, small_data: Path, tmp_path: Path, adapted: Path
) -> None:
    config = CompareConfig(
        model=str(tiny_model_folder),
        adapter=adapted,
        data=small_data,
        out=tmp_path / "out",
        prompts=4,
        heads=2,
    )
    table = compare(config, lambda *_: None)
    body = json.loads((config.out / probe_compare.RESULT).read_text())
    cells = {path: path.read_bytes() for path in (config.out / "cells").iterdir()}
    assert len(cells) == 4
    for content in cells.values():
        one = json.loads(content.splitlines()[1])
        for place in (0, 1):
            total = sum(pair[place] for pair in one["mass"].values())
            assert 0.5 < total <= 1.0001, "the deciding token's own share is all that is missing"
        assert set(one["swaps"]) >= {"steering", "breadcrumb", "user", "same length"}
        assert any(abs(change) > 1e-4 for change in one["swaps"]["steering"])
    assert body["gap"]["n"] == 4
    assert "the adapter" in table or "no change" in table
    next(iter(cells)).unlink()
    assert compare(config, lambda *_: None) == table
    assert {path: path.read_bytes() for path in (config.out / "cells").iterdir()} == cells


def test_without_an_adapter_there_is_nothing_to_compare(
    tiny_model_folder: Path, small_data: Path, tmp_path: Path
) -> None:
    config = CompareConfig(
        model=str(tiny_model_folder),
        adapter=tmp_path / "none",
        data=small_data,
        out=tmp_path,
        prompts=4,
    )
    with pytest.raises(ConfigError, match="not there; train first"):
        compare(config, lambda *_: None)
