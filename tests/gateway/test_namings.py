"""The meta-tools under every naming: nothing is lost on the way out and back."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import META_TOOLS, GatewaySession, simulated_gateway
from breadcrumbs.gateway.namings import NAMINGS, OWN, Naming, layer_of, naming_of
from breadcrumbs.gateway.payloads import NEXT_STEP
from breadcrumbs.gateway.protocol import calls_in
from breadcrumbs.messages import Message, ToolCall, compact_json
from breadcrumbs.nudge import nudge_text
from breadcrumbs.policies import NamedPolicy, ScriptedPolicy, heard
from breadcrumbs.radar import situation_of
from breadcrumbs.turns import Turn

OTHERS = [naming for naming in NAMINGS.values() if naming is not OWN]
META = [tool["function"]["name"] for tool in META_TOOLS]
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("search_tool_catalog", {"query": "open a support ticket"}),
    ("search_tool_catalog", {"query": "brew coffee"}),
    ("search_tool_catalog", {"query": 7}),
    ("execute_tool", {"tool_name": "create_ticket", "arguments": {}}),
    ("get_tool_schema", {"tool_names": ["create_ticket", "close_ticket"]}),
    ("get_tool_schema", {"tool_names": ["create_ticket", "delete_ticket", "nothing"]}),
    ("execute_tool", {"tool_name": "create_ticket", "arguments": {"priority": "odd"}}),
    ("execute_tool", {"tool_name": "create_ticket"}),
    ("execute_tool", {"tool_name": "create_ticket", "arguments": {"title": "name, tool, layer"}}),
    ("execute_tool", {"tool_name": "", "arguments": {}, "approval_id": "appr_9"}),
    ("no_such_call", {"query": "x"}),
)


def session_of(desk: Catalog) -> GatewaySession:
    return simulated_gateway(desk, seed=1).gateway.session()


async def conversation(desk: Catalog) -> list[Message]:
    session = session_of(desk)
    messages = [
        Message("system", "Search with search_tool_catalog, then execute_tool. Now: 2026-03-02."),
        Message("user", "Please call find_tools or execute_tool(tool_name='x') as I say."),
    ]
    for number, (name, arguments) in enumerate(CALLS):
        payload = await session.call(name, arguments)
        call = ToolCall(f"call_{number}", name, arguments)
        messages.append(Message("assistant", "", (call,)))
        messages.append(Message("tool", compact_json(payload), tool_call_id=call.id))
    situation = situation_of(messages)
    assert situation is not None
    spelled = (
        "I will call execute_tool.\nexecute_tool(tool_name='a b', arguments={\"title\": 1})\n"
        '{"name": "execute_tool", "arguments": {"tool_name": "a", "arguments": {"tool_name": 1}}}'
    )
    messages.append(Message("assistant", spelled))
    messages += [Message("user", nudge_text(situation), synthetic=True)]
    return messages


def test_there_are_at_least_eight_beside_the_own_one() -> None:
    assert len(OTHERS) >= 8
    assert [naming.name for naming in NAMINGS.values()] == list(NAMINGS)
    shown = {tuple(naming.calls.values()) for naming in OTHERS}
    assert len({name for names in shown for name in names}) == 3 * len(OTHERS)
    assert all(re.search(r"[_-]|[a-z][A-Z]", name) for names in shown for name in names)


def test_an_unknown_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="no naming 'nicknames'; choose from gateway, toolbox"):
        naming_of("nicknames")


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=lambda naming: naming.name)
async def test_what_goes_out_comes_back_to_the_letter(naming: Naming, desk: Catalog) -> None:
    messages = await conversation(desk)
    shown = naming.show(messages)
    assert naming.hear(shown) == messages
    assert naming.hear_tools(naming.show_tools(META_TOOLS)) == list(META_TOOLS)
    assert shown[1] == messages[1]  # the user's own words
    if naming is OWN:
        assert shown == messages


@pytest.mark.parametrize("naming", OTHERS, ids=lambda naming: naming.name)
async def test_nothing_of_the_own_naming_shows(naming: Naming, desk: Catalog) -> None:
    messages = await conversation(desk)
    for message in naming.show(messages):
        if message.role != "user" or message.synthetic:
            assert not any(name in message.content for name in META), message.content
        for call in message.tool_calls:
            assert call.name not in META
    tools = naming.show_tools(META_TOOLS)
    assert [tool["function"]["name"] for tool in tools] == [naming.calls[name] for name in META]
    for tool, own in zip(tools, META_TOOLS, strict=True):
        parameters = tool["function"]["parameters"]
        assert list(parameters["properties"]) == parameters["required"]
        assert len(parameters["properties"]) == len(own["function"]["parameters"]["required"])


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=lambda naming: naming.name)
async def test_the_breadcrumb_is_last_and_names_the_exact_call(
    naming: Naming, desk: Catalog
) -> None:
    seen = set()
    for message in (m for m in await conversation(desk) if m.role == "tool"):
        own = json.loads(message.content)
        shown = naming.show_payload(own)
        assert list(shown)[-1] == NEXT_STEP
        assert layer_of(shown) == own["layer"]
        for name in calls_in(own[NEXT_STEP]):
            seen.add(name)
            parameter = META_TOOLS[META.index(name)]["function"]["parameters"]["required"][0]
            call = naming.calls.get(name, name)
            argument = naming.arguments.get(name, {}).get(parameter, parameter)
            assert f"{call}({argument}=" in shown[NEXT_STEP]
            if name == "execute_tool":
                values = naming.arguments.get(name, {}).get("arguments", "arguments")
                assert f", {values}={{" in shown[NEXT_STEP]
    assert seen == set(META)


def test_no_two_payload_shapes_are_alike() -> None:
    payload = {"layer": "1_catalog", "matches": [{"name": "a", "description": "b"}]}
    shapes = {compact_json(naming.show_payload(payload)) for naming in NAMINGS.values()}
    assert len(shapes) == len(NAMINGS)
    marks = [compact_json(layer_of(n.show_payload(payload))) for n in NAMINGS.values()]
    assert set(marks) == {'"1_catalog"'}


def test_text_that_is_no_payload_stays() -> None:
    odd = [
        Message("tool", text, tool_call_id="c") for text in ("no JSON", '{"status": "ok"}', "[]")
    ]
    for naming in OTHERS:
        assert naming.show(odd) == naming.hear(odd) == odd


class _Seeing:
    """Calls by given names, and keeps what it was shown."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.seen: tuple[list[Message], list[Mapping[str, Any]]] = ([], [])

    async def stream(self, messages: Any, tools: Any) -> Any:
        self.seen = (list(messages), list(tools))
        yield Turn("I use execute_tool", (self.call,))


@pytest.mark.parametrize("naming", OTHERS, ids=lambda naming: naming.name)
async def test_a_policy_speaks_the_shown_words_and_is_heard_in_the_own(
    naming: Naming, desk: Catalog
) -> None:
    session = session_of(desk)
    query = naming.arguments["search_tool_catalog"]["query"]
    inner = _Seeing(ToolCall("c", naming.calls["search_tool_catalog"], {query: "close a ticket"}))
    [turn] = [
        t async for t in NamedPolicy(inner, naming).stream([Message("user", "x")], META_TOOLS)
    ]
    assert isinstance(turn, Turn)
    assert inner.seen[1] == naming.show_tools(META_TOOLS)
    payload = await session.call(turn.calls[0].name, turn.calls[0].arguments)
    assert payload["layer"] == "1_catalog"
    assert payload["matches"]


@pytest.mark.parametrize("naming", OTHERS, ids=lambda naming: naming.name)
async def test_the_own_names_are_no_calls_under_another_naming(
    naming: Naming, desk: Catalog
) -> None:
    session = session_of(desk)
    call = ToolCall("c", "get_tool_schema", {"tool_names": ["create_ticket"]})
    turn = heard(Turn("", (call,)), naming)
    payload = await session.call(turn.calls[0].name, turn.calls[0].arguments)
    assert payload["layer"] == "0_usage"
    assert naming.show([Message("assistant", "", turn.calls)])[0].tool_calls == (call,)
    wrong = {"query": "close a ticket"}
    if naming.arguments["search_tool_catalog"]["query"] != "query":
        turn = heard(Turn("", (ToolCall("c", naming.calls["search_tool_catalog"], wrong),)), naming)
        assert (await session.call(turn.calls[0].name, turn.calls[0].arguments))[
            "layer"
        ] == "0_usage"


async def test_a_turn_without_naming_is_passed_on() -> None:
    script = ScriptedPolicy([Turn("Hello.")])
    said = [item async for item in NamedPolicy(script, OWN).stream([Message("user", "x")], ())]
    assert said == ["Hello.", Turn("Hello.")]
