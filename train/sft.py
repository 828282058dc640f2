"""One supervised run, from a config to a published adapter: data, model, loop, save."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ModelError
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.run import (
    CHECKPOINTS,
    METRICS,
    claim,
    last_checkpoint,
    run_identity,
    trim_metrics,
)

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
    if claim(out, run_identity(config)):
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
    from breadcrumbs.train.serving import publish

    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    examples = preflight(rows, renderer, config).examples
    trainer = build_trainer(config, folder, renderer, examples, out / METRICS, progress)
    verify_dataset(rows, examples, trainer.train_dataset)
    checkpoint = last_checkpoint(out / CHECKPOINTS)
    trim_metrics(out / METRICS, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.is_world_process_zero():
        publish(trainer.model, renderer, config, rows, out)
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep the libraries' bars, notes and deprecations of each other off the user's screen."""
    from breadcrumbs.models import quiet

    with quiet(), warnings.catch_warnings():
        # TRL 1.16 still uses a name that transformers 5.24 renamed.
        warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)
        yield


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
    from transformers import AutoModelForCausalLM, PrinterCallback, set_seed

    from breadcrumbs.train.adapter import lora
    from breadcrumbs.train.attention import supports_branches, use_branches
    from breadcrumbs.train.trainer import DecisionTrainer, Objective, ProgressCallback

    set_seed(config.seed)
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{config.model}: cannot load the model: {reason}") from error
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
        args=trainer_arguments(config),
        peft_config=lora(config.adapter),
        processing_class=renderer.tokenizer,
        callbacks=[ProgressCallback(progress)] if progress else [],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def trainer_arguments(config: TrainConfig) -> Any:
    """TRL's arguments; every default that could cut, mask or reorder rows is set here."""
    import torch
    from trl import SFTConfig

    on_gpu = torch.cuda.is_available()
    checkpointing = config.gradient_checkpointing
    return SFTConfig(
        output_dir=str(Path(config.out) / CHECKPOINTS),
        max_length=None,  # the default of 1024 cuts the end, where the decision stands
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        per_device_train_batch_size=config.batch_rows,
        gradient_accumulation_steps=config.grad_accum,
        learning_rate=config.learning_rate,
        lr_scheduler_type=config.schedule,
        warmup_steps=config.warmup,
        max_grad_norm=config.clip,
        max_steps=config.steps or -1,
        num_train_epochs=config.epochs or 1.0,
        seed=config.seed,
        use_cpu=not on_gpu,
        # Autocast also runs the fp32 adapter's small products in bf16: a tenth faster on CPU.
        bf16=True,
        gradient_checkpointing=on_gpu if checkpointing is None else checkpointing,
        save_steps=config.save_every,
        save_total_limit=2,
        logging_steps=config.log_every,
        logging_nan_inf_filter=False,
        dataloader_pin_memory=on_gpu,
        disable_tqdm=True,
        report_to="none",
    )
