"""The adapter: plain LoRA as PEFT's config, and the check that servers can load it."""

from __future__ import annotations

from typing import Any

from breadcrumbs.train.config import SERVABLE_RANKS, AdapterConfig


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
    """Check a PEFT LoRA config against what serving engines load: plain LoRA only."""
    targets = settings.target_modules
    named = {targets} if isinstance(targets, str) else set(targets or ())
    refusals = {
        f"rank {settings.r} is not one of {SERVABLE_RANKS}": settings.r not in SERVABLE_RANKS,
        "DoRA cannot be served": settings.use_dora,
        "modules_to_save cannot be served": bool(settings.modules_to_save),
        f"bias {settings.bias!r} cannot be served": settings.bias != "none",
        "an adapter on the output head or the embeddings cannot be served": bool(
            named & {"lm_head", "embed_tokens"}
        ),
    }
    reasons = [reason for reason, holds in refusals.items() if holds]
    return "; ".join(reasons) or None
