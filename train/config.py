"""Settings of one training run, checked at the border and frozen from there on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT

SERVABLE_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
Schedule = Literal["constant", "linear", "cosine"]
Dtype = Literal["bfloat16", "float32"]
Quantization = Literal["nf4"]
Split = Literal["train", "held_out_tools", "held_out_domain"]


@dataclass(config=STRICT)
class AdapterConfig:
    """One plain LoRA adapter: what servers can load, and nothing else."""

    rank: int = 16
    alpha: int = Field(default=32, gt=0)
    targets: str | tuple[str, ...] = "all-linear"
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)

    def __post_init__(self) -> None:
        if self.rank not in SERVABLE_RANKS:
            raise ValueError(f"rank must be one of {SERVABLE_RANKS}: servers load no other")


@dataclass(config=STRICT, kw_only=True)
class RunConfig:
    """What every kind of training run is told."""

    data: str
    """Folder written by `breadcrumbs generate`."""
    out: str
    """Folder of the adapter; an interrupted run goes on there."""
    model: str = "smollm2-135m"
    split: Split = "train"
    learning_rate: float = Field(gt=0.0)
    """At its peak."""
    steps: int | None = Field(default=None, gt=0)
    """Optimiser steps; name either `steps` or `epochs`."""
    epochs: float | None = Field(default=None, gt=0.0)
    grad_accum: int = Field(default=1, gt=0)
    warmup: int = Field(default=10, ge=0)
    """Steps until the learning rate is at its peak."""
    schedule: Schedule = "cosine"
    clip: float = Field(default=1.0, gt=0.0)
    max_tokens: int | None = Field(default=None, gt=0)
    """Longest row, or side of a pair with its prompt. A longer one stops the run."""
    dtype: Dtype = "bfloat16"
    """Of the base's weights in memory; with float32 nothing is computed in bfloat16."""
    quantization: Quantization | None = None
    """`nf4` keeps the base's weights in 4 bits (QLoRA); needs bitsandbytes."""
    gradient_checkpointing: bool | None = None
    """None: on with a GPU, off without."""
    seed: int = Field(default=0, ge=0)
    save_every: int = Field(default=25, gt=0)
    log_every: int = Field(default=1, gt=0)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("name exactly one of steps and epochs")


@dataclass(config=STRICT, kw_only=True)
class TrainConfig(RunConfig):
    """Supervised fine-tuning of one adapter on the rows of one data set."""

    adapter: AdapterConfig = Field(default_factory=AdapterConfig)
    learning_rate: float = Field(default=5e-4, gt=0.0)
    batch_rows: int = Field(default=2, gt=0)
    """Rows in one forward pass on one device; twins stay together."""
    decision_weight: float = Field(default=0.5, ge=0.0, le=1.0)
    """Share of the loss that the decision token has; 0 is the plain mean over tokens."""
    whole_every: int = Field(default=1, gt=0)
    """One group of twins in so many is trained to its end, the others up to the decision turn."""


@dataclass(config=STRICT, kw_only=True)
class ContinueConfig(RunConfig):
    """A run that goes on from a trained adapter."""

    adapter: str
    """Folder of the adapter to go on from; its frozen copy is the reference."""
    learning_rate: float = Field(default=1e-5, gt=0.0)


@dataclass(config=STRICT, kw_only=True)
class PairsConfig(ContinueConfig):
    """Training on pairs in both directions."""

    batch_pairs: int = Field(default=2, gt=0)
    """Pairs in one forward pass on one device; those of twins stay together."""
    beta: float = Field(default=0.1, gt=0.0)
    """How dear it is to leave the reference."""
    anchor: float = Field(default=1.0, ge=0.0)
    """Weight of the chosen turn's own loss: without it both sides may grow less likely."""


@dataclass(config=STRICT, kw_only=True)
class DpoConfig(PairsConfig):
    """Preference training: each right turn against its wrong one."""

    stage: Literal["dpo"] = "dpo"


@dataclass(config=STRICT, kw_only=True)
class KtoConfig(PairsConfig):
    """The same turns one by one: right ones made likelier, wrong ones less likely."""

    stage: Literal["kto"] = "kto"


@dataclass(config=STRICT, kw_only=True)
class GrpoConfig(ContinueConfig):
    """Training by reward: the model acts at the simulated gateway and is scored by its log."""

    stage: Literal["grpo"] = "grpo"
    learning_rate: float = Field(default=5e-6, gt=0.0)
    batch_scenarios: int = Field(default=2, gt=0)
    """Scenarios in one forward pass on one device; twins are drawn together."""
    generations: int = Field(default=4, ge=2)
    """Tries at each scenario; they are compared with each other."""
    max_new_tokens: int = Field(default=2048, gt=0)
    """Of a whole try, the gateway's answers included."""
    max_calls: int = Field(default=6, gt=0)
    """Turns with calls in one try."""
    temperature: float = Field(default=1.0, gt=0.0)
    beta: float = Field(default=0.02, ge=0.0)
    """How dear it is to leave the adapter it began with; 0 keeps no copy of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is None:
            raise ValueError("grpo is counted in steps, since it draws its scenarios itself")
        if self.max_tokens is not None:
            raise ValueError("max_tokens cuts no try; max_new_tokens bounds one")
