"""The page's figures and tables: stall beside recklessness, model beside constant policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from breadcrumbs.eval.charts import Spot, trade_off
from breadcrumbs.eval.report_transcripts import box_id, opener
from breadcrumbs.eval.turn_figures import TURN_FIGURES

NAMES = {
    "base": "base",
    "adapter": "adapter",
    "oracle": "oracle",
    "always_dispatch": "always dispatch",
    "always_ask": "always ask",
    "do_nothing": "do nothing",
}
MODELS = ("base", "adapter")
TIERS = {"breadcrumb_on": "breadcrumb on", "breadcrumb_off": "breadcrumb off"}
SPLITS = {"held_out_tools": "held-out tools", "held_out_domain": "held-out domain"}
COLUMNS = (
    ("dad", "acts when it should<br>DAD ↑"),
    ("oar", "stalls instead<br>OAR ↓"),
    ("uar", "acts when it must ask<br>UAR ↓"),
    ("ask_f1", "asks for the right thing<br>Ask-F1 ↑"),
    ("arguments_exact", "arguments exact<br>↑"),
    ("end_state", "whole episode right<br>↑"),
    ("search_call_parsed", "first call readable<br>↑"),
)
EXTRA_COLUMNS = (
    ("other_call", "searches again"),
    ("malformed_call", "call unreadable"),
    ("invented", "executes with an invented argument"),
    ("decline_told", "says that no tool fits ↑"),
)
STALLS = {
    "param_dump": "recites the parameters",
    "permission_ask": "asks for permission",
    "inferable_value_ask": "asks for what it has",
    "announce_without_call": "announces, does not call",
    "fake_call_in_text": "writes a call, or its answer, as plain text",
    "malformed_call": "call unreadable or cut",
    "other_text": "other text",
}
MAIN = ("breadcrumb_on", "held_out_tools")
DOMAIN = ("breadcrumb_on", "held_out_domain")


def metric(results: Mapping[str, Any], system: str, cell: tuple[str, str], name: str) -> Any:
    """One estimate, or None where it was not measured."""
    found = results["eval"].get(system, {}).get(cell[0], {}).get(cell[1], {}).get(name)
    return found if found and found["value"] is not None else None


def lead(results: Mapping[str, Any]) -> str:
    """One sentence pair that says what came out, from the numbers alone."""
    parts = []
    for system in ("base", "adapter"):
        dad, uar = (metric(results, system, MAIN, name) for name in ("dad", "uar"))
        if dad and uar:
            parts.append(
                f"the {system} acts in {dad['value']:.0%} of {dad['n']} requests that say all"
                f" it needs, and in {uar['value']:.0%} of {uar['n']} that do not"
            )
    said = "; ".join(parts) or "no model was scored on held-out tools with the breadcrumb on"
    return escape(f"A schema was just disclosed. On tools never seen in training, {said}.")


def figures(results: Mapping[str, Any]) -> str:
    """Large numbers, base to adapter."""
    tiles = (
        (MAIN, "dad", "acts when everything is known"),
        (MAIN, "uar", "acts although something is missing (lower is better)"),
        (MAIN, "ask_f1", "asks for just what is missing (Ask-F1)"),
        (DOMAIN, "dad", "acts when everything is known, in a domain never seen"),
        (
            DOMAIN,
            "uar",
            "acts although something is missing, in a domain never seen (lower is better)",
        ),
        (MAIN, "arguments_exact", "every argument of the call right"),
    )
    shown = [_figure(results, *tile) for tile in tiles]
    return f'<div class="figures">{"".join(shown)}</div>'


def _figure(results: Mapping[str, Any], cell: tuple[str, str], name: str, what: str) -> str:
    base, adapter = (metric(results, system, cell, name) for system in ("base", "adapter"))
    last = adapter or base
    if last is None:
        return ""
    start = ""
    if base and adapter:
        start = f'<span class="from">{base["value"]:.2f}</span><span class="arrow">→</span>'
    return (
        f'<div class="figure"><div class="what">{escape(what)}</div>'
        f'<div class="move">{start}<span class="to">{last["value"]:.2f}</span></div>'
        f"<small>{last['low']:.2f} to {last['high']:.2f}, n = {last['n']}</small></div>"
    )


def trade_off_section(results: Mapping[str, Any]) -> str:
    """Both errors on one plane, for both splits."""
    charts = []
    for cell in (MAIN, DOMAIN):
        spots = [spot for system in NAMES if (spot := _spot(results, system, cell))]
        if spots:
            name = f"{SPLITS[cell[1]]}, {TIERS[cell[0]]}"
            chart = trade_off(spots, f"Right calls against reckless ones, {name}")
            charts.append(f"<figure><h3>{escape(name)}</h3>{chart}</figure>")
    if not charts:
        return ""
    return (
        "<section><h2>Two ways to be wrong</h2><p>A model that never asks is as bad as one that"
        " only asks. Good is the lower right corner; a policy that always does the same sits in"
        " another corner and wins one number while it loses the other. Crosses are 95 %"
        f' intervals.</p><div class="two">{"".join(charts)}</div></section>'
    )


def _spot(results: Mapping[str, Any], system: str, cell: tuple[str, str]) -> Spot | None:
    figures = {name: metric(results, system, cell, name) for name in ("dad", "uar")}
    return spot_of(NAMES[system], system, figures)


def spot_of(name: str, system: str, figures: Mapping[str, Any]) -> Spot | None:
    """A system on the plane by its `dad` and `uar`; None where one was not measured."""
    right, reckless = (figures.get(figure) for figure in ("dad", "uar"))
    if not right or not reckless or right["value"] is None or reckless["value"] is None:
        return None
    return Spot(
        name,
        style_of(system),
        (right["value"], right["low"], right["high"]),
        (reckless["value"], reckless["low"], reckless["high"]),
    )


def style_of(system: str) -> str:
    """The style-sheet class that gives a system its colour."""
    return "adapter-line" if system == "adapter" else system


def results_section(results: Mapping[str, Any], boxes: Mapping[str, str]) -> str:
    """The headline table, and the numbers that explain it; `boxes` hold what they count."""
    if not results["eval"]:
        return ""
    note = (
        "The gold prefix (search, schema) is forced through the real gateway, one turn is written"
        " greedily, nudges are off. Rates carry Wilson intervals, Ask-F1 a bootstrap over"
        " scenarios, all at 95 %. A dash was not measured. Choose a column's head to sort, a"
        " number of a model to see the turns behind it."
    )
    return (
        f"<section><h2>All systems, all cells</h2><p>{escape(note)}</p>"
        f"{_table(results, COLUMNS, boxes)}"
        "<details><summary>What explains these numbers</summary>"
        f"{_table(results, EXTRA_COLUMNS, boxes)}</details></section>"
    )


def _cells(results: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = {
        (tier, split)
        for tiers in results["eval"].values()
        for tier, splits in tiers.items()
        for split in splits
    }
    places = sorted({place for _, place in found}, key=_place_order)
    return [(tier, place) for tier in TIERS for place in places if (tier, place) in found]


def _place_order(place: str) -> tuple[int, str]:
    """Splits in their order, each before its own cells under other namings."""
    split = place.partition(" as ")[0]
    return list(SPLITS).index(split), place


def place_name(place: str) -> str:
    """A split, and the naming of the meta-tools where a cell has one."""
    split, _, naming = place.partition(" as ")
    return SPLITS[split] + (f", tools named as in {naming}" if naming else "")


def _table(
    results: Mapping[str, Any], columns: Sequence[tuple[str, str]], boxes: Mapping[str, str]
) -> str:
    heads = "".join(f'<th scope="col" data-sort>{label}</th>' for _, label in columns)
    bodies = "".join(_body(results, cell, columns, boxes) for cell in _cells(results))
    return (
        '<div class="scroll"><table class="results" data-sortable><thead><tr>'
        f'<th scope="col">system</th>{heads}</tr></thead>{bodies}</table></div>'
    )


def _body(
    results: Mapping[str, Any],
    cell: tuple[str, str],
    columns: Sequence[tuple[str, str]],
    boxes: Mapping[str, str],
) -> str:
    name = f"{place_name(cell[1])}, {TIERS[cell[0]]}"
    rows = "".join(
        f'<tr class="{escape(kind)}"><td>{escape(NAMES.get(system, system))}</td>'
        + "".join(
            _value(metric(results, system, cell, key), _behind(system, cell, key, boxes), key)
            for key, _ in columns
        )
        + "</tr>"
        for system, kind in _rows(results, cell)
    )
    head = f'<tr><th scope="rowgroup" colspan="{len(columns) + 1}">{escape(name)}</th></tr>'
    return f'<tbody class="name">{head}</tbody><tbody class="cell">{rows}</tbody>'


def _rows(results: Mapping[str, Any], cell: tuple[str, str]) -> Iterator[tuple[str, str]]:
    for system, tiers in results["eval"].items():
        if cell[1] in tiers.get(cell[0], {}):
            yield system, f"of-{system}" if system in MODELS else "constant"


def _behind(system: str, cell: tuple[str, str], name: str, boxes: Mapping[str, str]) -> str | None:
    """The box with the turns behind a number, if the page has it."""
    box = box_id(system, *cell)
    return box if box in boxes and name in TURN_FIGURES else None


def _value(estimate: Mapping[str, Any] | None, behind: str | None, name: str) -> str:
    if estimate is None:
        return '<td data-value="">–</td>'
    interval = f"{estimate['low']:.2f} to {estimate['high']:.2f}"
    shown = f"{estimate['value']:.2f}"
    if behind is not None:
        shown = opener(shown, behind, name)
    return (
        f'<td data-value="{estimate["value"]}" title="n = {estimate["n"]}">'
        f"{shown}<small>{interval}</small></td>"
    )


def behind_section(results: Mapping[str, Any]) -> str:
    """Kinds of stall, faults of calls and failed episodes, of base and adapter."""
    parts = []
    details = results.get("details", {})
    for system in ("base", "adapter"):
        cell = details.get(system, {}).get(MAIN[0], {}).get(MAIN[1])
        if cell:
            named = {STALLS.get(kind, kind): count for kind, count in cell["stalls"].items()}
            parts.append(
                f"<div><h3>{system}</h3>"
                + _counts("how it stalled", named)
                + _counts("what was wrong with calls", cell["faults"])
                + _counts("why whole episodes failed", details[system].get("episode_faults", {}))
                + "</div>"
            )
    if not parts:
        return ""
    tools = _by_tool(details.get("adapter", details.get("base", {})))
    return (
        "<section><h2>What lies behind</h2><p>Held-out tools, breadcrumb on, requests where"
        " acting is right; the kinds of stall are the radar's.</p>"
        f'<div class="two">{"".join(parts)}</div>'
        f"{tools}</section>"
    )


def _counts(title: str, counts: Mapping[str, int]) -> str:
    if not counts:
        return ""
    rows = "".join(f"<tr><td>{escape(str(k))}</td><td>{v}</td></tr>" for k, v in counts.items())
    return (
        f'<div class="scroll wrap"><table><thead><tr><th>{escape(title)}</th><th>turns</th></tr>'
        f"</thead><tbody>{rows}</tbody></table></div><p></p>"
    )


def _by_tool(system: Mapping[str, Any]) -> str:
    tools: dict[str, Any] = system.get(MAIN[0], {}).get(MAIN[1], {}).get("by_tool", {})
    if not tools:
        return ""
    rows = "".join(
        f"<tr><td><code>{escape(tool)}</code></td><td>{row['dad']} of {row['n']}</td>"
        f"<td>{row['exact']} of {row['n']}</td></tr>"
        for tool, row in sorted(tools.items())
    )
    return (
        "<details><summary>Tool by tool, the adapter where there is one</summary>"
        '<div class="scroll"><table><thead><tr><th>tool</th><th>acts</th><th>arguments exact</th>'
        f"</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )
