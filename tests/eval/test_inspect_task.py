"""Inspect AI runs the suite with its own mock model: the same figures as `breadcrumbs eval`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs import config as configs
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.eval.config import EvalConfig
from breadcrumbs.eval.decision import constant_turn, decision_cases, spec_of
from breadcrumbs.eval.evaluation import Evaluation
from breadcrumbs.eval.players import SCRIPTED
from breadcrumbs.eval.suite import Suite
from breadcrumbs.eval.suite_config import SuiteConfig
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.turns import Turn

inspect_ai = pytest.importorskip("inspect_ai", reason="needs breadcrumbs[inspect]")
pytestmark = pytest.mark.filterwarnings("default")  # Inspect's own

Answer = Callable[[list[Message]], Turn]


def _silent(done: int, total: int, note: str = "") -> None:
    pass


def heard(messages: Sequence[Any]) -> list[Message]:
    """Inspect's messages as ours."""
    return [
        Message(
            m.role,
            m.text,
            tuple(
                ToolCall(c.id, c.function, c.arguments)
                for c in getattr(m, "tool_calls", None) or ()
            ),
            getattr(m, "tool_call_id", None),
        )
        for m in messages
    ]


def model(answer: Answer) -> Any:
    """Inspect's mock model, saying what a script says."""
    from inspect_ai.model import (
        ChatMessageAssistant,
        ContentReasoning,
        ContentText,
        ModelOutput,
        ModelUsage,
        get_model,
    )
    from inspect_ai.tool import ToolCall as Call

    def output(said: Any, tools: Any, choice: Any, config: Any) -> Any:
        assert [tool.name for tool in tools] == [tool["function"]["name"] for tool in META_TOOLS]
        turn = answer(heard(said))
        calls = [Call(c.id, c.name, dict(c.arguments)) for c in turn.calls]
        content: Any = turn.text
        if turn.thinking:
            content = [ContentReasoning(reasoning=turn.thinking), ContentText(text=turn.text)]
        message = ChatMessageAssistant(content=content, tool_calls=calls or None)
        output = ModelOutput.from_message(message)
        output.usage = ModelUsage(input_tokens=1, output_tokens=1)  # else it asks the net to count
        return output

    return get_model("mockllm/model", custom_outputs=output, memoize=False)


def figures(made: Any, answer: Answer, folder: Path) -> tuple[dict[str, float], Any]:
    """What Inspect's log says of a task."""
    (log,) = inspect_ai.eval(
        made, model=model(answer), log_dir=str(folder), display="none", log_format="json"
    )
    assert log.status == "success", log.error
    (score,) = log.results.scores
    return {name: found.value for name, found in score.metrics.items()}, log


@pytest.fixture(scope="module")
def quick(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inspect") / "eval.yaml"
    cell = {"breadcrumb": True, "split": "held_out_tools", "dispatch": 4, "clarify": 4}
    body = {"version": 1, "data": str(small_data), "out": str(path.parent / "out")}
    path.write_text(json.dumps({**body, "cells": [cell]}))
    return path


@pytest.fixture(scope="module")
def whole(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inspect") / "episodes.yaml"
    body = {"version": 1, "data": str(small_data), "out": str(path.parent / "out")}
    plain = {"dispatch": 3, "clarify": 3}
    path.write_text(json.dumps({**body, "plain": plain, "policies": ["oracle", "always_ask"]}))
    return path


def by_request(scenarios: Sequence[Scenario]) -> dict[str, Scenario]:
    found = {scenario.request: scenario for scenario in scenarios}
    assert len(found) == len(scenarios)
    return found


def asked(messages: Sequence[Message]) -> str:
    return next(m.content for m in messages if m.role == "user")


def constant(config: Path, system: Any) -> tuple[Answer, dict[str, Any]]:
    """A system without a model as Inspect's model, and what `breadcrumbs eval` says of it."""
    run = Evaluation.prepare(configs.load(config, EvalConfig, ()), _silent)
    chosen = run.chosen(run.config.cells[0])
    cases = decision_cases(chosen, run.catalog, run.hints, run.gateway_settings(True))
    by = {case.scenario.request: case for case in cases}
    _, scored = run._cell(system, run.config.cells[0])
    from breadcrumbs.eval.metrics import summarise

    own = {name: e for name, e in summarise(scored, seed=run.config.seed).items() if e.n}
    return lambda messages: constant_turn(system, by[asked(messages)]), own


@pytest.mark.parametrize(
    ("system", "dad", "oar", "uar"),
    [("oracle", 1, 0, 0), ("always_ask", 0, 1, 0), ("always_dispatch", 1, 0, 1)],
)
def test_a_turn_gets_the_figures_that_eval_gives_it(
    quick: Path, tmp_path: Path, system: Any, dad: int, oar: int, uar: int
) -> None:
    from breadcrumbs.eval.inspect_task import decision_turns

    answer, own = constant(quick, system)
    found, log = figures(decision_turns(str(quick)), answer, tmp_path)
    assert (found["dad"], found["oar"], found["uar"]) == (dad, oar, uar)
    assert {name: found[name] for name in own} == {n: e.value for n, e in own.items()}
    assert {n: (found[f"{n}_low"], found[f"{n}_high"]) for n in own} == {
        n: (e.low, e.high) for n, e in own.items()
    }
    assert found["dad_low"] <= found["dad"] <= found["dad_high"]
    assert len(log.samples) == 8
    assert [m.role for m in log.samples[0].messages][-1] == "assistant"


def test_a_half_call_is_malformed_and_no_dispatch(quick: Path, tmp_path: Path) -> None:
    """The negative control: the oracle's calls, spoilt on their way, score as what they are."""
    from breadcrumbs.eval.inspect_task import decision_turns

    answer, _ = constant(quick, "oracle")

    def spoilt(messages: list[Message]) -> Turn:
        turn = answer(messages)
        calls = [
            dataclasses.replace(c, arguments={**c.arguments, "tool_name": "x"}) for c in turn.calls
        ]
        return dataclasses.replace(turn, calls=tuple(calls))

    found, _ = figures(decision_turns(str(quick)), spoilt, tmp_path)
    assert (found["dad"], found["oar"], found["uar"]) == (0, 0, 0)


@pytest.mark.parametrize("policy", ["oracle", "always_ask"])
def test_whole_episodes_run_the_loop_and_get_the_suites_figures(
    whole: Path, tmp_path: Path, policy: Any
) -> None:
    from inspect_ai.log import resolve_sample_attachments

    from breadcrumbs.eval.inspect_task import episode, episodes

    settings = dataclasses.replace(
        configs.load(whole, SuiteConfig, ()), policies=(policy,), out=tmp_path / "own"
    )
    suite = Suite.prepare(settings, _silent)
    own = suite.run()["episodes"][policy]["1234"]
    found, log = figures(episodes(str(whole)), played(policy, suite), tmp_path / "log")
    measured = {name: e["value"] for name, e in own.items() if e["n"]}
    assert {name: found[name] for name in measured} == measured
    assert found["success"] == (1 if policy == "oracle" else 0)
    ours = [json.loads(line) for line in _kept_lines(tmp_path / "own", policy)]
    theirs = [resolve_sample_attachments(s, "full").store["breadcrumbs"] for s in log.samples]
    assert what_happened(ours) == what_happened(theirs)
    again = inspect_ai.score(log, [episode(suite)], action="overwrite", display="none")
    assert [s.scores for s in again.samples] == [s.scores for s in log.samples]


def what_happened(records: Sequence[Any]) -> dict[str, Any]:
    return {r["scenario"]["id"]: (r["messages"], r["end"], r["gold"]) for r in records}


def _kept_lines(out: Path, policy: str) -> list[str]:
    return (out / "cells" / f"{policy}_1234.jsonl").read_text().splitlines()[1:]


def played(policy: Any, suite: Suite) -> Answer:
    """A scripted policy that follows from the conversation alone."""
    by = by_request(suite.scenarios)
    catalog: Catalog = suite.catalog

    def answer(messages: list[Message]) -> Turn:
        scenario = by[asked(messages)]
        script: Any = SCRIPTED[policy](
            scenario, spec_of(scenario, catalog), suite.hints.get(scenario.tool), 0
        )
        return script.turn(messages)

    return answer


def test_epochs_are_refused_since_they_would_be_averaged(quick: Path, tmp_path: Path) -> None:
    """Named as on the command line, which finds the task by the package's entry point."""
    answer, _ = constant(quick, "oracle")
    (log,) = inspect_ai.eval(
        "breadcrumbs/decision_turns",
        task_args={"config": str(quick)},
        model=model(answer),
        epochs=2,
        log_dir=str(tmp_path),
        display="none",
    )
    assert log.status == "error"
    assert "runs" in log.error.message
