import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from breadcrumbs.errors import ModelError
from breadcrumbs.events import Approval, Done, Event, Nudge, Text, Think, ToolCallEvent, ToolResult
from breadcrumbs.gateway.gateway import GatewaySession, GatewaySettings, SimulatedGateway
from breadcrumbs.gateway.identity import SeededIds
from breadcrumbs.loop import LoopSettings, run, stream
from breadcrumbs.messages import Message
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.radar import Radar
from breadcrumbs.turns import Turn

Conversation = list[Message]


def texts(events: Sequence[Event], kind: type[Text] | type[Think] = Text) -> list[str]:
    return [event.text for event in events if isinstance(event, kind)]


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.type for event in events]


def assert_paired(conversation: Conversation) -> None:
    """Every call is answered once, in order, before anybody else speaks."""
    waiting: list[str] = []
    for message in conversation:
        if message.role == "tool":
            assert waiting, "a tool message without a call"
            assert message.tool_call_id == waiting.pop(0)
        else:
            assert not waiting, "a call without a tool message"
        waiting.extend(call.id for call in message.tool_calls)
    assert not waiting
    ids = [call.id for message in conversation for call in message.tool_calls]
    assert len(set(ids)) == len(ids)


class Pieces:
    """Streams every turn in pieces of two characters."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self.turns = list(turns)
        self.closed = 0

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        turn = self.turns.pop(0)
        try:
            for start in range(0, len(turn.text), 2):
                yield turn.text[start : start + 2]
            yield turn
        finally:
            self.closed += 1


class Decider:
    def __init__(self, answer: bool | None, delay_s: float = 0.0) -> None:
        self.answer = answer
        self.delay_s = delay_s
        self.cards: list[Mapping[str, Any]] = []

    async def decide(self, card: Mapping[str, Any]) -> bool | None:
        self.cards.append(card)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        return self.answer


@pytest.fixture
def session(gateway: SimulatedGateway) -> GatewaySession:
    return gateway.gateway.session()


async def test_the_whole_way_to_a_held_write(
    session: GatewaySession, conversation: Conversation, script: Any, gateway: SimulatedGateway
) -> None:
    policy = ScriptedPolicy([*script.prelude, script.execute, Turn("It waits for approval.")])
    events = await run(policy, session, conversation)
    call, result = "tool_call", "tool_result"
    assert kinds(events) == [*[call, result] * 2, call, "approval", result, "text", "done"]
    assert events[-1] == Done("answered", "It waits for approval.")
    assert_paired(conversation)
    held = next(event for event in events if isinstance(event, Approval))
    (card,) = gateway.gateway.journal.pending()
    assert held.card == card.to_dict()
    assert card.arguments["title"] == "Lift is stuck"
    answer = json.loads(conversation[-2].content)
    assert answer["status"] == "approval_required"
    assert list(answer)[-1] == "next_step"


async def test_a_stall_is_nudged_hidden_and_recovered(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    policy = Pieces([*script.prelude, Turn(script.stall), script.execute, Turn("It waits.")])
    events = await run(policy, session, conversation)
    assert texts(events) == ["It", " w", "ai", "ts", "."]
    assert texts(events, Think) == [script.stall]
    (nudge,) = (event for event in events if isinstance(event, Nudge))
    assert (nudge.kind, nudge.count) == ("param_dump", 1)
    position = conversation.index(Message("assistant", script.stall))
    assert conversation[position + 1] == Message("user", nudge.text, synthetic=True)
    assert conversation[position + 2].tool_calls[0].name == "execute_tool"
    assert events[-1] == Done("answered", "It waits.")
    assert policy.closed == 5


async def test_a_model_that_always_stalls_is_nudged_exactly_twice(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    stalls = [Turn(f"{script.stall} ({n})") for n in range(9)]
    events = await run(Pieces([*script.prelude, *stalls]), session, conversation)
    assert [e.count for e in events if isinstance(e, Nudge)] == [1, 2]
    assert texts(events, Think) == [stalls[0].text, stalls[1].text]
    assert texts(events) == [stalls[2].text]
    assert events[-1] == Done("stalled", stalls[2].text)
    assert conversation[-1] == Message("assistant", stalls[2].text)


async def test_the_nudge_counter_is_not_reset_by_a_tool_call_between(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    again = script.call("get_tool_schema", 1, tool_names=["create_ticket"])
    other = script.call("get_tool_schema", 2, tool_names=["create_ticket", "list_tickets"])
    stall = Turn(script.stall)
    turns = [*script.prelude, stall, again, stall, other, stall]
    events = await run(ScriptedPolicy(turns), session, conversation)
    assert sum(isinstance(event, Nudge) for event in events) == 2
    assert events[-1] == Done("stalled", stall.text)


async def test_a_new_run_on_the_same_user_message_goes_on_counting_and_a_new_message_does_not(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    stall = Turn(script.stall)
    await run(ScriptedPolicy([*script.prelude, stall, stall, stall]), session, conversation)
    schema = script.call("get_tool_schema", 1, tool_names=["create_ticket"])
    events = await run(ScriptedPolicy([schema, stall]), session, conversation)
    assert sum(isinstance(event, Nudge) for event in events) == 0
    conversation.append(Message("user", script.request))
    schema = script.call("get_tool_schema", 2, tool_names=["create_ticket"])
    turns = [schema, stall, stall, stall]
    events = await run(ScriptedPolicy(turns), session, conversation)
    assert sum(isinstance(event, Nudge) for event in events) == 2


async def test_a_question_for_a_missing_value_reaches_the_user(
    session: GatewaySession, script: Any
) -> None:
    conversation = [Message("user", "Open a ticket with high priority")]
    policy = Pieces([*script.prelude, Turn(script.question)])
    events = await run(policy, session, conversation)
    assert not any(isinstance(event, Nudge) for event in events)
    assert texts(events) == [script.question]
    assert events[-1] == Done("answered", script.question)


async def test_without_tier_3_nothing_is_held_back_or_nudged(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    policy = Pieces([*script.prelude, Turn(script.stall)])
    events = await run(policy, session, conversation, settings=LoopSettings(nudge=False))
    assert len(texts(events)) > 10
    assert "".join(texts(events)) == script.stall
    assert events[-1] == Done("answered", script.stall)


async def test_text_flows_live_outside_the_gated_state_and_is_held_inside_it(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    search = replace(script.search, text="Let me look.")
    execute = replace(script.execute, text="Here it goes.")
    policy = Pieces([search, script.schema, execute, Turn("Done.")])
    events = await run(policy, session, conversation)
    assert texts(events)[:6] == ["Le", "t ", "me", " l", "oo", "k."]
    assert "Here it goes." in texts(events)
    assert "".join(texts(events)) == "Let me look.Here it goes.Done."


async def test_the_seed_style_and_the_marker_radar_are_switches(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    turns = [*script.prelude, Turn("I will now open it."), Turn("unused")]
    settings = LoopSettings(nudge_style="seed")
    events = await run(
        ScriptedPolicy(turns),
        session,
        list(conversation),
        settings=settings,
        radar=Radar("markers"),
    )
    assert not any(isinstance(event, Nudge) for event in events)
    turns = [*script.prelude, Turn(script.stall), Turn("No call is needed.")]
    events = await run(
        ScriptedPolicy(turns), session, conversation, settings=settings, radar=Radar("markers")
    )
    (nudge,) = (event for event in events if isinstance(event, Nudge))
    assert "You MUST" in nudge.text


@pytest.mark.parametrize("answer", [True, False])
async def test_a_decision_in_time_is_the_tool_message(
    answer: bool,
    session: GatewaySession,
    conversation: Conversation,
    script: Any,
    gateway: SimulatedGateway,
) -> None:
    before = gateway.world.state_hash()
    decider = Decider(answer)
    turns = [*script.prelude, script.execute, Turn("That is that.")]
    events = await run(ScriptedPolicy(turns), session, conversation, approver=decider)
    payload = json.loads(conversation[-2].content)
    assert payload["status"] == ("done" if answer else "denied")
    assert (gateway.world.state_hash() != before) is answer
    assert len(decider.cards) == 1
    assert sum(isinstance(event, Approval) for event in events) == 1
    assert_paired(conversation)


@pytest.mark.parametrize("decider", [Decider(None), Decider(True, delay_s=5.0)])
async def test_no_decision_in_time_runs_nothing(
    decider: Decider,
    session: GatewaySession,
    conversation: Conversation,
    script: Any,
    gateway: SimulatedGateway,
) -> None:
    before = gateway.world.state_hash()
    turns = [*script.prelude, script.execute, Turn("It waits.")]
    await run(ScriptedPolicy(turns), session, conversation, approver=decider)
    assert json.loads(conversation[-2].content)["status"] == "approval_required"
    assert gateway.world.state_hash() == before


async def test_a_slow_decision_counts_within_wait_s_and_without_a_limit(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    for wait_s in (5.0, None):
        talk = list(conversation)
        settings = LoopSettings(wait_s=wait_s)
        turns = [*script.prelude, script.execute, Turn("Done.")]
        decider = Decider(True, delay_s=0.01)
        await run(ScriptedPolicy(turns), session, talk, settings=settings, approver=decider)
        assert json.loads(talk[-2].content)["status"] == "done"


async def test_a_decision_taken_elsewhere_meanwhile_is_what_the_model_reads(
    gateway: SimulatedGateway, conversation: Conversation, script: Any
) -> None:
    class Elsewhere:
        async def decide(self, card: Mapping[str, Any]) -> bool | None:
            await gateway.gateway.decide(card["approval_id"], approve=True, by="somebody")
            return None

    turns = [*script.prelude, script.execute, Turn("Done.")]
    session = gateway.gateway.session()
    settings = LoopSettings(wait_s=None)
    await run(ScriptedPolicy(turns), session, conversation, settings=settings, approver=Elsewhere())
    assert json.loads(conversation[-2].content)["status"] == "done"


async def test_polling_shows_no_second_card_and_runs_nothing(
    session: GatewaySession, conversation: Conversation, script: Any, gateway: SimulatedGateway
) -> None:
    before = gateway.world.state_hash()
    await run(
        ScriptedPolicy([*script.prelude, script.execute, Turn("Waits.")]), session, conversation
    )
    (card,) = gateway.gateway.journal.pending()
    poll = script.call(
        "execute_tool", 1, tool_name="create_ticket", arguments={}, approval_id=card.id
    )
    conversation.append(Message("user", "And?"))
    decider = Decider(True)
    events = await run(
        ScriptedPolicy([poll, Turn("Still.")]), session, conversation, approver=decider
    )
    assert not any(isinstance(event, Approval) for event in events)
    assert decider.cards == []
    assert gateway.world.state_hash() == before


async def test_with_tier_4_off_a_write_runs_at_once(
    make_gateway: Callable[[GatewaySettings], SimulatedGateway],
    conversation: Conversation,
    script: Any,
) -> None:
    simulated = make_gateway(GatewaySettings(hold_writes=False))
    turns = [*script.prelude, script.execute, Turn("Done.")]
    session = simulated.gateway.session()
    events = await run(ScriptedPolicy(turns), session, conversation)
    assert not any(isinstance(event, Approval) for event in events)
    assert json.loads(conversation[-2].content)["status"] == "done"


async def test_two_calls_in_a_turn_get_two_answers_in_order(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    both = Turn("", script.search.calls + script.schema.calls, problems=("a third was cut off",))
    events = await run(ScriptedPolicy([both, Turn("Hm.")]), session, conversation)
    results = [event for event in events if isinstance(event, ToolResult)]
    assert [r.payload["layer"] for r in results] == ["1_catalog", "2_schema_disclosure"]
    assert "a third was cut off" in texts(events, Think)
    assert_paired(conversation)


async def test_ids_that_are_empty_or_used_before_are_replaced_and_others_kept(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    def named(identifier: str, turn: Turn) -> Turn:
        return replace(turn, calls=tuple(replace(c, id=identifier) for c in turn.calls))

    turns = [
        named("call_1", script.search),
        named("call_1", script.schema),
        named("", script.search),
    ]
    await run(ScriptedPolicy([*turns, Turn("x")]), session, conversation, ids=SeededIds(3))
    assert_paired(conversation)
    ids = [call.id for message in conversation for call in message.tool_calls]
    assert ids[0] == "call_1"
    assert all(identifier.startswith("call_") for identifier in ids)


async def test_a_wrong_call_is_answered_not_raised(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    wrong = [
        script.call("no_such_function", x=1),
        script.call("execute_tool", tool_name="create_ticket", arguments={"title": "x"}),
        script.call("get_tool_schema", tool_names="create_ticket"),
        script.call("execute_tool", 2, tool_name="create_ticket", arguments={"x": float("nan")}),
    ]
    broken = [replace(turn, calls=turn.calls) for turn in wrong]
    events = await run(ScriptedPolicy([*broken, Turn("Sorry.")]), session, conversation)
    assert events[-1] == Done("answered", "Sorry.")
    assert_paired(conversation)


async def test_a_malformed_call_is_repaired_at_most_twice(
    session: GatewaySession, conversation: Conversation
) -> None:
    broken = Turn("I call:", problems=("The tool call cannot be read: it was cut off",))
    events = await run(Pieces([broken] * 5), session, conversation)
    nudges = [event for event in events if isinstance(event, Nudge)]
    assert [(n.kind, n.count) for n in nudges] == [("malformed_call", 1), ("malformed_call", 2)]
    assert "it was cut off" in nudges[0].text
    assert events[-1] == Done("answered", "I call:")


async def test_a_call_written_as_text_is_repaired_by_its_own_count(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    written = Turn('{"name": "create_ticket", "arguments": {"title": "Lift"}}')
    stalls = [Turn("Shall I go ahead?"), written] * 3
    events = await run(ScriptedPolicy([*script.prelude, *stalls]), session, conversation)
    nudges = [(e.kind, e.count) for e in events if isinstance(e, Nudge)]
    assert nudges == [
        ("permission_ask", 1),
        ("fake_call_in_text", 1),
        ("permission_ask", 2),
        ("fake_call_in_text", 2),
    ]
    assert events[-1] == Done("stalled", "Shall I go ahead?")


async def test_the_same_call_again_and_again_ends_the_run(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    policy = ScriptedPolicy([script.search] * 9)
    events = await run(policy, session, conversation)
    assert sum(isinstance(event, ToolCallEvent) for event in events) == 3
    assert events[-1] == Done("repeated_call")
    assert_paired(conversation)


async def test_two_calls_in_turn_and_turn_about_end_the_run(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    events = await run(ScriptedPolicy([*script.prelude] * 9), session, conversation)
    assert sum(isinstance(event, ToolCallEvent) for event in events) == 6
    assert events[-1] == Done("repeated_call")


async def test_rounds_are_bounded(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    searches = [script.call("search_tool_catalog", n, query=f"ticket {n}") for n in range(9)]
    settings = LoopSettings(max_rounds=4)
    events = await run(ScriptedPolicy(searches), session, conversation, settings=settings)
    assert sum(isinstance(event, ToolCallEvent) for event in events) == 4
    assert events[-1] == Done("max_rounds")
    assert_paired(conversation)


async def test_a_failing_policy_is_recorded_and_loses_nothing(
    session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    class Breaks:
        def __init__(self, inner: ScriptedPolicy) -> None:
            self.inner = inner
            self.rounds = 0

        async def stream(
            self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
        ) -> AsyncGenerator[str | Turn, None]:
            self.rounds += 1
            if self.rounds == 3:
                yield "half a "
                raise ModelError("out of memory; choose a smaller model")
            async for item in self.inner.stream(messages, tools):
                yield item

    policy = Breaks(ScriptedPolicy(script.prelude))
    events = await run(policy, session, conversation)
    assert events[-2:] == [
        Think("half a "),
        Done("model_error", "out of memory; choose a smaller model"),
    ]
    assert_paired(conversation)


async def test_a_policy_without_a_turn_is_an_error_in_the_record(
    session: GatewaySession, conversation: Conversation
) -> None:
    class Mute:
        async def stream(
            self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
        ) -> AsyncGenerator[str | Turn, None]:
            yield "only text"

    events = await run(Mute(), session, conversation)
    last = events[-1]
    assert isinstance(last, Done)
    assert last.reason == "model_error"


async def test_thinking_goes_to_think(session: GatewaySession, conversation: Conversation) -> None:
    events = await run(ScriptedPolicy([Turn("Yes.", thinking="Hm.")]), session, conversation)
    assert texts(events, Think) == ["Hm."]
    assert texts(events) == ["Yes."]


@pytest.mark.parametrize("stop", range(1, 11))
async def test_a_watcher_that_leaves_at_any_event_leaves_no_call_unanswered(
    stop: int, session: GatewaySession, conversation: Conversation, script: Any
) -> None:
    both = Turn(
        "Now.", script.execute.calls + script.call("search_tool_catalog", 5, query="x").calls
    )
    policy = Pieces([*script.prelude, both, Turn("Done.")])
    events = stream(policy, session, conversation)
    for _ in range(stop):
        await anext(events)
    await events.aclose()
    assert_paired(conversation)
    begun = 4 - len(policy.turns)
    assert policy.closed == begun


async def test_cancelling_while_a_person_is_asked_leaves_no_call_unanswered(
    session: GatewaySession, conversation: Conversation, script: Any, gateway: SimulatedGateway
) -> None:
    before = gateway.world.state_hash()
    turns = [*script.prelude, script.execute]
    settings = LoopSettings(wait_s=None)
    decider = Decider(True, delay_s=60.0)
    task = asyncio.create_task(
        run(ScriptedPolicy(turns), session, conversation, settings=settings, approver=decider)
    )
    while not decider.cards:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert_paired(conversation)
    assert json.loads(conversation[-1].content)["status"] == "unknown"
    assert gateway.world.state_hash() == before
    assert len(gateway.gateway.journal.pending()) == 1


async def test_same_script_same_events(
    make_gateway: Callable[[GatewaySettings], SimulatedGateway],
    conversation: Conversation,
    script: Any,
) -> None:
    runs = []
    for _ in range(2):
        turns = [*script.prelude, Turn(script.stall), script.execute, Turn("Done.")]
        session = make_gateway(GatewaySettings()).gateway.session()
        talk = list(conversation)
        runs.append((await run(ScriptedPolicy(turns), session, talk, ids=SeededIds(1)), talk))
    assert runs[0] == runs[1]
