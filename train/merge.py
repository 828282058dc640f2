"""The adapter added into its base: a plain model folder, proved to give the same logits."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.models import first_line, quiet, resolve_model
from breadcrumbs.train.adapter_folder import base_name, read_adapter
from breadcrumbs.train.golden import last_logits
from breadcrumbs.train.run import WEIGHTS
from breadcrumbs.train.serving import ADAPTER_CONFIG

if TYPE_CHECKING:
    import torch

Dtype = Literal["float32", "bfloat16"]
LIMIT = 1e-3
"""Largest difference of two logits that is allowed in float32; bfloat16 rounds far more."""
PROMPTS = 2
POSITIONS = 64  # of each prompt, the last so many are compared, over the whole vocabulary


def merge(folder: Path, out: Path, model: str | None = None, dtype: Dtype = "float32") -> float:
    """Write base and adapter as one model into `out`, read it back and compare.

    The sum is made in float32, whatever the base is stored in.

    Returns:
        The largest difference of a logit to that of base and adapter in float32.

    Raises:
        ConfigError: `out` is not empty, or cannot be written.
        ModelError: no adapter in `folder`, the base cannot be loaded, or in float32 the logits
            differ by more than `LIMIT`; nothing is left in `out` then.
    """
    facts = read_adapter(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"{out}: not empty; choose another out")
    fresh = out.with_name(f".{out.name}.new")
    try:
        with quiet():
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(parents=True)
            source = resolve_model(base_name(facts, model))
            wanted = _write_sum(folder, source, fresh, facts, dtype)
            gap = _largest_gap(wanted, _logits(_load(fresh), facts["golden"]))
        if dtype == "float32" and not gap <= LIMIT:
            raise ModelError(
                f"{out}: merged logits differ by {gap:.2g}, more than {LIMIT:g}; nothing is kept"
            )
        if out.exists():
            out.rmdir()
        fresh.rename(out)
    except OSError as error:
        raise ConfigError(f"{out}: cannot write: {error.strerror or error}; make room") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return gap


def _write_sum(
    folder: Path, source: Path, fresh: Path, facts: Mapping[str, Any], dtype: Dtype
) -> list[torch.Tensor]:
    """Save the sum with tokenizer and template; returns the logits of base and adapter."""
    import torch
    from peft import PeftModel
    from safetensors import SafetensorError

    try:
        adapted = PeftModel.from_pretrained(_load(source), str(folder))
        wanted = _logits(adapted, facts["golden"])
        merged = adapted.merge_and_unload(safe_merge=True)
    except (ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: cannot be merged ({first_line(error)})") from error
    merged.to(getattr(torch, dtype)).save_pretrained(fresh)
    for name in facts["files"]:
        if name not in (WEIGHTS, ADAPTER_CONFIG):
            shutil.copyfile(folder / Path(name).name, fresh / Path(name).name)
    return wanted


def _load(folder: Path) -> Any:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True
        ).eval()
    except (ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: cannot load the model ({first_line(error)})") from error


def _logits(model: Any, conversations: Sequence[Mapping[str, Any]]) -> list[torch.Tensor]:
    return [last_logits(model, one["prompt_ids"], POSITIONS) for one in conversations[:PROMPTS]]


def _largest_gap(wanted: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(wanted, found, strict=True))
