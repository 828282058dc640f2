"""Charts as inline SVG text: lines over a linear or logarithmic axis, and the trade-off plane.

Colours come from the page's style sheet through class names, so one drawing serves light and
dark. Every text is escaped here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 440, 290
LEFT, RIGHT, TOP, BOTTOM = 60, 14, 14, 44
MAX_TICKS = 6
ROW, ROW_LABELS = 24, 178
"""Height of a line of an interval chart, and room for its name."""
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Point:
    """A point, with the ends of its range where it has one."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A named series; `style` is a class of the style sheet."""

    name: str
    style: str
    points: Sequence[Point]
    marks: bool = True
    dots: Sequence[Point] = ()
    """Single measurements behind the line, drawn faintly."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A system on the trade-off plane: shares of right and of reckless calls with intervals."""

    name: str
    style: str
    right: tuple[float, float, float]
    reckless: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Interval:
    """A named figure with its interval, and that of what it is measured against."""

    name: str
    value: tuple[float, float, float]
    """Value, low and high end."""
    against: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """Label, scale and ticks of one axis."""

    label: str
    low: float
    high: float
    log: bool = False
    ticks: Sequence[float] = field(default_factory=tuple)

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the low end and 1 at the high one."""
        if self.log:
            low, high, value = math.log(self.low), math.log(self.high), math.log(value)
        else:
            low, high = self.low, self.high
        return (value - low) / (high - low) if high > low else 0.5


def line_chart(
    lines: Sequence[Line], *, title: str, x_label: str, y_label: str, log_x: bool, log_y: bool
) -> str:
    """Lines with their ranges as bands; values at or below zero are left out of a log axis."""
    kept = [_positive(line, log_x, log_y) for line in lines]
    points = [point for line in kept for point in (*line.points, *line.dots)]
    if not points:
        return ""
    xs = [point.x for point in points]
    ys = [y for p in points for y in (p.y, p.low, p.high) if y is not None]
    x_axis = _axis(x_label, xs, log_x, ticks=sorted(set(xs)) if log_x else ())
    y_axis = _axis(y_label, ys, log_y)
    body = [_grid(x_axis, y_axis)]
    body += [_band(line, x_axis, y_axis) for line in kept]
    body += [_dots(line, x_axis, y_axis) for line in kept]
    body += [_path(line, x_axis, y_axis) for line in kept]
    return _frame(title, body) + _legend([(line.name, line.style) for line in kept])


def trade_off(spots: Sequence[Spot], title: str) -> str:
    """Right calls to the right, reckless ones upward: good systems lie in the lower right."""
    ticks = (0.0, 0.25, 0.5, 0.75, 1.0)
    x_axis = Axis("acts where it should (DAD)", -0.04, 1.04, ticks=ticks)
    y_axis = Axis("calls where it should ask (UAR)", -0.04, 1.04, ticks=ticks)
    corner = (
        f'<rect class="goal" x="{_x(x_axis, 0.9):.1f}" y="{_y(y_axis, 0.1):.1f}"'
        f' width="{_x(x_axis, 1) - _x(x_axis, 0.9):.1f}"'
        f' height="{_y(y_axis, 0) - _y(y_axis, 0.1):.1f}"/>'
    )
    body = [_grid(x_axis, y_axis), corner, *(_spot(spot, x_axis, y_axis) for spot in spots)]
    return _frame(title, body) + _legend([(spot.name, spot.style) for spot in spots])


def interval_chart(
    rows: Sequence[Interval], *, title: str, x_label: str, style: str, against: str
) -> str:
    """One line a figure: a dot with its interval, fainter below it what it is measured against."""
    if not rows:
        return ""
    ends = [end for row in rows for one in (row.value, row.against or row.value) for end in one]
    axis = _axis(x_label, [0.0, *ends], log=False)
    left, bottom = ROW_LABELS, TOP + ROW * len(rows)

    def x(value: float) -> float:
        return left + axis.share(value) * (WIDTH - left - RIGHT)

    body = []
    for tick in axis.ticks:
        body.append(_stroke("grid", (x(tick), x(tick)), (TOP, bottom)))
        body.append(_text("tick", x(tick), bottom + 16, _number(tick)))
    body.append(_stroke("line uniform", (x(0), x(0)), (TOP, bottom)))
    body.append(_text("axis", (left + WIDTH - RIGHT) / 2, bottom + BOTTOM - 8, x_label))
    for place, row in enumerate(rows):
        y = TOP + ROW * (place + 0.5)
        body.append(_text("tick", left - 8, y + 4, row.name, "end"))
        for figure, kind, at in ((row.against, "uniform", y + 5), (row.value, style, y - 3)):
            if figure is not None:
                value, low, high = figure
                body.append(_stroke(f"line {kind}", (x(low), x(high)), (at, at)))
                label = f"{row.name}: {value:.3g} [{low:.3g}, {high:.3g}]"
                body.append(
                    f'<circle class="mark {kind}" cx="{x(value):.1f}" cy="{at:.1f}" r="3">'
                    f"<title>{escape(label)}</title></circle>"
                )
    legend = _legend([(title, style), (against, "uniform")])
    return _frame(title, body, bottom + BOTTOM) + legend


def smoothed(points: Sequence[Point], window: int) -> list[Point]:
    """A centred moving geometric mean of positive values: what a log axis shows as the middle."""
    half = window // 2
    out = []
    for place, point in enumerate(points):
        near = points[max(0, place - half) : place + half + 1]
        out.append(Point(point.x, math.exp(sum(math.log(p.y) for p in near) / len(near))))
    return out


def _positive(line: Line, log_x: bool, log_y: bool) -> Line:
    kept = [p for p in line.points if (p.x > 0 or not log_x) and (p.y > 0 or not log_y)]
    dots = [p for p in line.dots if (p.x > 0 or not log_x) and (p.y > 0 or not log_y)]
    return Line(line.name, line.style, kept, line.marks, dots)


def _axis(label: str, values: Sequence[float], log: bool, ticks: Sequence[float] = ()) -> Axis:
    low, high = min(values), max(values)
    if log:
        positive = [value for value in values if value > 0]
        low, high = min(positive) / 1.15, max(positive) * 1.15
        return Axis(label, low, high, True, _spaced(ticks) or _decades(low, high))
    spread = (high - low) or abs(high) or 1.0
    low, high = (0.0 if 0 <= low < spread else low - 0.05 * spread), high + 0.05 * spread
    return Axis(label, low, high, False, ticks or _round_ticks(low, high))


def _spaced(ticks: Sequence[float]) -> list[float]:
    """Ticks of a log axis that are not on top of each other."""
    kept: list[float] = []
    for tick in ticks:
        if not kept or tick / kept[-1] > 1.35:
            kept.append(tick)
    return kept


def _decades(low: float, high: float) -> list[float]:
    whole = [10.0**e for e in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    if len(whole) >= 2:
        return whole
    steps = [m * 10.0**e for e in range(-6, 6) for m in (1, 2, 5)]
    return [step for step in steps if low <= step <= high]


def _round_ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / (MAX_TICKS - 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * m for m in (1, 2, 5, 10) if size * m >= raw)
    first = math.ceil(low / step)
    return [round(step * i, 10) for i in range(first, math.floor(high / step) + 1)]


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _grid(x_axis: Axis, y_axis: Axis) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for tick in y_axis.ticks:
        y = _y(y_axis, tick)
        parts.append(_stroke("grid", (LEFT, right), (y, y)))
        parts.append(_text("tick", LEFT - 6, y + 4, _number(tick), "end"))
    for tick in x_axis.ticks:
        x = _x(x_axis, tick)
        parts.append(_stroke("grid", (x, x), (TOP, bottom)))
        parts.append(_text("tick", x, bottom + 16, _number(tick)))
    middle_x, middle_y = (LEFT + right) / 2, (TOP + bottom) / 2
    parts.append(_text("axis", middle_x, HEIGHT - 8, x_axis.label))
    parts.append(
        f'<text class="axis" transform="translate(12 {middle_y}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_axis.label)}</text>"
    )
    return "".join(parts)


def _text(style: str, x: float, y: float, text: str, anchor: str = "middle") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{style}" {place}>{escape(text)}</text>'


def _stroke(style: str, x: tuple[float, float], y: tuple[float, float]) -> str:
    ends = f'x1="{x[0]:.1f}" x2="{x[1]:.1f}" y1="{y[0]:.1f}" y2="{y[1]:.1f}"'
    return f'<line class="{style}" {ends}/>'


def _band(line: Line, x_axis: Axis, y_axis: Axis) -> str:
    ranged = [p for p in line.points if p.low is not None and p.high is not None]
    if len(ranged) < 2:
        return ""
    floor = y_axis.low
    upper = [f"{_x(x_axis, p.x):.1f},{_y(y_axis, max(p.high or floor, floor)):.1f}" for p in ranged]
    lower = [f"{_x(x_axis, p.x):.1f},{_y(y_axis, max(p.low or floor, floor)):.1f}" for p in ranged]
    return f'<polygon class="band {line.style}" points="{" ".join(upper + lower[::-1])}"/>'


def _dots(line: Line, x_axis: Axis, y_axis: Axis) -> str:
    return "".join(
        f'<circle class="dot {line.style}" cx="{_x(x_axis, p.x):.1f}"'
        f' cy="{_y(y_axis, p.y):.1f}" r="1.6"/>'
        for p in line.dots
    )


def _path(line: Line, x_axis: Axis, y_axis: Axis) -> str:
    if not line.points:
        return ""
    spots = [(_x(x_axis, p.x), _y(y_axis, p.y), p) for p in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in spots)
    marks = "".join(
        f'<circle class="mark {line.style}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">'
        f"<title>{escape(line.name)}: {_number(p.x)}, {p.y:.4g}</title></circle>"
        for x, y, p in spots
        if line.marks
    )
    return f'<polyline class="line {line.style}" points="{path}"/>{marks}'


def _spot(spot: Spot, x_axis: Axis, y_axis: Axis) -> str:
    x, left, end = (_x(x_axis, value) for value in spot.right)
    y, low, high = (_y(y_axis, value) for value in spot.reckless)
    label = f"{spot.name}: DAD {spot.right[0]:.2f}, UAR {spot.reckless[0]:.2f}"
    style = f"line {spot.style}"
    cross = _stroke(style, (left, end), (y, y)) + _stroke(style, (x, x), (low, high))
    return (
        f"{cross}"
        f'<circle class="mark {spot.style}" cx="{x:.1f}" cy="{y:.1f}" r="6">'
        f"<title>{escape(label)}</title></circle>"
    )


def _frame(title: str, body: Sequence[str], height: float = HEIGHT) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height:g}" role="img"'
        f' aria-label="{escape(title, quote=True)}">{"".join(body)}</svg>'
    )


def _legend(entries: Sequence[tuple[str, str]]) -> str:
    items = "".join(
        f'<li><span class="swatch {style}"></span>{escape(name)}</li>' for name, style in entries
    )
    return f'<ul class="legend">{items}</ul>'


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.0f}" if value == round(value) and abs(value) >= 1 else f"{value:.3g}"
