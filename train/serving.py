"""What is published: an adapter that says how it must be served, and nothing that can run code.

Written into a folder beside the final names and moved file by file, `serving.json` last, so
its presence means that the adapter is whole.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.models import base_identity, base_revision
from breadcrumbs.train.batches import own_messages
from breadcrumbs.train.card import CARD, card
from breadcrumbs.train.config import RunConfig
from breadcrumbs.train.golden import find_canary, golden
from breadcrumbs.train.run import SERVING, versions

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

SERVING_VERSION = 2
ADAPTER_CONFIG = "adapter_config.json"
TOKENIZER = "tokenizer.json"
TEMPLATE = "chat_template.jinja"
_UNPUBLISHED = (".bin", ".pt", ".pth", ".pkl", ".pickle")
_MARKER = re.compile(r"(\{%[-+]?\s*)(generation|endgeneration)(\s*[-+]?%\})")


def publish(
    model: Any,
    renderer: Renderer,
    config: RunConfig,
    rows: Sequence[Mapping[str, Any]],
    out: Path,
    main_process: bool = True,
) -> None:
    """Write the adapter, tokenizer, template, card and serving facts into `out`.

    `rows` are those it was trained on, by preference or not. In a distributed run every process
    calls this, since a sharded model is gathered and asked together; the main one writes.

    Raises:
        ConfigError: `out` cannot be written.
        ModelError: something would be published that is not plain data.
    """
    conversations = golden(renderer, rows)
    canary = find_canary(model, conversations)
    weights = adapter_weights(model)
    if not main_process:
        return
    fresh = out / ".publish"
    base = base_identity(config.model)
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(parents=True)
        _save_adapter(model, weights, fresh, base)
        renderer.tokenizer.save_pretrained(fresh)
        (fresh / TEMPLATE).write_text(serving_template(renderer.template), encoding="utf-8")
        _refuse_pickles(fresh)
        facts = serving_facts(renderer, config, rows, fresh)
        facts |= {"canary": canary, "golden": [one.to_dict() for one in conversations]}
        (fresh / CARD).write_text(card(config, base, len(rows)), encoding="utf-8")
        write_facts(fresh / SERVING, facts)
        for file in sorted(fresh.iterdir(), key=lambda path: path.name == SERVING):
            file.replace(out / file.name)
        fresh.rmdir()
    except OSError as error:
        raise ConfigError(f"{out}: cannot write the adapter: {error.strerror}") from error


def serving_facts(
    renderer: Renderer,
    config: RunConfig,
    rows: Sequence[Mapping[str, Any]],
    folder: Path,
) -> dict[str, Any]:
    """What a server must agree with: base, hashes, call format, stops, defaults, gateway."""
    shape = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    return {
        "version": SERVING_VERSION,
        "base": base_identity(config.model),
        "base_revision": base_revision(config.model),
        "base_weights": {"dtype": config.dtype, "quantization": config.quantization},
        "template_sha256": renderer.template_hash,
        "tokenizer_sha256": sha256_file(folder / TOKENIZER),
        "call_format": renderer.call_format.kind,
        "stop_ids": list(renderer.stop_ids),
        "generation": {"do_sample": False, "max_new_tokens": 256},
        "gateway": {"max_hits": most_hits(rows)},
        "adapter": {"rank": shape["r"], "alpha": shape["lora_alpha"]},
        "files": {path.name: sha256_file(path) for path in sorted(folder.iterdir())},
        "versions": versions(),
    }


def serving_template(template: str) -> str:
    """The template without `{% generation %}` tags, which plain Jinja servers cannot read.

    Each becomes an `if true` with the same white-space control, so the text stays the same.
    """
    plain = {"generation": "if true", "endgeneration": "endif"}
    return _MARKER.sub(lambda found: found[1] + plain[found[2]] + found[3], template)


def most_hits(rows: Sequence[Mapping[str, Any]]) -> int:
    """The longest search result of the rows: a small model is lost in one longer than it knows."""
    payloads = (
        json.loads(message.content)
        for row in rows
        for message in own_messages(row)
        if message.role == "tool"
    )
    return max((len(payload.get("matches", ())) for payload in payloads), default=0)


def adapter_weights(model: Any) -> dict[str, Any]:
    """The trained adapter's tensors, whole and on the CPU; sharded ones (FSDP2) are gathered."""
    found = {}
    for name, tensor in model.named_parameters():
        if ".default." in name:
            tensor = tensor.detach()
            whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
            found[name] = whole.cpu()
    return found


def _save_adapter(model: Any, weights: Mapping[str, Any], folder: Path, base: str) -> None:
    # "auto" would ask the Hub whether the vocabulary grew; no token is ever added here.
    model.save_pretrained(
        folder,
        state_dict=dict(weights),
        safe_serialization=True,
        save_embedding_layers=False,
        selected_adapters=["default"],  # preference training has the reference beside it
    )
    (folder / CARD).unlink(missing_ok=True)  # PEFT's own is an empty form
    path = folder / ADAPTER_CONFIG
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["base_model_name_or_path"] = base
    if isinstance(settings.get("target_modules"), list):
        settings["target_modules"].sort()  # PEFT writes a set, in any order
    path.write_text(json.dumps(settings, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _refuse_pickles(folder: Path) -> None:
    if found := pickles(folder):
        raise ModelError(f"{', '.join(found)}: pickles are not published; save as safetensors")


def pickles(folder: Path) -> list[str]:
    """Names of the files in an adapter's folder that could run code when loaded."""
    return sorted(path.name for path in folder.rglob("*") if path.suffix in _UNPUBLISHED)


def sha256_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_facts(path: Path, facts: Mapping[str, Any]) -> None:
    """One line for each key: a person can read it, and thousands of ids do not fill the screen."""
    lines = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in facts.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
