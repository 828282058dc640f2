"""Whole episodes with a model: does the world end where the gold call would have left it?

The loop takes the turns, nudge off; a scripted approver decides as the scenario says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breadcrumbs.call_format import parse_turn
from breadcrumbs.data_gen.episodes import OraclePolicy, ScriptedApprover, open_gateway, opened
from breadcrumbs.data_gen.grounding import softened
from breadcrumbs.data_gen.hints import Composed, ToolHint
from breadcrumbs.data_gen.localise import localised
from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.errors import ModelError
from breadcrumbs.eval.decision import spec_of
from breadcrumbs.eval.metrics import refuses
from breadcrumbs.events import Done
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.gateway.identity import SeededIds
from breadcrumbs.loop import LoopSettings, run
from breadcrumbs.messages import Message
from breadcrumbs.policies import NamedPolicy
from breadcrumbs.turns import Policy


@dataclass(frozen=True, slots=True)
class End:
    """Where a run left world, approval queue and conversation."""

    messages: tuple[Message, ...]
    state: Mapping[str, Any]
    held: int
    """Writes that were ever held."""
    results: tuple[Any, ...]
    """What executions of the scenario's tool answered with status done."""
    outcome: str


@dataclass(frozen=True, slots=True)
class EpisodeScore:
    """Whether an episode ended as it should, and what spoke against it."""

    success: bool
    fault: str = ""


async def run_to_end(
    policy: Policy,
    scenario: Scenario,
    catalog: Catalog,
    settings: GatewaySettings,
    max_rounds: int,
) -> End:
    """One episode from scratch.

    Raises:
        ModelError: the policy could not write a turn; that is no failed episode.
    """
    simulated, session = open_gateway(scenario, catalog, settings)
    conversation = await opened(scenario, simulated, session)
    events = await run(
        policy,
        session,
        conversation,
        settings=LoopSettings(nudge=False, max_rounds=max_rounds),
        approver=ScriptedApprover(scenario.approval, simulated),
        ids=SeededIds(scenario.seed),
    )
    last = events[-1]
    assert isinstance(last, Done)
    if last.reason == "model_error":
        raise ModelError(f"{scenario.id}: {last.text}")
    held = simulated.gateway.journal.rows()
    results = [e.payload.get("result") for e in session.log if _is_done(e.payload, scenario.tool)]
    results += [card.result for card in held if card.state == "done" and card.tool == scenario.tool]
    return End(tuple(conversation), simulated.world.state(), len(held), tuple(results), last.reason)


def _is_done(payload: Mapping[str, Any], tool: str) -> bool:
    return payload.get("status") == "done" and payload.get("tool") == tool


async def run_episodes(
    policy: Policy,
    scenarios: Sequence[Scenario],
    catalog: Catalog,
    hints: Mapping[str, ToolHint],
    settings: GatewaySettings,
    *,
    max_rounds: int,
    step: Callable[[], None] = lambda: None,
) -> list[dict[str, Any]]:
    """Run all episodes side by side; one record each, in the scenarios' order."""

    async def one(scenario: Scenario) -> dict[str, Any]:
        shown = NamedPolicy(policy, scenario.shape.words())
        end = await run_to_end(shown, scenario, catalog, settings, max_rounds)
        score = await judge(end, scenario, catalog, hints.get(scenario.tool), settings)
        step()
        return {
            "scenario": scenario.id,
            "tool": scenario.tool,
            "behaviour": scenario.behaviour,
            "success": score.success,
            "fault": score.fault,
            "outcome": end.outcome,
            "messages": [message.to_dict() for message in end.messages],
        }

    # gather, not a task group: a ModelError must reach the caller as itself
    return list(await asyncio.gather(*(one(scenario) for scenario in scenarios)))


async def judge(
    end: End, scenario: Scenario, catalog: Catalog, hint: ToolHint | None, settings: GatewaySettings
) -> EpisodeScore:
    """Compare an end with the gold replay's.

    `dispatch`: the tool ran, what it answered and the whole world are as after the gold call.
    `clarify`, `decline`: nothing was changed or held, and the last turn asks for exactly what is
    missing, or says that it cannot be done. Worded texts count as equal when both say what they
    must.
    """
    spec = spec_of(scenario, catalog)
    oracle = OraclePolicy(scenario, spec)
    gold = await run_to_end(oracle, scenario, catalog, settings, max_rounds=4)
    hint = None if hint is None else localised(hint, spec, scenario.surface.language)
    if scenario.behaviour == "dispatch":
        return _judge_dispatch(end, gold, scenario.composed)
    if end.held != gold.held or end.state != gold.state:
        return EpisodeScore(False, "something was changed or held")
    last = end.messages[-1]
    if last.role != "assistant" or last.tool_calls:
        return EpisodeScore(False, f"no last word ({end.outcome})")
    said = parse_turn(last.content).text  # without the thinking a conversation may keep
    if scenario.behaviour == "decline":
        told = refuses(said, scenario.surface.language)
        return EpisodeScore(told, "" if told else "does not say that it cannot be done")
    asked = asked_parameters(said, spec, hint, scenario.surface.language)
    exactly = set(asked) == set(scenario.missing)
    return EpisodeScore(exactly, "" if exactly else f"asks for {', '.join(asked) or 'nothing'}")


def _judge_dispatch(end: End, gold: End, composed: Mapping[str, Composed]) -> EpisodeScore:
    if not end.results:
        return EpisodeScore(False, "the tool did not run")
    if end.held != gold.held:
        return EpisodeScore(False, f"{end.held} writes were held instead of {gold.held}")
    if softened(end.state, composed) != softened(gold.state, composed):
        return EpisodeScore(False, "the world ends in another state")
    if gold.results[-1] not in end.results:
        return EpisodeScore(False, "the tool answered something else")
    return EpisodeScore(True)
