"""One supervised run, from a config to a published adapter: data, model, loop, save."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.fitting import (
    UNCUT,
    check_devices,
    load_base,
    quiet_libraries,
    shared_arguments,
    train_and_publish,
)
from breadcrumbs.train.run import METRICS, claim, run_identity

if TYPE_CHECKING:
    from breadcrumbs.progress import Report
    from breadcrumbs.rendering import Renderer
    from breadcrumbs.train.batches import Example


def train_sft(config: TrainConfig, progress: Report | None = None) -> Path:
    """Preflight every row, train, publish; returns the adapter's folder.

    A finished run with the same settings and data is left alone; an interrupted one goes on
    from its last whole checkpoint to the same losses.

    Raises:
        ConfigError: `out` holds a run with other settings, or cannot be written.
        DataError: the data is missing, or differs from what `out` was started with.
        PreflightError: a row would not train what it says.
        ModelError: the model cannot be loaded, or the loss is not finite.
    """
    out = Path(config.out)
    identity = run_identity(config)
    check_devices()
    if claim(out, identity):
        return out

    from breadcrumbs.memory import keep_freed_memory
    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train.rows import read_rows

    keep_freed_memory()
    rows = read_rows(config)
    folder = resolve_model(config.model)
    with quiet_libraries():
        fit(config, rows, folder, load_renderer(folder), progress)
    return out


def fit(
    config: TrainConfig,
    rows: Sequence[Mapping[str, Any]],
    folder: Path | str,
    renderer: Renderer,
    progress: Report | None = None,
) -> None:
    """Train the model in `folder` on `rows` and publish into `config.out`, resuming there.

    Raises:
        PreflightError: a row would not train what it says.
        ModelError: the loss is not finite.
    """
    from breadcrumbs.train.preflight import preflight, verify_dataset

    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    examples = preflight(rows, renderer, config).examples
    trainer = build_trainer(config, folder, renderer, examples, out / METRICS, progress)
    verify_dataset(rows, examples, trainer.train_dataset)
    train_and_publish(trainer, renderer, config, rows)


def build_trainer(
    config: TrainConfig,
    folder: Path | str,
    renderer: Renderer,
    examples: Sequence[Example],
    metrics_path: Path | None,
    progress: Report | None = None,
) -> Any:
    """Model, adapter and trainer for a run, seeded; heavy libraries load here."""
    import torch
    from transformers import PrinterCallback, set_seed

    from breadcrumbs.attention import supports_branches, use_branches
    from breadcrumbs.train.adapter import lora
    from breadcrumbs.train.trainer import DecisionTrainer, Objective, ProgressCallback

    set_seed(config.seed)
    # Before the model: they set up the processes, and with FSDP only the first loads weights.
    arguments = trainer_arguments(config)
    model = load_base(folder, config)
    # On a GPU the model's own fused attention is faster than sharing the rows' beginning.
    packed = not torch.cuda.is_available() and supports_branches(model.config)
    if packed:
        use_branches(model)
    trainer = DecisionTrainer(
        examples=examples,
        objective=Objective(config.decision_weight),
        metrics_path=metrics_path,
        pad_id=renderer.stop_ids[0],  # any token will do where no label stands
        packed=packed,
        model=model,
        args=arguments,
        peft_config=lora(config.adapter),
        processing_class=renderer.tokenizer,
        callbacks=[ProgressCallback(progress)] if progress else [],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def trainer_arguments(config: TrainConfig) -> Any:
    """TRL's arguments; the rows are tokens already."""
    from trl import SFTConfig

    return SFTConfig(
        **shared_arguments(config),
        **UNCUT,
        dataset_kwargs={"skip_prepare_dataset": True},
        per_device_train_batch_size=config.batch_rows,
    )
