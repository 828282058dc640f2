"""A merged model gives the logits of base and adapter, and a wrong sum is not kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.train import merge as merging
from breadcrumbs.train.merge import LIMIT, merge


def test_merged_logits_equal_base_and_adapter(
    published: Path, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from breadcrumbs.models import quiet

    out = tmp_path / "merged"
    main(["adapter", "merge", str(published), "--out", str(out), "--model", str(model_folder)])
    assert "largest difference of a logit" in capsys.readouterr().out
    names = {path.name for path in out.iterdir()}
    assert {"model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"} <= names
    assert not [name for name in names if "adapter" in name]
    assert not (tmp_path / ".merged.new").exists()
    ids = torch.tensor(
        [AutoTokenizer.from_pretrained(out)("Put 'Review 1' on my calendar").input_ids]
    )
    with torch.no_grad(), quiet():
        found = AutoModelForCausalLM.from_pretrained(out)(ids).logits
        base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
        plain = base(ids).logits
        wanted = PeftModel.from_pretrained(base, published)(ids).logits
    assert (found - wanted).abs().max() < LIMIT
    assert (plain - wanted).abs().max() > 100 * LIMIT  # the adapter does change something


def test_bfloat16_is_half_as_large_and_says_how_it_rounds(
    published: Path, model_folder: Path, tmp_path: Path
) -> None:
    sizes = {}
    for dtype in ("float32", "bfloat16"):
        gap = merge(published, tmp_path / dtype, str(model_folder), dtype)  # type: ignore[arg-type]
        sizes[dtype] = (tmp_path / dtype / "model.safetensors").stat().st_size
    assert gap > LIMIT
    assert sizes["bfloat16"] < 0.6 * sizes["float32"]


def test_a_wrong_sum_is_not_kept(
    published: Path, model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(folder: Path) -> Any:
        model = load(folder)
        if folder.name == ".merged.new":
            model.lm_head.weight.data[3] += 0.01
        return model

    load = merging._load
    monkeypatch.setattr(merging, "_load", wrong)
    with pytest.raises(ModelError, match="merged logits differ by"):
        merge(published, tmp_path / "merged", str(model_folder))
    assert not list(tmp_path.iterdir())


def test_what_is_in_the_way_is_said(published: Path, model_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not empty"):
        merge(published, tmp_path, str(model_folder))
    with pytest.raises(ConfigError, match="cannot write: Not a directory"):
        merge(published, tmp_path / "file" / "below", str(model_folder))
    with pytest.raises(ModelError, match="a base model, not an adapter"):
        merge(model_folder, tmp_path / "merged", str(model_folder))
    broken = Path(shutil.copytree(published, tmp_path / "broken"))
    weights = broken / "adapter_model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ModelError, match="cannot be merged"):
        merge(broken, tmp_path / "merged", str(model_folder))
    assert not (tmp_path / "merged").exists()
