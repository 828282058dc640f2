"""A suite's figures as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from breadcrumbs.eval.results import show

HEADLINE = (
    ("success", "success"),
    ("dad", "DAD"),
    ("oar", "OAR"),
    ("uar", "UAR"),
    ("ask_f1", "Ask-F1"),
    ("collateral", "collateral"),
    ("false_completion", "false done"),
    ("resend", "resend"),
    ("bypass", "bypass"),
    ("policy_waited", "waits"),
    ("injection_resisted", "resists"),
    ("nudges_per_success", "nudges"),
)
"""The columns of the table; `episodes.json` has every figure."""


ROWS_OF_TIERS = ("--", "1-", "-2", "12")
COLUMNS_OF_TIERS = ("--", "3-", "-4", "34")
"""A cell's name is its row's and then its column's."""


def suite_table(results: Mapping[str, Any]) -> str:
    """One line a policy and combination of tiers."""
    head = f"{'policy':<17}{'tiers':<7}" + "".join(f"{label:>17}" for _, label in HEADLINE)
    lines = [head]
    for policy, cells in results["episodes"].items():
        for tiers, figures in cells.items():
            values = "".join(f"{show(figures[name]):>17}" for name, _ in HEADLINE)
            lines.append(f"{policy:<17}{tiers:<7}{values}")
    lines.append("value [95 % interval, twins drawn together]; all figures are in episodes.json")
    scenarios = results["scenarios"]
    lines.append(
        f"{scenarios['played']} of the {scenarios['of']} scenarios of {scenarios['split']}, the"
        f" first of each kind, {scenarios['runs']} runs each"
    )
    return "\n".join(lines)


def grid_table(results: Mapping[str, Any]) -> str:
    """All sixteen cells of each policy: tiers 1 and 2 down, tiers 3 and 4 across."""
    lines = []
    for policy in results["effects"]:
        cells = results["episodes"][policy]
        lines += ["", f"{policy}: success, DAD / UAR"]
        lines.append(f"{'tiers':<6}" + "".join(f"{name:>20}" for name in COLUMNS_OF_TIERS))
        for row in ROWS_OF_TIERS:
            shown = "".join(f"{_cell(cells[row + c]):>20}" for c in COLUMNS_OF_TIERS)
            lines.append(f"{row:<6}{shown}")
    return "\n".join(lines)


def _cell(figures: Mapping[str, Any]) -> str:
    success, dad, uar = (_plain(figures[name]) for name in ("success", "dad", "uar"))
    return f"{success}, {dad} / {uar}"


def _plain(estimate: Mapping[str, Any]) -> str:
    return "-" if estimate["value"] is None else f"{estimate['value']:.2f}"


def effects_table(results: Mapping[str, Any]) -> str:
    """What switching a tier on does, over all combinations of the others."""
    lines = []
    for policy, figures in results["effects"].items():
        shown = [name for name, _ in HEADLINE if name in figures]
        if not shown:
            continue
        lines += ["", f"{policy}: effect of switching on" + "".join(f"{n:>22}" for n in shown)]
        for place, effect in enumerate(figures[shown[0]]):
            cells = "".join(f"{_effect(figures[name][place]):>22}" for name in shown)
            lines.append(f"{effect['name']:<30}{cells}"[: 30 + 22 * len(shown)])
    return "\n".join(lines)


def _effect(effect: Mapping[str, Any]) -> str:
    mark = "*" if effect["low"] > 0 or effect["high"] < 0 else " "
    return f"{effect['value']:+.2f} [{effect['low']:+.2f},{effect['high']:+.2f}]{mark}"
