"""What a try is worth, in both directions, with policies that do not read what is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.data_gen.dataset import load_rows
from breadcrumbs.data_gen.episodes import OraclePolicy
from breadcrumbs.data_gen.rl_scenarios import Worlds, scenarios_of
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.values import words
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.train.environment import GatewayEnvironment, last_words
from breadcrumbs.train.rewards import EMPTY, RIGHT, WRONG, unscored

Policy = Callable[[GatewayEnvironment, Scenario, ToolSpec], str]
LIE = "Done, it has been created."


@pytest.fixture(scope="module")
def records(data: Path) -> list[dict[str, Any]]:
    rows = [row for row in load_rows(data, "train") if unscored(row.scenario) is None]
    assert {row.behaviour for row in rows} == {"dispatch", "clarify", "decline"}
    known = scenarios_of(data, "train")
    return [known[row.id] for row in rows]


def worths(records: list[dict[str, Any]], policy: Policy) -> dict[str, list[float]]:
    """What a policy earns, by behaviour. The environment is reused, as TRL does."""
    worlds = Worlds()
    environment = GatewayEnvironment(records, worlds)
    found: dict[str, list[float]] = {}
    for place, record in enumerate(records):
        scenario, rebuilt = worlds.rebuilt(record)
        spec = rebuilt.catalog_of(scenario).tools[scenario.tool]
        environment.reset(scenario=place, prompt=record["prompt"])
        said = policy(environment, scenario, spec)
        found.setdefault(scenario.behaviour, []).append(environment._reward(said))
    return found


def over_twins(found: dict[str, list[float]]) -> float:
    both = found["dispatch"] + found["clarify"]
    return sum(both) / len(both)


def look(environment: GatewayEnvironment, scenario: Scenario) -> None:
    environment.search_tool_catalog(query=scenario.search_query)
    environment.get_tool_schema(tool_names=[scenario.tool])


def call(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
    """The gold arguments, anything that fits for the rest."""
    arguments = dict(scenario.gold_arguments)
    for name in spec.required:
        schema = spec.input_schema["properties"][name]
        if name not in arguments and "default" not in schema:
            arguments[name] = scenario.withheld.get(name, "something")
    return environment.execute_tool(tool_name=scenario.tool, arguments=arguments)


def oracle(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
    look(environment, scenario)
    if scenario.behaviour == "dispatch":
        call(environment, scenario, spec)
        return "It is on its way."
    return scenario.question if scenario.behaviour == "clarify" else scenario.reply


def always_dispatch(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
    look(environment, scenario)
    call(environment, scenario, spec)
    return LIE


def always_ask(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
    look(environment, scenario)
    return f"What is the {words(spec.required[0])}?"


def claims_success(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
    look(environment, scenario)
    return LIE


def asks_and_claims(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
    look(environment, scenario)
    return f"{scenario.question} {LIE}"


def says_nothing(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
    return ""


def test_the_right_policy_earns_all_there_is(records: list[dict[str, Any]]) -> None:
    for behaviour, found in worths(records, oracle).items():
        assert found == [RIGHT] * len(found), behaviour


def test_neither_habit_pays_over_twins(records: list[dict[str, Any]]) -> None:
    dispatching, asking = worths(records, always_dispatch), worths(records, always_ask)
    assert set(dispatching["clarify"]) == {WRONG}
    assert set(asking["dispatch"]) == {WRONG}
    assert over_twins(dispatching) <= 0
    assert over_twins(asking) <= 0
    assert set(dispatching["decline"]) == {WRONG}
    assert set(asking["decline"]) == {EMPTY}


@pytest.mark.parametrize("policy", [claims_success, asks_and_claims])
def test_to_tell_of_success_that_did_not_happen_loses(
    records: list[dict[str, Any]], policy: Policy
) -> None:
    for found in worths(records, policy).values():
        assert set(found) == {WRONG}


def test_to_say_nothing_earns_less_than_nothing(records: list[dict[str, Any]]) -> None:
    for found in worths(records, says_nothing).values():
        assert max(found) < 0


def spoilt(scenario: Scenario) -> dict[str, Any]:
    """The gold arguments with one value that is another."""
    name, value = next(iter(scenario.gold_arguments.items()), ("nothing_given", 0))
    return {**scenario.gold_arguments, name: f"{value}x" if isinstance(value, str) else 7}


def test_arguments_count(records: list[dict[str, Any]]) -> None:
    """One value wrong costs its share; an argument nobody asked for does too."""

    def spoiled(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
        look(environment, scenario)
        arguments = spoilt(scenario)
        environment.execute_tool(tool_name=scenario.tool, arguments=arguments)
        return ""

    for worth in worths(records, spoiled)["dispatch"]:
        assert worth == WRONG or 0 < worth < RIGHT  # WRONG where the schema refuses the value


def test_two_different_calls_of_the_tool_are_a_wrong_one(records: list[dict[str, Any]]) -> None:
    def twice(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
        look(environment, scenario)
        call(environment, scenario, spec)
        environment.execute_tool(tool_name=scenario.tool, arguments=spoilt(scenario))
        return ""

    assert WRONG in worths(records, twice)["dispatch"]


def test_a_question_counts_once_the_schema_was_read(records: list[dict[str, Any]]) -> None:
    def unread(environment: GatewayEnvironment, scenario: Scenario, spec: ToolSpec) -> str:
        return scenario.question

    assert set(worths(records, unread)["clarify"]) == {EMPTY}


def test_messages_and_answers_are_those_of_the_loop(records: list[dict[str, Any]]) -> None:
    from breadcrumbs.data_gen.episodes import ScriptedApprover
    from breadcrumbs.gateway.identity import SeededIds
    from breadcrumbs.loop import LoopSettings, run
    from breadcrumbs.messages import Message

    worlds = Worlds()
    environment = GatewayEnvironment(records, worlds)
    for place, record in enumerate(records):
        scenario, rebuilt = worlds.rebuilt(record)
        simulated, session = worlds.open(record)
        conversation = [Message(m["role"], m["content"]) for m in record["prompt"]]
        spec = rebuilt.catalog_of(scenario).tools[scenario.tool]
        approver = ScriptedApprover(scenario.approval, simulated)
        asyncio.run(
            run(
                OraclePolicy(scenario, spec),
                session,
                conversation,
                settings=LoopSettings(nudge=False),
                approver=approver,
                ids=SeededIds(scenario.seed),
            )
        )
        environment.reset(scenario=place)
        told = iter(m.content for m in conversation if m.role == "tool")
        for message in conversation:
            for asked in message.tool_calls:
                tool = getattr(environment, asked.name)
                assert tool(**asked.arguments) == next(told)
        assert list(told) == []
        assert environment._session.log == session.log
        said = last_words([{"role": "assistant", "content": conversation[-1].content}])
        assert environment._reward(said) == RIGHT


def test_the_last_words_are_those_of_a_turn_without_a_call() -> None:
    said = {"role": "assistant", "content": "All set."}
    assert last_words([said]) == "All set."
    assert last_words([{**said, "content": "<think>done?</think>\nNo."}]).strip() == "No."
    assert last_words([{**said, "tool_calls": [{}]}]) == ""
    assert last_words([said, {"role": "tool", "content": "{}"}]) == ""
    assert last_words([]) == ""
