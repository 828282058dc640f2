"""Evaluation under another naming: the model sees it, the score is that of the gateway's own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from breadcrumbs.call_format import XML
from breadcrumbs.config import parse
from breadcrumbs.data_gen.episodes import OraclePolicy
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.config import EvalConfig
from breadcrumbs.eval.decision import decision_cases, generate_texts, renamed, turn_of
from breadcrumbs.eval.episodes import run_episodes
from breadcrumbs.eval.intervals import NOT_MEASURED
from breadcrumbs.eval.metrics import EXTRAS, METRICS, score_turn
from breadcrumbs.eval.report_tables import results_section
from breadcrumbs.eval.results import table
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.gateway.namings import NAMINGS, OWN, Naming
from breadcrumbs.turns import Turn

MakeScenario = Callable[..., Scenario]
GOLD = {"title": "Budget sync", "start": "2026-03-09T14:00", "minutes": 45, "rate": 25}


def written(naming: Naming, tool: str, values: dict[str, Any]) -> str:
    """A call of the execute tool as a model under a naming writes it."""
    words = naming.arguments.get("execute_tool", {})
    arguments = {
        words.get("tool_name", "tool_name"): tool,
        words.get("arguments", "arguments"): values,
    }
    name = naming.calls.get("execute_tool", "execute_tool")
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=lambda naming: naming.name)
def test_a_right_call_is_right_and_one_under_other_names_is_none(
    naming: Naming, make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    scenario = renamed(make_scenario(), naming.name)
    (case,) = decision_cases([scenario], catalog, hints, GatewaySettings())
    right = score_turn(turn_of(written(naming, scenario.tool, GOLD), case), case)
    assert (right.dispatched, right.exact) == (True, True)
    other = next(n for n in NAMINGS.values() if n is not naming)
    wrong = score_turn(turn_of(written(other, scenario.tool, GOLD), case), case)
    assert (wrong.executed, wrong.other_call, wrong.dispatched) == (False, True, False)
    named = naming.calls.get("execute_tool", "execute_tool")
    stall = score_turn(turn_of(f"{named}(tool_name='{scenario.tool}', arguments={{}})", case), case)
    assert stall.stall == "fake_call_in_text"


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=lambda naming: naming.name)
def test_a_call_in_another_syntax_is_read_with_the_types_that_were_shown(
    naming: Naming, make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    scenario = renamed(make_scenario(), naming.name)
    (case,) = decision_cases([scenario], catalog, hints, GatewaySettings())
    words = naming.arguments.get("execute_tool", {})
    values = {"tool_name": scenario.tool, "arguments": json.dumps(GOLD)}
    pieces = [
        f"<parameter={words.get(key, key)}>\n{value}\n</parameter>" for key, value in values.items()
    ]
    name = naming.calls.get("execute_tool", "execute_tool")
    text = "\n".join(["<tool_call>", f"<function={name}>", *pieces, "</function>", "</tool_call>"])
    assert score_turn(turn_of(text, case, XML), case).exact
    assert not score_turn(turn_of(text, case), case).dispatched  # the control: the other parser


class _Model:
    """Keeps the prompts it is asked for."""

    def __init__(self) -> None:
        self.renderer = self.tokenizer = self
        self.prompts: list[Any] = []

    def prompt_ids(self, messages: Any, tools: Any) -> list[int]:
        self.prompts.append((list(messages), list(tools)))
        return [len(self.prompts)]

    def generate(self, prompts: Any, **settings: Any) -> list[list[int]]:
        return list(prompts)

    def decode(self, ids: list[int], **settings: Any) -> str:
        return str(ids)


def test_the_prompt_is_shown_under_the_naming(
    make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    naming = NAMINGS["workbench"]
    scenarios = [make_scenario(), renamed(make_scenario(), naming.name)]
    cases = decision_cases(scenarios, catalog, hints, GatewaySettings())
    assert cases[0].messages == cases[1].messages  # the cases are in the gateway's own words
    model: Any = _Model()
    limits = {"max_new_tokens": 8, "text_budget": 8, "batch_tokens": 1024}
    generate_texts(model, cases, step=lambda done: None, **limits)
    own, shown = model.prompts
    assert own == (list(cases[0].messages), list(cases[0].tools))
    assert shown == (naming.show(own[0]), naming.show_tools(own[1]))


class _Shown:
    """The oracle as a model under a naming: it sees and writes the shown words."""

    def __init__(self, scenario: Scenario, catalog: Any) -> None:
        self.naming = scenario.shape.words()
        self.oracle = OraclePolicy(scenario, catalog.tool(scenario.tool))

    async def stream(self, messages: Any, tools: Any) -> Any:
        assert tools[0]["function"]["name"] == self.naming.calls["search_tool_catalog"]
        turn = self.oracle.turn(self.naming.hear(messages))
        (shown,) = self.naming.show([_message(turn)])
        yield Turn(turn.text, shown.tool_calls)


def _message(turn: Turn) -> Any:
    from breadcrumbs.messages import Message

    return Message("assistant", turn.content, turn.calls)


@pytest.mark.parametrize("naming", [n for n in NAMINGS if n != OWN.name])
@pytest.mark.parametrize("kind", ["dispatch", "clarify", "decline"])
async def test_whole_episodes_succeed_under_every_naming(
    naming: str, kind: str, make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    made = renamed(make_scenario(kind), naming)
    policy = _Shown(made, catalog)
    (record,) = await run_episodes(policy, [made], catalog, hints, GatewaySettings(), max_rounds=6)
    assert (record["success"], record["fault"]) == (True, "")


def test_cells_by_naming_are_told_apart() -> None:
    cell = {"breadcrumb": True, "split": "held_out_tools", "dispatch": 1, "clarify": 1}
    body = {"version": 1, "data": "d", "out": "o", "cells": [cell, {**cell, "naming": "workbench"}]}
    config = parse(body, EvalConfig, "here")
    places = [one.place for one in config.cells]
    assert places == ["held_out_tools", "held_out_tools as workbench"]
    for cells, message in (
        ([cell, cell], "the same breadcrumb, split and naming"),
        ([{**cell, "naming": "nicknames"}], "no naming 'nicknames'"),
    ):
        with pytest.raises(ConfigError, match=message):
            parse({**body, "cells": cells}, EvalConfig, "here")


def test_table_and_report_tell_cells_by_naming() -> None:
    cell = {name: NOT_MEASURED.to_dict() for name in (*METRICS, *EXTRAS)}
    cells = {"held_out_tools": cell, "held_out_tools as workbench": cell}
    results = {"eval": {"base": {"breadcrumb_on": cells}}}
    lines = table(results).splitlines()[:3]
    assert len({len(line) for line in lines}) == 1  # the columns stay under their heads
    assert "held_out_tools as workbench" in lines[2]
    assert "held-out tools, tools named as in workbench" in results_section(results, {})
