"""Cures without training: they act where they should, files are checked, doses chosen and judged."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from breadcrumbs.errors import ConfigError, ModelError, ProbeError
from breadcrumbs.eval.attribution import Openers
from breadcrumbs.eval.cures import Steer, adding, load_steer, save_steer, written
from breadcrumbs.eval.interventions import DecisionRun
from breadcrumbs.eval.steer import (
    RESULT,
    Chosen,
    SteerConfig,
    best_of,
    candidates,
    evaluate_steer,
    fit_steer,
)

Build = Callable[..., Any]
PROMPT = torch.randint(3, 97, (30,), generator=torch.Generator().manual_seed(1)).tolist()
NONE = Steer("bias", 0.0, None, torch.ones(1))
IDENTITY = {"base": "some model", "dtype": "float32"}


def uneven(model: Any) -> Any:
    for name, weight in model.named_parameters():
        if "norm" not in name and weight.ndim > 1:
            weight.data *= 6
    return model


@pytest.fixture(scope="module")
def run(build_tiny: Build) -> DecisionRun:
    return DecisionRun(uneven(build_tiny("llama")), PROMPT, Openers((5,), (7,)), (96, 96))


def four(tokens: list[int]) -> bool:
    return len(tokens) == 4


def test_no_dose_is_the_model_itself(run: DecisionRun) -> None:
    plain = run.written(four)
    assert written(run, (3, 4), None, four) == plain
    assert written(run, (3, 4), NONE, four) == plain
    vector = Steer("vector", 0.0, 1, torch.ones(32))
    assert written(run, (3, 4), vector, four) == plain
    with torch.no_grad():
        ids = run.model.generate(
            torch.tensor([PROMPT]), max_new_tokens=4, do_sample=False, eos_token_id=None
        )
    assert ids[0, -4:].tolist() == plain


def test_a_vector_acts_from_the_decision_row_on_and_not_before(run: DecisionRun) -> None:
    vector = torch.zeros(32)
    vector[3] = 40.0
    steered = written(run, (), Steer("vector", 2.0, 0, vector), four)
    assert steered != run.written(four)
    ids, row = list(PROMPT), len(PROMPT) - 1

    def add(_: Any, __: Any, output: Any) -> Any:
        stream = output[0] if isinstance(output, tuple) else output
        stream = stream.clone()
        stream[:, row:] += 2 * vector
        return (stream, *output[1:]) if isinstance(output, tuple) else stream

    hook = run.model.model.layers[0].register_forward_hook(add)
    try:
        for _ in range(4):
            with torch.no_grad():
                logits = run.model(torch.tensor([ids]), use_cache=False).logits[0, -1]
            ids.append(int(logits.argmax()))
    finally:
        hook.remove()
    assert steered == ids[-4:]
    assert run.written(four) == written(run, (), NONE, four), "nothing stays behind"


def test_a_bias_acts_from_the_decision_row_on(run: DecisionRun) -> None:
    """Against the library's own kernel with the bias in its mask."""
    keys, bias, row = tuple(range(3, 9)), 3.0, len(PROMPT) - 1
    ids = list(PROMPT)
    for _ in range(4):
        seen = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
        mask = torch.zeros(len(ids), len(ids))
        mask[row:, list(keys)] = bias
        mask = mask.masked_fill(~seen, torch.finfo(torch.float32).min)[None, None]
        with torch.no_grad():
            logits = run.model(torch.tensor([ids]), attention_mask=mask, use_cache=False).logits
        ids.append(int(logits[0, -1].argmax()))
    steered = written(run, keys, Steer("bias", bias, None, torch.ones(1)), four)
    assert steered == ids[-4:]
    assert steered != run.written(four)


def test_vectors_that_do_not_fit_are_refused(run: DecisionRun) -> None:
    with (
        pytest.raises(ProbeError, match="layer 9: the model has 2"),
        adding(run.base, 9, torch.ones(32)),
    ):
        pass
    with (
        pytest.raises(ProbeError, match="a vector of 5 does not fit"),
        adding(run.base, 0, torch.ones(5)),
    ):
        pass


def test_files_come_back_and_belong_to_their_model(tmp_path: Path) -> None:
    steer = Steer("vector", 1.5, 1, torch.arange(4.0))
    path = save_steer(tmp_path, steer, {"model": IDENTITY})
    found = load_steer(path, IDENTITY)
    assert dataclasses.replace(found, vector=steer.vector) == steer
    assert torch.equal(found.vector, steer.vector)
    with pytest.raises(ModelError, match="fitted on another model"):
        load_steer(path, IDENTITY | {"base": "another"})
    with pytest.raises(ModelError, match="no steer file there"):
        load_steer(tmp_path / "none.json", IDENTITY)
    path.with_suffix(".safetensors").write_bytes(b"broken")
    with pytest.raises(ModelError, match="not a steer file"):
        load_steer(path, IDENTITY)
    for broken in ("[]", "{", '{"format": 1}'):
        save_steer(tmp_path, steer, {"model": IDENTITY})
        path.write_text(broken)
        with pytest.raises(ModelError, match="not a steer file"):
            load_steer(path, IDENTITY)
    save_steer(tmp_path, steer, {"model": IDENTITY})
    path.write_text(path.read_text().replace('"layer": 1', '"layer": null'))
    with pytest.raises(ModelError, match="not a steer file of this version"):
        load_steer(path, IDENTITY)


def test_the_best_dose_acts_on_one_side_only_and_is_the_smallest() -> None:
    tried = [
        Chosen("bias", 0.0, None, 0.0, 0.0),
        Chosen("bias", 1.0, None, 0.5, 0.1),
        Chosen("bias", 2.0, None, 0.5, 0.1),
        Chosen("bias", 4.0, None, 1.0, 1.0),
        Chosen("vector", 0.0, 1, 0.2, 0.2),
        Chosen("vector", 1.0, 1, 0.9, 0.9),
    ]
    assert best_of(tried, "bias") == 1
    assert best_of(tried, "vector") == 4, "acting everywhere is no better than acting nowhere"


def _config(tiny: Path, data: Path, out: Path, **changes: Any) -> SteerConfig:
    settings = {
        "fit_pairs": 2,
        "choose": 1,
        "report": 1,
        "bias_doses": (2.0,),
        "vector_doses": (1.0,),
        "choose_tokens": 4,
        "max_new_tokens": 8,
        "text_budget": 8,
    } | changes
    return SteerConfig(model=str(tiny), data=data, out=out, **settings)


def test_every_kind_begins_with_none(tmp_path: Path) -> None:
    config = _config(tmp_path, tmp_path, tmp_path, vector_doses=(1.0, 2.0), layers=(0, 2))
    labels = [steer.label for steer in candidates(config, torch.ones(3, 4))]
    assert labels[:3] == ["bias 0", "bias 2", "vector 0 behind layer 0"]
    assert labels[3:] == [
        f"vector {dose} behind layer {layer}" for layer in (0, 2) for dose in (1, 2)
    ]
    with pytest.raises(ProbeError, match="layers: 2 is not one of the model's 2"):
        candidates(config, torch.ones(2, 4))


def test_fitted_on_one_split_judged_on_another(
    tiny_model_folder: Path, small_data: Path, tmp_path: Path
) -> None:
    config = _config(tiny_model_folder, small_data, tmp_path)
    said = fit_steer(config, lambda *_: None)
    assert said.count("acts in") == 2 + 3
    facts = json.loads((tmp_path / "vector.json").read_text())
    assert {one["kind"] for one in facts["tried"]} == {"vector"}
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert fit_steer(config, lambda *_: None) == said
    assert {path: path.read_bytes() for path in files} == files

    table = evaluate_steer(config, lambda *_: None)
    assert table.splitlines()[1].startswith("none")
    figures = json.loads((tmp_path / RESULT).read_text())["figures"]
    assert set(figures) == {"none", "bias", "vector"}
    assert all(one["dad"]["n"] == one["uar"]["n"] == 1 for one in figures.values())
    assert evaluate_steer(config, lambda *_: None) == table


def test_bad_settings_are_one_line(tiny_model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another split than choose_on"):
        _config(tiny_model_folder, tmp_path, tmp_path, report_on="held_out_tools")
    with pytest.raises(ValueError, match="must be above zero"):
        _config(tiny_model_folder, tmp_path, tmp_path, bias_doses=(-1.0,))
    with pytest.raises(ModelError, match="no steer file there"):
        evaluate_steer(_config(tiny_model_folder, tmp_path, tmp_path), lambda *_: None)


def test_the_command_refuses_in_one_line(tmp_path: Path) -> None:
    from breadcrumbs import config as configs

    with pytest.raises(ConfigError, match="report_on"):
        configs.load("configs/probe/steer.yaml", SteerConfig, ("report_on=held_out_tools",))
