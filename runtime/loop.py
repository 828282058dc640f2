"""The loop: the only place where turns are taken.

One async generator of events drives policy and gateway until the model answers, stalls for
good, or a breaker ends it. Generation, evaluation, chat and server all run this; they differ
in policy and executor. Text is held back only in the gated state (a schema was disclosed and
nothing executed since), so that a stall reaches `Think` and never the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from breadcrumbs.errors import ModelError
from breadcrumbs.events import (
    Approval,
    Done,
    DoneReason,
    Event,
    Nudge,
    Text,
    Think,
    ToolCallEvent,
    ToolResult,
)
from breadcrumbs.gateway.gateway import GatewaySession
from breadcrumbs.gateway.identity import Ids, SystemIds
from breadcrumbs.messages import Message, ToolCall, compact_json
from breadcrumbs.nudge import NudgeStyle, nudge_text, repair_text
from breadcrumbs.radar import Disclosed, Radar, Stall, situation_of
from breadcrumbs.turns import Policy, Turn

MAX_REPAIRS = 2


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Limits of one run, and tier 3 as a switch."""

    max_rounds: int = 12
    nudge: bool = True
    max_nudges: int = 2
    """Per user message; the counter is never reset at its cap."""
    nudge_style: NudgeStyle = "contract"
    max_identical_calls: int = 3
    wait_s: float | None = 0.0
    """How long a held write is waited for; None means until it is decided."""


class Approver(Protocol):
    """A person, or in an episode a script, asked about one held write."""

    async def decide(self, card: Mapping[str, Any]) -> bool | None:
        """True, False, or None where no decision comes."""
        ...


@dataclass(slots=True)
class _Run:
    """What one run counts."""

    policy: Policy
    session: GatewaySession
    conversation: list[Message]
    settings: LoopSettings
    radar: Radar
    approver: Approver | None
    ids: Ids
    nudges: int = 0
    repairs: int = 0
    calls: list[str] = field(default_factory=list)
    turn: Turn | None = None
    streamed: bool = False


async def stream(
    policy: Policy,
    session: GatewaySession,
    conversation: list[Message],
    *,
    settings: LoopSettings = LoopSettings(),
    radar: Radar | None = None,
    approver: Approver | None = None,
    ids: Ids | None = None,
) -> AsyncGenerator[Event, None]:
    """Take turns until done; `conversation` grows in place, the last event is always `Done`.

    The conversation must end with a user or tool message. Every tool call gets exactly one tool
    message, in order, on every path.
    """
    run = _Run(
        policy, session, conversation, settings, radar or Radar(), approver, ids or SystemIds()
    )
    for _ in range(settings.max_rounds):
        situation = situation_of(conversation)
        gated = situation is not None and not situation.executed
        try:
            async for event in _take_turn(run, gated):
                yield event
        except ModelError as error:
            yield Done("model_error", str(error))
            return
        turn = run.turn
        assert turn is not None
        if turn.thinking:
            yield Think(turn.thinking)
        if turn.calls:
            if turn.text and not run.streamed:
                yield Text(turn.text)
            async for event in _call_tools(run, turn):
                yield event
            if _repeats(run):
                yield Done("repeated_call", turn.text)
                return
            continue
        events, reason = _end_or_nudge(run, turn, situation)
        for event in events:
            yield event
        if reason is not None:
            yield Done(reason, turn.text)
            return
    last = run.turn.text if run.turn is not None else ""
    yield Done("max_rounds", last)


async def run(
    policy: Policy,
    session: GatewaySession,
    conversation: list[Message],
    **options: Any,
) -> list[Event]:
    """Drain `stream`: all events of the run."""
    return [event async for event in stream(policy, session, conversation, **options)]


async def _take_turn(run: _Run, gated: bool) -> AsyncIterator[Event]:
    """One assistant turn from the policy; text flows on unless the turn may be a stall."""
    run.turn = None
    run.streamed = False
    source = run.policy.stream(run.conversation, run.session.tools)
    async for item in source:
        if isinstance(item, Turn):
            run.turn = item
        elif not gated:
            run.streamed = True
            yield Text(item)
    if run.turn is None:
        raise ModelError("the policy ended without a turn")


async def _call_tools(run: _Run, turn: Turn) -> AsyncIterator[Event]:
    run.conversation.append(Message("assistant", turn.text, tool_calls=turn.calls))
    for call in turn.calls:
        yield ToolCallEvent(call)
        run.calls.append(f"{call.name} {compact_json(dict(call.arguments))}")
        payload = await run.session.call(call.name, call.arguments)
        if payload.get("status") == "approval_required" and not _polls(call):
            card = run.session.gateway.journal.get(payload["approval_id"])
            if card is not None:
                yield Approval(card.to_dict())
                payload = await _wait(run, card.to_dict(), payload)
        run.conversation.append(Message("tool", compact_json(payload), tool_call_id=call.id))
        yield ToolResult(call.id, payload)


async def _wait(run: _Run, card: Mapping[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The final payload where a decision comes in time, else the one that says it waits."""
    if run.approver is None:
        return payload
    try:
        # A limit of zero still asks once: a script answers at once, a person does not.
        limit = None if run.settings.wait_s is None else max(run.settings.wait_s, 1e-3)
        async with asyncio.timeout(limit):
            approve = await run.approver.decide(card)
    except TimeoutError:
        return payload
    if approve is None:
        return payload
    gateway = run.session.gateway
    return await gateway.decide(
        str(card["approval_id"]), approve=approve, by=run.session.principal.name
    )


def _end_or_nudge(
    run: _Run, turn: Turn, situation: Disclosed | None
) -> tuple[list[Event], DoneReason | None]:
    """What a turn without a call leads to: repair, nudge, or the end."""
    if turn.problems and run.repairs < MAX_REPAIRS:
        run.repairs += 1
        return _again(run, turn, repair_text(turn.problems), "malformed_call", run.repairs), None
    stall = run.radar.classify(turn.text, situation)
    if stall is not None and situation is not None and run.settings.nudge:
        if run.nudges < run.settings.max_nudges:
            run.nudges += 1
            text = nudge_text(situation.tool, situation.required, run.settings.nudge_style)
            return _again(run, turn, text, stall.kind, run.nudges), None
    run.conversation.append(Message("assistant", turn.text))
    shown: list[Event] = [] if run.streamed or not turn.text else [Text(turn.text)]
    return shown, _reason(run, stall)


def _reason(run: _Run, stall: Stall | None) -> DoneReason:
    return "stalled" if stall is not None and run.settings.nudge else "answered"


def _again(run: _Run, turn: Turn, text: str, kind: str, count: int) -> list[Event]:
    run.conversation.append(Message("assistant", turn.text))
    run.conversation.append(Message("user", text, synthetic=True))
    thought: list[Event] = [Think(turn.text)] if turn.text and not run.streamed else []
    return [*thought, Nudge(text, kind, count)]


def _polls(call: ToolCall) -> bool:
    return bool(call.arguments.get("approval_id"))


def _repeats(run: _Run) -> bool:
    """The same call too often in a row, or two calls in turn and turn about."""
    limit = run.settings.max_identical_calls
    recent = run.calls[-limit:]
    if len(recent) == limit and len(set(recent)) == 1:
        return True
    return _alternates(run.calls[-2 * limit :], 2 * limit)


def _alternates(calls: Sequence[str], length: int) -> bool:
    even, odd = set(calls[::2]), set(calls[1::2])
    return len(calls) == length and len(even) == 1 and len(odd) == 1
