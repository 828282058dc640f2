"""The grid of tiers on the page: all sixteen cells at a glance, then what each tier does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from breadcrumbs.eval.measures import BY_NAME
from breadcrumbs.eval.suite_view import COLUMNS_OF_TIERS, HEADLINE, ROWS_OF_TIERS

_ROWS = ("neither", "1 breadcrumb", "2 prompt", "1 and 2")
_COLUMNS = ("neither", "3 nudge", "4 approval", "3 and 4")
_DEEPEST = 45
"""Percent of colour in a cell whose value is one: text stays readable on it."""


def arrow(name: str) -> str:
    """Which way is better."""
    return {"high": " ↑", "low": " ↓"}.get(BY_NAME[name].good, "")


def grids(results: Mapping[str, Any]) -> str:
    """Cells and effects of every policy that was played under all combinations of tiers."""
    found = results.get("effects", {})
    tables = "".join(
        f"<h4>{escape(policy)}</h4>{_cells(results['episodes'][policy])}{_effects(figures)}"
        for policy, figures in found.items()
        if any(name in figures for name, _ in HEADLINE)
    )
    if not tables:
        return ""
    return (
        "<h3>What each tier does</h3><p>First the sixteen cells: tiers 1 and 2 down, 3 and 4"
        " across. Then main effects and interactions over all of them; bold where the"
        f" interval leaves zero out.</p>{tables}"
    )


def _cells(cells: Mapping[str, Mapping[str, Any]]) -> str:
    """Two grids of four by four: whole episodes right, and both errors of the turn that decides."""
    whole = _grid("whole episode right ↑", cells, "success", "")
    turn = _grid("calls when it should ↑, when it must ask ↓", cells, "dad", "uar")
    return f'<div class="two">{whole}{turn}</div><p></p>'


def _grid(title: str, cells: Mapping[str, Mapping[str, Any]], name: str, beside: str) -> str:
    heads = "".join(f'<th scope="col">{label}</th>' for label in _COLUMNS)
    rows = "".join(
        f'<tr><th scope="row">{label}</th>'
        + "".join(_cell(cells.get(row + column, {}), name, beside) for column in COLUMNS_OF_TIERS)
        + "</tr>"
        for label, row in zip(_ROWS, ROWS_OF_TIERS, strict=True)
    )
    return (
        f'<div class="scroll"><table class="grid"><caption>{escape(title)}</caption>'
        f'<thead><tr><td></td>{heads}</tr></thead><tbody class="cell">{rows}</tbody></table></div>'
    )


def _cell(figures: Mapping[str, Any], name: str, beside: str) -> str:
    value = _value(figures, name)
    if value is None:
        return "<td>–</td>"
    other = _value(figures, beside)
    small = "" if other is None else f"<small>{other:.2f}</small>"
    ends = f"{figures[name]['low']:.2f} to {figures[name]['high']:.2f}"
    return (
        f'<td class="heat" style="--heat: {_DEEPEST * value:.0f}%"'
        f' title="{ends}, n = {figures[name]["n"]}">{value:.2f}{small}</td>'
    )


def _value(figures: Mapping[str, Any], name: str) -> float | None:
    value: float | None = figures.get(name, {}).get("value")
    return value


def _effects(figures: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    shown = [name for name, _ in HEADLINE if name in figures]
    heads = "".join(
        f'<th scope="col" data-sort>{escape(BY_NAME[name].says)}{arrow(name)}</th>'
        for name in shown
    )
    rows = "".join(
        f"<tr><td>{escape(effect['name'])}</td>"
        + "".join(_effect(figures[name][place]) for name in shown)
        + "</tr>"
        for place, effect in enumerate(figures[shown[0]])
    )
    return (
        '<div class="scroll"><table class="results" data-sortable><thead><tr>'
        f'<th scope="col">switched on</th>{heads}</tr></thead><tbody class="cell">{rows}</tbody>'
        "</table></div>"
    )


def _effect(effect: Mapping[str, Any]) -> str:
    value = f"{effect['value']:+.2f}"
    if effect["low"] > 0 or effect["high"] < 0:
        value = f"<strong>{value}</strong>"
    return (
        f'<td data-value="{effect["value"]}">{value}'
        f"<small>{effect['low']:+.2f} to {effect['high']:+.2f}</small></td>"
    )
