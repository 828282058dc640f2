"""One supervised run, from a config to a published adapter: config, data, model, loop, save.

A run owns its `out` folder. `run.json` says what was asked for; checkpoints lie in
`checkpoints/` until the adapter is published; `serving.json`, written last, says it is whole.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.config import to_dict
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.train.config import TrainConfig

if TYPE_CHECKING:
    from breadcrumbs.progress import Report
    from breadcrumbs.rendering import Renderer
    from breadcrumbs.train.batches import Example

RUN = "run.json"
METRICS = "metrics.jsonl"
CHECKPOINTS = "checkpoints"
SERVING = "serving.json"
_LIBRARIES = ("torch", "transformers", "trl", "peft", "datasets", "accelerate")
# Keys that change where or how often things are written, not what is trained.
_INDIFFERENT = frozenset({"out", "save_every", "log_every"})


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
    if claim(out, identity, config):
        return out

    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train.preflight import preflight
    from breadcrumbs.train.serving import publish

    folder = resolve_model(config.model)
    renderer = load_renderer(folder)
    rows = read_rows(config)
    checked = preflight(rows, renderer, config)
    trainer = build_trainer(config, folder, renderer, checked.examples, out / METRICS, progress)
    checkpoint = last_checkpoint(out / CHECKPOINTS)
    trim_metrics(out / METRICS, checkpoint)
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if trainer.is_world_process_zero():
        publish(trainer.model, renderer, config, rows, out)
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    return out


def read_rows(config: TrainConfig) -> list[dict[str, Any]]:
    """The data set's rows of the config's split.

    Raises:
        DataError: no complete data set there, or no such row.
    """
    from breadcrumbs.data_gen.dataset import load_rows

    rows = [dict(row) for row in load_rows(Path(config.data)) if row["split"] == config.split]
    if not rows:
        raise DataError(f"{config.data}: no rows in split {config.split!r}; set split, or generate")
    return rows


def run_identity(config: TrainConfig) -> dict[str, Any]:
    """What makes two runs the same: settings that matter, and the bytes of the data.

    Raises:
        DataError: the data folder holds no Parquet file.
    """
    files = sorted(Path(config.data).rglob("*.parquet"))
    if not files:
        raise DataError(
            f"{config.data}: no data set here; run breadcrumbs generate --out {config.data}"
        )
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(config.data).as_posix().encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    settings = {key: value for key, value in to_dict(config).items() if key not in _INDIFFERENT}
    return {"settings": settings, "data_sha256": digest.hexdigest()}


def claim(out: Path, identity: dict[str, Any], config: TrainConfig) -> bool:
    """Take `out` for this run, or find that the run is finished there already (True).

    Raises:
        ConfigError: another run's folder, or not writable.
        DataError: the same settings, but the data has changed since.
    """
    path = out / RUN
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot read ({error}); remove {out} and start again") from error
    if known is not None:
        _compare(known, identity, out)
        return (out / SERVING).is_file()
    body = {**identity, "config": to_dict(config), "versions": versions()}
    try:
        out.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(f"{out}: cannot write here: {error.strerror}; choose another out") from error
    return False


def _compare(known: dict[str, Any], identity: dict[str, Any], out: Path) -> None:
    before, now = known.get("settings", {}), identity["settings"]
    if changed := sorted(k for k in {*before, *now} if before.get(k) != now.get(k)):
        raise ConfigError(
            f"{out}: holds a run with other settings ({', '.join(changed)}); "
            "choose another out, or remove the folder"
        )
    if known.get("data_sha256") != identity["data_sha256"]:
        raise DataError(
            f"{out}: was trained on data that has changed since; "
            "choose another out, or remove the folder"
        )


def versions() -> dict[str, str]:
    """Versions of the libraries that decide what comes out."""
    return {name: metadata.version(name) for name in _LIBRARIES}


def build_trainer(
    config: TrainConfig,
    folder: Path,
    renderer: Renderer,
    examples: Sequence[Example],
    metrics_path: Path | None,
    progress: Report | None = None,
) -> Any:
    """Model, adapter and trainer for a run, seeded; heavy libraries load here."""
    import torch
    from transformers import AutoModelForCausalLM, PrinterCallback, set_seed

    from breadcrumbs.train.trainer import DecisionTrainer, Objective, ProgressCallback

    set_seed(config.seed)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    trainer = DecisionTrainer(
        examples=examples,
        objective=Objective(config.decision_weight),
        metrics_path=metrics_path,
        pad_id=pad_id(renderer),
        model=model,
        args=trainer_arguments(config),
        peft_config=lora(config),
        processing_class=renderer.tokenizer,
        callbacks=[ProgressCallback(progress)] if progress else [],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def pad_id(renderer: Renderer) -> int:
    """Any token will do where no label stands; the tokenizer's own where it has one."""
    pad = renderer.tokenizer.pad_token_id
    return int(pad if pad is not None else renderer.stop_ids[0])


def lora(config: TrainConfig) -> Any:
    """The adapter as PEFT's config: plain LoRA, nothing a server cannot load."""
    from peft import LoraConfig

    adapter = config.adapter
    targets = adapter.targets if isinstance(adapter.targets, str) else list(adapter.targets)
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=adapter.rank,
        lora_alpha=adapter.alpha,
        lora_dropout=adapter.dropout,
        target_modules=targets,
        bias="none",
    )


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


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint; half-written ones are removed.

    The trainer writes `trainer_state.json` last, so one that parses marks a whole checkpoint.
    """
    whole: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        step = _step_of(path)
        if step is None:
            shutil.rmtree(path)
        else:
            whole.append((step, path))
    return max(whole)[1] if whole else None


def _step_of(checkpoint: Path) -> int | None:
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return int(state["global_step"])


def trim_metrics(path: Path, checkpoint: Path | None) -> None:
    """Drop log lines of steps that will be done again after a resume."""
    if not path.is_file():
        return
    reached = (_step_of(checkpoint) or 0) if checkpoint else 0
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            step = json.loads(line)["step"]
        except (ValueError, KeyError):
            continue  # the line that was being written when the run was stopped
        if step <= reached:
            kept.append(line + "\n")
    path.write_text("".join(kept), encoding="utf-8")
