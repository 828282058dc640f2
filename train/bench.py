"""Rows a second against stock `SFTTrainer`, both sides taking turns in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from breadcrumbs.train.batches import Example, build_example, twin_order
from breadcrumbs.train.config import TrainConfig

GAP_BATCHES = 2


@dataclass(frozen=True, slots=True)
class TrainBench:
    """Medians over `n` steps each; decision weight off on both sides."""

    rows_per_s: float
    stock_rows_per_s: float
    loss_gap: float
    """Largest difference of the two losses on one batch in float32, before either has moved."""
    loss_gap_bf16: float
    """The same in bfloat16, where the two attention kernels round in their own ways."""
    n: int

    @property
    def ratio(self) -> float:
        """Ours over stock; above 1 is faster."""
        return self.rows_per_s / self.stock_rows_per_s


def train_rows(
    model: str | Path, rows: Sequence[Mapping[str, Any]], n: int = 5, *, batch_rows: int = 2
) -> TrainBench:
    """Train both sides on the same batches, step by step in turn, and compare.

    Args:
        model: a model's name or folder, as in a training config.
        rows: records of a data set; enough for one batch at least.
        n: timed steps of each side, after one untimed.
        batch_rows: rows in a batch.
    """
    import torch

    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train.fitting import leave_casts_to_autocast, quiet_libraries
    from breadcrumbs.train.sft import build_trainer

    folder = resolve_model(str(model))
    renderer = load_renderer(folder)
    examples = [build_example(row, renderer) for row in rows]
    config = TrainConfig(
        data="bench", out="bench", steps=n + 1, warmup=0, decision_weight=0.0, batch_rows=batch_rows
    )
    with quiet_libraries():
        ours = build_trainer(config, folder, renderer, examples, None)
        stock = _stock_trainer(config, folder, renderer, examples)
        sides = (ours, stock)
        batches = [_batches(side, examples, batch_rows) for side in sides]
        gap = _loss_gap(sides, batches, "float32")
        gap_bf16 = _loss_gap(sides, batches, "bfloat16")
        leave_casts_to_autocast(ours.model)
        with torch.autocast("cpu", dtype=torch.bfloat16):  # as both trainers run the model
            times = _interleave(sides, batches, n)
    mine, theirs = (batch_rows / statistics.median(side[1:]) for side in times)
    return TrainBench(mine, theirs, gap, gap_bf16, n)


def _stock_trainer(
    config: TrainConfig, folder: Path | str, renderer: Any, examples: Sequence[Example]
) -> Any:
    """TRL as it comes, at the settings that suit it best here: no checkpointing, bf16."""
    import torch
    from transformers import AutoModelForCausalLM, set_seed
    from trl import SFTTrainer

    from breadcrumbs.train.adapter import lora
    from breadcrumbs.train.batches import to_dataset
    from breadcrumbs.train.sft import trainer_arguments

    set_seed(config.seed)
    return SFTTrainer(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16),
        args=replace(trainer_arguments(config), remove_unused_columns=True),
        train_dataset=to_dataset(examples),
        peft_config=lora(config.adapter),
        processing_class=renderer.tokenizer,
    )


def _batches(side: Any, examples: Sequence[Example], batch_rows: int) -> Iterator[dict[str, Any]]:
    order = twin_order([example.twin for example in examples], batch_rows, 0)
    whole = len(order) // batch_rows * batch_rows
    while True:
        for at in range(0, whole, batch_rows):
            picked = [side.train_dataset[index] for index in order[at : at + batch_rows]]
            yield side._prepare_inputs(side.data_collator(picked))


def _loss_gap(sides: Sequence[Any], batches: Sequence[Iterator[Any]], dtype: str) -> float:
    import torch

    for side in sides:
        for parameter in side.model.parameters():
            if not parameter.requires_grad:  # the adapter is float32 throughout
                parameter.data = parameter.data.to(getattr(torch, dtype))
    gaps = []
    for _ in range(GAP_BATCHES):
        inputs = [next(batch) for batch in batches]
        with torch.no_grad():
            ours, theirs = (
                float(side.compute_loss(side.model.train(), dict(batch)))
                for side, batch in zip(sides, inputs, strict=True)
            )
        gaps.append(abs(ours - theirs))
    return max(gaps)


def _interleave(
    sides: Sequence[Any], batches: Sequence[Iterator[Any]], n: int
) -> list[list[float]]:
    for side in sides:
        side.create_optimizer_and_scheduler(n + 1)
        side.current_gradient_accumulation_steps = 1  # else set by the loop we stand in for
    times: list[list[float]] = [[] for _ in sides]
    for _ in range(n + 1):  # the first is untimed: it fills caches
        for side, batch, spent in zip(sides, batches, times, strict=True):
            inputs = next(batch)
            began = time.perf_counter()
            side.training_step(side.model, inputs)
            side.optimizer.step()
            side.optimizer.zero_grad()
            spent.append(time.perf_counter() - began)
    return times
