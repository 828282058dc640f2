"""What `breadcrumbs eval episodes` reads: which policies, which scenarios, which tiers."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT
from breadcrumbs.data_gen.script import Kind
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.eval.config import Episodes, EvalConfig, HeldOut

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
MODELS = ("base", "adapter")


@dataclass(config=STRICT)
class SuiteConfig:
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
    model: str = "smollm2-135m"
    adapter: Path | None = None
    endpoint: EndpointConfig | None = None
    """The model of the policy `endpoint`: any OpenAI-compatible server."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    max_new_tokens: int = Field(default=224, ge=8)
    text_budget: int = Field(default=64, ge=8)
    seed: int = Field(default=0, ge=0)
    """Of the bootstrap."""

    def __post_init__(self) -> None:
        if len(set(self.policies)) != len(self.policies):
            raise ValueError("policies: one is named twice")
        if "adapter" in self.policies and self.adapter is None:
            raise ValueError("policies: adapter is named, but `adapter` has no folder")
        if "endpoint" in self.policies and self.endpoint is None:
            raise ValueError("policies: endpoint is named, but `endpoint` has no address")

    def as_eval(self) -> EvalConfig:
        """The part that says which model it is, for what is shared with decision points."""
        return EvalConfig(
            data=self.data,
            out=self.out,
            cells=(),
            model=self.model,
            adapter=self.adapter,
            dtype=self.dtype,
        )
