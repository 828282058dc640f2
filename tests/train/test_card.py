"""The card in the form that the Hub reads, with and without an evaluation."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.errors import ModelError
from breadcrumbs.train.card import Measured, card, with_evaluation
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.serving import sha256_file

METRICS = ("dad", "oar", "uar", "ask_f1", "arguments_exact", "end_state", "search_call_parsed")


def fresh(model: str = "smollm2-135m", base: str = "SmolLM2 sha256:b1") -> str:
    return card(TrainConfig(data="d", out="o", model=model, steps=6), base, 12)


def read_card(text: str) -> Any:
    from huggingface_hub import ModelCard

    return ModelCard(text)


def estimate(value: float | None) -> dict[str, Any]:
    if value is None:
        return {"value": None, "low": None, "high": None, "n": 0}
    return {"value": value, "low": value - 0.1, "high": value + 0.05, "n": 40}


def results(weights: str) -> dict[str, Any]:
    line = dict.fromkeys(METRICS, estimate(None)) | {"dad": estimate(0.9), "uar": estimate(0.1)}
    cell = {"breadcrumb_on": {"held_out_tools": line}}
    return {
        "version": 1,
        "eval": {"base": cell, "adapter": cell},
        "models": {"base": {"base": "b"}, "adapter": {"base": "b", "adapter": weights}},
    }


def test_the_hub_reads_its_header() -> None:
    about = read_card(fresh()).data
    assert about.base_model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert about.license == "apache-2.0"
    assert about.library_name == "peft"
    assert about.pipeline_tag == "text-generation"
    assert read_card(fresh("Qwen/Q", "Qwen/Q")).data.base_model == "Qwen/Q"
    local = read_card(fresh("/somewhere/mine", "mine")).data
    assert local.base_model is None  # the name of a folder leads nowhere on the Hub
    assert "license" not in local.to_dict()


def test_an_evaluation_is_put_in_and_replaced(
    published: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(published, tmp_path / "adapter"))
    weights = sha256_file(folder / "adapter_model.safetensors")
    path = tmp_path / "eval" / "results.json"
    path.parent.mkdir()
    path.write_text(json.dumps(results(weights)))
    assert "Not evaluated yet" in (folder / "README.md").read_text()
    main(["adapter", "card", str(folder), "--eval", str(path)])
    text = (folder / "README.md").read_text()
    assert "| adapter | held out tools, breadcrumb on | 0.90 [.80-.95] | - | 0.10" in text
    assert "Not evaluated yet" not in text
    measured = read_card(text).data.eval_results
    assert {(one.metric_type, one.metric_value) for one in measured} == {("dad", 0.9), ("uar", 0.1)}
    main(["adapter", "card", str(folder), "--eval", str(path.parent)])
    assert (folder / "README.md").read_text() == text  # once more changes nothing
    path.write_text(json.dumps(results("another")))
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["adapter", "card", str(folder), "--eval", str(path)])
    assert "these results are of another adapter" in capsys.readouterr().err
    path.write_text(json.dumps({**results(weights), "eval": {"base": []}}))
    with pytest.raises(SystemExit):
        main(["adapter", "card", str(folder), "--eval", str(path)])
    assert "not what an evaluation writes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# A card of somebody else", "no YAML header"),
        ("---\na: [1\n---\n\ntext", "no YAML header"),
        ("---\na: 1\n---\n\ntext", "no place for the evaluation"),
    ],
)
def test_a_foreign_card_is_left_alone(text: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        with_evaluation(text, [Measured("adapter", "c", {}, {})])
