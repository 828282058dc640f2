"""A passed preflight for a person: its counts, and one row with the loss mask coloured."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from breadcrumbs.visible import plain

if TYPE_CHECKING:
    from rich.console import Console

    from breadcrumbs.train.preflight import Preflight, ShownAs

_STYLES: Mapping[ShownAs, str] = MappingProxyType(
    {"prompt": "dim", "trained": "black on green", "decision": "bold white on red"}
)
_MARKS: Mapping[ShownAs, tuple[str, str]] = MappingProxyType(
    {"prompt": ("", ""), "trained": ("⟦", "⟧"), "decision": ("«", "»")}
)


def show(result: Preflight, console: Console) -> None:
    """Print counts and the row: in colour on a terminal, between marks elsewhere.

    What is in the loss is green or stands in ⟦…⟧; the token that decides is red or in «…».
    """
    from rich.text import Text

    console.print(Text("\n".join(result.lines())))
    row = Text("\n")
    for text, shown_as in result.preview:
        before, behind = ("", "") if console.is_terminal else _MARKS[shown_as]
        row.append(f"{before}{plain(text)}{behind}", _STYLES[shown_as])
    console.print(row, soft_wrap=True)
