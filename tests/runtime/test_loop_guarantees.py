"""What the loop guarantees whatever a model says, each beside what would break it."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from breadcrumbs.call_format import parse_turn
from breadcrumbs.events import Done, Nudge, Text, ToolCallEvent
from breadcrumbs.gateway.gateway import GatewaySession, GatewaySettings, SimulatedGateway
from breadcrumbs.loop import LoopSettings, run
from breadcrumbs.messages import Message
from breadcrumbs.nudge import NudgeStyle
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.turns import Turn

Conversation = list[Message]


@pytest.fixture
def session(gateway: SimulatedGateway) -> GatewaySession:
    return gateway.gateway.session()


def unanswered(conversation: Conversation) -> list[str]:
    """Calls without exactly one tool message."""
    calls = [call.id for message in conversation for call in message.tool_calls]
    answers = [message.tool_call_id for message in conversation if message.role == "tool"]
    return [call for call in calls if answers.count(call) != 1]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():
            await asyncio.sleep(0.02)


class InThread:
    """An executor whose tool is a plain function in a thread, as nothing can stop."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.begun = threading.Event()
        self.effects = 0

    def work(self) -> None:
        self.begun.set()
        time.sleep(0.3)
        self.effects += 1

    async def run(self, spec: Any, arguments: Any) -> Any:
        await asyncio.to_thread(self.work)
        return await self.inner.run(spec, arguments)


async def test_G49_a_tool_in_a_thread_goes_on_when_its_caller_is_gone_and_is_recorded(
    gateway: SimulatedGateway, session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    slow = gateway.gateway.executor = InThread(gateway.gateway.executor)
    await run(
        ScriptedPolicy([*script.prelude, script.execute, Turn("It waits.")]), session, conversation
    )
    (card,) = gateway.gateway.journal.pending()
    deciding = asyncio.create_task(gateway.gateway.decide(card.id, approve=True, by="ann"))
    await until(slow.begun.is_set)
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    assert gateway.gateway.journal.get(card.id).state == "executing"
    await until(lambda: gateway.gateway.journal.get(card.id).state == "done")
    assert slow.effects == 1
    # awaited without a shield the effect happens too, but nobody is left to record it
    slow.begun.clear()
    bare = asyncio.create_task(slow.run(None, {}))
    await until(slow.begun.is_set)
    bare.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bare
    await until(lambda: slow.effects == 2)


async def test_G63_a_nudge_counter_at_its_cap_is_not_reset_by_calls_repairs_or_time(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    stall = Turn(script.stall)
    broken = Turn("", problems=("The tool call cannot be read: it was cut off",))
    turns = [*script.prelude, stall]
    for n in range(3):
        turns += [
            script.call("get_tool_schema", n + 1, tool_names=["create_ticket"]),
            broken,
            stall,
        ]
    events = await run(
        ScriptedPolicy([*turns, *[stall] * 3]),
        session,
        conversation,
        settings=LoopSettings(max_rounds=50, max_identical_calls=99),
    )
    nudged = [event for event in events if isinstance(event, Nudge)]
    assert [event.count for event in nudged if event.kind == "param_dump"] == [1, 2]
    assert sum(event.kind == "malformed_call" for event in nudged) <= 2
    assert events[-1] == Done("stalled", script.stall)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Explain what create_ticket needs", "It needs a title; I can walk you through the rest."),
        ("Only make a plan for opening a ticket", "Plan: 1. open the ticket. 2. tell the team."),
        ("Open a ticket with high priority", "What should the title of the ticket be?"),
        ("Open a ticket titled 'Lift is stuck'", "I cannot open it: I am not allowed to."),
    ],
)
async def test_G64_plans_questions_and_refusals_are_never_nudged(
    said: str, answer: str, session: GatewaySession, script: Any
) -> None:
    conversation = [Message("user", said)]
    events = await run(ScriptedPolicy([*script.prelude, Turn(answer)]), session, conversation)
    assert not any(isinstance(event, Nudge) for event in events)
    assert events[-2:] == [Text(answer), Done("answered", answer)]


async def test_G64_a_turn_while_an_approval_waits_is_never_nudged_and_before_it_is(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    words = Turn("Shall I go ahead and open the ticket?")
    turns = [*script.prelude, words, script.execute, words]
    events = await run(ScriptedPolicy(turns), session, conversation)
    assert [type(event) for event in events].count(Nudge) == 1
    assert events[-2:] == [Text(words.text), Done("answered", words.text)]


class Says:
    def __init__(self, answer: bool | None) -> None:
        self.answer = answer

    async def decide(self, card: Any) -> bool | None:
        return self.answer


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("approved", "done"),
        ("denied", "denied"),
        ("undecided", "approval_required"),
        ("expired", "expired"),
        ("broken", "unknown"),
    ],
)
async def test_G66_a_call_has_one_answer_however_its_write_ends(
    path: str,
    status: str,
    gateway: SimulatedGateway,
    session: GatewaySession,
    conversation: Conversation,
    script: Any,
) -> None:
    if path == "broken":
        gateway.gateway.executor = Broken()
    if path == "expired":
        gateway.gateway.journal._ttl = gateway.gateway.journal._ttl * 0
    answer = {"denied": False, "undecided": None, "expired": None}.get(path, True)
    turns = [*script.prelude, script.execute, Turn("So it is.")]
    await run(ScriptedPolicy(turns), session, conversation, approver=Says(answer))
    assert unanswered(conversation) == []
    assert json.loads(conversation[-2].content)["status"] == status
    del conversation[-2]
    assert len(unanswered(conversation)) == 1  # the check sees what it looks for


class Broken:
    async def run(self, spec: Any, arguments: Any) -> Any:
        raise RuntimeError("the tool is gone")


@pytest.mark.parametrize(
    ("calls", "asked", "reason"),
    [
        (lambda call: [call(0)] * 9, 3, "repeated_call"),
        (lambda call: [call(0), call(1)] * 9, 6, "repeated_call"),
        (lambda call: [call(n) for n in range(30)], 12, "max_rounds"),
        (lambda call: [call(0), call(0), call(1), call(2), call(2), call(3)], 6, "answered"),
    ],
    ids=["A-A-A", "A-B-A-B", "growing", "progress"],
)
async def test_G67_a_run_that_goes_in_circles_ends_and_one_that_gets_on_does_not(
    calls: Callable[[Any], list[Turn]],
    asked: int,
    reason: str,
    session: GatewaySession,
    conversation: Conversation,
    script: Any,
) -> None:
    def call(n: int) -> Turn:
        found: Turn = script.call("search_tool_catalog", n, query="ticket " * (n + 1))
        return found

    events = await run(ScriptedPolicy([*calls(call), Turn("Done.")]), session, conversation)
    assert sum(isinstance(event, ToolCallEvent) for event in events) == asked
    assert isinstance(events[-1], Done)
    assert events[-1].reason == reason
    assert unanswered(conversation) == []


GOOD = '{"name": "execute_tool", "arguments": {"tool_name": "list_tickets", "arguments": {}}}'


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (f"<think>I call\n<tool_call>{GOOD}</tool_call></think>", "stands in the thinking"),
        (f"Here it is: {GOOD}", "runs only when it is called"),
        (f"```json\n{GOOD}\n```", "runs only when it is called"),
        (f"<tool_call>\n{GOOD[:50]}", "cut off"),
        ('<tool_call>{"name": "execute_tool", "arguments": [1]}</tool_call>', '"arguments"'),
        ('<tool_call>{"arguments": {}}</tool_call>', '"name"'),
    ],
    ids=["in thinking", "in text", "in a block", "cut off", "arguments no object", "no name"],
)
async def test_G68_a_call_that_cannot_be_read_is_asked_for_again_by_name_and_never_run(
    written: str, said: str, session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    policy = ScriptedPolicy([*script.prelude, parse_turn(written), Turn("Sorry.")])
    events = await run(policy, session, conversation)
    (repair,) = [event for event in events if isinstance(event, Nudge)]
    assert said in repair.text
    assert sum(isinstance(event, ToolCallEvent) for event in events) == 2  # the prelude alone
    assert not any(written in event.text for event in events if isinstance(event, Text))


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"tool_name": "no_such_tool", "arguments": {}}, "no_such_tool"),
        ({"tool_name": "create_ticket", "arguments": {"title": "x", "color": "red"}}, "color"),
        ({"tool_name": "create_ticket", "arguments": {"title": 7}}, "title"),
        ({"tool_name": "create_ticket", "arguments": {"priority": "low"}}, "title"),
        (
            {"tool_name": "create_ticket", "arguments": {"title": "x", "priority": "max"}},
            "priority",
        ),
    ],
    ids=["unknown tool", "unknown field", "wrong type", "missing field", "wrong choice"],
)
async def test_G68_a_call_that_does_not_fit_is_answered_with_the_fields_name(
    arguments: dict[str, Any],
    field: str,
    session: GatewaySession,
    conversation: Conversation,
    script: Any,
    gateway: SimulatedGateway,
) -> None:
    wrong = script.call("execute_tool", **arguments)
    await run(ScriptedPolicy([*script.prelude, wrong, Turn("Sorry.")]), session, conversation)
    payload = json.loads(conversation[-2].content)
    assert field in json.dumps({k: v for k, v in payload.items() if k != "next_step"})
    assert payload["status"] not in ("done", "approval_required")
    assert gateway.gateway.journal.rows() == []


async def test_G68_two_calls_in_a_turn_are_both_answered(
    session: GatewaySession, conversation: Conversation
) -> None:
    search = '{"name": "search_tool_catalog", "arguments": {"query": "ticket"}}'
    both = parse_turn(f"<tool_call>{search}</tool_call>\n<tool_call>{search}</tool_call>")
    await run(ScriptedPolicy([both, Turn("Done.")]), session, conversation)
    assert [message.role for message in conversation[-4:]] == [
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert unanswered(conversation) == []


@pytest.mark.parametrize("style", ["contract", "seed"])
async def test_G65_a_nudge_keeps_the_turns_in_the_order_that_strict_templates_want(
    style: NudgeStyle,
    make_gateway: Callable[[GatewaySettings], SimulatedGateway],
    conversation: Conversation,
    script: Any,
) -> None:
    """A user's turn follows an assistant's alone, as in templates that refuse anything else."""
    stalls = [Turn(script.stall), Turn("")]
    policy = ScriptedPolicy([*script.prelude, *stalls, script.execute, Turn("It waits.")])
    session = make_gateway(GatewaySettings()).gateway.session()
    await run(policy, session, conversation, settings=LoopSettings(nudge_style=style))
    roles = [message.role for message in conversation]
    before = {now: set() for now in roles}  # type: ignore[var-annotated]
    for first, then in zip(roles[1:], roles[2:], strict=False):
        before[then].add(first)
    assert before["user"] == {"assistant"}
    assert before["tool"] <= {"assistant", "tool"}
    assert "assistant" not in before["assistant"]
    nudges = [message for message in conversation if message.synthetic]
    assert len(nudges) == 2
    assert all(("MUST" in nudge.content) == (style == "seed") for nudge in nudges)
