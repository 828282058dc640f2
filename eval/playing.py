"""Whole episodes through the loop and the gateway, with any tier off, kept as transcripts."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from breadcrumbs import prompts
from breadcrumbs.data_gen.episodes import ScriptedApprover, open_gateway, opening
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.eval.decision import spec_of
from breadcrumbs.eval.players import Oracle, ScriptedUser, Tools
from breadcrumbs.eval.transcripts import EXECUTE, RAN, End, Transcript, Usage
from breadcrumbs.events import Done, Event, Nudge
from breadcrumbs.gateway.catalog import Catalog, Risk
from breadcrumbs.gateway.gateway import GatewaySettings, LogEntry
from breadcrumbs.gateway.identity import SeededIds
from breadcrumbs.loop import LoopSettings, run
from breadcrumbs.messages import Message, json_object
from breadcrumbs.turns import Policy, Turn

AT_ONCE = 64
"""Episodes under way at a time; more than a model batches, few enough for memory."""
Meter = Callable[[Sequence[Message], Tools], int]
"""Tokens of a conversation as a model's template renders it."""


@dataclass(frozen=True, slots=True, order=True)
class Tiers:
    """Which of the four tiers are on."""

    breadcrumb: bool = True
    decoupled: bool = True
    nudge: bool = True
    approval: bool = True

    @property
    def flags(self) -> tuple[bool, bool, bool, bool]:
        """Tier 1 to 4."""
        return (self.breadcrumb, self.decoupled, self.nudge, self.approval)

    @property
    def name(self) -> str:
        """`1234` with all on, `1-34` without the second."""
        return "".join(str(i) if on else "-" for i, on in enumerate(self.flags, 1))


def every_combination() -> Iterator[Tiers]:
    """All sixteen, from none to all."""
    return (Tiers(*flags) for flags in itertools.product((False, True), repeat=4))


@dataclass(frozen=True, slots=True)
class Stage:
    """What all episodes of a cell share."""

    catalog: Catalog
    hints: Mapping[str, ToolHint]
    max_hits: int
    tiers: Tiers = Tiers()
    max_rounds: int = 12
    """Assistant turns after each turn of the user."""


async def play(
    policy: Policy,
    scenario: Scenario,
    stage: Stage,
    *,
    gold: End | None = None,
    number: int = 0,
    meter: Meter | None = None,
) -> Transcript:
    """One episode, beside where the right one ends (`gold`, found where it is not given).

    A policy that breaks off is part of the record (`outcome` is `model_error`), never an error.

    Raises:
        DataError: the catalog lacks the tool.
    """
    spec = spec_of(scenario, stage.catalog)
    hint = stage.hints.get(scenario.tool)
    recorder = _Recorder(policy)
    done = await _perform(recorder, steered(scenario, stage.tiers), stage)
    return Transcript(
        scenario=scenario,
        spec=spec,
        hint=hint,
        messages=done.messages,
        end=done.end,
        gold=gold or await gold_end(scenario, stage),
        nudges=tuple(e.kind for e in done.events if isinstance(e, Nudge)),
        problems=recorder.problems(done.messages),
        outcome=done.outcome,
        usage=None if meter is None else _usage(done, meter),
        run=number,
        others=_others(scenario, done.log),
    )


async def gold_end(scenario: Scenario, stage: Stage) -> End:
    """Where the oracle leaves the world with every tier on."""
    oracle = Oracle(scenario, spec_of(scenario, stage.catalog))
    return (await _perform(oracle, scenario, replace(stage, tiers=Tiers()))).end


async def play_all(
    policy_for: Callable[[Scenario, int], Policy],
    scenarios: Sequence[Scenario],
    stage: Stage,
    *,
    runs: int = 1,
    meter: Meter | None = None,
    step: Callable[[], None] = lambda: None,
    at_once: int = AT_ONCE,
) -> list[Transcript]:
    """Episodes side by side; in the scenarios' order, the runs of each together."""
    room = asyncio.Semaphore(at_once)

    async def one(scenario: Scenario, gold: End, number: int) -> Transcript:
        async with room:
            policy = policy_for(scenario, number)
            found = await play(policy, scenario, stage, gold=gold, number=number, meter=meter)
            step()
            return found

    ends = [await gold_end(scenario, stage) for scenario in scenarios]
    pairs = zip(scenarios, ends, strict=True)
    return list(await asyncio.gather(*(one(s, gold, n) for s, gold in pairs for n in range(runs))))


def steered(scenario: Scenario, tiers: Tiers) -> Scenario:
    """The scenario under a system prompt that leaves approval to the gateway, or asks for it.

    The first line of a generated prompt is its steering; the rest, rules among it, stays.
    """
    first, _, rest = scenario.system_prompt.partition("\n")
    if tiers.decoupled or first in prompts.COUPLED:
        return scenario
    wording = prompts.COUPLED[scenario.seed % len(prompts.COUPLED)]
    return replace(scenario, system_prompt=f"{wording}\n{rest}")


@dataclass(frozen=True, slots=True)
class _Performance:
    """What one run of the loop, with the user's further turns, left behind."""

    messages: tuple[Message, ...]
    tools: Tools
    events: tuple[Event, ...]
    log: tuple[LogEntry, ...]
    end: End

    @property
    def outcome(self) -> str:
        last = self.events[-1]
        assert isinstance(last, Done)
        return last.reason


async def _perform(policy: Policy, scenario: Scenario, stage: Stage) -> _Performance:
    settings = GatewaySettings(
        breadcrumbs=stage.tiers.breadcrumb,
        hold_writes=stage.tiers.approval,
        max_hits=stage.max_hits,
    )
    simulated, session = open_gateway(scenario, stage.catalog, settings)
    before = simulated.world.state()
    spec = spec_of(scenario, stage.catalog)
    user = ScriptedUser(scenario, spec, stage.hints.get(scenario.tool))
    conversation = opening(scenario)
    ids, approver = SeededIds(scenario.seed), ScriptedApprover(scenario.approval, simulated)
    events: list[Event] = []
    reply: str | None = None
    while not events or reply is not None:
        if reply is not None:
            conversation.append(Message("user", reply))
        events += await run(
            policy,
            session,
            conversation,
            settings=LoopSettings(nudge=stage.tiers.nudge, max_rounds=stage.max_rounds),
            approver=approver,
            ids=ids,
        )
        last = events[-1]
        goes_on = isinstance(last, Done) and last.reason in ("answered", "stalled")
        reply = user.reply(conversation) if goes_on else None
    end = End(
        changes=changes(before, simulated.world.state()),
        writes=_writes(session.log, stage.catalog),
        answer=_answer(conversation, scenario.tool),
    )
    return _Performance(
        tuple(conversation), tuple(session.tools), tuple(events), tuple(session.log), end
    )


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Records by `domain.collection/key` that differ; None for one that is gone."""
    found: dict[str, Any] = {}
    for collection in sorted(before.keys() | after.keys()):
        old, new = before.get(collection, {}), after.get(collection, {})
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                found[f"{collection}/{key}"] = copy.deepcopy(new.get(key))
    return found


def _writes(log: Sequence[LogEntry], catalog: Catalog) -> int:
    """Calls of tools that truly write which got to the tool or to an approval."""
    count = 0
    for entry in log:
        spec = catalog.tool(str(entry.arguments.get("tool_name")))
        ran = entry.name == EXECUTE and entry.payload.get("status") in RAN
        polls = bool(entry.arguments.get("approval_id"))
        count += ran and not polls and spec is not None and spec.risk is not Risk.READ
    return count


def _answer(messages: Sequence[Message], tool: str) -> Any:
    """What the tool answered last."""
    for message in reversed(messages):
        payload = json_object(message.content) if message.role == "tool" else {}
        if payload.get("status") == "done" and payload.get("tool") == tool:
            return payload.get("result")
    return None


def _others(scenario: Scenario, log: Sequence[LogEntry]) -> int:
    """The most tools that one search showed beside the right one."""
    shown = (entry.payload.get("matches", ()) for entry in log)
    return max((sum(m["name"] != scenario.tool for m in found) for found in shown), default=0)


def _usage(done: _Performance, meter: Meter) -> Usage:
    """Tokens read and written, turn by turn, the template's own among them."""
    read = written = 0
    for place, message in enumerate(done.messages):
        if message.role == "assistant":
            prompt = meter(done.messages[:place], done.tools)
            read += prompt
            written += meter(done.messages[: place + 1], done.tools) - prompt
    return Usage(read, written)


class _Recorder:
    """Passes a policy's turns on and remembers what could not be read in them."""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self._problems: list[tuple[str, ...]] = []

    async def stream(
        self, messages: Sequence[Message], tools: Tools
    ) -> AsyncGenerator[str | Turn, None]:
        async with aclosing(self._inner.stream(messages, tools)) as source:
            async for item in source:
                if isinstance(item, Turn):
                    self._problems.append(item.problems)
                yield item

    def problems(self, messages: Sequence[Message]) -> dict[int, tuple[str, ...]]:
        """By the place of the turn; each turn has left one assistant message, in order."""
        places = [i for i, message in enumerate(messages) if message.role == "assistant"]
        return {i: found for i, found in zip(places, self._problems, strict=False) if found}
