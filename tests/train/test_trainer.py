"""The loss against its definition and against TRL's, on a model of two layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ModelError
from breadcrumbs.train.batches import IGNORED, build_example, pack_rows, pad_rows, to_dataset
from breadcrumbs.train.config import TrainConfig

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")


@pytest.fixture
def examples(make_rows: Any, renderer: Any) -> list[Any]:
    return [build_example(row, renderer) for row in make_rows(4, 2)]


def trainer_for(
    folder: Path,
    renderer: Any,
    examples: list[Any],
    out: Path,
    metrics: Path | None = None,
    **keys: Any,
) -> Any:
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.sft import build_trainer

    config = TrainConfig(data="d", out=str(out), **{"steps": 4, "warmup": 0, **keys})
    with quiet_libraries():
        return build_trainer(config, folder, renderer, examples, metrics)


def loss_of(trainer: Any, examples: list[Any], picked: list[int], **rest: Any) -> Any:
    data = to_dataset(examples)
    batch = trainer.data_collator([data[index] for index in picked])
    return trainer.compute_loss(trainer.model.train(), batch, **rest)


def by_hand(trainer: Any, example: Any) -> tuple[list[float], float]:
    """Token losses of one row and its deciding tokens' mean, from full logits, one row alone."""
    import torch

    ids = torch.tensor([example.ids])
    with torch.no_grad():
        logits = trainer.model(input_ids=ids).logits[0].float()
    logged = torch.log_softmax(logits, dim=-1)
    at = [t for t in range(1, len(example.ids)) if example.labels[t] != IGNORED]
    losses = {t: -logged[t - 1, example.ids[t]].item() for t in at}
    deciding = [losses[place] for place in example.deciding]
    return list(losses.values()), sum(deciding) / len(deciding)


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_the_loss_is_what_its_definition_says(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path, weight: float
) -> None:
    trainer = trainer_for(model_folder, renderer, examples, tmp_path, decision_weight=weight)
    tokens, decisions = zip(*(by_hand(trainer, examples[i]) for i in (0, 1)), strict=True)
    flat = [loss for row in tokens for loss in row]
    expected = (1 - weight) * sum(flat) / len(flat) + weight * sum(decisions) / 2
    assert loss_of(trainer, examples, [0, 1]).item() == pytest.approx(expected, abs=2e-3)


def grads_of(trainer: Any, loss: Any) -> Any:
    import torch

    trainer.model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])


def test_without_the_weight_it_is_trl_loss(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path
) -> None:
    """Ours packs the rows behind one shared beginning; TRL pads them and masks the padding.

    In float32: two kernels round bfloat16 in their own ways.
    """
    import torch
    from trl import SFTTrainer

    trainer = trainer_for(model_folder, renderer, examples, tmp_path, decision_weight=0.0)
    stock_side = trainer_for(model_folder, renderer, examples, tmp_path / "stock")
    stock_side.model.get_base_model().set_attn_implementation("sdpa")
    trainer.model.float()
    stock_side.model.float()
    data = to_dataset(examples)
    batch = pad_rows([data[0], data[1]], pad_id=0)
    longest = batch["labels"].shape[1]
    stock = {
        "input_ids": batch["input_ids"],
        "labels": batch["labels"],
        "attention_mask": torch.tensor(
            [[1] * len(e.ids) + [0] * (longest - len(e.ids)) for e in examples[:2]]
        ),
    }
    ours = loss_of(trainer, examples, [0, 1])
    theirs = SFTTrainer.compute_loss(stock_side, stock_side.model.train(), stock)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-3)
    sides = grads_of(trainer, ours), grads_of(stock_side, theirs)
    assert torch.nn.functional.cosine_similarity(*sides, dim=0).item() > 0.999


@pytest.mark.parametrize("picked", [[0, 1], [0], [0, 1, 2, 3, 8]])
def test_packed_rows_have_the_loss_of_padded_ones(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path, picked: list[int]
) -> None:
    import torch

    trainer = trainer_for(model_folder, renderer, examples, tmp_path)
    data = to_dataset(examples)
    rows = [data[index] for index in picked]
    packed, padded = pack_rows(rows), pad_rows(rows, pad_id=0)
    if len(picked) > 1:
        assert packed["input_ids"].numel() < sum(len(examples[index].ids) for index in picked)
    trainer.model.float()
    with torch.no_grad():
        ours = trainer.compute_loss(trainer.model, packed)
        trainer.model.get_base_model().set_attn_implementation("sdpa")
        trainer._packed = False
        theirs = trainer.compute_loss(trainer.model, padded)
    assert ours.item() == pytest.approx(theirs.item(), abs=1e-3)


def test_accumulated_micro_batches_weigh_as_one(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path
) -> None:
    trainer = trainer_for(model_folder, renderer, examples, tmp_path, grad_accum=2)
    labels = [sum(label != IGNORED for label in e.labels[1:]) for e in examples[:4]]
    trainer.current_gradient_accumulation_steps = 2
    total = sum(labels)
    parts = [
        loss_of(trainer, examples, picked, num_items_in_batch=total).item()
        for picked in ([0, 1], [2, 3])
    ]
    whole = loss_of(trainer, examples, [0, 1, 2, 3]).item()
    assert sum(parts) == pytest.approx(whole, abs=2e-3)


def test_training_lowers_the_decision_loss_and_logs_it_by_behaviour(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path
) -> None:
    metrics = tmp_path / "metrics.jsonl"
    trainer = trainer_for(
        model_folder, renderer, examples, tmp_path, metrics, steps=30, learning_rate=2e-2
    )
    trainer.train()
    lines = [json.loads(line) for line in metrics.read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, 31))
    seen = {name for line in lines for name in line["decision_loss_by_behaviour"]}
    assert seen == {"dispatch", "clarify", "decline"}
    for line in lines:
        expected = 0.5 * line["token_loss"] + 0.5 * line["decision_loss"]
        assert line["loss"] == pytest.approx(expected, rel=1e-3)
        assert line["tokens_per_s"] > 0
        assert line["eta_s"] >= 0
    assert lines[-1]["decision_loss"] < lines[0]["decision_loss"] / 2


def test_twins_meet_in_one_batch(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path
) -> None:
    trainer = trainer_for(model_folder, renderer, examples, tmp_path)
    for batch in trainer.get_train_dataloader():
        twins = {examples[row].twin for row in batch["row"].tolist()}
        behaviours = {examples[row].behaviour for row in batch["row"].tolist()}
        assert len(twins) == 1 or behaviours == {"decline"}


def test_a_loss_that_is_not_finite_stops_with_the_batch_saved(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path
) -> None:
    import torch

    trainer = trainer_for(model_folder, renderer, examples, tmp_path, tmp_path / "metrics.jsonl")
    with torch.no_grad():
        for parameter in trainer.model.parameters():
            if parameter.requires_grad:
                parameter.fill_(float("nan"))
    with pytest.raises(ModelError, match=r"step 1: the loss is not a finite number \(rows "):
        trainer.train()
    saved = json.loads((tmp_path / "failed_batch.json").read_text())
    assert saved["step"] == 1
    assert len(saved["rows"]) == 2
    assert saved["rows"][0]["ids"]


def test_progress_is_reported_step_by_step(
    model_folder: Path, renderer: Any, examples: list[Any], tmp_path: Path
) -> None:
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.sft import build_trainer

    seen: list[tuple[int, int, str]] = []

    def report(done: int, total: int, note: str = "") -> None:
        seen.append((done, total, note))

    config = TrainConfig(data="d", out=str(tmp_path), steps=3, warmup=0)
    with quiet_libraries():
        build_trainer(config, model_folder, renderer, examples, None, report).train()
    assert [(done, total) for done, total, _ in seen] == [(1, 3), (2, 3), (3, 3)]
    assert "decision_loss" in seen[-1][2]
