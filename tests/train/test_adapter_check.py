"""An adapter that is whole passes; each way of being another one is told by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.errors import ModelError
from breadcrumbs.train.adapter_check import check_adapter
from breadcrumbs.train.adapter_folder import base_name, read_adapter
from breadcrumbs.train.serving import write_facts


@pytest.fixture
def folder(published: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(published, tmp_path / "adapter"))


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    facts = read_adapter(folder)
    change(facts)
    write_facts(folder / "serving.json", facts)


def republish(folder: Path, name: str) -> None:
    """Say that a file was published as it lies there now: the hash cannot tell any more."""
    from breadcrumbs.train.serving import sha256_file

    edit(folder, lambda facts: facts["files"].update({name: sha256_file(folder / name)}))


def test_a_published_adapter_passes(
    folder: Path, model_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["adapter", "check", str(folder), "--model", str(model_folder)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "files",
        "adapter",
        "base",
        "golden",
        "golden",
        "canary",
    ]
    assert "10 conversations, token for token" in lines[3]


@pytest.mark.parametrize("name", ["model", "empty"])
def test_a_base_model_by_mistake_is_refused(
    name: str, model_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = model_folder if name == "model" else tmp_path
    words = "a base model, not an adapter" if name == "model" else "no adapter here"
    for command in (("check",), ("card", "--eval", "results.json")):
        with pytest.raises(SystemExit) as stopped:
            main(["adapter", command[0], str(given), *command[1:]])
        assert stopped.value.code == 2
        said = capsys.readouterr().err.strip()
        assert "\n" not in said
        if command[0] == "check":
            assert words in said


def fault(folder: Path, model: Path) -> str:
    with pytest.raises(ModelError) as raised:
        list(check_adapter(folder, str(model)))
    return str(raised.value)


def test_changed_missing_and_pickled_files_are_named(folder: Path, model_folder: Path) -> None:
    template = folder / "chat_template.jinja"
    text = template.read_text()
    template.write_text(text + " ")
    assert "chat_template.jinja: not the file that was published" in fault(folder, model_folder)
    template.unlink()
    assert "chat_template.jinja: missing" in fault(folder, model_folder)
    template.write_text(text)
    (folder / "training_args.bin").write_bytes(b"")
    assert "holds pickles, which run code: training_args.bin" in fault(folder, model_folder)


def test_G75_another_template_is_found_by_the_golden_prompts(
    folder: Path, model_folder: Path
) -> None:
    template = folder / "chat_template.jinja"
    template.write_text(template.read_text().replace("# Tools", "# Things"))
    republish(folder, template.name)
    said = fault(folder, model_folder)
    assert "golden conversation 0: the adapter's folder builds another prompt from token" in said


def test_another_tokenizer_of_the_base_is_found(
    folder: Path, model_folder: Path, tmp_path: Path
) -> None:
    other = Path(shutil.copytree(model_folder, tmp_path / "other"))
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    tokenizer["model"]["merges"] = tokenizer["model"]["merges"][:50]
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert "the base model builds another prompt" in fault(folder, other)


def test_other_base_weights_are_refused(
    folder: Path, model_folder: Path, build_model: Any, tokenizer: Any, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    other = Path(shutil.copytree(model_folder, tmp_path / "other"))
    model = AutoModelForCausalLM.from_pretrained(other)
    with torch.no_grad():
        model.lm_head.weight.copy_(model.lm_head.weight.flip(0))
    model.save_pretrained(other)
    assert "not the base it was trained on: sha256:" in fault(folder, other)
    # Trained from the Hub, checked against a folder: hashes say nothing, the canary does.
    edit(folder, lambda facts: facts.update(base_revision="0123456789abcdef"))
    assert "canary" in fault(folder, other)
    assert any("the canary will tell" in line for line in check_adapter(folder, str(model_folder)))


def test_an_adapter_that_is_not_in_use_is_told(folder: Path, model_folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    path = folder / "adapter_model.safetensors"
    weights = load_file(path)
    save_file({k: v * 0 if "lora_B" in k else v for k, v in weights.items()}, path)
    republish(folder, path.name)
    assert "the adapter is not in use: canary" in fault(folder, model_folder)
    save_file({k: v * 9 if "lora_B" in k else v for k, v in weights.items()}, path)
    republish(folder, path.name)
    assert "these are other weights: canary" in fault(folder, model_folder)
    edit(folder, lambda facts: facts["canary"].update(base_logprob=-1.0, adapter_logprob=-0.9))
    assert "cannot be told apart" in fault(folder, model_folder)


def test_G75_serve_begins_only_with_an_adapter_that_is_in_use(
    folder: Path,
    model_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from safetensors.torch import load_file, save_file

    from breadcrumbs import serve

    begun: list[serve.ServeOptions] = []
    monkeypatch.setattr(serve, "serve", begun.append)
    words = ["serve", "--model", str(model_folder), "--adapter", str(folder), "--nudge", "seed"]
    main(words)
    assert "canary: " in capsys.readouterr().err
    assert [(each.adapter, each.nudge) for each in begun] == [(folder, "seed")]
    path = folder / "adapter_model.safetensors"
    weights = load_file(path)
    save_file({k: v * 0 if "lora_B" in k else v for k, v in weights.items()}, path)
    republish(folder, path.name)
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    assert "the adapter is not in use" in capsys.readouterr().err
    assert len(begun) == 1


def test_what_cannot_be_served_is_refused(folder: Path, model_folder: Path) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "use_dora": True}))
    republish(folder, path.name)
    assert "DoRA cannot be served" in fault(folder, model_folder)


def test_an_unfinished_or_older_folder_says_so(folder: Path) -> None:
    edit(folder, lambda facts: facts.pop("canary"))
    with pytest.raises(ModelError, match=r"without what is checked here \(canary\)"):
        read_adapter(folder)
    (folder / "serving.json").write_text("[]")
    with pytest.raises(ModelError, match="not an object"):
        read_adapter(folder)
    (folder / "serving.json").unlink()
    with pytest.raises(ModelError, match=r"no serving\.json; the training did not finish"):
        read_adapter(folder)


def test_the_base_is_named_by_the_adapter_or_by_the_user() -> None:
    from breadcrumbs.models import SMALL, base_identity

    assert base_name({"base": base_identity(SMALL)}, None) == SMALL
    assert base_name({"base": "Qwen/Qwen2.5-0.5B-Instruct"}, None) == "Qwen/Qwen2.5-0.5B-Instruct"
    assert base_name({"base": "mine"}, "there") == "there"
    with pytest.raises(ModelError, match="name its folder with --model"):
        base_name({"base": "mine"}, None)
