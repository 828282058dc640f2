"""What `breadcrumbs eval outside` reads: which benchmarks, where the user's copies lie, whom."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.eval.config import EvalConfig

OutsideSystem = Literal[
    "oracle", "always_dispatch", "always_ask", "do_nothing", "base", "adapter", "endpoint"
]


@dataclass(config=STRICT)
class OutsideConfig:
    """One run on outside benchmarks; paths are as the command that runs it sees them."""

    out: Path
    systems: tuple[OutsideSystem, ...]
    bfcl: Path | None = None
    """A folder laid out as `bfcl_eval/data`."""
    when2call: Path | None = None
    """The file `when2call_test_llm_judge.jsonl`."""
    breadcrumb: bool = True
    per_side: PositiveInt | None = None
    """At most so many items of each side of a set, spread evenly over it; None takes all."""
    model: str = "smollm2-135m"
    adapter: Path | None = None
    endpoint: EndpointConfig | None = None
    """The model of the system `endpoint`: any OpenAI-compatible server."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    max_new_tokens: int = Field(default=224, ge=8)
    text_budget: int = Field(default=64, ge=8)
    batch_tokens: int = Field(default=16_384, ge=1_024)
    seed: int = Field(default=0, ge=0)
    """Of the bootstrap."""

    def __post_init__(self) -> None:
        if self.bfcl is None and self.when2call is None:
            raise ValueError("bfcl, when2call: name at least one; see docs/outside.md")
        if len(set(self.systems)) != len(self.systems):
            raise ValueError("systems: one is named twice")
        if "adapter" in self.systems and self.adapter is None:
            raise ValueError("systems: adapter is named, but `adapter` has no folder")
        if "endpoint" in self.systems and self.endpoint is None:
            raise ValueError("systems: endpoint is named, but `endpoint` has no address")

    def as_eval(self) -> EvalConfig:
        """The part that says which model it is, for what is shared with decision points."""
        return EvalConfig(
            data=self.out,
            out=self.out,
            cells=(),
            model=self.model,
            adapter=self.adapter,
            dtype=self.dtype,
        )
