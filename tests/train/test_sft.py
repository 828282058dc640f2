"""Whole runs on a model of two layers: published, resumed, skipped, refused."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError, DataError, ModelError, PreflightError
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.run import CHECKPOINTS, METRICS, SERVING, claim

PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle"}


class Stopped(Exception):
    """The machine went away."""


def config_for(out: Path, model: Path, **keys: Any) -> TrainConfig:
    body = {"steps": 6, "warmup": 1, "save_every": 2, "learning_rate": 1e-2, **keys}
    return TrainConfig(data="d", out=str(out), model=str(model), **body)


def run(config: TrainConfig, rows: Any, renderer: Any, report: Any = None) -> Path:
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.sft import fit

    with quiet_libraries():
        fit(config, rows, Path(config.model), renderer, report)
    return Path(config.out)


def lines_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / METRICS).read_text().splitlines()]


@pytest.fixture(scope="module")
def finished(
    model_folder: Path, renderer: Any, make_rows: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    rows = make_rows(4, 2)
    config = config_for(tmp_path_factory.mktemp("run") / "adapter", model_folder)
    return {"out": run(config, rows, renderer), "config": config, "rows": rows}


def test_the_published_folder_is_plain_data(finished: dict[str, Any], model_folder: Path) -> None:
    out = finished["out"]
    names = {path.name for path in out.iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json", "README.md", SERVING} <= names
    assert {"tokenizer.json", "chat_template.jinja", METRICS} <= names
    assert CHECKPOINTS not in names
    assert not [path for path in out.rglob("*") if path.suffix in PICKLES]
    for path in out.rglob("*"):
        if path.suffix in (".json", ".md", ".jinja") and path.name != "run.json":
            assert str(model_folder) not in path.read_text(encoding="utf-8"), path


def test_the_served_template_has_no_generation_tags(finished: dict[str, Any]) -> None:
    assert "generation %}" not in (finished["out"] / "chat_template.jinja").read_text()


def test_golden_prompts_come_out_of_the_published_folder(finished: dict[str, Any]) -> None:
    """A server that only has the folder builds the same ids."""
    from transformers import AutoTokenizer

    from breadcrumbs.messages import messages_from_dicts

    facts = json.loads((finished["out"] / SERVING).read_text())
    tokenizer = AutoTokenizer.from_pretrained(finished["out"])
    assert len(facts["golden"]) == 10
    for golden in facts["golden"]:
        ids = tokenizer.apply_chat_template(
            [message.to_template() for message in messages_from_dicts(golden["messages"])],
            tools=golden["tools"],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        assert list(ids) == golden["prompt_ids"]
    assert tokenizer.eos_token_id in facts["stop_ids"]


def test_the_adapter_loads_onto_its_base(finished: dict[str, Any], model_folder: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from breadcrumbs.train.fitting import quiet_libraries

    ids = torch.tensor([[1, 5, 9, 200]])
    with quiet_libraries(), torch.no_grad():
        base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16)
        before = base(ids).logits
        after = PeftModel.from_pretrained(base, finished["out"])(ids).logits
    assert not torch.equal(before, after)


def test_a_stopped_run_goes_on_to_the_same_losses(
    finished: dict[str, Any], renderer: Any, tmp_path: Path
) -> None:
    from safetensors.torch import load_file

    config = dataclasses.replace(finished["config"], out=str(tmp_path / "adapter"))

    def stop_at_five(done: int, total: int, note: str = "") -> None:
        if done == 5:
            raise Stopped

    with pytest.raises(Stopped):
        run(config, finished["rows"], renderer, stop_at_five)
    out = Path(config.out)
    assert not (out / SERVING).exists()
    half = out / CHECKPOINTS / "checkpoint-5"  # as if the stop had come while saving
    shutil.copytree(out / CHECKPOINTS / "checkpoint-4", half)
    (half / "whole.json").unlink()
    run(config, finished["rows"], renderer)
    before = [(line["step"], line["loss"]) for line in lines_of(finished["out"])]
    assert [(line["step"], line["loss"]) for line in lines_of(out)] == before
    ours, theirs = (
        load_file(folder / "adapter_model.safetensors") for folder in (out, finished["out"])
    )
    assert all(ours[key].equal(theirs[key]) for key in theirs)


def test_a_bad_row_stops_the_run_before_the_model_loads(
    finished: dict[str, Any], renderer: Any, tmp_path: Path
) -> None:
    rows = [*finished["rows"][:3], {**finished["rows"][3], "messages": []}]
    config = dataclasses.replace(
        finished["config"], out=str(tmp_path / "adapter"), model=str(tmp_path / "nowhere")
    )
    with pytest.raises(PreflightError, match="1 of 4 rows"):
        run(config, rows, renderer)
    assert not (tmp_path / "adapter" / CHECKPOINTS).exists()


def test_from_a_data_set_to_an_adapter_once(
    make_rows: Any, write_data: Any, model_folder: Path, tmp_path: Path
) -> None:
    from breadcrumbs.train.preflight import check
    from breadcrumbs.train.rows import read_rows
    from breadcrumbs.train.sft import train_sft

    config = dataclasses.replace(
        config_for(tmp_path / "adapter", model_folder, steps=2), data=str(tmp_path / "data")
    )
    with pytest.raises(DataError, match="no complete data set here"):
        train_sft(config)
    assert not Path(config.out).exists()
    write_data(tmp_path / "data", make_rows(3, 1))
    assert check(config).counts["rows"] == 7
    whole = [row["messages"] for row in read_rows(config)]
    cut = [row["messages"] for row in read_rows(dataclasses.replace(config, whole_every=3))]
    assert cut[:2] == whole[:2]  # the first of three groups, to its end
    assert [len(messages) for messages in cut[2:6:2]] == [7, 7]  # others up to the decision
    assert all(messages[: len(short)] == short for messages, short in zip(whole, cut, strict=True))
    out = train_sft(config)
    weights = out / "adapter_model.safetensors"
    made = weights.stat().st_mtime_ns
    assert train_sft(config) == out
    assert weights.stat().st_mtime_ns == made  # finished: left alone
    shutil.rmtree(tmp_path / "data")
    write_data(tmp_path / "data", make_rows(3, 2))
    with pytest.raises(DataError, match="data that has changed"):
        train_sft(config)
    with pytest.raises(ConfigError, match=r"other settings \(seed\)"):
        train_sft(dataclasses.replace(config, seed=1))


def identity(**changes: Any) -> dict[str, Any]:
    return {"settings": {"seed": 0, "steps": 6}, "data_sha256": "aa", **changes}


def test_a_model_that_cannot_load_is_one_line(
    finished: dict[str, Any], renderer: Any, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    config = config_for(tmp_path / "adapter", tmp_path / "model")
    with pytest.raises(ModelError, match="cannot load the model"):
        run(config, finished["rows"], renderer)


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    out = tmp_path / "o"
    assert claim(out, identity()) is False
    assert claim(out, identity()) is False  # interrupted: go on
    (out / SERVING).write_text("{}")
    assert claim(out, identity()) is True  # finished: leave it alone
    with pytest.raises(DataError, match="data that has changed"):
        claim(out, identity(data_sha256="bb"))
    with pytest.raises(ConfigError, match=r"other settings \(seed\)"):
        claim(out, identity(settings={"seed": 1, "steps": 6}))
    (out / "run.json").write_text("{")
    with pytest.raises(ConfigError, match=r"run\.json: cannot read"):
        claim(out, identity())


def test_an_unwritable_out_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot"):
        claim(tmp_path / "file" / "o", identity())
