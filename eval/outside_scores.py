"""Turns of outside items, scored on both sides without a judge: did it call where a call is right.

A turn either calls or it does not; `execute_tool` on whatever counts as acting, another meta-tool
as neither acting nor waiting. `balanced` is the mean of acting where that is right and of making no
call where it is wrong, so that a policy which always does the same has a half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.values import words
from breadcrumbs.eval.decision import NOTHING, filler
from breadcrumbs.eval.estimates import Part, Unit, mean_of_two, ratio
from breadcrumbs.eval.intervals import Estimate
from breadcrumbs.eval.measures import Good
from breadcrumbs.eval.metrics import refuses, stall_of
from breadcrumbs.eval.outside_config import OutsideSystem
from breadcrumbs.eval.outside_items import Side
from breadcrumbs.eval.outside_replay import OutsideCase
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.protocol import EXECUTE
from breadcrumbs.messages import ToolCall
from breadcrumbs.turns import Turn

REFUSAL = "Sorry, no tool here can do this."
NO_TOOL = "unknown"
"""What is called where there is no tool to call."""
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class OutsideScore:
    """What one turn did."""

    executed: bool
    """It called `execute_tool`, on whatever, with whatever."""
    fits: bool
    """One of these calls is of a right tool, with arguments that its schema takes."""
    waits: bool
    """It made no call, readable or not."""
    asks: bool
    """As `waits`, and it asks the user something."""
    declines: bool
    """As `waits`, and it says that this cannot be done."""
    stall: str | None
    """Kind of stall, where no call could be read though one was right."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def score_outside(turn: Turn, case: OutsideCase) -> OutsideScore:
    """Score a parsed turn that follows `case.messages`; same turn, same score."""
    executes = [call for call in turn.calls if call.name == EXECUTE]
    waits = not turn.calls and not turn.problems
    return OutsideScore(
        executed=bool(executes),
        fits=any(_fits(call, case) for call in executes),
        waits=waits,
        asks=waits and _asks(turn.text, case),
        declines=waits and refuses(turn.text),
        stall=stall_of(turn, case.messages) if case.item.side == "dispatch" else None,
    )


def _fits(call: ToolCall, case: OutsideCase) -> bool:
    name, arguments = call.arguments.get("tool_name"), call.arguments.get("arguments")
    right = {gold.tool for gold in case.item.calls} or set(case.item.read)
    if name not in right or not isinstance(arguments, Mapping):
        return False
    return not check_arguments(case.item.catalog.tools[name], arguments).errors


def _asks(text: str, case: OutsideCase) -> bool:
    tools = (case.item.catalog.tools[name] for name in case.item.read)
    return "?" in text or any(asked_parameters(text, spec) for spec in tools)


@dataclass(frozen=True, slots=True)
class OutsideFigure:
    """A share over the items of one side."""

    says: str
    good: Good
    side: Side
    read: Callable[[Record], bool]
    """The answer, from a score as records hold it."""


FIGURES: Mapping[str, OutsideFigure] = {
    "acts": OutsideFigure(
        "calls where a call is right", "high", "dispatch", lambda s: s["executed"]
    ),
    "fits": OutsideFigure("a right tool, arguments valid", "high", "dispatch", lambda s: s["fits"]),
    "stalls": OutsideFigure(
        "no readable call instead", "low", "dispatch", lambda s: s["stall"] is not None
    ),
    "waits": OutsideFigure("no call where it must ask", "high", "clarify", lambda s: s["waits"]),
    "asks": OutsideFigure("and asks", "high", "clarify", lambda s: s["asks"]),
    "guesses": OutsideFigure("calls instead", "low", "clarify", lambda s: s["executed"]),
    "refrains": OutsideFigure(
        "no call where no tool fits", "high", "decline", lambda s: s["waits"]
    ),
    "declines": OutsideFigure("and says so", "high", "decline", lambda s: s["declines"]),
    "forces": OutsideFigure("calls instead", "low", "decline", lambda s: s["executed"]),
}
BALANCED = "balanced"


def outside_units(records: Sequence[Record]) -> dict[str, dict[str, Unit]]:
    """The units of each figure by item, from turns as they were scored."""
    return {
        name: {
            record["item"]: Unit(record["twin"], Part(float(figure.read(record["score"])), 1))
            for record in records
            if record["side"] == figure.side
        }
        for name, figure in FIGURES.items()
    }


def outside_figures(records: Sequence[Record], seed: int) -> dict[str, Estimate]:
    """Every figure of a set; one that says nothing about it has n = 0."""
    units = outside_units(records)
    found = {name: ratio(each.values(), seed) for name, each in units.items()}
    silent = [*units["waits"].values(), *units["refrains"].values()]
    return {**found, BALANCED: mean_of_two(list(units["acts"].values()), silent, seed)}


def by_said(records: Sequence[Record], seed: int) -> dict[str, dict[str, Estimate]]:
    """The acting side's figures by whether the user has said what the first right call needs."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record["side"] == "dispatch":
            groups["said" if record["said"] else "not said"].append(record)
    return {
        name: {figure: e for figure, e in outside_figures(rows, seed).items() if e.n}
        for name, rows in sorted(groups.items())
    }


def outside_turn(system: OutsideSystem, case: OutsideCase) -> Turn:
    """The turn of a system without a model: the right one, or always the same."""
    side = case.item.side
    if system == "do_nothing":
        return Turn(NOTHING)
    if system == "always_dispatch" or (system == "oracle" and side == "dispatch"):
        return _call(case)
    if system == "oracle" and side == "decline":
        return Turn(REFUSAL)
    return Turn(_question(case))


def _call(case: OutsideCase) -> Turn:
    """The first right call, or one of the first tool; a filler where a value is missing."""
    item = case.item
    name = item.calls[0].tool if item.calls else next(iter(item.read), NO_TOOL)
    arguments = dict(item.calls[0].arguments) if item.calls else {}
    spec = item.catalog.tool(name)
    if spec is not None:
        for missing in set(spec.required) - set(arguments):
            arguments[missing] = filler(spec.input_schema["properties"][missing])
    return Turn("", (ToolCall("call", EXECUTE, {"tool_name": name, "arguments": arguments}),))


def _question(case: OutsideCase) -> str:
    """Asks for the first required parameter, or the first of all."""
    specs = [case.item.catalog.tools[name] for name in case.item.read]
    names = [name for s in specs for name in (*s.required, *s.input_schema["properties"])]
    return f"What is the {words(names[0]) if names else 'value'}?"
