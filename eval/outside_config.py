"""What `breadcrumbs eval outside` reads: which benchmarks, where the user's copies lie, whom."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT
from breadcrumbs.eval.systems import SystemsConfig

OutsideSystem = Literal[
    "oracle", "always_dispatch", "always_ask", "do_nothing", "base", "adapter", "endpoint"
]


@dataclass(config=STRICT)
class OutsideConfig(SystemsConfig):
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
    batch_tokens: int = Field(default=16_384, ge=1_024)

    def __post_init__(self) -> None:
        if self.bfcl is None and self.when2call is None:
            raise ValueError("bfcl, when2call: name at least one; see docs/outside.md")
        self.check_systems("systems", self.systems)
