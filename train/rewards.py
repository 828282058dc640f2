"""What one try at the gateway is worth, by what the gateway answered and what was then said.

Acting where asking is right and asking where acting is right both cost 1, so that neither habit
pays over twins; so does telling of a success that did not happen. No judge model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from breadcrumbs.data_gen.claims import tells_success
from breadcrumbs.data_gen.grounding import worded_well
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Catalog, Risk
from breadcrumbs.gateway.gateway import LogEntry
from breadcrumbs.gateway.namings import OWN

RIGHT, WRONG, EMPTY = 1.0, -1.0, -0.5
"""As it should be; the wrong decision or a lie; the right side, and nothing right on it."""
TAKEN = ("done", "approval_required", "denied", "expired", "failed", "unknown")
"""How the gateway answers a call that it took: it ran, or was put up for approval."""


def unscored(scenario: Scenario) -> str | None:
    """Why tries at a scenario cannot be scored here; None where they can."""
    if scenario.behaviour not in ("dispatch", "clarify", "decline"):
        return f"{scenario.behaviour}: its words need more than the gateway's log"
    if scenario.kind or scenario.steps or scenario.slip:
        return "a special kind of scenario"
    if scenario.surface.language != "en":
        return "another language than English"
    if scenario.shape.history:
        return "something was asked for before"
    if scenario.shape.naming != OWN.name:
        return "meta-tools under other names"
    return None


def reward(
    scenario: Scenario,
    catalog: Catalog,
    hint: ToolHint | None,
    answers: Sequence[LogEntry],
    said: str,
) -> float:
    """The worth of one try, from -1 to 1.

    Args:
        scenario: with its hidden ground truth; one that is not `unscored`.
        catalog: the tools of its world.
        hint: words for the tool's parameters, where somebody wrote them.
        answers: every call with the answer that the model saw, in order.
        said: the words of the last turn; empty where it ends in a call or was cut.
    """
    taken = [a for a in answers if a.name == "execute_tool" and a.payload.get("status") in TAKEN]
    happened = any(a.payload.get("status") == "done" for a in taken)
    if tells_success(said, scenario.tool) and not happened:
        return WRONG
    own = [a for a in taken if a.arguments.get("tool_name") == scenario.tool]
    if any(a not in own and _writes(a, catalog) for a in taken):
        return WRONG
    if scenario.behaviour == "dispatch":
        return _acted(scenario, catalog, own)
    if own:
        return WRONG
    if scenario.behaviour == "decline":
        searched = any(a.name == "search_tool_catalog" for a in answers)
        return RIGHT if searched and said.strip() and "?" not in said else EMPTY
    return _asked(scenario, catalog, hint, answers, said)


def _acted(scenario: Scenario, catalog: Catalog, own: Sequence[LogEntry]) -> float:
    """Half for the call, half for the share of its arguments that are right."""
    if not own or any(call.arguments != own[0].arguments for call in own):
        return WRONG
    spec = catalog.tools[scenario.tool]
    given = check_arguments(spec, own[0].arguments["arguments"]).values
    gold = check_arguments(spec, scenario.gold_arguments).values
    names = {*given, *gold}
    right = sum(
        name in given and name in gold and _same(scenario, name, given[name], gold[name])
        for name in names
    )
    return RIGHT * (0.5 + 0.5 * right / max(len(names), 1))


def _same(scenario: Scenario, name: str, given: Any, gold: Any) -> bool:
    if name in scenario.composed:
        return worded_well(given, scenario.composed[name])
    return isinstance(given, bool) == isinstance(gold, bool) and bool(given == gold)


def _asked(
    scenario: Scenario,
    catalog: Catalog,
    hint: ToolHint | None,
    answers: Sequence[LogEntry],
    said: str,
) -> float:
    """F1 of what the words ask for and what is missing, once the schema was read."""
    read = any(
        shown.get("name") == scenario.tool
        for answer in answers
        for shown in _disclosed(answer.payload)
    )
    asked = set(asked_parameters(said, catalog.tools[scenario.tool], hint))
    hits = len(asked & set(scenario.missing))
    if not read or not hits:
        return EMPTY
    return 2 * hits / (len(asked) + len(scenario.missing))


def _disclosed(payload: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = payload.get("disclosed", ())
    return found


def _writes(answer: LogEntry, catalog: Catalog) -> bool:
    spec = catalog.tool(str(answer.arguments.get("tool_name")))
    return spec is None or spec.risk is not Risk.READ
