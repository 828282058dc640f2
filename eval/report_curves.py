"""The page's curves: attention over schema length, and what training's losses did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from breadcrumbs.eval.charts import Line, Point, line_chart, smoothed
from breadcrumbs.eval.report_tables import NAMES, style_of

PROBE = "probe/attention.json"
METRICS = "adapter/metrics.jsonl"
WINDOW = 15
FLOOR = 1e-4
"""Further down a log axis only shows rounding."""


def dilution_section(run: Path) -> str:
    """Attention at the decision point against schema length, or why it is not shown."""
    intro = (
        "<section><h2>Does the schema drown the steering?</h2><p>Attention of the last prompt"
        " token, where the model decides, by what it falls on: the steering rules, or the"
        " disclosed schema. Medians over layers, heads and prompts; bands span the prompts."
        " Longer schemas add competitors and distance at once, so a slope describes dilution and"
        " does not prove that it causes the stall.</p>"
    )
    curves = _curves(run / PROBE)
    if isinstance(curves, str):
        return f'{intro}<p class="missing">Not shown: {escape(curves)}</p></section>'
    charts = [
        _curve_chart(curves, "mass_steering", "share of attention on the steering"),
        _curve_chart(curves, "log_odds", "log-odds, steering against schema", uniform=True),
        _curve_chart(curves, "mass_schema", "share of attention on the schema"),
        _curve_chart(curves, "mass_breadcrumb", "share of attention on the breadcrumb"),
    ]
    return f'{intro}<div class="two">{"".join(charts)}</div></section>'


def _curves(path: Path) -> Mapping[str, Any] | str:
    try:
        curves = json.loads(path.read_text(encoding="utf-8"))["curves"]
    except FileNotFoundError:
        return f"the run has no {PROBE}; make it with `breadcrumbs probe attention`."
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{PROBE} cannot be read ({type(error).__name__})."
    if not isinstance(curves, Mapping) or not any(curves.values()):
        return f"{PROBE} holds no curve."
    return curves


def _curve_chart(curves: Mapping[str, Any], key: str, label: str, *, uniform: bool = False) -> str:
    lines = [
        Line(NAMES.get(name, name), style_of(name), _points(points, key))
        for name, points in curves.items()
    ]
    if uniform:
        first = next(iter(curves.values()))
        reference = [Point(p.x, p.y) for p in _points(first, "uniform_log_odds")]
        lines.append(Line("if attention were uniform", "uniform", reference, marks=False))
    chart = line_chart(
        lines,
        title=f"{label} over schema length",
        x_label="schema tokens (log scale)",
        y_label=label,
        log_x=True,
        log_y=False,
    )
    return f"<figure>{chart}</figure>" if chart else ""


def _points(points: Sequence[Mapping[str, Any]], key: str) -> list[Point]:
    return [
        Point(p["schema_tokens"], p[key]["median"], p[key]["low"], p[key]["high"])
        for p in points
        if p.get(key)  # null: the segment is absent or out of reach
    ]


def loss_section(run: Path) -> str:
    """Training losses: of all target tokens, and of the act-or-ask token by behaviour."""
    intro = (
        "<section><h2>What training did</h2><p>The choice between acting and asking is one token"
        " among many and would drown in their mean, so its loss is weighed and shown by itself."
        " Dots are single steps, lines moving geometric means.</p>"
    )
    rows = _rows(run / METRICS)
    charts = [_loss_chart(_token_line(rows), "loss of all target tokens, nats")]
    charts.append(_loss_chart(_decision_lines(rows), "loss of the act-or-ask token, nats"))
    if not any(charts):
        reason = f"the run has no {METRICS}; it is written by `breadcrumbs train sft`."
        return f'{intro}<p class="missing">Not shown: {escape(reason)}</p></section>'
    return f'{intro}<div class="two">{"".join(charts)}</div></section>'


def _loss_chart(lines: Sequence[Line], label: str) -> str:
    chart = line_chart(
        lines, title=f"{label}, over steps", x_label="step", y_label=label, log_x=False, log_y=True
    )
    return f"<figure>{chart}</figure>" if chart else ""


def _rows(path: Path) -> list[dict[str, Any]]:
    """Whole lines; the last one of a stopped run may be cut."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return []
    rows = []
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "step" in row:
            rows.append(row)
    return rows


def _token_line(rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    return _lines(
        {"all target tokens": ("tokens", [(r["step"], r.get("token_loss")) for r in rows])}
    )


def _decision_lines(rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    return _lines(
        {
            f"where {kind} is right": (
                kind,
                [(r["step"], (r.get("decision_loss_by_behaviour") or {}).get(kind)) for r in rows],
            )
            for kind in ("dispatch", "clarify", "decline")
        }
    )


def _lines(series: Mapping[str, tuple[str, list[tuple[int, float | None]]]]) -> list[Line]:
    """Series that hold anything; what lies below the floor is drawn on it."""
    lines = []
    for name, (style, values) in series.items():
        dots = [Point(step, max(value, FLOOR)) for step, value in values if value is not None]
        if dots:
            lines.append(Line(name, style, smoothed(dots, WINDOW), marks=False, dots=dots))
    return lines
