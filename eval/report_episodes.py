"""Whole episodes on the page: figures of every policy, the grid of tiers, and the transcripts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from breadcrumbs.eval.charts import trade_off
from breadcrumbs.eval.measures import BY_NAME
from breadcrumbs.eval.records import CELLS, SCORES, SUITE
from breadcrumbs.eval.report_grid import arrow, grids
from breadcrumbs.eval.report_tables import spot_of
from breadcrumbs.eval.report_transcripts import box_id, episode_box, opener, read_lines
from breadcrumbs.eval.suite_view import HEADLINE

ALL_ON = "1234"
SHOWN = 60
"""Episodes of a policy on the page: the first run on as many scenarios; files hold the rest."""


def read_suite(run: Path) -> tuple[Path, dict[str, Any]] | None:
    """The suite of a run folder and where it lies; None where there is none to be read."""
    for folder in (run / "episodes", run):
        try:
            found = json.loads((folder / SUITE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and isinstance(found.get("episodes"), dict):
            return folder, found
    return None


def episode_boxes(run: Path) -> dict[str, str]:
    """Boxes of the episodes with all tiers on, by policy."""
    suite = read_suite(run)
    boxes = {}
    for policy in suite[1]["episodes"] if suite else ():
        assert suite is not None
        stem = suite[0] / CELLS / f"{policy}_{ALL_ON}"
        rows = [row for row in read_lines(stem.with_suffix(".jsonl")) if row["run"] == 0]
        if rows:
            scores = read_lines(stem.with_suffix(f".{SCORES}"))
            shown = rows[:SHOWN]
            title = f"{policy}, whole episodes: {len(shown)} of {len(rows)} scenarios"
            key = box_id("episodes", policy)
            boxes[key] = episode_box(key, title, shown, scores)
    return boxes


def episodes_section(run: Path, boxes: Mapping[str, str]) -> str:
    """Tables of the suite; nothing where the run has none."""
    suite = read_suite(run)
    if suite is None:
        return ""
    results = suite[1]
    note = (
        "From the request to the end, through loop and gateway; a scripted user answers what is"
        " asked. Scored by what the gateway logged and how the world ends, without a judge;"
        " intervals draw blueprints. docs/metrics.md explains each number."
    )
    every = "".join(_figures_of(policy, results, boxes) for policy in results["episodes"])
    return (
        f"<section><h2>Whole episodes</h2><p>{escape(note)}</p>{_plane(results)}"
        f"{_headline(results, boxes)}"
        f"<details><summary>Every number</summary>{every}</details>"
        f"{grids(results)}</section>"
    )


def _plane(results: Mapping[str, Any]) -> str:
    """All policies with every tier on, both errors on one plane."""
    found = (
        spot_of(policy.replace("_", " "), policy, cells.get(ALL_ON, {}))
        for policy, cells in results["episodes"].items()
    )
    spots = [spot for spot in found if spot is not None]
    if not spots:
        return ""
    chart = trade_off(spots, "Right calls against reckless ones, whole episodes")
    return f'<div class="two"><figure>{chart}</figure></div><p></p>'


def _headline(results: Mapping[str, Any], boxes: Mapping[str, str]) -> str:
    heads = "".join(
        f'<th scope="col" data-sort>{escape(BY_NAME[name].says)}{arrow(name)}</th>'
        for name, _ in HEADLINE
    )
    rows = "".join(
        f"<tr><td>{escape(policy)}<small>tiers {escape(tiers)}</small></td>"
        + "".join(_value(policy, tiers, name, figures.get(name), boxes) for name, _ in HEADLINE)
        + "</tr>"
        for policy, cells in results["episodes"].items()
        for tiers, figures in cells.items()
    )
    return (
        '<div class="scroll"><table class="results" data-sortable><thead><tr>'
        f'<th scope="col">policy</th>{heads}</tr></thead><tbody class="cell">{rows}</tbody>'
        "</table></div>"
    )


def _value(
    policy: str,
    tiers: str,
    name: str,
    estimate: Mapping[str, Any] | None,
    boxes: Mapping[str, str],
) -> str:
    if estimate is None or estimate["value"] is None:
        return '<td data-value="">–</td>'
    box, shown = box_id("episodes", policy), f"{estimate['value']:.2f}"
    if tiers == ALL_ON and box in boxes:
        shown = opener(shown, box, name)
    return (
        f'<td data-value="{estimate["value"]}" title="n = {estimate["n"]}">{shown}'
        f"<small>{estimate['low']:.2f} to {estimate['high']:.2f}</small></td>"
    )


def _figures_of(policy: str, results: Mapping[str, Any], boxes: Mapping[str, str]) -> str:
    figures = results["episodes"][policy].get(ALL_ON, {})
    rows = "".join(
        f"<tr><td>{escape(_says(name))}<small>{escape(name)}</small></td>"
        f"{_value(policy, ALL_ON, name, estimate, boxes)}<td>{estimate['n']}</td></tr>"
        for name, estimate in figures.items()
        if estimate["value"] is not None
    )
    if not rows:
        return ""
    return (
        f"<h3>{escape(policy)}, all tiers on</h3>"
        '<div class="scroll wrap words"><table><thead><tr><th>number</th><th>value</th><th>n</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div><p></p>"
    )


def _says(name: str) -> str:
    if name in BY_NAME:
        return BY_NAME[name].says
    return f"{name.removeprefix('pass^')} runs on a scenario all succeed"
