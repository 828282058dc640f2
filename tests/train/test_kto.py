"""KTO on a model of two layers: what is learnt, what the anchor adds, what drift is measured on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError, DataError, ModelError
from breadcrumbs.train.config import DpoConfig, KtoConfig
from breadcrumbs.train.kto import rated_turns
from breadcrumbs.train.pairs import PairExample, build_pair, read_pairs
from breadcrumbs.train.run import METRICS, SERVING, claim, run_identity


class Stopped(Exception):
    """The machine went away."""


def fit(config: KtoConfig, pairs: Any, renderer: Any, report: Any = None) -> Path:
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.kto import build_trainer
    from breadcrumbs.train.preference import fit_pairs

    with quiet_libraries():
        fit_pairs(config, pairs, config.model, renderer, build_trainer, report)
    return Path(config.out)


def trained(config: KtoConfig, examples: list[PairExample], renderer: Any, out: Path) -> Any:
    """A trainer that took the config's steps on these examples."""
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.kto import build_trainer

    with quiet_libraries():
        trainer = build_trainer(config, config.model, renderer, examples, out / METRICS)
        trainer.train()
    return trainer


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(
    data: Path,
    adapter: Path,
    model_folder: Path,
    renderer: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("run") / "kto"
    config = KtoConfig(
        adapter=str(adapter),
        data=str(data),
        out=str(out),
        model=str(model_folder),
        steps=6,
        warmup=1,
        save_every=2,
        learning_rate=1e-3,
        anchor=0.0,
    )
    pairs = read_pairs(config)
    examples = [build_pair(pair, renderer) for pair in pairs]
    out = fit(config, pairs, renderer)
    return {"out": out, "config": config, "pairs": pairs, "examples": examples}


def test_right_turns_gain_on_wrong_ones(finished: dict[str, Any]) -> None:
    lines = lines_of(finished["out"])
    assert lines[0]["loss"] == pytest.approx(0.5, abs=1e-3)  # policy equals reference
    assert lines[-1]["rewards/margins"] > 0
    assert "right and wrong turns" in (finished["out"] / "README.md").read_text()


def test_labels_the_other_way_round_teach_the_other_way_round(
    finished: dict[str, Any], tmp_path: Path, renderer: Any
) -> None:
    """The control: what grows is what the label calls right."""
    config = dataclasses.replace(finished["config"], out=str(tmp_path))
    swapped = [
        dataclasses.replace(one, chosen_ids=one.rejected_ids, rejected_ids=one.chosen_ids)
        for one in finished["examples"]
    ]
    trainer = trained(config, swapped, renderer, tmp_path)
    assert lines_of(tmp_path)[-1]["rewards/margins"] > 0
    held = trainer.train_dataset
    right = [
        tuple(ids)
        for ids, label in zip(held["completion_ids"], held["label"], strict=True)
        if label
    ]
    assert right == [one.rejected_ids for one in finished["examples"]]


def test_the_anchor_is_the_right_turns_own_loss(
    finished: dict[str, Any], tmp_path: Path, renderer: Any
) -> None:
    """At the first step the rest is 0.5; only the right turns' tokens count."""
    config = dataclasses.replace(finished["config"], out=str(tmp_path), anchor=1.0, steps=1)
    trained(config, finished["examples"], renderer, tmp_path)
    (line,) = lines_of(tmp_path)
    assert line["anchor_loss"] > 0.1
    assert line["loss"] == pytest.approx(0.5 + line["anchor_loss"], abs=1e-3)
    before, drift = lines_of(finished["out"])[0], 0.02
    tokens = -before["logps/chosen"]  # a sum over the turn
    assert line["anchor_loss"] < tokens  # a mean over its tokens
    assert line["loss"] != pytest.approx(before["loss"], abs=drift)


def example(name: str, twin: str, chosen: int, rejected: int) -> PairExample:
    return PairExample(name, twin, "param_dump", (1, 2), (chosen, 9), (rejected, 9))


def test_drift_is_measured_on_turns_of_other_twins() -> None:
    """TRL's own shift by one would take the twin's turn, which is the one that is trained."""
    examples = [
        example("a", "first", 11, 12),
        example("b", "first", 13, 11),
        example("c", "second", 21, 22),
    ]
    rows = rated_turns(examples)
    assert [row["completion_ids"][0] for row in rows] == [11, 12, 13, 11, 21, 22]
    assert [row["label"] for row in rows] == [True, False] * 3
    assert [row["KL_completion_ids"][0] for row in rows] == [21, 22, 21, 22, 11, 12]
    with pytest.raises(DataError, match="one group of twins only"):
        rated_turns(examples[:2])


def test_a_stopped_run_goes_on_to_the_same_losses(
    finished: dict[str, Any], tmp_path: Path, renderer: Any
) -> None:
    config = dataclasses.replace(finished["config"], out=str(tmp_path / "again"))

    def stop_at_three(done: int, total: int, note: str = "") -> None:
        if done == 3:
            raise Stopped

    with pytest.raises(Stopped):
        fit(config, finished["pairs"], renderer, stop_at_three)
    assert not (Path(config.out) / SERVING).exists()
    out = fit(config, finished["pairs"], renderer)
    for before, after in zip(lines_of(finished["out"]), lines_of(out), strict=True):
        assert after["step"] == before["step"]
        assert after["loss"] == pytest.approx(before["loss"], abs=1e-5)


def test_a_loss_that_is_not_finite_stops_with_the_batch_saved(
    finished: dict[str, Any], tmp_path: Path, renderer: Any
) -> None:
    import torch

    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.kto import build_trainer

    config = dataclasses.replace(finished["config"], out=str(tmp_path))
    with quiet_libraries():
        trainer = build_trainer(
            config, config.model, renderer, finished["examples"], tmp_path / METRICS
        )
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                if parameter.requires_grad:
                    parameter.fill_(float("nan"))
        with pytest.raises(ModelError, match="step 1: the loss is not a finite number"):
            trainer.train()
    assert json.loads((tmp_path / "failed_batch.json").read_text())["input_ids"]


def test_the_folder_of_one_stage_is_not_taken_for_another(
    finished: dict[str, Any], tmp_path: Path
) -> None:
    settings = dataclasses.asdict(finished["config"])
    other = DpoConfig(**{**settings, "stage": "dpo"})
    identity = run_identity(other)
    claim(tmp_path, identity)
    assert claim(tmp_path, identity) is False
    with pytest.raises(ConfigError, match=r"other settings \(stage\)"):
        claim(tmp_path, run_identity(finished["config"]))
    old = {**identity, "settings": {k: v for k, v in identity["settings"].items() if k != "stage"}}
    claim(tmp_path / "old", old)
    assert claim(tmp_path / "old", identity) is False  # from before the key was there: DPO
    with pytest.raises(ConfigError, match=r"other settings \(stage\)"):
        claim(tmp_path / "old", run_identity(finished["config"]))
