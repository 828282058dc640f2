from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.serving import golden, publish


class Saved:
    """The part of a PEFT model that publishing needs, writing what PEFT writes."""

    def __init__(self, extra: str | None = None) -> None:
        self._extra = extra

    def save_pretrained(
        self,
        folder: Path,
        safe_serialization: bool,
        save_embedding_layers: bool,
        selected_adapters: list[str],
    ) -> None:
        assert safe_serialization
        assert selected_adapters == ["default"]
        assert not save_embedding_layers
        (folder / "adapter_model.safetensors").write_bytes(b"")
        settings = {
            "base_model_name_or_path": "/home/someone/model",
            "target_modules": ["v_proj", "q_proj"],
            "r": 16,
            "lora_alpha": 32,
        }
        (folder / "adapter_config.json").write_text(json.dumps(settings))
        if self._extra:
            (folder / self._extra).write_bytes(b"")


def config_for(out: Path, model: str = "smollm2-135m") -> TrainConfig:
    return TrainConfig(data="d", out=str(out), model=model, steps=6)


def test_the_small_model_is_named_by_its_hash(
    make_rows: Any, renderer: Any, tmp_path: Path
) -> None:
    rows = make_rows(1, 1)
    publish(Saved(), renderer, config_for(tmp_path), rows, tmp_path)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"].count("sha256:b179c9523d0e")
    assert settings["target_modules"] == ["q_proj", "v_proj"]
    card = (tmp_path / "README.md").read_text()
    assert "dequantised from Q4_1" in card
    facts = json.loads((tmp_path / "serving.json").read_text())
    assert facts["base"] == settings["base_model_name_or_path"]
    assert facts["adapter"] == {"rank": 16, "alpha": 32}
    assert facts["stop_ids"] == list(renderer.stop_ids)
    assert [len(g["messages"]) for g in facts["golden"]] == [6, 6, 4]
    hits = [
        json.loads(m["content"]).get("matches", [])
        for m in rows[0]["messages"]
        if m["role"] == "tool"
    ]
    assert facts["gateway"] == {"max_hits": max(map(len, hits))}
    assert not (tmp_path / ".publish").exists()


def test_pickles_are_refused_and_nothing_is_marked_whole(
    make_rows: Any, renderer: Any, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=r"optimizer\.pt: pickles"):
        publish(Saved("optimizer.pt"), renderer, config_for(tmp_path), make_rows(1), tmp_path)
    assert not (tmp_path / "serving.json").exists()


def test_an_unwritable_folder_is_one_line(make_rows: Any, renderer: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "adapter"
    with pytest.raises(ConfigError, match="cannot write the adapter"):
        publish(Saved(), renderer, config_for(out), make_rows(1), out)


def test_golden_prompts_end_at_the_decision(make_rows: Any, renderer: Any) -> None:
    found = golden(renderer, make_rows(2, 1))
    assert len(found) == 3
    for conversation in found:
        text = renderer.tokenizer.decode(conversation["prompt_ids"])
        assert text.endswith("<|im_start|>assistant\n")


@pytest.mark.model
def test_the_real_model_takes_the_rows_as_they_are_served(make_rows: Any) -> None:
    """Preflight with the real tokenizer, where one word is several tokens."""
    from breadcrumbs.models import SMALL, resolve_model
    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train.preflight import preflight

    real = load_renderer(resolve_model(SMALL))
    result = preflight(make_rows(2, 1), real, config_for(Path("unused")))
    assert result.counts["rows"] == 5
    assert 200 < result.counts["longest row"] < 1000
