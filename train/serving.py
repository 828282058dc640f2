"""What is published: an adapter that says how it must be served, and nothing that can run code.

Written into a folder beside the final names and moved file by file, `serving.json` last, so
its presence means that the adapter is whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.messages import Message, messages_from_dicts
from breadcrumbs.models import SMALL, base_identity
from breadcrumbs.train.batches import decision_message, own_messages, unlearned
from breadcrumbs.train.config import DpoConfig, RunConfig, TrainConfig
from breadcrumbs.train.run import SERVING, versions

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

GOLDEN = 4  # conversations whose token ids a server must reproduce
ADAPTER_CONFIG = "adapter_config.json"
_UNPUBLISHED = (".bin", ".pt", ".pth", ".pkl", ".pickle")


def publish(
    model: Any,
    renderer: Renderer,
    config: RunConfig,
    rows: Sequence[Mapping[str, Any]],
    out: Path,
) -> None:
    """Write the adapter, tokenizer, template, card and serving facts into `out`.

    `rows` are those it was trained on, by preference or not.

    Raises:
        ConfigError: `out` cannot be written.
        ModelError: something would be published that is not plain data.
    """
    fresh = out / ".publish"
    base = base_identity(config.model)
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        _save_adapter(model, fresh, base)
        renderer.tokenizer.save_pretrained(fresh)
        (fresh / "chat_template.jinja").write_text(renderer.template, encoding="utf-8")
        (fresh / "README.md").write_text(_card(config, base, len(rows)), encoding="utf-8")
        facts = serving_facts(renderer, base, rows, fresh)
        _write_json(fresh / SERVING, facts)
        _refuse_pickles(fresh)
        for file in sorted(fresh.iterdir(), key=lambda path: path.name == SERVING):
            file.replace(out / file.name)
        fresh.rmdir()
    except OSError as error:
        raise ConfigError(f"{out}: cannot write the adapter: {error.strerror}") from error


def serving_facts(
    renderer: Renderer,
    base: str,
    rows: Sequence[Mapping[str, Any]],
    folder: Path,
) -> dict[str, Any]:
    """What a server must agree with: hashes, call format, stops, gateway, and golden token ids."""
    shape = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    return {
        "version": 1,
        "base": base,
        "template_sha256": renderer.template_hash,
        "tokenizer_sha256": sha256_file(folder / "tokenizer.json"),
        "call_format": renderer.call_format.kind,
        "stop_ids": list(renderer.stop_ids),
        "generation": {"do_sample": False, "max_new_tokens": 256},
        "gateway": {"max_hits": most_hits(rows)},
        "adapter": {"rank": shape["r"], "alpha": shape["lora_alpha"]},
        "versions": versions(),
        "golden": golden(renderer, rows),
    }


def most_hits(rows: Sequence[Mapping[str, Any]]) -> int:
    """The longest search result of the rows: a small model is lost in one longer than it knows."""
    payloads = (
        json.loads(message.content)
        for row in rows
        for message in own_messages(row)
        if message.role == "tool"
    )
    return max((len(payload.get("matches", ())) for payload in payloads), default=0)


def golden(renderer: Renderer, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A few prompts at the decision point, one behaviour after the other, with their ids."""
    chosen: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        chosen.setdefault(str(row["behaviour"]), row)
    conversations = []
    for row in list(chosen.values())[:GOLDEN]:
        messages = messages_from_dicts(row["messages"])
        behaviour, tool = str(row["behaviour"]), str(row["tool"])
        decided = decision_message(own_messages(row), behaviour, tool, unlearned(row))
        prompt = messages[:decided]
        conversations.append(_golden(renderer, prompt, list(row["tools"])))
    return conversations


def _golden(renderer: Renderer, prompt: list[Message], tools: list[Any]) -> dict[str, Any]:
    return {
        "messages": [message.to_dict() for message in prompt],
        "tools": tools,
        "prompt_ids": list(renderer.prompt_ids(prompt, tools)),
    }


def _save_adapter(model: Any, folder: Path, base: str) -> None:
    # "auto" would ask the Hub whether the vocabulary grew; no token is ever added here.
    model.save_pretrained(
        folder,
        safe_serialization=True,
        save_embedding_layers=False,
        selected_adapters=["default"],  # preference training has the reference beside it
    )
    path = folder / ADAPTER_CONFIG
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = base
    if isinstance(settings.get("target_modules"), list):
        settings["target_modules"].sort()  # PEFT writes a set, in any order
    _write_json(path, settings)


def _card(config: RunConfig, base: str, rows: int) -> str:
    source = (
        "SmolLM2-135M-Instruct (Apache-2.0), dequantised from Q4_1, so its weights are not the "
        "original ones"
        if config.model == SMALL
        else "the model named below"
    )
    return (
        "---\nlibrary_name: peft\ntags: [lora, tool-calling]\n---\n\n"
        "# Breadcrumbs adapter\n\n"
        "A LoRA adapter that dispatches once a tool's schema is disclosed and asks only for what "
        f"is missing. Base: {source}.\n\n"
        f"- base: `{base}`\n"
        f"- rows: {rows}, split `{config.split}`; {_how(config)}\n"
        f"- peak learning rate {config.learning_rate:g}; seed {config.seed}\n\n"
        "Serve it with the chat template and stop ids of this folder: `serving.json` holds their "
        "hashes and golden prompts. It was trained on generated English conversations behind one "
        "gateway; writes must still be held for approval.\n"
    )


def _how(config: RunConfig) -> str:
    length = f"{config.steps} steps" if config.steps else f"{config.epochs:g} epochs"
    if isinstance(config, DpoConfig):
        pairs = config.batch_pairs * config.grad_accum
        return (
            f"preference pairs of them, {length} of {pairs}, beta {config.beta:g}, "
            f"anchor {config.anchor:g}, on from an adapter trained before"
        )
    assert isinstance(config, TrainConfig)
    adapter = config.adapter
    return (
        f"{length} of {config.batch_rows * config.grad_accum} rows; LoRA rank {adapter.rank}, "
        f"alpha {adapter.alpha}; decision weight {config.decision_weight:g}"
    )


def _refuse_pickles(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.suffix in _UNPUBLISHED:
            raise ModelError(f"{path.name}: pickles are not published; save as safetensors")


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
