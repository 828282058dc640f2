"""What `breadcrumbs eval` reads: which model, which data, how many scenarios in which cell."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.namings import naming_of

HeldOut = Literal["held_out_tools", "held_out_domain"]
System = Literal["base", "adapter", "oracle", "always_dispatch", "always_ask", "do_nothing"]
SYSTEMS: tuple[System, ...] = get_args(System)


@dataclass(config=STRICT)
class Cell:
    """One combination of tier 1, split and naming, with its number of scenarios by behaviour."""

    breadcrumb: bool
    split: HeldOut
    dispatch: int = Field(ge=0)
    clarify: int = Field(ge=0)
    decline: int = Field(default=0, ge=0)
    naming: str | None = None
    """Under which naming the meta-tools are shown; None leaves each scenario its own."""

    def __post_init__(self) -> None:
        if self.naming is not None:
            try:
                naming_of(self.naming)
            except ConfigError as error:
                raise ValueError(str(error)) from error

    @property
    def place(self) -> str:
        """The cell's split as results name it, and its naming."""
        return self.split if self.naming is None else f"{self.split} as {self.naming}"

    @property
    def tier(self) -> str:
        """The cell's breadcrumb setting as results name it."""
        return "breadcrumb_on" if self.breadcrumb else "breadcrumb_off"

    @property
    def turns(self) -> int:
        """Decision turns in the cell."""
        return self.dispatch + self.clarify + self.decline


@dataclass(config=STRICT)
class Episodes:
    """Whole episodes per model: breadcrumb on, held-out tools, nudge off."""

    dispatch: int = Field(default=0, ge=0)
    clarify: int = Field(default=0, ge=0)
    decline: int = Field(default=0, ge=0)
    max_rounds: int = Field(default=6, ge=1)

    @property
    def count(self) -> int:
        """Episodes in all."""
        return self.dispatch + self.clarify + self.decline


@dataclass(config=STRICT)
class EvalConfig:
    """One evaluation; paths are as the command that runs it sees them."""

    data: Path
    """Folder written by `breadcrumbs generate`."""
    out: Path
    cells: tuple[Cell, ...]
    model: str = "smollm2-135m"
    adapter: Path | None = None
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    search_turns: int = Field(default=0, ge=0)
    """Search turns per split: the first turn, from the system prompt and the request alone."""
    episodes: Episodes = Field(default_factory=Episodes)
    max_new_tokens: int = Field(default=224, ge=8)
    text_budget: int = Field(default=64, ge=8)
    """A turn whose first tokens, so many, hold no call and no reasoning is prose, stopped there."""
    batch_tokens: int = Field(default=16_384, ge=1_024)
    """Prompt tokens in one batch, padding counted: bounds the memory."""
    seed: int = Field(default=0, ge=0)
    """Of the bootstrap; generation is greedy."""

    def __post_init__(self) -> None:
        places = [(cell.breadcrumb, cell.place) for cell in self.cells]
        if len(set(places)) != len(places):
            raise ValueError("cells: two cells have the same breadcrumb, split and naming")

    @property
    def models(self) -> tuple[System, ...]:
        """The systems that need the model."""
        return ("base",) if self.adapter is None else ("base", "adapter")

    @property
    def splits(self) -> tuple[HeldOut, ...]:
        """Splits that some cell names, in order."""
        return tuple(dict.fromkeys(cell.split for cell in self.cells))
