"""What all training runs do alike: quiet libraries, base model, TRL's arguments, their end."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ModelError
from breadcrumbs.train.config import RunConfig
from breadcrumbs.train.run import CHECKPOINTS, METRICS, last_checkpoint, trim_metrics

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep the libraries' bars, notes and deprecations of each other off the user's screen."""
    from breadcrumbs.models import quiet

    with quiet(), warnings.catch_warnings():
        # TRL 1.16 still uses a name that transformers 5.24 renamed.
        warnings.filterwarnings("ignore", ".*gradient_checkpointing", FutureWarning)
        yield


def load_base(folder: Path | str, name: str) -> Any:
    """The model in `folder`, in bfloat16.

    Raises:
        ModelError: it cannot be loaded; `name` is what the user calls it.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{name}: cannot load the model: {reason}") from error


def shared_arguments(config: RunConfig) -> dict[str, Any]:
    """The arguments that all of TRL's trainers take; defaults that could cut or reorder are set."""
    import torch

    on_gpu = torch.cuda.is_available()
    checkpointing = config.gradient_checkpointing
    return {
        "output_dir": str(Path(config.out) / CHECKPOINTS),
        "max_length": None,  # the default of 1024 cuts the end, where the decision stands
        "remove_unused_columns": False,
        "gradient_accumulation_steps": config.grad_accum,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.schedule,
        "warmup_steps": config.warmup,
        "max_grad_norm": config.clip,
        "max_steps": config.steps or -1,
        "num_train_epochs": config.epochs or 1.0,
        "seed": config.seed,
        "use_cpu": not on_gpu,
        # Autocast also runs the fp32 adapter's small products in bf16: a tenth faster on CPU.
        "bf16": True,
        "gradient_checkpointing": on_gpu if checkpointing is None else checkpointing,
        "save_steps": config.save_every,
        "save_total_limit": 2,
        "logging_steps": config.log_every,
        "logging_nan_inf_filter": False,
        "dataloader_pin_memory": on_gpu,
        "disable_tqdm": True,
        "report_to": "none",
    }


def train_and_publish(
    trainer: Any, renderer: Renderer, config: RunConfig, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Train to the end, on from the last whole checkpoint if there is one, and publish."""
    from breadcrumbs.train.serving import publish

    out = Path(config.out)
    checkpoint = last_checkpoint(out / CHECKPOINTS)
    trim_metrics(out / METRICS, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    main_process = trainer.is_world_process_zero()
    publish(trainer.model, renderer, config, rows, out, main_process)
    if main_process:
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
