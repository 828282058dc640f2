"""The loop: the only place where turns are taken.

One async generator of events drives policy and gateway until the model answers, stalls for
good, or a breaker ends it. Generation, evaluation, chat and server all run this; they differ
in policy and executor. Text is held back only in the gated state (a schema was disclosed and
nothing executed since), so that a stall reaches `Think` and never the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
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
from breadcrumbs.gateway.approvals import ApprovalCard
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
    max_s: float | None = None
    """Seconds of the loop's own clock after which no further turn is asked for."""
    max_tokens: int | None = None
    """Written tokens after which none is, where the policy counts them."""
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
    nudges: int
    repairs: int = 0
    written: int = 0
    """Tokens of the turns so far."""
    waited_s: float = 0.0
    """Time that went into waiting for a person, which is nobody's fault."""
    began: float = field(default_factory=monotonic)
    calls: list[str] = field(default_factory=list)
    turn: Turn | None = None
    streamed: str = ""
    """Text of the present turn that the watcher has seen."""
    held: str = ""
    """Text of the present turn that was held back."""

    def say(self, message: Message) -> None:
        """Put a message at the end of the conversation."""
        self.conversation.append(message)


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
    message, in order, on every path, also where the watcher stops listening half-way. A failing
    policy is recorded, not raised: `Done("model_error", what it said)`.
    """
    run = _Run(
        policy,
        session,
        conversation,
        settings,
        radar or Radar(),
        approver,
        ids or SystemIds(),
        nudges=_said_since_user(conversation),
    )
    for _ in range(settings.max_rounds):
        if (spent := _spent(run)) is not None:
            yield Done(spent, run.turn.text if run.turn is not None else "")
            return
        situation = situation_of(conversation)
        gated = settings.nudge and situation is not None and not situation.executed
        try:
            async with aclosing(_take_turn(run, gated)) as writing:
                async for event in writing:
                    yield event
        except ModelError as error:
            if run.held:
                yield Think(run.held)
            yield Done("model_error", str(error))
            return
        turn = run.turn
        assert turn is not None
        run.written += turn.usage.completion if turn.usage is not None else 0
        if turn.thinking:
            yield Think(turn.thinking)
        if turn.calls:
            async with aclosing(_call_tools(run, turn)) as calling:
                async for event in calling:
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
    yield Done("max_rounds", run.turn.text if run.turn is not None else "")


async def run(
    policy: Policy,
    session: GatewaySession,
    conversation: list[Message],
    *,
    settings: LoopSettings = LoopSettings(),
    radar: Radar | None = None,
    approver: Approver | None = None,
    ids: Ids | None = None,
) -> list[Event]:
    """Drain `stream`: all events of the run."""
    events = stream(
        policy,
        session,
        conversation,
        settings=settings,
        radar=radar,
        approver=approver,
        ids=ids,
    )
    return [event async for event in events]


def _spent(run: _Run) -> DoneReason | None:
    """Why no further turn may be asked for, if so."""
    limits = run.settings
    if limits.max_s is not None and monotonic() - run.began - run.waited_s >= limits.max_s:
        return "out_of_time"
    if limits.max_tokens is not None and run.written >= limits.max_tokens:
        return "out_of_tokens"
    return None


async def _take_turn(run: _Run, gated: bool) -> AsyncGenerator[Event, None]:
    """One assistant turn from the policy; text flows on unless the turn may be a stall."""
    run.turn, run.streamed, run.held = None, "", ""
    async with aclosing(run.policy.stream(run.conversation, run.session.tools)) as source:
        async for item in source:
            if isinstance(item, Turn):
                run.turn = _with_own_ids(run, item)
            elif gated:
                run.held += item
            else:
                run.streamed += item
                yield Text(item)
    if run.turn is None:
        raise ModelError("the policy ended without a turn; its last item must be one")


def _with_own_ids(run: _Run, turn: Turn) -> Turn:
    """The turn, with fresh ids for calls whose id is empty or used before."""
    seen = {call.id for message in run.conversation for call in message.tool_calls} | {""}
    calls = []
    for call in turn.calls:
        fresh = call if call.id not in seen else replace(call, id=run.ids.new("call"))
        seen.add(fresh.id)
        calls.append(fresh)
    return replace(turn, calls=tuple(calls))


async def _call_tools(run: _Run, turn: Turn) -> AsyncGenerator[Event, None]:
    """Call in order; whatever interrupts, each call has its tool message in the end."""
    run.say(Message("assistant", turn.content, tool_calls=turn.calls))
    open_calls = list(turn.calls)
    try:
        if turn.text and not run.streamed:
            yield Text(turn.text)
        for problem in turn.problems:
            yield Think(problem)
        for call in turn.calls:
            yield ToolCallEvent(call)
            payload = await run.session.call(call.name, call.arguments)
            run.calls.append(f"{call.name} {compact_json(run.session.log[-1].arguments)}")
            card = _held_by(run, call, payload)
            if card is not None:
                yield Approval(card.to_dict())
                payload = await _decision(run, card, payload)
            run.say(Message("tool", compact_json(payload), tool_call_id=call.id))
            open_calls.remove(call)
            yield ToolResult(call.id, payload)
    finally:
        for call in open_calls:
            run.say(Message("tool", compact_json(_interrupted(run)), tool_call_id=call.id))


def _interrupted(run: _Run) -> dict[str, Any]:
    reason = "the run was stopped before this call was answered"
    return run.session.gateway.answer("", "unknown", reason=reason)


def _held_by(run: _Run, call: ToolCall, payload: Mapping[str, Any]) -> ApprovalCard | None:
    """The card of a write that this call has put on hold; polling shows none."""
    if payload.get("status") != "approval_required" or call.arguments.get("approval_id"):
        return None
    return run.session.gateway.journal.get(str(payload["approval_id"]))


async def _decision(run: _Run, card: ApprovalCard, payload: dict[str, Any]) -> dict[str, Any]:
    """The final payload where a decision comes in time, else how the held write stands."""
    if run.approver is None:
        return payload
    gateway = run.session.gateway
    approve: bool | None = None
    asked = monotonic()
    with suppress(TimeoutError):
        # No time still asks once: a script answers without waiting, a person does not.
        async with asyncio.timeout(run.settings.wait_s):
            approve = await run.approver.decide(card.to_dict())
    run.waited_s += monotonic() - asked
    if approve is None:
        return gateway.standing(card.id)
    return await gateway.decide(card.id, approve=approve, by=run.session.principal.name)


def _end_or_nudge(
    run: _Run, turn: Turn, situation: Disclosed | None
) -> tuple[list[Event], DoneReason | None]:
    """What a turn without a call leads to: repair, nudge, or the end."""
    if turn.problems and run.repairs < MAX_REPAIRS:
        run.repairs += 1
        text = repair_text(turn.problems)
        return _again(run, turn, text, "malformed_call", run.repairs), None
    stall = run.radar.classify(turn.text, situation) if run.settings.nudge else None
    if stall is not None and situation is not None and (count := _next_try(run, stall)):
        text = nudge_text(situation, run.settings.nudge_style)
        return _again(run, turn, text, stall.kind, count), None
    run.say(Message("assistant", turn.content))
    shown: list[Event] = [] if run.streamed or not turn.text else [Text(turn.text)]
    if turn.cut and _spent(run) == "out_of_tokens":
        return shown, "out_of_tokens"
    return shown, "answered" if stall is None else "stalled"


def _next_try(run: _Run, stall: Stall) -> int:
    """The number of the try that follows a stall; 0 where none is left.

    A call written as text is a repair like any other call that could not be read: it has its own
    bound, and uses up no nudge.
    """
    if stall.kind == "fake_call_in_text":
        if run.repairs >= MAX_REPAIRS:
            return 0
        run.repairs += 1
        return run.repairs
    if run.nudges >= run.settings.max_nudges:
        return 0
    run.nudges += 1
    return run.nudges


def _again(run: _Run, turn: Turn, text: str, kind: str, count: int) -> list[Event]:
    """Keep what was said from the window, and ask for another turn."""
    run.say(Message("assistant", turn.content))
    run.say(Message("user", text, synthetic=True))
    thought: list[Event] = [Think(turn.text)] if turn.text and not run.streamed else []
    return [*thought, Nudge(text, kind, count)]


def _said_since_user(conversation: Sequence[Message]) -> int:
    """Synthetic turns since the user last spoke: a run that goes on keeps counting."""
    count = 0
    for message in reversed(conversation):
        if message.role == "user" and not message.synthetic:
            break
        count += message.role == "user"
    return count


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
