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
        if key in p
    ]


def loss_section(run: Path) -> str:
    """Training losses on a log axis: all target tokens, and the act-or-ask token by behaviour."""
    intro = (
        "<section><h2>What training did</h2><p>The choice between acting and asking is one token"
        " among many and would drown in their mean, so its loss is weighed and shown by itself."
        " Moving averages over nine steps, in nats.</p>"
    )
    rows = _rows(run / METRICS)
    lines = _loss_lines(rows)
    if not lines:
        reason = f"the run has no {METRICS}; it is written by `breadcrumbs train sft`."
        return f'{intro}<p class="missing">Not shown: {escape(reason)}</p></section>'
    chart = line_chart(
        lines,
        title="Losses over training steps",
        x_label="step",
        y_label="loss, nats (log scale)",
        log_x=False,
        log_y=True,
    )
    return f"{intro}<figure>{chart}</figure></section>"


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


def _loss_lines(rows: Sequence[Mapping[str, Any]]) -> list[Line]:
    kinds = ("dispatch", "clarify", "decline")
    named = {kind: f"decision token, {kind}" for kind in kinds}
    lines = []
    tokens = [Point(r["step"], r["token_loss"]) for r in rows if r.get("token_loss") is not None]
    if tokens:
        lines.append(Line("all target tokens", "tokens", _floored(tokens), marks=False))
    for kind in kinds:
        found = [
            Point(r["step"], value)
            for r in rows
            if (value := (r.get("decision_loss_by_behaviour") or {}).get(kind)) is not None
        ]
        if found:
            lines.append(Line(named[kind], kind, _floored(found), marks=False))
    return lines


def _floored(points: Sequence[Point]) -> list[Point]:
    """Averages, not below a ten-thousandth: further down a log axis only shows rounding."""
    return [Point(p.x, max(p.y, 1e-4)) for p in smoothed(points)]
