"""The GGUF adapter: llama.cpp's names, its order of rows, and nothing lost on the way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breadcrumbs.cli import main
from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.train.gguf_lora import (
    FAMILIES,
    _to_gguf,
    _trained,
    compare,
    export_gguf,
    halves_from_neighbours,
    neighbours_from_halves,
)

SHAPE = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
LLAMA = FAMILIES["llama"]
PEFT = "base_model.model.model.layers.1."


def test_every_tensor_is_written_and_read_back(
    published: Path, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from gguf import GGUFReader

    out = tmp_path / "adapter.gguf"
    command = ["adapter", "export", str(published), "--gguf", str(out), "--model"]
    main([*command, str(model_folder)])
    assert "28 tensors" in capsys.readouterr().out  # 2 layers, 7 matrices, A and B
    reader = GGUFReader(out)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert fields["general.type"] == "adapter"
    assert fields["general.architecture"] == "llama"
    assert fields["adapter.type"] == "lora"
    assert fields["adapter.lora.alpha"] == 16.0
    shapes = {tensor.name: tuple(map(int, tensor.shape)) for tensor in reader.tensors}
    # GGUF counts dimensions from the inside: [in, r] and [r, out].
    assert shapes["blk.0.attn_q.weight.lora_a"] == (64, 8)
    assert shapes["blk.1.attn_k.weight.lora_b"] == (8, 32)
    assert shapes["blk.1.ffn_down.weight.lora_a"] == (128, 8)
    assert len(shapes) == 28
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def rotate_halves(x: Any, angles: Any) -> Any:
    """Hugging Face: element i is paired with i + h / 2. `x` [h], `angles` [h / 2]."""
    first, second = np.split(x, 2)
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin])


def rotate_neighbours(x: Any, angles: Any) -> Any:
    """llama.cpp for this family: element 2 i is paired with 2 i + 1."""
    even, odd = x[::2], x[1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([even * cos - odd * sin, odd * cos + even * sin], -1).reshape(-1)


def test_reordered_rows_attend_alike_under_the_other_rotation() -> None:
    """The scores of q and k at two places are what must stay; the order is only a means."""
    rng = np.random.default_rng(0)
    q, k, x = rng.normal(size=(16, 8)), rng.normal(size=(16, 8)), rng.normal(size=8)
    near, far = rng.normal(size=(2, 4))
    for head in range(2):
        rows = slice(8 * head, 8 * head + 8)
        wanted = rotate_halves(q[rows] @ x, near) @ rotate_halves(k[rows] @ x, far)
        moved_q, moved_k = neighbours_from_halves(q, 2)[rows], neighbours_from_halves(k, 2)[rows]
        found = rotate_neighbours(moved_q @ x, near) @ rotate_neighbours(moved_k @ x, far)
        left = rotate_neighbours(q[rows] @ x, near) @ rotate_neighbours(k[rows] @ x, far)
        assert found == pytest.approx(wanted)
        assert left != pytest.approx(wanted, rel=0.01)  # without it, attention is another
    assert np.array_equal(halves_from_neighbours(neighbours_from_halves(q, 2), 2), q)


@pytest.mark.parametrize(
    ("family", "key", "name", "moved"),
    [
        ("llama", "self_attn.q_proj.lora_B", "attn_q.weight.lora_b", True),
        ("mistral", "self_attn.k_proj.lora_B", "attn_k.weight.lora_b", True),
        ("llama", "self_attn.q_proj.lora_A", "attn_q.weight.lora_a", False),
        ("llama", "self_attn.v_proj.lora_B", "attn_v.weight.lora_b", False),
        ("llama", "self_attn.o_proj.lora_B", "attn_output.weight.lora_b", False),
        ("llama", "mlp.gate_proj.lora_B", "ffn_gate.weight.lora_b", False),
        ("qwen2", "self_attn.q_proj.lora_B", "attn_q.weight.lora_b", False),
        ("qwen3", "mlp.up_proj.lora_A", "ffn_up.weight.lora_a", False),
    ],
)
def test_names_and_rows(family: str, key: str, name: str, moved: bool) -> None:
    rows = np.arange(64, dtype=np.float32).reshape(32, 2)
    found, matrix = _to_gguf(f"{PEFT}{key}.weight", rows, FAMILIES[family], SHAPE)
    assert found == f"blk.1.{name}"
    assert np.array_equal(matrix, rows) is not moved


def test_a_file_that_differs_is_found(published: Path, model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "adapter.gguf"
    export_gguf(published, out, str(model_folder))
    trained = _trained(published / "adapter_model.safetensors")
    compare(out, trained, LLAMA, SHAPE, 16.0)
    with pytest.raises(ModelError, match=r"adapter\.lora\.alpha is 16\.0 instead of 32\.0"):
        compare(out, trained, LLAMA, SHAPE, 32.0)
    with pytest.raises(ModelError, match=r"general\.architecture is 'llama'"):
        compare(out, trained, FAMILIES["qwen2"], SHAPE, 16.0)
    key = next(key for key in trained if "q_proj.lora_B" in key)
    with pytest.raises(ModelError, match=r"attn_q\.weight\.lora_b does not read back"):
        compare(out, {**trained, key: trained[key][::-1]}, LLAMA, SHAPE, 16.0)
    with pytest.raises(ModelError, match=r"tensors that nobody trained: blk\.0\.attn_q"):
        compare(out, {k: v for k, v in trained.items() if k != key}, LLAMA, SHAPE, 16.0)
    extra = {**trained, key.replace("layers.0", "layers.7"): trained[key]}
    with pytest.raises(ModelError, match="has no place in a llama GGUF adapter"):
        compare(out, extra, LLAMA, SHAPE, 16.0)


def test_what_the_format_cannot_hold_is_refused(
    published: Path, model_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "adapter.gguf"
    out.write_text("")
    with pytest.raises(ConfigError, match="exists; choose another out"):
        export_gguf(published, out, str(model_folder))
    out.unlink()
    other = Path(shutil.copytree(model_folder, tmp_path / "other"))
    shape = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**shape, "model_type": "gpt_oss"}))
    with pytest.raises(ModelError, match="its base is a 'gpt_oss' model"):
        export_gguf(published, out, str(other))
    folder = Path(shutil.copytree(published, tmp_path / "adapter"))
    settings = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**settings, "use_rslora": True}))
    with pytest.raises(ModelError, match="use_rslora cannot be said"):
        export_gguf(folder, out, str(model_folder))
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    (folder / "adapter_model.safetensors").write_bytes(b"short")
    with pytest.raises(ModelError, match="cannot be read"):
        export_gguf(folder, out, str(model_folder))
    assert not out.exists()
