"""Scenario in, executed episode out: the real loop and the real gateway, scripted policies.

The oracle knows the scenario's ground truth and always takes the right turn. Nothing here
takes turns itself; `breadcrumbs.loop` does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breadcrumbs.data_gen.distractors import with_distractors
from breadcrumbs.data_gen.lengthening import lengthened
from breadcrumbs.data_gen.reports import done_first, report, stays
from breadcrumbs.data_gen.scenarios import ApprovalPlan, Scenario
from breadcrumbs.data_gen.script import (
    QUESTION_THOUGHT,
    THOUGHTS,
    Script,
    Step,
    says_no,
    says_yes,
)
from breadcrumbs.data_gen.shape import Past
from breadcrumbs.events import Done, Event
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.gateway import (
    GatewaySession,
    GatewaySettings,
    Principal,
    SimulatedGateway,
    simulated_gateway,
)
from breadcrumbs.gateway.identity import SeededIds, SimulatedClock
from breadcrumbs.loop import LoopSettings, run
from breadcrumbs.messages import Message, ToolCall, compact_json
from breadcrumbs.radar import Radar
from breadcrumbs.turns import Policy, Turn


class OraclePolicy:
    """Search, disclose, then the right turn of the scenario, then one sentence of report."""

    def __init__(self, scenario: Scenario, spec: ToolSpec) -> None:
        self.scenario = scenario
        self.spec = spec

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The next right turn, decided by the last gateway payload."""
        turn = self.turn(messages)
        if turn.text:
            yield turn.text
        yield turn

    def turn(self, messages: Sequence[Message]) -> Turn:
        """The same, without streaming."""
        scenario = self.scenario
        since = since_request(messages, scenario)
        payload = last_payload(since)
        if messages[-1].role == "user" and messages[-1].content in scenario.replies:
            return self._reply(messages, payload)
        layer = payload.get("layer")
        ran = sum(call.name == "execute_tool" for m in since for call in m.tool_calls)
        step = scenario.steps[ran] if ran < len(scenario.steps) else None
        if layer is None or (layer == "3_execution" and ran <= len(scenario.steps)):
            query = scenario.search_query if step is None else step.query
            return self._call(messages, "search_tool_catalog", {"query": query})
        if layer == "1_catalog" and step is None and scenario.behaviour == "decline":
            return Turn(scenario.reply)
        if layer == "1_catalog":
            names = [step.tool] if step else read_together(scenario)
            return self._call(messages, "get_tool_schema", {"tool_names": names})
        if layer == "2_schema_disclosure" and step is not None:
            return self._take(messages, step, payload["disclosed"][0]["inputSchema"])
        if layer == "2_schema_disclosure" and scenario.slip:
            return self._take(
                messages, Step("", scenario.tool, scenario.slip), self.spec.input_schema
            )
        slipped = bool(scenario.slip) and ran == len(scenario.steps) + 1
        if layer == "2_schema_disclosure" or (slipped and payload.get("status") == "invalid"):
            return self._decide(messages)
        return Turn(done_first(scenario) + report(self.spec, scenario, payload))

    def _take(self, messages: Sequence[Message], step: Step, schema: Mapping[str, Any]) -> Turn:
        """The call of a step, its arguments written down first as for any other call."""
        thinking = draft_with_verdicts(step.arguments, schema.get("required", ()), ())
        arguments = {"tool_name": step.tool, "arguments": dict(step.arguments)}
        call = self._call(messages, "execute_tool", arguments)
        return dataclasses.replace(call, thinking=thinking)

    def _decide(self, messages: Sequence[Message]) -> Turn:
        """Write the arguments down, then ask for the missing one, wait, or call."""
        scenario, thinking = self.scenario, ledger(self.scenario, self.spec)
        if scenario.behaviour == "clarify":
            return Turn(done_first(scenario) + scenario.question, thinking=thinking)
        if scenario.behaviour == "answer":
            return Turn(scenario.reply, thinking=QUESTION_THOUGHT)
        if scenario.behaviour == "hold":
            return Turn(scenario.reply, thinking=f"{thinking}; {THOUGHTS[scenario.kind]}")
        return self._execute(messages)

    def _reply(self, messages: Sequence[Message], payload: Mapping[str, Any]) -> Turn:
        """What is right after the user's next words: the call after a yes, else only words."""
        if says_yes(messages[-1].content):
            return self._execute(messages)
        if says_no(messages[-1].content):
            return Turn(stays(self.spec, self.scenario))
        return Turn(report(self.spec, self.scenario, payload))

    def _execute(self, messages: Sequence[Message]) -> Turn:
        scenario = self.scenario
        arguments = {"tool_name": scenario.tool, "arguments": dict(scenario.gold_arguments)}
        call = self._call(messages, "execute_tool", arguments)
        return dataclasses.replace(call, thinking=ledger(scenario, self.spec))

    def _call(self, messages: Sequence[Message], name: str, arguments: dict[str, Any]) -> Turn:
        return next_call(messages, name, arguments)


def next_call(messages: Sequence[Message], name: str, arguments: dict[str, Any]) -> Turn:
    """A turn with one call, its id by the number of calls before."""
    number = 1 + sum(len(message.tool_calls) for message in messages)
    return Turn("", (ToolCall(f"call_{number}", name, arguments),))


def read_together(scenario: Scenario) -> list[str]:
    """The tools whose schemas are read in the call that discloses the scenario's own."""
    return list(scenario.shape.read) or [scenario.tool]


def ledger(scenario: Scenario, spec: ToolSpec) -> str:
    """What a decision is read off: the arguments as JSON, then a verdict on each required one.

    `{"room": "suite", "city": "Split"}; city ok; check_in missing`. The draft follows the request,
    the verdicts follow the schema's `required` list, and the call is the draft again, so every
    step is a copy or a look into the line itself. Without it one token must weigh every required
    argument at once, which a small model does not learn from few rows.
    """
    return draft_with_verdicts(scenario.gold_arguments, spec.required, scenario.missing)


def draft_with_verdicts(
    arguments: Mapping[str, Any], required: Sequence[str], missing: Sequence[str]
) -> str:
    """The arguments as JSON, then a verdict on each required one."""

    def verdict(name: str) -> str:
        if name in missing:
            return "missing"
        return "ok" if name in arguments else "default"

    draft = json.dumps(dict(arguments), ensure_ascii=False)
    return "; ".join((draft, *(f"{name} {verdict(name)}" for name in required)))


def last_payload(messages: Sequence[Message]) -> dict[str, Any]:
    """The last gateway payload of a conversation; empty where there is none."""
    for message in reversed(messages):
        if message.role == "tool":
            payload = json.loads(message.content)
            return payload if isinstance(payload, dict) else {}
    return {}


class ScriptedApprover:
    """Decides as the scenario says. Lives here so that nothing served can reach it."""

    def __init__(self, plan: ApprovalPlan, simulated: SimulatedGateway) -> None:
        self.plan = plan
        self.simulated = simulated

    async def decide(self, card: Any) -> bool | None:
        """True, False, or None for a decision that does not come in time."""
        if self.plan == "expire":
            clock = self.simulated.gateway.clock
            assert isinstance(clock, SimulatedClock)
            clock.advance(self.simulated.gateway.settings.ttl_s + 1)
        return {"approve": True, "deny": False}.get(self.plan)


@dataclass(frozen=True, slots=True)
class Episode:
    """What one run left behind."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    events: tuple[Event, ...]
    calls: tuple[str, ...]
    """Names of the meta-tools the gateway logged, in order."""
    state_hash: str
    queue: tuple[tuple[str, str, str], ...]
    """The approval journal: tool, stored arguments as JSON, state; in order of holding."""

    @property
    def outcome(self) -> str:
        """Why the loop ended."""
        last = self.events[-1]
        return last.reason if isinstance(last, Done) else "unfinished"


def opening(scenario: Scenario) -> list[Message]:
    """The conversation before the first turn."""
    return [Message("system", scenario.system_prompt), Message("user", scenario.request)]


async def opened(
    scenario: Scenario,
    simulated: SimulatedGateway,
    session: GatewaySession,
    past: Policy | None = None,
) -> list[Message]:
    """The conversation up to the scenario's request, every earlier request run to its end."""
    conversation = opening(scenario)[:1]
    policy = past or PastPolicy(scenario, simulated.gateway.catalog)
    for one in scenario.shape.history:
        conversation.append(Message("user", one.request))
        await run(
            policy,
            session,
            conversation,
            settings=LoopSettings(nudge=False),
            approver=ScriptedApprover("approve", simulated),
            ids=SeededIds(scenario.seed),
        )
    return [*conversation, *opening(scenario)[1:]]


def since_request(messages: Sequence[Message], scenario: Scenario) -> list[Message]:
    """The conversation as if it had begun with the scenario's request."""
    return [*messages[:1], *messages[request_place(messages, scenario) :]]


def request_place(messages: Sequence[Message], scenario: Scenario) -> int:
    """Where the scenario's request stands; 1 where nothing was asked for before."""
    earlier = len(scenario.shape.history)
    spoken = [i for i, m in enumerate(messages) if m.role == "user" and not m.synthetic]
    return spoken[earlier] if earlier and earlier < len(spoken) else 1


class PastPolicy:
    """Does what was asked for before the scenario's request: search, disclose, call, report."""

    def __init__(self, scenario: Scenario, catalog: Catalog) -> None:
        self._scenario = scenario
        self._catalog = catalog

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The next turn of the request that was made last."""
        spoken = [i for i, m in enumerate(messages) if m.role == "user"]
        past = self._scenario.shape.history[len(spoken) - 1]
        yield self._turn(messages, past, last_payload(messages[spoken[-1] :]))

    def _turn(self, messages: Sequence[Message], past: Past, payload: Mapping[str, Any]) -> Turn:
        layer = payload.get("layer")
        if layer is None:
            return next_call(messages, "search_tool_catalog", {"query": past.query})
        if layer == "1_catalog":
            return next_call(messages, "get_tool_schema", {"tool_names": [past.tool]})
        spec = self._catalog.tools[past.tool]
        if layer == "2_schema_disclosure":
            thinking = draft_with_verdicts(past.arguments, spec.required, ())
            arguments = {"tool_name": past.tool, "arguments": dict(past.arguments)}
            call = next_call(messages, "execute_tool", arguments)
            return dataclasses.replace(call, thinking=thinking)
        about = dataclasses.replace(
            self._scenario, tool=past.tool, gold_arguments=past.arguments, script=Script()
        )
        return Turn(report(spec, about, payload))


def open_gateway(
    scenario: Scenario, catalog: Catalog, settings: GatewaySettings
) -> tuple[SimulatedGateway, GatewaySession]:
    """A fresh gateway and world for a scenario; its hidden tools are not in the catalog."""
    shown = catalog.without(scenario.hidden_tools) if scenario.hidden_tools else catalog
    if scenario.script.records:
        shown = _with_records(shown, scenario.domain, scenario.script.records)
    if scenario.tool in shown.tools:
        shown = _as_shown(shown, scenario)
    if scenario.shape.near:
        shown = with_distractors(shown, scenario.shape.near)
    if hits := scenario.shape.hits:
        settings = dataclasses.replace(settings, max_hits=hits, unasked_hits=hits)
    simulated = simulated_gateway(shown, seed=scenario.seed, settings=settings)
    spec = catalog.tool(scenario.tool)
    principal = Principal(roles=spec.allow[:1]) if spec is not None else Principal()
    return simulated, simulated.gateway.session(principal)


def _with_records(
    catalog: Catalog, domain: str, records: Mapping[str, Sequence[Mapping[str, Any]]]
) -> Catalog:
    """The same tools over a world with other records in some collections of a domain."""
    kinds = dict(catalog.collections[domain])
    for name, found in records.items():
        kinds[name] = dataclasses.replace(kinds[name], records=tuple(map(dict, found)))
    return Catalog(catalog.tools, {**catalog.collections, domain: kinds}, catalog.whole or catalog)


def _as_shown(catalog: Catalog, scenario: Scenario) -> Catalog:
    """The same tools, that of the scenario as it is shown."""
    spec = catalog.tools[scenario.tool]
    shown = as_shown(scenario, spec)
    if shown is spec:
        return catalog
    tools = {**catalog.tools, spec.name: shown}
    return Catalog(tools, catalog.collections, catalog.whole or catalog)


def as_shown(scenario: Scenario, spec: ToolSpec) -> ToolSpec:
    """The scenario's tool as its catalog has it: longer, or wrongly labelled, where it says so."""
    if scenario.shape.schema_tokens:
        spec = lengthened(spec, scenario.shape.schema_tokens)
    risk = scenario.script.shown_risk
    if not risk:
        return spec
    return dataclasses.replace(spec, risk=Risk(risk), requires_approval=risk != Risk.READ)


async def run_episode(
    scenario: Scenario,
    catalog: Catalog,
    settings: GatewaySettings,
    policy: Policy,
    *,
    loop_settings: LoopSettings | None = None,
    radar: Radar | None = None,
    past: Policy | None = None,
) -> Episode:
    """Run a policy on a scenario from scratch, to the end; `past` takes the turns before it."""
    simulated, session = open_gateway(scenario, catalog, settings)
    conversation = await opened(scenario, simulated, session, past)
    ids, approver = SeededIds(scenario.seed), ScriptedApprover(scenario.approval, simulated)
    events: list[Event] = []
    for reply in (None, *scenario.replies):
        if reply is not None:
            conversation.append(Message("user", reply))
        events += await run(
            policy,
            session,
            conversation,
            settings=loop_settings or LoopSettings(nudge=False),
            radar=radar or Radar(),
            approver=approver,
            ids=ids,
        )
    return Episode(
        messages=tuple(conversation),
        tools=tuple(session.tools),
        events=tuple(events),
        calls=tuple(entry.name for entry in session.log),
        state_hash=simulated.world.state_hash(),
        queue=queue_of(simulated),
    )


def queue_of(simulated: SimulatedGateway) -> tuple[tuple[str, str, str], ...]:
    """The journal without ids and times: what was held, with which arguments, in which state."""
    return tuple(
        (card.tool, compact_json(card.arguments), card.state)
        for card in simulated.gateway.journal.rows()
    )


def row_meta(episode: Episode, scenario: Scenario) -> dict[str, Any]:
    """What a row says about its run, for replays to be compared with."""
    return {
        "outcome": episode.outcome,
        "state_hash": episode.state_hash,
        "queue": [list(entry) for entry in episode.queue],
        "seed": scenario.seed,
        **unlearned(episode.messages, scenario),
    }


def unlearned(messages: Sequence[Message], scenario: Scenario) -> dict[str, list[int]]:
    """Which assistant turns are wrong and stand there only to be mended; nothing for most rows."""
    if not scenario.slip:
        return {}
    return {
        "unlearned": [
            place
            for place, message in enumerate(messages)
            for call in message.tool_calls
            if call.arguments.get("arguments") == scenario.slip
        ]
    }


async def gold_prefix(
    scenario: Scenario, catalog: Catalog, settings: GatewaySettings
) -> tuple[list[Message], list[Mapping[str, Any]], GatewaySession]:
    """The conversation up to the decision point, its tools, and the live session behind it.

    The oracle's turns are taken by the loop: search, then disclosure (search only for
    `decline`). `catalog` is the split's own.
    """
    simulated, session = open_gateway(scenario, catalog, settings)
    spec = catalog.tool(scenario.tool)
    assert spec is not None
    conversation = await opened(scenario, simulated, session)
    rounds = 3 * len(scenario.steps) + (1 if scenario.behaviour == "decline" else 2)
    await run(
        OraclePolicy(scenario, spec),
        session,
        conversation,
        settings=LoopSettings(nudge=False, max_rounds=rounds),
        radar=Radar(),
        approver=None,
        ids=SeededIds(scenario.seed),
    )
    return conversation, list(session.tools), session
