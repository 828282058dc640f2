"""Proof that an adapter's folder is what was published, and that it works on this base.

Hashes first, then the prompts token for token, then the weights: the canary is a token that
adapter and base rate differently, so it also tells an adapter that is loaded but not in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from breadcrumbs.errors import ModelError
from breadcrumbs.messages import messages_from_dicts
from breadcrumbs.models import base_revision, quiet, resolve_model
from breadcrumbs.train.adapter import lora_fault
from breadcrumbs.train.adapter_folder import base_name, read_adapter
from breadcrumbs.train.golden import canary_logprobs
from breadcrumbs.train.run import SERVING
from breadcrumbs.train.serving import pickles, sha256_file

CANARY_GAP = 0.5
"""Nats between adapter and base below which rounding in bfloat16 could be the difference."""
CANARY_SLACK = 1 / 3
"""How far from its published value the canary may lie, as a share of the gap."""


def check_adapter(folder: Path, model: str | None = None) -> Iterator[str]:
    """Check one thing after the other; yields a line for each that holds.

    Args:
        folder: what `breadcrumbs train` published.
        model: the base, where the adapter cannot name it.

    Raises:
        ModelError: the first thing that does not hold.
    """
    facts = read_adapter(folder)
    yield check_files(folder, facts)
    yield _plain_lora(folder)
    name = base_name(facts, model)
    yield _base(name, facts)
    yield _golden(folder, folder, facts)
    yield _golden(folder, resolve_model(name), facts)
    yield _canary(folder, name, facts)


def check_files(folder: Path, facts: Mapping[str, Any]) -> str:
    """Whether every file is the one that was published.

    Raises:
        ModelError: one is not, or there is a pickle.
    """
    if found := pickles(folder):
        raise ModelError(f"{folder}: holds pickles, which run code: {', '.join(found)}")
    for name, published in facts["files"].items():
        path = folder / Path(name).name
        if not path.is_file():
            raise ModelError(f"{path}: missing; it was published with the adapter")
        if sha256_file(path) != published:
            raise ModelError(f"{path}: not the file that was published (its hash differs)")
    return f"files: {len(facts['files'])} as published, no pickles"


def _plain_lora(folder: Path) -> str:
    from peft import PeftConfig

    try:
        settings = PeftConfig.from_pretrained(str(folder))
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"{folder}: its adapter_config.json is not PEFT's: {error}") from error
    if reason := lora_fault(settings):
        raise ModelError(f"{folder}: {reason}")
    return f"adapter: plain LoRA, rank {settings.r}, alpha {settings.lora_alpha}"


def _base(name: str, facts: Mapping[str, Any]) -> str:
    trained, here = str(facts["base_revision"]), base_revision(name)
    if here == trained:
        return f"base: {name}, revision as trained on"
    if here.startswith("sha256:") != trained.startswith("sha256:"):
        return f"base: {name}; a Hub commit and a folder cannot be compared, the canary will tell"
    raise ModelError(f"{name}: not the base it was trained on: {trained} there, {here} here")


def _golden(folder: Path, source: Path, facts: Mapping[str, Any]) -> str:
    """Every golden prompt by the tokenizer and template in `source`."""
    from breadcrumbs.rendering import load_renderer

    whose = "the adapter's folder" if source == folder else "the base model"
    with quiet():
        renderer = load_renderer(source)
    if list(renderer.stop_ids) != list(facts["stop_ids"]):
        raise ModelError(f"{folder / SERVING}: {whose} ends turns with {list(renderer.stop_ids)}")
    for number, one in enumerate(facts["golden"]):
        ids = renderer.prompt_ids(messages_from_dicts(one["messages"]), one["tools"])
        if ids != one["prompt_ids"]:
            pairs = zip(ids, one["prompt_ids"], strict=False)
            at = next(
                (at for at, (a, b) in enumerate(pairs) if a != b),
                min(len(ids), len(one["prompt_ids"])),
            )
            raise ModelError(
                f"golden conversation {number}: {whose} builds another prompt from token {at} on"
            )
    return f"golden: {len(facts['golden'])} conversations, token for token, by {whose}"


def _canary(folder: Path, name: str, facts: Mapping[str, Any]) -> str:
    from breadcrumbs.local_model import LocalModel

    canary = facts["canary"]
    adapted, base = float(canary["adapter_logprob"]), float(canary["base_logprob"])
    gap = adapted - base
    if not gap >= CANARY_GAP:
        raise ModelError(
            f"{folder}: adapter and base cannot be told apart (canary {adapted:.2f} against "
            f"{base:.2f} nats): the adapter changes next to nothing; train longer"
        )
    loaded = LocalModel.load(name, adapter=folder)
    prompt = facts["golden"][int(canary["golden"])]["prompt_ids"]
    with_it, without = canary_logprobs(loaded.model, canary, prompt)
    shown = (
        f"{with_it:.2f} nats with the adapter, {without:.2f} without "
        f"(published {adapted:.2f}, {base:.2f})"
    )
    if abs(with_it - adapted) > CANARY_SLACK * gap:
        idle = abs(with_it - base) <= CANARY_SLACK * gap
        what = "the adapter is not in use" if idle else "these are other weights"
        raise ModelError(f"{folder}: {what}: canary {shown}")
    if abs(without - base) > CANARY_SLACK * gap:
        raise ModelError(f"{name}: not the base it was trained on: canary {shown}")
    return f"canary: {shown}"
