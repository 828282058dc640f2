"""TRL's `SFTTrainer` with two changes: the loss, and the order of the rows.

The choice between acting and asking is one token in sixty. In a plain mean a coin flip on
it costs 0.012 and drowns; here its loss has a weight of its own and is logged by behaviour.
Imports torch and trl at the top: import this module only where training runs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from transformers import PrinterCallback, TrainerCallback
from trl import SFTTrainer

from breadcrumbs.attention import branches_of
from breadcrumbs.errors import ModelError
from breadcrumbs.files import write_text
from breadcrumbs.train.batches import (
    BEHAVIOURS,
    IGNORED,
    Example,
    TwinSampler,
    pack_rows,
    pad_rows,
    to_dataset,
)
from breadcrumbs.train.checkpoints import WholeCheckpoints

if TYPE_CHECKING:
    from breadcrumbs.progress import Report

FAILED_BATCH = "failed_batch{}.json"


@dataclass(frozen=True, slots=True)
class Objective:
    """How token losses become one number: `(1 - weight) * tokens + weight * decisions`."""

    decision_weight: float = 0.5


class _Sums:
    """What the steps since the last log line add up to."""

    def __init__(self) -> None:
        self.tokens = 0
        self.labels = 0
        self.began = time.monotonic()
        self.token_loss = 0.0
        self.decisions: dict[int, list[float]] = {}

    def line(self) -> dict[str, Any]:
        """The log line's own figures; decision losses are means by behaviour, in nats."""
        every = [loss for losses in self.decisions.values() for loss in losses]
        return {
            "token_loss": self.token_loss / max(self.labels, 1),
            "decision_loss": sum(every) / len(every) if every else None,
            "decision_loss_by_behaviour": {
                BEHAVIOURS[code]: sum(losses) / len(losses)
                for code, losses in sorted(self.decisions.items())
            },
            "tokens_per_s": self.tokens / max(time.monotonic() - self.began, 1e-9),
        }


class DecisionTrainer(WholeCheckpoints, SFTTrainer):  # type: ignore[misc]  # trl has no types
    """Rows that hold a decision: twins in one batch, the decision token weighed.

    Logits are made at labelled positions only. `packed` rows share their common beginning and
    need a model that was switched to `attention.use_branches`. With `decision_weight=0` the
    loss is that of `SFTTrainer` on the same rows.
    """

    def __init__(
        self,
        *,
        examples: Sequence[Example],
        objective: Objective,
        metrics_path: Path | None = None,
        pad_id: int,
        packed: bool = False,
        **trainer: Any,
    ) -> None:
        self._examples = examples
        self._objective = objective
        self._metrics_path = metrics_path
        self._sums = _Sums()
        self._packed = packed
        self._selected: torch.Tensor | None = None
        self._began: tuple[float, int] | None = None
        super().__init__(
            train_dataset=to_dataset(examples),
            data_collator=pack_rows if packed else partial(pad_rows, pad_id=pad_id),
            **trainer,
        )
        # Asking the model's own forward for everything but the positions keeps DDP, FSDP and
        # PEFT wrappers working: only the head's input is narrowed, from (B, T, H) to (N, H).
        self.model.get_output_embeddings().register_forward_pre_hook(self._select)

    def _select(self, _head: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self._selected is None:
            return None
        return (inputs[0][self._selected], *inputs[1:])

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        twins = [example.twin for example in self._examples]
        return TwinSampler(twins, self.args.per_device_train_batch_size, self.args.seed)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """The weighed loss of one micro-batch, scaled as the trainer expects.

        Raises:
            ModelError: the loss is not finite; the batch is saved first.
        """
        if self._began is None:
            self._began = (time.monotonic(), self.state.global_step)
        labels = inputs["labels"]
        targets = labels.roll(-1, dims=1)  # (B, T): position t predicts token t + 1
        targets[:, -1] = IGNORED
        self._selected = targets != IGNORED
        try:
            logits = self._logits(model, inputs)  # (N, V)
        finally:
            mask, self._selected = self._selected, None
        losses = functional.cross_entropy(logits.float(), targets[mask], reduction="none")
        deciding = torch.zeros_like(mask)
        deciding.view(-1)[inputs["deciding"] - 1] = True
        decisions = _by_row(losses[deciding[mask]], inputs["deciding_row"])  # (B,)

        items = losses.numel() if num_items_in_batch is None else num_items_in_batch
        steps = 1 if num_items_in_batch is None else self.current_gradient_accumulation_steps
        tokens = losses.sum() / items
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            tokens = tokens * self.accelerator.num_processes
        weight = self._objective.decision_weight
        loss = (1 - weight) * tokens + weight * decisions.mean() / steps
        if not torch.isfinite(loss):
            self._refuse(inputs, losses)
        self._count(inputs, losses, decisions)
        return loss

    def _logits(self, model: Any, inputs: dict[str, torch.Tensor]) -> Any:
        shape: dict[str, Any] = {}
        if self._packed:
            shape["branches"], shape["prefix"] = branches_of(inputs["position_ids"])
        return model(
            input_ids=inputs["input_ids"],
            position_ids=inputs["position_ids"],
            use_cache=False,
            **shape,
        ).logits

    def _count(
        self, inputs: dict[str, torch.Tensor], losses: torch.Tensor, decisions: torch.Tensor
    ) -> None:
        sums = self._sums
        sums.tokens += sum(len(self._examples[row].ids) for row in inputs["row"].tolist())
        sums.labels += losses.numel()
        sums.token_loss += losses.detach().sum().item()
        pairs = zip(inputs["behaviour"].tolist(), decisions.detach().tolist(), strict=True)
        for code, value in pairs:
            sums.decisions.setdefault(code, []).append(value)

    def _refuse(self, inputs: dict[str, torch.Tensor], losses: torch.Tensor) -> None:
        rows = [self._examples[row] for row in inputs["row"].tolist()]
        body = {
            "not_finite": int((~torch.isfinite(losses)).sum()),
            "rows": [asdict(row) for row in rows],
        }
        names = ", ".join(row.id for row in rows)
        raise not_finite(self, self._metrics_path, body, f"rows {names}")

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Add this project's figures to a training log line and append it to `metrics.jsonl`."""
        if "loss" in logs:
            line = {
                "step": self.state.global_step,
                **logs,
                **self._sums.line(),
                "eta_s": self._eta(),
            }
            self._sums = _Sums()
            if self._metrics_path is not None and self.is_world_process_zero():
                with self._metrics_path.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(line) + "\n")
            logs = {key: value for key, value in line.items() if isinstance(value, float)}
        super().log(logs, start_time)

    def _eta(self) -> float:
        """Seconds left at the pace of this process so far."""
        began, first = self._began or (time.monotonic(), self.state.global_step)
        done = self.state.global_step
        pace: float = (time.monotonic() - began) / max(done - first, 1)
        return pace * float(self.state.max_steps - done)


class PairTraining(WholeCheckpoints):
    """Put before one of TRL's preference trainers among the bases.

    Pairs of twins share a batch, ids stay as they were checked, and a loss that is no number ends
    the run with the batch saved.
    """

    def __init__(
        self, *, twins: Sequence[str], metrics_path: Path, progress: Report | None, **trainer: Any
    ) -> None:
        self._twins, self._metrics_path = twins, metrics_path
        more = {"callbacks": plain_callbacks(metrics_path, progress), **trainer}
        super().__init__(**more)
        self.remove_callback(PrinterCallback)  # type: ignore[attr-defined]  # the trainer's

    def compute_loss(self, model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
        """The trainer's loss, once it is known to be a number."""
        found = super().compute_loss(model, inputs, *rest, **more)  # type: ignore[misc]
        loss = found[0] if isinstance(found, tuple) else found
        if not torch.isfinite(loss):
            batch = {name: tensor.tolist() for name, tensor in inputs.items()}
            sides = f"{len(inputs['input_ids'])} sides"
            raise not_finite(self, self._metrics_path, batch, sides)
        return found

    def _prepare_dataset(self, dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        return TwinSampler(self._twins, self.args.per_device_train_batch_size, self.args.seed)


def plain_callbacks(metrics_path: Path, progress: Report | None) -> list[Any]:
    """What a trainer of TRL's is given: its log lines are kept, and progress is told."""
    log = LogCallback(metrics_path)
    return [log, ProgressCallback(progress)] if progress else [log]


def not_finite(
    trainer: Any, metrics_path: Path | None, batch: dict[str, Any], names: str
) -> ModelError:
    """The error that ends a run whose loss is no number, after the batch is saved."""
    step, where = trainer.state.global_step + 1, "in memory only"
    if metrics_path is not None:
        rank = trainer.args.process_index
        path = metrics_path.with_name(FAILED_BATCH.format(f"_{rank}" if rank else ""))
        write_text(path, json.dumps({"step": step, **batch}) + "\n")
        where = f"saved in {path}"
    return ModelError(
        f"step {step}: the loss is not a finite number ({names}, {where}); lower learning_rate or "
        "clip and start again in a new out"
    )


def _by_row(losses: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Means of the losses (M,) by the row each belongs to: (B,)."""
    count = int(rows.max()) + 1
    sums = losses.new_zeros(count).index_add(0, rows, losses)
    return sums / torch.bincount(rows, minlength=count)


class ProgressCallback(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Tells a `Report` after every optimiser step where training stands."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Report steps done of all, with the newest logged losses."""
        last = state.log_history[-1] if state.log_history else {}
        figures = [f"{k} {last[k]:.3f}" for k in ("loss", "decision_loss") if k in last]
        self._report(state.global_step, state.max_steps, ", ".join(figures))


class LogCallback(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Appends every training log line of a stock trainer to `metrics.jsonl`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write the line."""
        if logs and "loss" in logs and state.is_world_process_zero:
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps({"step": state.global_step, **logs}) + "\n")
