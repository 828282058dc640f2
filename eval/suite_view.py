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


def suite_table(results: Mapping[str, Any]) -> str:
    """One line a policy and combination of tiers."""
    head = f"{'policy':<17}{'tiers':<7}" + "".join(f"{label:>17}" for _, label in HEADLINE)
    lines = [head]
    for policy, cells in results["episodes"].items():
        for tiers, figures in cells.items():
            values = "".join(f"{show(figures[name]):>17}" for name, _ in HEADLINE)
            lines.append(f"{policy:<17}{tiers:<7}{values}")
    lines.append("value [95 % interval, twins drawn together]; all figures are in episodes.json")
    return "\n".join(lines)


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
