"""Preference training on a model of two layers: what is learnt, refused, resumed, published."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.data_gen.pairs import INVENTED, Pair
from breadcrumbs.errors import ConfigError, DataError, ModelError, PreflightError
from breadcrumbs.train.config import DpoConfig
from breadcrumbs.train.pairs import build_pair, preflight_pairs, read_pairs
from breadcrumbs.train.run import CHECKPOINTS, METRICS, SERVING, claim, run_identity


class Stopped(Exception):
    """The machine went away."""


def config_for(out: Path, data: Path, adapter: Path, model: Path, **keys: Any) -> DpoConfig:
    body = {"steps": 6, "warmup": 1, "save_every": 2, "learning_rate": 1e-3, "anchor": 0.0, **keys}
    return DpoConfig(adapter=str(adapter), data=str(data), out=str(out), model=str(model), **body)


def run(config: DpoConfig, pairs: list[Pair], renderer: Any, report: Any = None) -> Path:
    from breadcrumbs.train.dpo import build_trainer
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.preference import fit_pairs

    with quiet_libraries():
        fit_pairs(config, pairs, config.model, renderer, build_trainer, report)
    return Path(config.out)


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
    config = config_for(tmp_path_factory.mktemp("run") / "dpo", data, adapter, model_folder)
    pairs = read_pairs(config)
    return {"out": run(config, pairs, renderer), "config": config, "pairs": pairs}


def test_the_right_side_gains_on_the_wrong_one(finished: dict[str, Any]) -> None:
    lines = lines_of(finished["out"])
    assert lines[0]["loss"] == pytest.approx(math.log(2), abs=1e-3)  # policy equals reference
    assert lines[-1]["rewards/margins"] > 0
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_sides_the_other_way_round_are_learnt_the_other_way_round(
    finished: dict[str, Any], tmp_path: Path, renderer: Any
) -> None:
    """The control: what grows is the side that is called chosen."""
    from breadcrumbs.train.dpo import build_trainer
    from breadcrumbs.train.fitting import quiet_libraries

    config = dataclasses.replace(finished["config"], out=str(tmp_path))
    examples = [build_pair(pair, renderer) for pair in finished["pairs"]]
    swapped = [
        dataclasses.replace(one, chosen_ids=one.rejected_ids, rejected_ids=one.chosen_ids)
        for one in examples
    ]
    with quiet_libraries():
        trainer = build_trainer(config, config.model, renderer, swapped, tmp_path / METRICS)
        trainer.train()
    held = [tuple(ids) for ids in trainer.train_dataset["chosen_ids"]]
    assert held == [one.rejected_ids for one in examples]  # TRL left the ids as they were
    assert lines_of(tmp_path)[-1]["rewards/margins"] > 0


def test_the_published_folder_holds_one_adapter_and_serves_as_the_first(
    finished: dict[str, Any], adapter: Path
) -> None:
    out = finished["out"]
    assert CHECKPOINTS not in {path.name for path in out.iterdir()}
    assert len(list(out.rglob("*.safetensors"))) == 1
    before, after = (json.loads((folder / SERVING).read_text()) for folder in (adapter, out))
    for key in ("base", "template_sha256", "call_format", "stop_ids", "adapter"):
        assert before[key] == after[key]
    weights = "adapter_model.safetensors"
    assert (adapter / weights).read_bytes() != (out / weights).read_bytes()
    assert "preference pairs" in (out / "README.md").read_text()


def test_a_side_is_one_turn_behind_the_served_prompt(
    finished: dict[str, Any], renderer: Any
) -> None:
    for pair in finished["pairs"]:
        example = build_pair(pair, renderer)
        tools = [dict(tool) for tool in pair.row.tools]
        assert list(example.prompt_ids) == renderer.prompt_ids(pair.prompt, tools)
        for ids, turn in ((example.chosen_ids, pair.chosen), (example.rejected_ids, pair.rejected)):
            assert ids[-1] in renderer.stop_ids
            assert sum(token in renderer.stop_ids for token in ids) == 1
            assert renderer.tokenizer.decode(ids[:-1]).startswith(turn.content)
        if pair.fault == INVENTED:
            assert "execute_tool" in renderer.tokenizer.decode(example.rejected_ids)


def test_pairs_that_would_teach_nothing_or_be_cut_are_refused(
    finished: dict[str, Any], renderer: Any
) -> None:
    config, pairs = finished["config"], finished["pairs"]
    same = dataclasses.replace(pairs[0], rejected=pairs[0].chosen)
    with pytest.raises(PreflightError, match=f"{same.row.id}: both sides are the same"):
        preflight_pairs([same], renderer, config)
    with pytest.raises(PreflightError, match="over max_tokens 50"):
        preflight_pairs(pairs, renderer, dataclasses.replace(config, max_tokens=50))
    longest = max(
        len(e.prompt_ids) + max(len(e.chosen_ids), len(e.rejected_ids))
        for e in preflight_pairs(pairs, renderer, config)
    )
    whole = dataclasses.replace(config, max_tokens=longest + 2)  # what follows the last turn
    assert len(preflight_pairs(pairs, renderer, whole)) == len(pairs)


def test_one_direction_alone_is_refused(
    finished: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from breadcrumbs.data_gen import dataset

    rows = [row for row in dataset.load_rows(finished["config"].data) if row.split == "train"]
    for behaviour, lacking in (("dispatch", "clarify"), ("decline", "dispatch")):
        kept = [row for row in rows if row.behaviour == behaviour]
        monkeypatch.setattr(dataset, "load_rows", lambda *_, kept=kept: kept)
        with pytest.raises(DataError, match=f"no {lacking} pair"):
            read_pairs(finished["config"])


def test_a_stopped_run_goes_on_to_the_same_losses(
    finished: dict[str, Any], tmp_path: Path, renderer: Any
) -> None:
    config = dataclasses.replace(finished["config"], out=str(tmp_path / "again"))

    def stop_at_three(done: int, total: int, note: str = "") -> None:
        if done == 3:
            raise Stopped

    with pytest.raises(Stopped):
        run(config, finished["pairs"], renderer, stop_at_three)
    assert not (Path(config.out) / SERVING).exists()
    out = run(config, finished["pairs"], renderer)
    for before, after in zip(lines_of(finished["out"]), lines_of(out), strict=True):
        assert after["step"] == before["step"]
        assert after["loss"] == pytest.approx(before["loss"], abs=1e-5)


def test_a_loss_that_is_not_finite_stops_with_the_batch_saved(
    finished: dict[str, Any], tmp_path: Path, renderer: Any
) -> None:
    import torch

    from breadcrumbs.train.dpo import build_trainer
    from breadcrumbs.train.fitting import quiet_libraries

    config = dataclasses.replace(finished["config"], out=str(tmp_path))
    examples = [build_pair(pair, renderer) for pair in finished["pairs"]]
    with quiet_libraries():
        trainer = build_trainer(config, config.model, renderer, examples, tmp_path / METRICS)
        with torch.no_grad():
            for parameter in trainer.model.parameters():
                if parameter.requires_grad:
                    parameter.fill_(float("nan"))
        with pytest.raises(ModelError, match="step 1: the loss is not a finite number"):
            trainer.train()
    saved = json.loads((tmp_path / "failed_batch.json").read_text())
    assert saved["step"] == 1
    assert saved["input_ids"]


def test_another_adapter_or_none_is_said(finished: dict[str, Any], tmp_path: Path) -> None:
    config = finished["config"]
    identity = run_identity(config)
    claim(tmp_path, identity)
    with pytest.raises(DataError, match="went on from an adapter that has changed"):
        claim(tmp_path, {**identity, "adapter_sha256": "0"})
    with pytest.raises(ConfigError, match="no finished adapter here"):
        run_identity(dataclasses.replace(config, adapter=str(tmp_path)))


def test_an_adapter_of_another_base_is_refused(finished: dict[str, Any], adapter: Path) -> None:
    from breadcrumbs.train.dpo import train_dpo

    config = dataclasses.replace(finished["config"], model="smollm2-135m")
    with pytest.raises(ConfigError, match="name its own model"):
        train_dpo(config)
