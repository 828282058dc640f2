"""End states: the oracle succeeds, and each way of going wrong fails by its own reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from breadcrumbs.data_gen.episodes import OraclePolicy
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.errors import ModelError
from breadcrumbs.eval.episodes import run_episodes
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.messages import ToolCall
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.turns import Turn

MakeScenario = Callable[..., Scenario]
GOLD = {"title": "Budget sync", "start": "2026-03-09T14:00", "minutes": 45, "rate": 25}
LIST = {"title": "Standup"}


def call(name: str, **arguments: Any) -> Turn:
    return Turn("", (ToolCall("call_1", name, arguments),))


def disclosed(tool: str = "plan_meeting") -> list[Turn]:
    return [
        call("search_tool_catalog", query="plan meeting"),
        call("get_tool_schema", tool_names=[tool]),
    ]


def execute(arguments: Any, tool: str = "plan_meeting") -> Turn:
    return call("execute_tool", tool_name=tool, arguments=arguments)


async def play(turns: list[Turn], made: Scenario, catalog: Any, hints: Any) -> tuple[bool, str]:
    policy = ScriptedPolicy(turns)
    (record,) = await run_episodes(policy, [made], catalog, hints, GatewaySettings(), max_rounds=6)
    return record["success"], record["fault"]


@pytest.mark.parametrize("kind", ["dispatch", "clarify", "decline", "worded"])
async def test_the_oracle_succeeds(
    make_scenario: MakeScenario, catalog: Any, hints: Any, kind: str
) -> None:
    made = make_scenario(kind)
    oracle = OraclePolicy(made, catalog.tool(made.tool))
    (record,) = await run_episodes(oracle, [made], catalog, hints, GatewaySettings(), max_rounds=6)
    assert (record["success"], record["fault"]) == (True, "")
    assert record["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("turns", "fault"),
    [
        ([Turn("It is done.")], "did not run"),
        ([*disclosed(), Turn("Shall I proceed?")], "did not run"),
        ([*disclosed(), execute({**GOLD, "minutes": 30}), Turn("Done.")], "another state"),
        ([*disclosed(), execute({**GOLD, "note": "x"}), Turn("Done.")], "another state"),
        ([*disclosed(), execute(GOLD), execute(GOLD), Turn("Done.")], "2 writes"),
        ([*disclosed(), execute({"title": "Budget sync"}), Turn("Done.")], "did not run"),
    ],
)
async def test_dispatch_fails_where_the_world_is_not_the_gold_one(
    make_scenario: MakeScenario, catalog: Any, hints: Any, turns: list[Turn], fault: str
) -> None:
    success, found = await play(turns, make_scenario(), catalog, hints)
    assert not success
    assert fault in found


async def test_a_mended_call_still_succeeds(
    make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    turns = [*disclosed(), execute({"title": "Budget sync"}), execute(GOLD), Turn("Done.")]
    assert await play(turns, make_scenario(), catalog, hints) == (True, "")


async def test_a_worded_text_need_not_be_the_gold_one(
    make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    made = make_scenario("worded")
    for title, good in (("Hiring, budget", True), ("Hiring", False)):
        arguments = {"title": title, "start": "2026-03-09T14:00"}
        turns = [*disclosed(), execute(arguments), Turn("Done.")]
        assert (await play(turns, made, catalog, hints))[0] is good


async def test_clarify_leaves_everything_alone_and_asks_for_exactly_that(
    make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    made = make_scenario("clarify")
    ask = Turn("When should it start?")
    assert (await play([*disclosed(), ask], made, catalog, hints))[0]
    thought = Turn("<think>{}</think>\nWhen should it start?")
    assert (await play([*disclosed(), thought], made, catalog, hints))[0]
    guess = [*disclosed(), execute(GOLD), ask]
    assert await play(guess, made, catalog, hints) == (False, "something was changed or held")
    more = [*disclosed(), Turn("What should the title be? And when should it start?")]
    assert await play(more, made, catalog, hints) == (False, "asks for title, start")
    none = [*disclosed(), Turn("I have planned it.")]
    assert await play(none, made, catalog, hints) == (False, "asks for nothing")


async def test_decline_must_be_said(make_scenario: MakeScenario, catalog: Any, hints: Any) -> None:
    made = make_scenario("decline")
    search = call("search_tool_catalog", query="plan meeting")
    assert (await play([search, Turn("Sorry, no tool here can do that.")], made, catalog, hints))[0]
    assert not (await play([search, Turn("Done!")], made, catalog, hints))[0]


async def test_doing_nothing_does_not_pass_where_a_read_is_right(
    make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    """A read changes no state, so equal states alone would reward an idle model."""
    made = make_scenario(
        tool="read_weather", gold_arguments=LIST, search_query="read weather report", id="read"
    )
    assert await play([Turn("Sunny.")], made, catalog, hints) == (False, "the tool did not run")
    shown = disclosed("read_weather")
    right = [*shown, execute(LIST, "read_weather"), Turn("One.")]
    assert (await play(right, made, catalog, hints))[0]
    wrong = [*shown, execute({"title": "Retro"}, "read_weather"), Turn("None.")]
    assert await play(wrong, made, catalog, hints) == (False, "the tool answered something else")


async def test_a_broken_policy_is_an_error_and_no_failed_episode(
    make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    with pytest.raises(ModelError, match="one-dispatch"):
        await play(disclosed(), make_scenario(), catalog, hints)
