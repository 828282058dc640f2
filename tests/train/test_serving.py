from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.models import base_revision
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.golden import GOLDEN, canary_logprobs, find_canary, golden
from breadcrumbs.train.serving import (
    adapter_weights,
    publish,
    serving_template,
    sha256_file,
)


def config_for(out: Path, model: str = "smollm2-135m") -> TrainConfig:
    return TrainConfig(data="d", out=str(out), model=model, steps=6)


def test_the_small_model_is_named_by_its_hash(
    adapted: Any, make_rows: Any, renderer: Any, tmp_path: Path
) -> None:
    rows = make_rows(1, 1)
    publish(adapted, renderer, config_for(tmp_path), rows, tmp_path)
    settings = json.loads((tmp_path / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"].count("sha256:b179c9523d0e")
    assert settings["target_modules"] == sorted(settings["target_modules"])
    card = (tmp_path / "README.md").read_text()
    assert "dequantised from Q4_1" in card
    facts = json.loads((tmp_path / "serving.json").read_text())
    assert facts["base"] == settings["base_model_name_or_path"]
    assert facts["base_revision"].startswith("sha256:b179c9523d0e")
    assert facts["adapter"] == {"rank": 8, "alpha": 16}
    assert facts["stop_ids"] == list(renderer.stop_ids)
    assert sorted(len(g["messages"]) for g in facts["golden"]) == [4, 6, 6]
    hits = [
        json.loads(m["content"]).get("matches", [])
        for m in rows[0]["messages"]
        if m["role"] == "tool"
    ]
    assert facts["gateway"] == {"max_hits": max(map(len, hits))}
    assert not (tmp_path / ".publish").exists()
    published = {path.name for path in tmp_path.iterdir()} - {"README.md", "serving.json"}
    assert set(facts["files"]) == published
    assert all(sha256_file(tmp_path / name) == made for name, made in facts["files"].items())


def test_only_the_main_process_writes(
    adapted: Any, make_rows: Any, renderer: Any, tmp_path: Path
) -> None:
    publish(adapted, renderer, config_for(tmp_path), make_rows(1), tmp_path, main_process=False)
    assert not list(tmp_path.iterdir())


def test_pickles_are_refused_and_nothing_is_marked_whole(
    adapted: Any, make_rows: Any, renderer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pickling(type(renderer.tokenizer)):  # type: ignore[misc]  # a class made at run time
        def save_pretrained(self, folder: Path, **keys: Any) -> None:
            (folder / "optimizer.pt").write_bytes(b"")

    monkeypatch.setattr(renderer.tokenizer, "__class__", Pickling)
    with pytest.raises(ModelError, match=r"optimizer\.pt: pickles"):
        publish(adapted, renderer, config_for(tmp_path), make_rows(1), tmp_path)
    assert not (tmp_path / "serving.json").exists()


def test_an_unwritable_folder_is_one_line(
    adapted: Any, make_rows: Any, renderer: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "adapter"
    with pytest.raises(ConfigError, match="cannot write the adapter"):
        publish(adapted, renderer, config_for(out), make_rows(1), out)


def test_golden_prompts_end_at_the_decision(make_rows: Any, renderer: Any) -> None:
    found = golden(renderer, make_rows(2, 1))
    assert len(found) == 5
    for conversation in found:
        text = renderer.tokenizer.decode(conversation.prompt_ids)
        assert text.endswith("<|im_start|>assistant\n")
        assert conversation.target_ids


def test_golden_conversations_take_behaviours_in_turn(make_rows: Any, renderer: Any) -> None:
    found = golden(renderer, make_rows(12, 2))
    assert len(found) == GOLDEN
    lengths = [len(conversation.messages) for conversation in found]
    assert lengths[:6] == [6, 6, 4, 6, 6, 4]  # dispatch, clarify, decline; a decline is shorter


def test_the_canary_tells_adapter_from_base(adapted: Any, make_rows: Any, renderer: Any) -> None:
    import torch

    conversations = golden(renderer, make_rows(2, 1))
    canary = find_canary(adapted, conversations)
    assert canary["adapter_logprob"] - canary["base_logprob"] > 0.1
    prompt = conversations[canary["golden"]].prompt_ids
    with_it, without = canary_logprobs(adapted, canary, prompt)
    assert with_it == pytest.approx(canary["adapter_logprob"], abs=1e-3)
    assert without == pytest.approx(canary["base_logprob"], abs=1e-3)
    with torch.no_grad():
        for name, tensor in adapted.named_parameters():
            if "lora_B" in name:
                tensor.zero_()  # an adapter that changes nothing: the canary cannot sing
    dead = find_canary(adapted, conversations)
    assert dead["adapter_logprob"] == dead["base_logprob"]


def test_a_local_base_is_named_by_what_is_in_it(model_folder: Path, tmp_path: Path) -> None:
    import shutil

    first = base_revision(str(model_folder))
    assert first.startswith("sha256:")
    again = tmp_path / "again"
    shutil.copytree(model_folder, again)
    assert base_revision(str(again)) == first
    weights = again / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x01")
    assert base_revision(str(again)) != first


def test_generation_tags_go_and_the_text_stays(renderer: Any) -> None:
    from jinja2.sandbox import ImmutableSandboxedEnvironment
    from transformers.utils.chat_template_utils import render_jinja_template
    from trl import chat_template_utils

    tagged = chat_template_utils.qwen2_5_training_chat_template
    plain = serving_template(tagged)
    assert "generation %}" in tagged
    assert "generation" not in plain.replace("add_generation_prompt", "")
    ImmutableSandboxedEnvironment().from_string(plain)  # a server without the extension reads it
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b "}]
    texts = [render_jinja_template([talk], chat_template=t)[0][0] for t in (tagged, plain)]
    assert texts[0] == texts[1]
    assert serving_template(renderer.template) == renderer.template


def test_sharded_tensors_are_gathered(tmp_path: Path) -> None:
    """As FSDP2 leaves them: each process holds a part under the same names."""
    import torch
    from torch import distributed
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            inner = {"default": torch.nn.Linear(4, 2, bias=False)}
            self.lora_A = torch.nn.ModuleDict(inner)
            self.base_layer = torch.nn.Linear(4, 2)

    model = Layer()
    whole = model.lora_A["default"].weight.detach().clone()
    store = distributed.FileStore(str(tmp_path / "store"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        fully_shard(model, mesh=distributed.init_device_mesh("cpu", (1,)))
        assert isinstance(model.lora_A["default"].weight, DTensor)
        found = adapter_weights(model)
    finally:
        distributed.destroy_process_group()
    assert list(found) == ["lora_A.default.weight"]
    assert not isinstance(found["lora_A.default.weight"], DTensor)
    assert torch.equal(found["lora_A.default.weight"], whole)


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
