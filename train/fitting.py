"""What all training runs do alike: quiet libraries, base model, TRL's arguments, their end."""

from __future__ import annotations

import importlib.util
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.train.checkpoints import last_checkpoint, trim_metrics
from breadcrumbs.train.config import RunConfig
from breadcrumbs.train.run import CHECKPOINTS, GAPS, METRICS, ROLLOUTS

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


def load_base(folder: Path | str, config: RunConfig) -> Any:
    """The model in `folder`, in the dtype or the 4 bits that `config` says.

    Raises:
        ConfigError: 4 bits are asked for and bitsandbytes is not installed.
        ModelError: it cannot be loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM

    settings = {"dtype": getattr(torch, config.dtype), **_quantized(config)}
    try:
        return AutoModelForCausalLM.from_pretrained(folder, **settings)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{config.model}: cannot load the model: {reason}") from error


def _quantized(config: RunConfig) -> dict[str, Any]:
    """What `from_pretrained` must be told for QLoRA; the settings are those of its paper."""
    if config.quantization is None:
        return {}
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigError(
            "quantization: nf4 needs bitsandbytes: pip install 'breadcrumbs[quantize]'"
        )
    import torch
    from transformers import BitsAndBytesConfig

    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type=config.quantization,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=getattr(torch, config.dtype),
    )
    local = int(os.environ.get("LOCAL_RANK", "0"))
    place = local if torch.cuda.is_available() else "cpu"
    return {"quantization_config": settings, "device_map": {"": place}}


def check_devices() -> None:
    """One process trains on one GPU.

    Raises:
        ConfigError: it sees several and no launcher gave it one of them.
    """
    import torch

    seen = torch.cuda.device_count()
    if seen > 1 and "LOCAL_RANK" not in os.environ:
        raise ConfigError(
            f"{seen} GPUs and one process: start it with scripts/launch/accelerate.sh, "
            "or set CUDA_VISIBLE_DEVICES=0"
        )


def shared_arguments(config: RunConfig) -> dict[str, Any]:
    """The arguments that all of TRL's trainers take; defaults that could cut or reorder are set."""
    import torch

    on_gpu = torch.cuda.is_available()
    checkpointing = config.gradient_checkpointing
    return {
        "output_dir": str(Path(config.out) / CHECKPOINTS),
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
        "bf16": config.dtype == "bfloat16",
        "gradient_checkpointing": on_gpu if checkpointing is None else checkpointing,
        "save_steps": config.save_every,
        "save_total_limit": 2,
        "logging_steps": config.log_every,
        "logging_nan_inf_filter": False,
        "dataloader_pin_memory": on_gpu,
        "disable_tqdm": True,
        "report_to": "none",
    }


UNCUT: Mapping[str, Any] = MappingProxyType({"max_length": None})
"""For trainers that read rows: the default of 1024 cuts the end, where the decision stands."""


def leave_casts_to_autocast(model: Any) -> None:
    """Keep PEFT from widening every layer's input to the adapter's float32.

    Autocast narrows it again right away, to the very same numbers: two copies of each input,
    an eighth of a training step on two cores. The model then only runs under autocast.
    """
    from peft.tuners.lora import LoraLayer

    for module in model.modules():
        if isinstance(module, LoraLayer):
            module.cast_input_dtype_enabled = False


def train_and_publish(
    trainer: Any,
    renderer: Renderer,
    config: RunConfig,
    rows: Sequence[Mapping[str, Any]],
    generates: bool = False,
) -> None:
    """Train to the end, on from the last whole checkpoint if there is one, and publish.

    A trainer that `generates` runs the model outside autocast too.
    """
    from breadcrumbs.train.gaps import GapCallback, held_out
    from breadcrumbs.train.golden import golden
    from breadcrumbs.train.serving import publish

    out = Path(config.out)
    golden(renderer, rows)  # what cannot be published is said now, not after the last step
    main_process = trainer.is_world_process_zero()
    with trainer.args.main_process_first(local=False):  # it removes what is half-written
        checkpoint = last_checkpoint(out / CHECKPOINTS)
        if main_process:
            for name in (METRICS, ROLLOUTS, GAPS):
                trim_metrics(out / name, checkpoint)
    if sides := held_out(config, renderer):
        trainer.add_callback(GapCallback(out / GAPS, sides))
    if not generates:
        leave_casts_to_autocast(trainer.model)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    publish(trainer.model, renderer, config, rows, out, main_process)
    if main_process:
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
