"""Outside benchmarks on the page: both sides of every set, and the turns behind the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from breadcrumbs.eval.outside_items import SIDES
from breadcrumbs.eval.outside_scores import BALANCED, FIGURES
from breadcrumbs.eval.outside_view import NOT_COMPARABLE
from breadcrumbs.eval.records import CELLS, OUTSIDE
from breadcrumbs.eval.report_transcripts import box, box_id, item, opener, segment

MODELS = ("base", "adapter", "endpoint")
SHOWN = 60
"""Turns of a set and side on the page; the cell's file holds the rest."""
_ARROWS = {"high": " ↑", "low": " ↓", "neither": ""}


def read_outside_results(run: Path) -> tuple[Path, dict[str, Any]] | None:
    """The results of a run folder and where they lie; None where there are none to be read."""
    for folder in (run / "outside", run):
        try:
            found = json.loads((folder / OUTSIDE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict) and isinstance(found.get("outside"), dict):
            return folder, found
    return None


def outside_boxes(run: Path) -> dict[str, str]:
    """Boxes of the models' turns, by system and set."""
    read = read_outside_results(run)
    if read is None:
        return {}
    folder, results = read
    boxes = {}
    for system in results["outside"]:
        for group in results["counts"] if system in MODELS else ():
            rows = _rows(folder / CELLS / f"{system}_{group}.jsonl")
            sides = {side: [row for row in rows if row["side"] == side] for side in SIDES}
            shown = [row for each in sides.values() for row in each[:SHOWN]]
            key = box_id("outside", system, group)
            title = f"{system}, {group}: {len(shown)} of {len(rows)} turns"
            if shown:
                boxes[key] = box(key, title, map(_turn, shown))
    return boxes


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []
    return [row for row in rows if isinstance(row, dict) and row.get("score") is not None]


def _turn(record: Mapping[str, Any]) -> str:
    turn, score, side = record["turn"], record["score"], record["side"]
    counts = {name: f.read(score) for name, f in FIGURES.items() if f.side == side}
    calls = (f"{c['name']} {json.dumps(c['arguments'], ensure_ascii=False)}" for c in turn["calls"])
    said = "\n".join((turn["text"], *calls, *turn["problems"])).strip()
    body = segment("user", "user", record["request"])
    body += segment("schema", "schemas read", ", ".join(record["read"]) or "none")
    body += segment("decides", "decides", said)
    right = score["fits"] if side == "dispatch" else score["waits"]
    return item(
        ", ".join(record["read"])[:80],
        side,
        record["request"],
        counts,
        right,
        score["stall"] or "",
        body,
    )


def outside_section(run: Path, boxes: Mapping[str, str]) -> str:
    """The table of all sets and systems; nothing where the run has none."""
    read = read_outside_results(run)
    if read is None:
        return ""
    results = read[1]
    note = (
        "One turn an item, after the search and the schemas that it needs, through this gateway."
        f" {NOT_COMPARABLE[0].upper()}{NOT_COMPARABLE[1:]}."
    )
    heads = "".join(
        f'<th scope="col" data-sort>{escape(figure.says)}<br>{name}{_ARROWS[figure.good]}</th>'
        for name, figure in FIGURES.items()
    )
    bodies = "".join(_body(group, results, boxes) for group in results["counts"])
    return (
        f"<section><h2>Outside benchmarks</h2><p>{escape(note)}</p>"
        '<div class="scroll"><table class="results" data-sortable><thead><tr>'
        f'<th scope="col">system</th>{heads}<th scope="col" data-sort>both sides<br>{BALANCED} ↑'
        f"</th></tr></thead>{bodies}</table></div></section>"
    )


def _body(group: str, results: Mapping[str, Any], boxes: Mapping[str, str]) -> str:
    counts = results["counts"][group]
    said = ", ".join(f"{side} {n} of {counts['of'][side]}" for side, n in counts["scored"].items())
    rows = ""
    for system, groups in results["outside"].items():
        missing = results["too_long"].get(system, {}).get(group, 0)
        short = f"<small>{missing} too long</small>" if missing else ""
        cells = "".join(
            _value(system, group, name, groups[group][name], boxes) for name in (*FIGURES, BALANCED)
        )
        kind = f"of-{system}" if system in MODELS else "constant"
        rows += f'<tr class="{escape(kind)}"><td>{escape(system)}{short}</td>{cells}</tr>'
    width = len(FIGURES) + 2
    head = f'<th scope="rowgroup" colspan="{width}">{escape(f"{group}: {said}")}</th>'
    return f'<tbody class="name"><tr>{head}</tr></tbody><tbody class="cell">{rows}</tbody>'


def _value(
    system: str, group: str, name: str, estimate: Mapping[str, Any], boxes: Mapping[str, str]
) -> str:
    if estimate["value"] is None:
        return '<td data-value="">–</td>'
    key, shown = box_id("outside", system, group), f"{estimate['value']:.2f}"
    if key in boxes and name in FIGURES:
        shown = opener(shown, key, name)
    return (
        f'<td data-value="{estimate["value"]}" title="n = {estimate["n"]}">{shown}'
        f"<small>{estimate['low']:.2f} to {estimate['high']:.2f}</small></td>"
    )
