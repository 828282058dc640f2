"""What `breadcrumbs eval episodes` reads: which policies, which scenarios, which tiers."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT
from breadcrumbs.data_gen.script import Kind
from breadcrumbs.eval.config import Episodes, HeldOut
from breadcrumbs.eval.systems import SystemsConfig

PolicyName = Literal[
    "do_nothing",
    "always_ask",
    "always_dispatch",
    "oracle",
    "wavering",
    "base",
    "adapter",
    "endpoint",
]


@dataclass(config=STRICT)
class SuiteConfig(SystemsConfig):
    """One suite of whole episodes; paths are as the command that runs it sees them."""

    data: Path
    """Folder written by `breadcrumbs generate`."""
    out: Path
    policies: tuple[PolicyName, ...]
    split: HeldOut = "held_out_tools"
    plain: Episodes = field(default_factory=Episodes)
    """Plain scenarios of each behaviour."""
    kinds: dict[Kind, PositiveInt] = field(default_factory=dict)
    """Pairs of each special kind; the data must have them (`eval_kinds`)."""
    runs: int = Field(default=1, ge=1, le=64)
    """Runs on each scenario; pass^k needs k of them. Greedy models do the same in each."""
    ablation: bool = False
    """Sixteen cells, one for each combination of tiers, instead of the one with all on."""
    max_rounds: int = Field(default=12, ge=1)

    def __post_init__(self) -> None:
        self.check_systems("policies", self.policies)
