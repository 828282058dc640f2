"""The adapter: plain LoRA as PEFT's config, and the check that servers can load it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from breadcrumbs.errors import ConfigError
from breadcrumbs.models import first_line
from breadcrumbs.train.config import SERVABLE_RANKS, AdapterConfig

_STARTS = (True, "gaussian")  # PiSSA, OLoRA, CorDA and others subtract from the base
_VOCABULARY = ("lm_head", "embed_tokens", "model.embed_tokens", "wte", "embed_out")


def lora(adapter: AdapterConfig) -> Any:
    """The adapter as PEFT's config: plain LoRA, nothing a server cannot load."""
    from peft import LoraConfig

    targets = adapter.targets if isinstance(adapter.targets, str) else list(adapter.targets)
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        lora_dropout=adapter.dropout,
        target_modules=targets,
        bias="none",
    )


def lora_fault(settings: Any) -> str | None:
    """Check a PEFT config against what serving engines load: one plain LoRA, nothing beside it."""
    if str(getattr(settings.peft_type, "value", settings.peft_type)) != "LORA":
        return f"a {settings.peft_type} adapter cannot be served; train LoRA"
    refusals = {
        f"rank {settings.r} is not one of {SERVABLE_RANKS}": settings.r not in SERVABLE_RANKS,
        "ranks that differ by module cannot be served": bool(settings.rank_pattern),
        "DoRA cannot be served": settings.use_dora,
        "aLoRA cannot be served": bool(settings.alora_invocation_tokens),
        "modules_to_save cannot be served": bool(settings.modules_to_save),
        "trained token rows cannot be served": bool(settings.trainable_token_indices),
        "target_parameters cannot be served": bool(settings.target_parameters),
        f"bias {settings.bias!r} cannot be served": settings.bias != "none",
        f"start {settings.init_lora_weights!r} changes the base's weights": (
            settings.init_lora_weights not in _STARTS
        ),
        "an adapter on the output head or the embeddings cannot be served": _reaches_vocabulary(
            settings.target_modules
        ),
    }
    reasons = [reason for reason, holds in refusals.items() if holds]
    return "; ".join(reasons) or None


def folder_fault(folder: Path) -> str | None:
    """`lora_fault` of the adapter in a folder, which somebody else may have written.

    Raises:
        ConfigError: no adapter's config can be read there.
    """
    from peft import PeftConfig

    try:
        return lora_fault(PeftConfig.from_pretrained(str(folder)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise ConfigError(
            f"{folder}: no adapter config can be read here ({first_line(error)}); "
            "name the folder of a trained adapter"
        ) from error


def _reaches_vocabulary(targets: Any) -> bool:
    if isinstance(targets, str):
        if targets == "all-linear":  # PEFT leaves the head out
            return False
        try:
            return any(re.fullmatch(targets, name) for name in _VOCABULARY)
        except re.error:
            return True
    return bool({str(name).rpartition(".")[2] for name in targets or ()} & set(_VOCABULARY))
