"""The suite as tasks of Inspect AI: `inspect eval breadcrumbs/decision_turns --model NAME`.

Inspect brings the model and keeps the log; everything else is what `breadcrumbs eval` runs: the
same configs choose the same scenarios, the loop takes the turns, the gateway answers, and the
same functions score and pool. What a sample's run left behind lies in its store, so that
`inspect score` scores it anew without a model.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import ToolCall as InspectCall
from inspect_ai.tool import ToolInfo, ToolParams

from breadcrumbs import config as configs
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.endpoint_wire import without_thinking
from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.config import Cell, EvalConfig
from breadcrumbs.eval.decision import decision_case
from breadcrumbs.eval.evaluation import Evaluation
from breadcrumbs.eval.framework_model import flat, framework_turn, silent
from breadcrumbs.eval.measures import observe, observed_from_dict, summarise_runs
from breadcrumbs.eval.metrics import Scored, TurnScore, score_turn, summarise
from breadcrumbs.eval.playing import Tiers, play
from breadcrumbs.eval.suite import Suite
from breadcrumbs.eval.suite_config import SuiteConfig
from breadcrumbs.eval.transcripts import read_transcript, turn_of_message
from breadcrumbs.messages import Message, compact_json, message_from_dict
from breadcrumbs.policies import NamedPolicy, whole_turn
from breadcrumbs.turns import Turn

KEPT = "breadcrumbs"
"""Where a sample's store holds what its run left behind."""
CUT = ("max_tokens", "model_length")


@task
def decision_turns(config: str, cell: int = 0, data: str | None = None) -> Task:
    """One turn a scenario, after a forced search and schema.

    Args:
        config: of `breadcrumbs eval`, such as configs/eval/quick.yaml.
        cell: which of its cells, from 0; one task is one cell.
        data: the data set, where it is not the config's.
    """
    run = Evaluation.prepare(_load(config, EvalConfig, data), silent)
    if not 0 <= cell < len(run.config.cells):
        raise ConfigError(f"cell={cell}: {config} has {len(run.config.cells)}, counted from 0")
    chosen = run.config.cells[cell]
    scenarios = {scenario.id: scenario for scenario in run.chosen(chosen)}
    return Task(
        dataset=[_sample(scenario, id_) for id_, scenario in scenarios.items()],
        solver=decide(run, chosen, scenarios),
        scorer=decision(run, chosen, scenarios),
        metrics=[decision_figures(run.config.seed)],
        metadata={"place": chosen.place, "tier": chosen.tier, "data_sha256": run.data_hash},
    )


@task
def episodes(config: str, tiers: str = "1234", data: str | None = None) -> Task:
    """Whole episodes: the loop from the request to the end, with any of the four tiers off.

    Args:
        config: of `breadcrumbs eval episodes`; its `policies` and `ablation` play no part.
        tiers: the cell by its name; `1-34` has no tier 2.
        data: the data set, where it is not the config's.
    """
    suite = Suite.prepare(_load(config, SuiteConfig, data), silent)
    cell = Tiers(*(number in str(tiers) for number in "1234"))
    runs = {f"{s.id}#{n}": (s, n) for s in suite.scenarios for n in range(suite.config.runs)}
    return Task(
        dataset=[_sample(scenario, key) for key, (scenario, _) in runs.items()],
        solver=take_part(suite, cell, runs),
        scorer=episode(suite),
        metrics=[episode_figures(suite.config.seed)],
        metadata={"tiers": cell.name, "data_sha256": suite.data_hash},
    )


def _load(config: str, kind: Any, data: str | None) -> Any:
    return configs.load(Path(config), kind, () if data is None else (f"data={data}",))


def _sample(scenario: Scenario, key: str) -> Sample:
    about = {"tool": scenario.tool, "twin": scenario.twin, "kind": scenario.kind or "plain"}
    return Sample(input=scenario.request, target=scenario.behaviour, id=key, metadata=about)


class InspectPolicy:
    """An Inspect model; its failures are Inspect's to handle, none of them is a turn."""

    def __init__(self, model: Model) -> None:
        self._model = model

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The whole turn once it has come."""
        output = await self._model.generate(shown_messages(messages), shown_tools(tools))
        turn = _turn(output, messages)
        if turn.text:
            yield turn.text
        yield turn


def shown_messages(messages: Sequence[Message]) -> list[ChatMessage]:
    """A conversation in Inspect's form; an assistant's reasoning is left out."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return [_shown(without_thinking(message), names) for message in messages]


def _shown(message: Message, names: Mapping[str, str]) -> ChatMessage:
    text = message.content
    if message.role == "system":
        return ChatMessageSystem(content=text)
    if message.role == "user":
        return ChatMessageUser(content=text)
    if message.role == "tool":
        called = message.tool_call_id
        return ChatMessageTool(
            content=text, tool_call_id=called, function=names.get(called or "", None)
        )
    calls = [
        InspectCall(id=call.id, function=call.name, arguments=dict(call.arguments))
        for call in message.tool_calls
    ]
    return ChatMessageAssistant(content=text, tool_calls=calls or None)


def shown_tools(tools: Sequence[Mapping[str, Any]]) -> list[ToolInfo]:
    """Tools in Inspect's form; what a schema leaves open stays open."""
    return [
        ToolInfo(
            name=function["name"],
            description=function.get("description", ""),
            parameters=ToolParams.model_validate(
                {"additionalProperties": True, **function["parameters"]}
            ),
        )
        for function in (tool["function"] for tool in tools)
    ]


def _turn(output: ModelOutput, before: Sequence[Message]) -> Turn:
    said = output.message
    content = said.content
    parts = [] if isinstance(content, str) else content
    calls = [
        {
            "id": call.id,
            "function": {"name": call.function, "arguments": compact_json(call.arguments)},
            "parse_error": call.parse_error,
        }
        for call in said.tool_calls or ()
    ]
    message = {
        "content": said.text,
        "tool_calls": calls,
        "reasoning": "\n".join(part.reasoning for part in parts if part.type == "reasoning"),
    }
    used = output.usage
    usage = used and {"prompt_tokens": used.input_tokens, "completion_tokens": used.output_tokens}
    return framework_turn(message, before, cut=output.stop_reason in CUT, usage=usage)


def _leave(state: TaskState, messages: Sequence[Message], kept: Mapping[str, Any]) -> TaskState:
    """Put what happened where Inspect shows it, and where the scorer finds it."""
    if state.epoch != 1:
        raise ConfigError("epochs would be averaged scenario by scenario; set runs in the config")
    state.messages = shown_messages(messages)
    if isinstance(state.messages[-1], ChatMessageAssistant):
        state.output = ModelOutput.from_message(state.messages[-1])
    state.store.set(KEPT, dict(kept))
    state.completed = True
    return state


@solver
def decide(run: Evaluation, cell: Cell, scenarios: Mapping[str, Scenario]) -> Solver:
    """Lets the model write the turn that decides."""
    settings = run.gateway_settings(cell.breadcrumb)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        scenario = scenarios[str(state.sample_id)]
        case = await decision_case(scenario, run.catalog, run.hints, settings)
        policy = NamedPolicy(InspectPolicy(get_model()), scenario.shape.words())
        turn = await whole_turn(policy, case.messages, case.tools)
        message = Message("assistant", turn.content, tool_calls=turn.calls)
        kept = {"message": message.to_dict(), "problems": list(turn.problems)}
        return _leave(state, [*case.messages, message], kept)

    return solve


@scorer(metrics=[])
def decision(run: Evaluation, cell: Cell, scenarios: Mapping[str, Scenario]) -> Scorer:
    """Scores that turn against the scenario's truth: no model judges."""
    settings = run.gateway_settings(cell.breadcrumb)

    async def score(state: TaskState, target: Target) -> Score:
        scenario = scenarios[str(state.sample_id)]
        case = await decision_case(scenario, run.catalog, run.hints, settings)
        found = score_turn(_kept_turn(state.store.get(KEPT)), case)
        right = {
            "dispatch": found.dispatched,
            "clarify": not found.executed and bool(set(found.asked) & set(scenario.missing)),
            "decline": found.declined,
        }
        return Score(
            value=int(right[scenario.behaviour]),
            answer=state.output.completion,
            explanation="; ".join(found.faults) or found.stall,
            metadata={
                "behaviour": scenario.behaviour,
                "missing": list(scenario.missing),
                "score": found.to_dict(),
            },
        )

    return score


def _kept_turn(kept: Mapping[str, Any]) -> Turn:
    return turn_of_message(message_from_dict(kept["message"]), tuple(kept["problems"]))


@metric
def decision_figures(seed: int) -> Metric:
    """The figures of `breadcrumbs eval`, each with its interval."""

    def pool(scores: list[SampleScore]) -> dict[str, float]:
        scored = [_scored(one.score.metadata or {}) for one in scores]
        return flat(summarise(scored, seed=seed))

    return pool


def _scored(about: Mapping[str, Any]) -> Scored:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in about["score"].items()
    }
    return Scored(about["behaviour"], tuple(about["missing"]), TurnScore(**fields))


@solver
def take_part(suite: Suite, tiers: Tiers, runs: Mapping[str, tuple[Scenario, int]]) -> Solver:
    """Lets the model play a scenario through the loop."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        scenario, number = runs[str(state.sample_id)]
        policy = InspectPolicy(get_model())
        transcript = await play(policy, scenario, suite.stage(tiers), number=number)
        return _leave(state, transcript.messages, transcript.to_record())

    return solve


@scorer(metrics=[])
def episode(suite: Suite) -> Scorer:
    """Scores the gateway's log and the world it left."""

    async def score(state: TaskState, target: Target) -> Score:
        seen = observe(read_transcript(state.store.get(KEPT), suite.catalog, suite.hints))
        return Score(
            value=int(seen.success), answer=state.output.completion, metadata=seen.to_dict()
        )

    return score


@metric
def episode_figures(seed: int) -> Metric:
    """The figures of `breadcrumbs eval episodes`, each with its interval."""

    def pool(scores: list[SampleScore]) -> dict[str, float]:
        observed = [observed_from_dict(one.score.metadata or {}) for one in scores]
        return flat(summarise_runs(observed, seed))

    return pool
