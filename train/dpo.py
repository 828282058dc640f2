"""Preference training from an adapter: the call over a stall, the question over an invention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.train.config import DpoConfig
from breadcrumbs.train.continuing import load_adapted
from breadcrumbs.train.fitting import UNCUT, shared_arguments
from breadcrumbs.train.preference import train_on_pairs

if TYPE_CHECKING:
    from breadcrumbs.progress import Report
    from breadcrumbs.rendering import Renderer
    from breadcrumbs.train.pairs import PairExample

_COLUMNS = ("prompt_ids", "chosen_ids", "rejected_ids")


def train_dpo(config: DpoConfig, progress: Report | None = None) -> Path:
    """Train with TRL's `DPOTrainer`; see `train_on_pairs`."""
    return train_on_pairs(config, build_trainer, progress)


def build_trainer(
    config: DpoConfig,
    folder: Path | str,
    renderer: Renderer,
    examples: Sequence[PairExample],
    metrics_path: Path,
    progress: Report | None = None,
) -> Any:
    """Model, adapter, its frozen copy and trainer; heavy libraries load here."""
    from datasets import Dataset
    from transformers import set_seed
    from trl import DPOTrainer

    from breadcrumbs.train.trainer import PairTraining

    class PairTrainer(PairTraining, DPOTrainer):  # type: ignore[misc]  # trl has no types
        """DPO on ids that stay as they were checked."""

    set_seed(config.seed)
    arguments = trainer_arguments(config)  # before the model, as in supervised training
    rows = {name: [list(getattr(one, name)) for one in examples] for name in _COLUMNS}
    return PairTrainer(
        twins=[example.twin for example in examples],
        metrics_path=metrics_path,
        progress=progress,
        model=load_adapted(config, folder),
        args=arguments,
        train_dataset=Dataset.from_dict(rows),
        processing_class=renderer.tokenizer,
    )


def trainer_arguments(config: DpoConfig) -> Any:
    """TRL's arguments; the losses and their weights."""
    from trl import DPOConfig

    losses = dict(_losses(config))
    return DPOConfig(
        **shared_arguments(config),
        **UNCUT,
        beta=config.beta,
        loss_type=list(losses),
        loss_weights=list(losses.values()),
        per_device_train_batch_size=config.batch_pairs,
    )


def _losses(config: DpoConfig) -> Iterator[tuple[str, float]]:
    """Per token, since a long stall would outweigh a short call; and the anchor."""
    yield "sigmoid_norm", 1.0
    if config.anchor:
        yield "sft", config.anchor
