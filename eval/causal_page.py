"""The causal study as one page: the verdicts, effects beside their placebos, dose and response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from breadcrumbs.eval.charts import Interval, Line, Point, interval_chart, line_chart
from breadcrumbs.eval.report import page
from breadcrumbs.eval.report_tables import NAMES, style_of

TITLE = "What the decision owes to the prompt, and whether dilution stalls it"
PLACES = {"decision": "at the decision row", "later": "at all later rows", "prompt": ""}
PLACEBO_STYLES = ("uniform", "tokens")
Effects = Sequence[Mapping[str, Any]]


def causal_page(result: Mapping[str, Any]) -> str:
    """The page as text; what `causal.json` holds fixes it to the byte."""
    effects: Effects = result["effects"]
    verdicts: Mapping[str, Mapping[str, Any]] = result["verdicts"]
    lead = " ".join(
        f"{escape(NAMES[name].capitalize())}: {escape(verdict['text'])}"
        for name, verdict in verdicts.items()
    )
    sections = [_effects_section(name, effects) for name in verdicts]
    sections += [_dose_section(name, effects) for name in verdicts]
    config = result["config"]
    footer = f"{config['model']}, {config['prompts']} prompts of {config['split']}"
    return page(TITLE, lead, sections, footer)


def _effects_section(model: str, effects: Effects) -> str:
    rows = [
        Interval(_name(one), _ends(one["change"]), _placebo(one))
        for one in effects
        if one["model"] == model and one["dose"] is None and one["change"]["n"]
    ]
    chart = interval_chart(
        rows,
        title="the change",
        x_label="change of the gap, logits (right: towards the call)",
        style=style_of(model),
        against="its first placebo",
    )
    return _section(f"What changes the {NAMES[model]}'s decision", [chart])


def _dose_section(model: str, effects: Effects) -> str:
    own = [one for one in effects if one["model"] == model and one["dose"] is not None]
    kinds = dict.fromkeys((one["name"], one["rows"]) for one in own)
    charts = []
    for name, rows in kinds:
        curve = [one for one in own if (one["name"], one["rows"]) == (name, rows)]
        title = f"{name.replace('bias', 'bias on the steering', 1)} {PLACES[rows]}"
        lines = [Line("steering", style_of(model), _points(curve, None))]
        lines += [
            Line(f"placebo, {kind}", style, _points(curve, kind))
            for kind, style in zip(curve[0]["placebos"], PLACEBO_STYLES, strict=False)
        ]
        charts.append(
            line_chart(
                lines,
                title=title,
                x_label=f"{title}, nats",
                y_label="change of the gap, logits",
                log_x=False,
                log_y=False,
            )
        )
        doses = ", ".join(
            f"{one['dose']:+g}: {one['achieved']:.3f}" for one in curve if one["achieved"]
        )
        charts[-1] += f"<figcaption>Mass achieved by dose: {escape(doses)}.</figcaption>"
    return _section(f"Dose and response, {NAMES[model]}", charts)


def _section(title: str, charts: Sequence[str]) -> str:
    drawn = [f"<figure>{chart}</figure>" for chart in charts if chart]
    if not drawn:
        return ""
    return f'<section><h2>{escape(title)}</h2><div class="two">{"".join(drawn)}</div></section>'


def _name(one: Mapping[str, Any]) -> str:
    place = {"decision": ", row", "later": ", later", "prompt": ""}[one["rows"]]
    return f"{one['name']}{place}"


def _ends(estimate: Mapping[str, Any]) -> tuple[float, float, float]:
    return estimate["value"], estimate["low"], estimate["high"]


def _placebo(one: Mapping[str, Any]) -> tuple[float, float, float] | None:
    measured = [estimate for estimate in one["placebos"].values() if estimate["n"]]
    return _ends(measured[0]) if measured else None


def _points(curve: Effects, placebo: str | None) -> list[Point]:
    """The response by dose; none at a dose of zero."""
    points = [Point(0.0, 0.0, 0.0, 0.0)]
    for one in curve:
        estimate = one["change"] if placebo is None else one["placebos"][placebo]
        if estimate["n"]:
            points.append(Point(one["dose"], *_ends(estimate)))
    return sorted(points, key=lambda point: point.x)
