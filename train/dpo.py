"""Preference training from an adapter: the call over a stall, the question over an invention.

TRL's `DPOTrainer` with one change: it is given token ids, made by the rendering that serves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ConfigError, ModelError, PreflightError
from breadcrumbs.train.adapter import folder_fault
from breadcrumbs.train.config import DpoConfig
from breadcrumbs.train.fitting import (
    check_devices,
    load_base,
    quiet_libraries,
    shared_arguments,
    train_and_publish,
)
from breadcrumbs.train.run import METRICS, SERVING, claim, run_identity

if TYPE_CHECKING:
    from breadcrumbs.data_gen.pairs import Pair
    from breadcrumbs.progress import Report
    from breadcrumbs.rendering import Renderer
    from breadcrumbs.train.pairs import PairExample

REFERENCE = "ref"
"""What TRL calls the frozen copy of the adapter."""
_COLUMNS = ("prompt_ids", "chosen_ids", "rejected_ids")


def train_dpo(config: DpoConfig, progress: Report | None = None) -> Path:
    """Preflight every pair, train on from the adapter, publish; returns the new one's folder.

    A finished run is left alone; an interrupted one goes on from its last whole checkpoint.

    Raises:
        ConfigError: no adapter to go on from, one of another base, or `out` holds another run.
        DataError: the data is missing, gives no pairs, or has changed since `out` was begun.
        PreflightError: a pair would not train what it says.
        ModelError: the model cannot be loaded, or the loss is not finite.
    """
    out = Path(config.out)
    identity = run_identity(config)
    _check_adapter(config)
    check_devices()
    if claim(out, identity):
        return out

    from breadcrumbs.memory import keep_freed_memory
    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train.pairs import read_pairs

    keep_freed_memory()
    pairs = read_pairs(config)
    folder = resolve_model(config.model)
    with quiet_libraries():
        fit_pairs(config, pairs, folder, load_renderer(folder), progress)
    return out


def _check_adapter(config: DpoConfig) -> None:
    from breadcrumbs.models import base_identity

    path = Path(config.adapter) / SERVING
    base = json.loads(path.read_text(encoding="utf-8")).get("base")
    if base != base_identity(config.model):
        raise ConfigError(f"{path}: trained on {base}, not on {config.model}; name its own model")
    if reason := folder_fault(Path(config.adapter)):
        raise PreflightError(f"preflight: {config.adapter}: {reason}; go on from another adapter")


def fit_pairs(
    config: DpoConfig,
    pairs: Sequence[Pair],
    folder: Path | str,
    renderer: Renderer,
    progress: Report | None = None,
) -> None:
    """Train the model in `folder` with the adapter on `pairs`; publish into `config.out`."""
    from breadcrumbs.train.pairs import preflight_pairs

    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    examples = preflight_pairs(pairs, renderer, config)
    trainer = build_trainer(config, folder, renderer, examples, out / METRICS, progress)
    train_and_publish(trainer, renderer, config, [pair.row.to_record() for pair in pairs])


def build_trainer(
    config: DpoConfig,
    folder: Path | str,
    renderer: Renderer,
    examples: Sequence[PairExample],
    metrics_path: Path,
    progress: Report | None = None,
) -> Any:
    """Model, adapter, its frozen copy and trainer; heavy libraries load here."""
    import torch
    from datasets import Dataset
    from peft import PeftModel
    from transformers import PrinterCallback, set_seed
    from trl import DPOTrainer

    from breadcrumbs.train.batches import TwinSampler
    from breadcrumbs.train.checkpoints import WholeCheckpoints
    from breadcrumbs.train.trainer import LogCallback, ProgressCallback, not_finite

    class PairTrainer(WholeCheckpoints, DPOTrainer):  # type: ignore[misc]  # trl has no types
        """Pairs of twins in one batch; the ids stay as they were checked."""

        def compute_loss(self, model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
            """TRL's loss; one that is no number ends the run, with the batch saved."""
            found = super().compute_loss(model, inputs, *rest, **more)
            loss = found[0] if isinstance(found, tuple) else found
            if not torch.isfinite(loss):
                batch = {name: tensor.tolist() for name, tensor in inputs.items()}
                raise not_finite(self, metrics_path, batch, f"{len(inputs['input_ids'])} sides")
            return found

        def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
            return dataset

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            twins = [example.twin for example in examples]
            return TwinSampler(twins, self.args.per_device_train_batch_size, self.args.seed)

    set_seed(config.seed)
    arguments = trainer_arguments(config)  # before the model, as in supervised training
    base = load_base(folder, config)
    try:
        model = PeftModel.from_pretrained(base, config.adapter, is_trainable=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{config.adapter}: cannot load the adapter: {reason}") from error
    # A published adapter names its base by a hash; checkpoints look for the base's config there.
    model.peft_config["default"].base_model_name_or_path = str(folder)
    rows = {name: [list(getattr(one, name)) for one in examples] for name in _COLUMNS}
    callbacks: list[Any] = [LogCallback(metrics_path)]
    trainer = PairTrainer(
        model=model,
        args=arguments,
        train_dataset=Dataset.from_dict(rows),
        processing_class=renderer.tokenizer,
        callbacks=[*callbacks, ProgressCallback(progress)] if progress else callbacks,
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def trainer_arguments(config: DpoConfig) -> Any:
    """TRL's arguments; the losses and their weights."""
    from trl import DPOConfig

    losses = dict(_losses(config))
    return DPOConfig(
        **shared_arguments(config),
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
