"""From nothing to rows of a model's stalls, by one command, on a model of two layers."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from breadcrumbs import stalls_run
from breadcrumbs.cli import main
from breadcrumbs.config import load, to_dict
from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.dataset import load_rows, read_manifest
from breadcrumbs.data_gen.episodes import OraclePolicy
from breadcrumbs.data_gen.model_stalls import STEPS, Staller
from breadcrumbs.data_gen.rebuilding import config_of, rebuild
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.policies import StallerPolicy
from breadcrumbs.stalls_run import StallsConfig
from breadcrumbs.train.config import TrainConfig

STALL = "Would you like me to proceed?"


@pytest.fixture(scope="module")
def config(
    small_config: GenerateConfig, tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The three configs that `configs/generate/stalls.yaml` names, for small catalogs."""
    folder = tmp_path_factory.mktemp("configs")
    tried = dataclasses.replace(small_config, corrected_share=0.0)
    learned = dataclasses.replace(small_config, corrected_share=1.0, nudged="keep", seed=5)
    training = {"data": "d", "out": "o", "steps": 2, "warmup": 1, "adapter": {"rank": 8}}
    bodies: dict[str, Any] = {
        "tried.yaml": to_dict(tried),
        "learned.yaml": to_dict(learned),
        "train.yaml": {"version": 1, **training},
        "stalls.yaml": {
            "version": 1,
            "data": str(folder / "tried.yaml"),
            "staller_data": str(folder / "learned.yaml"),
            "staller_train": str(folder / "train.yaml"),
            "model": str(tiny_model_folder),
            "episodes": 4,
            "max_new_tokens": 8,
        },
    }
    for name, body in bodies.items():
        (folder / name).write_text(yaml.safe_dump(body))
    return folder / "stalls.yaml"


@pytest.fixture(scope="module")
def out(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose random model says nothing of use."""
    folder = tmp_path_factory.mktemp("stalls") / "run"
    with pytest.raises(SystemExit) as stopped:
        main(["data", "stalls", "--config", str(config), "--out", str(folder)])
    assert stopped.value.code == 1
    return folder


def test_a_random_model_is_trained_run_and_counted(
    config: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (out / "adapter" / "serving.json").is_file()
    learned = load_rows(out / "staller-rows")
    assert {row.meta["nudged"] for row in learned} == {"keep"}
    assert not (out / "rows").exists()
    again = ["data", "stalls", "--config", str(config), "--out", str(out), "--json"]
    with pytest.raises(SystemExit):
        main(again)
    found = json.loads(capsys.readouterr().out)
    assert list(found["steps"]) == list(STEPS)
    assert (found["steps"]["tried"], found["steps"]["kept"]) == (4, 0)
    assert sum(found["dropped"].values()) == 4
    assert " + adapter " in found["staller"]


def test_a_finished_run_loads_no_model_again(
    config: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from breadcrumbs.local_model import LocalModel

    def refuse(*args: Any, **keys: Any) -> None:
        raise AssertionError("the model was loaded again")

    monkeypatch.setattr(LocalModel, "load", refuse)
    with pytest.raises(SystemExit) as stopped:
        main(["data", "stalls", "--config", str(config), "--out", str(out)])
    assert stopped.value.code == 1


def test_what_stalls_and_then_calls_is_kept_and_taken_in(
    config: Path,
    out: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same command with a script where the adapter stood."""

    def scripted(settings: StallsConfig, adapter: Path) -> Staller:
        folder = adapter.parent / "data"
        rebuilt = rebuild(config_of(folder, read_manifest(folder)))

        def policy(scenario: Scenario) -> StallerPolicy:
            spec = rebuilt.catalog_of(scenario).tools[scenario.tool]
            return StallerPolicy(OraclePolicy(scenario, spec), lambda messages: STALL)

        return Staller("script", {"script": STALL}, policy, settings.width)

    monkeypatch.setattr(stalls_run, "local_staller", scripted)
    (out / "episodes.jsonl").unlink()
    main(["data", "stalls", "--config", str(config), "--out", str(out)])
    said = capsys.readouterr().out
    assert "  tried: 4\n" in said
    assert "  stalled, permission_ask: 4\n" in said
    assert "  kept: 4\n" in said
    assert f"4 rows in {out / 'rows'}: permission_ask 4" in said
    command = said.splitlines()[-1].partition("breadcrumbs ")[2]
    assert command.startswith("generate --config ")
    arguments = ["generate", "--config", str(config.parent / "tried.yaml")]
    include = f"include=[{out / 'rows'}]"
    assert include in command
    main([*arguments, "--set", include, "--out", str(tmp_path / "set")])
    assert "taken in: 4 of 4 rows of a model's stalls" in capsys.readouterr().out
    counts = read_manifest(tmp_path / "set")["counts"]
    assert counts["source"]["corrected"] == 4
    assert counts["behaviour"]["dispatch"] == 12


def test_a_staller_that_learns_no_stall_is_refused(config: Path, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                *("data", "stalls", "--config", str(config), "--out", str(tmp_path / "run")),
                *("--set", f"staller_data={config.parent / 'tried.yaml'}"),
            ]
        )
    assert stopped.value.code == 2
    assert not (tmp_path / "run").exists()


def test_the_configs_that_ship_fit_each_other() -> None:
    settings = load("configs/generate/stalls.yaml", StallsConfig)
    tried = load(settings.data, GenerateConfig)
    learned = load(settings.staller_data, GenerateConfig)
    training = load(settings.staller_train, TrainConfig)
    assert learned.nudged == "keep"
    assert learned.corrected_share == 1.0
    assert (learned.held_out_tools, learned.held_out_domain) == (
        tried.held_out_tools,
        tried.held_out_domain,
    )
    assert learned.max_hits == tried.max_hits
    assert learned.seed != tried.seed
    assert training.steps is not None
    assert training.steps <= 240, "a quarter of an hour on two cores"
    calls = learned.train.pairs + learned.practice_pairs
    assert training.steps * training.batch_rows <= calls
