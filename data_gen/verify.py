"""What every row must pass before it is written: format, protocol, grounding, thinking, replay.

Each check answers with a reason or nothing; the first reason drops the row and is counted.
Grounding decides the label: a scenario whose behaviour disagrees with where its values come
from is dropped, whatever the oracle did.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breadcrumbs.call_format import THINK_CLOSER, THINK_OPENER
from breadcrumbs.data_gen.episodes import (
    Episode,
    as_shown,
    read_together,
    request_place,
    run_episode,
    since_request,
)
from breadcrumbs.data_gen.grounding import absent, ground, normalise
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.kind_checks import kind_fault
from breadcrumbs.data_gen.localise import localised
from breadcrumbs.data_gen.nudged import behind_stalls, stalled_turns
from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.script import QUESTION_THOUGHT, THOUGHTS, says_yes
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message, ToolCall, compact_json, json_object
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.turns import Turn

CALLS = {
    "dispatch": ("search_tool_catalog", "get_tool_schema", "execute_tool"),
    "clarify": ("search_tool_catalog", "get_tool_schema"),
    "decline": ("search_tool_catalog",),
    "answer": ("search_tool_catalog", "get_tool_schema"),
    "hold": ("search_tool_catalog", "get_tool_schema"),
}
STATUS = {
    "approve": "done",
    "deny": "denied",
    "wait": "approval_required",
    "expire": "expired",
}


@dataclass(frozen=True, slots=True)
class Verifier:
    """The checks, against one split's catalog and gateway settings."""

    catalog: Catalog
    settings: GatewaySettings

    async def reason(self, scenario: Scenario, episode: Episode, hint: ToolHint) -> str | None:
        """Why the row must be dropped, or None for a good one."""
        fault = self.reading_fault(scenario, episode, hint)
        return fault or await self._replay_fault(scenario, episode)

    def reading_fault(self, scenario: Scenario, episode: Episode, hint: ToolHint) -> str | None:
        """What is wrong with the row as it stands, without running it."""
        spec = self.catalog.tool(scenario.tool)
        if spec is None:
            return "format: the tool is not in the split's catalog"
        messages = since_request(episode.messages, scenario)
        hint = localised(hint, spec, scenario.surface.language)
        return (
            format_fault(episode.messages)
            or protocol_fault(scenario, episode, as_shown(scenario, spec))
            or history_fault(scenario, self.catalog, episode.messages)
            or self._step_fault(scenario, messages)
            or grounding_fault(scenario, spec, hint, messages)
            or thinking_fault(scenario, spec, messages)
            or kind_fault(scenario, spec, hint, messages)
        )

    def _step_fault(self, scenario: Scenario, messages: Sequence[Message]) -> str | None:
        """The arguments of every call before the decided one stood somewhere before it."""
        for step in scenario.steps:
            spec = self.catalog.tool(step.tool)
            if spec is None:
                return "format: the tool of a step is not in the split's catalog"
            before = decision_messages(messages, step.tool)
            if None in ground(spec, step.arguments, before).values():
                return "grounding: a value of a step has no source"
            (call,) = messages[len(before)].tool_calls
            if call.arguments["arguments"] != step.arguments:
                return "grounding: a step passes other values than it should"
        return None

    async def _replay_fault(self, scenario: Scenario, episode: Episode) -> str | None:
        again = await replay(scenario, episode.messages, self.catalog, self.settings)
        return effect_difference(episode, again)


def effect_difference(left: Episode, right: Episode) -> str | None:
    """The first way two episodes differ in what they did or what the gateway said."""
    if left.state_hash != right.state_hash:
        return "replay: the world ends in another state"
    if left.queue != right.queue:
        return "replay: the approval queue differs"
    if left.calls != right.calls:
        return "replay: the gateway saw other calls"
    if [m.content for m in left.messages] != [m.content for m in right.messages]:
        return "replay: the conversation differs"
    return None


async def replay(
    scenario: Scenario, messages: Sequence[Message], catalog: Catalog, settings: GatewaySettings
) -> Episode:
    """Take the recorded assistant turns again, on a fresh gateway; stalls are nudged again."""
    turns = [Turn(m.content, m.tool_calls) for m in messages if m.role == "assistant"]
    policy = ScriptedPolicy(turns)
    return await run_episode(
        scenario,
        catalog,
        settings,
        policy,
        loop_settings=LoopSettings(nudge=bool(stalled_turns(messages))),
        past=policy,
    )


def format_fault(messages: Sequence[Message]) -> str | None:
    """Roles alternate, every call has one answer, payloads are JSON ending in `next_step`."""
    if [m.role for m in messages[:2]] != ["system", "user"] or messages[-1].role != "assistant":
        return "format: roles"
    open_calls: list[str] = []
    for before, message in zip(messages, messages[1:], strict=False):
        if message.role == "tool":
            if message.tool_call_id not in open_calls:
                return "format: a tool message answers no call"
            open_calls.remove(message.tool_call_id or "")
            if not _ends_in_next_step(message.content):
                return "format: payload"
        elif open_calls or before.role == message.role:
            return "format: roles"
        open_calls.extend(call.id for call in message.tool_calls)
    if open_calls:
        return "format: a call has no answer"
    return None


def _ends_in_next_step(content: str) -> bool:
    payload = json.loads(content)
    return (
        isinstance(payload, dict)
        and list(payload)[-1] == "next_step"
        and compact_json(payload) == content
    )


def protocol_fault(scenario: Scenario, episode: Episode, spec: ToolSpec) -> str | None:
    """Search, then schema, then execution, each once for each tool; the calls succeeded."""
    if episode.calls != expected_calls(scenario):
        return "protocol: other calls than the behaviour needs"
    if episode.outcome != "answered":
        return f"protocol: ended {episode.outcome}"
    history, steps = scenario.shape.history, scenario.steps
    tools = [*(past.tool for past in history), *(step.tool for step in steps), scenario.tool]
    for number, (call, payload) in enumerate(_exchanges(episode.messages)):
        tool = tools[min(number // len(CALLS["dispatch"]), len(tools) - 1)]
        fault = _exchange_fault(scenario, spec, tool, call, payload)
        if fault is not None:
            return fault
    return None


def expected_calls(scenario: Scenario) -> tuple[str, ...]:
    """The meta-tools a right episode calls, in order."""
    before = len(scenario.shape.history) + len(scenario.steps)
    calls = CALLS["dispatch"] * before + CALLS[scenario.behaviour]
    more = bool(scenario.slip) + any(map(says_yes, scenario.replies))
    return calls + ("execute_tool",) * more


def _exchange_fault(
    scenario: Scenario, spec: ToolSpec, tool: str, call: ToolCall, payload: Mapping[str, Any]
) -> str | None:
    """What is wrong with one call and its answer, which are about `tool`."""
    decided = tool == scenario.tool
    if call.name == "search_tool_catalog":
        found = tool in {match["name"] for match in payload["matches"]}
        if found == (decided and scenario.behaviour == "decline"):
            return "protocol: search shows the tool where it should not, or does not"
    elif call.name == "get_tool_schema":
        read = read_together(scenario) if decided else [tool]
        if [one["name"] for one in payload["disclosed"]] != read:
            return "protocol: schema not disclosed"
    elif call.arguments["tool_name"] != tool:
        return "protocol: another tool is called than was read about"
    elif decided and scenario.slip and call.arguments["arguments"] == scenario.slip:
        if payload["status"] != "invalid":
            return "protocol: the slip is no error"
    elif decided:
        if check_arguments(spec, dict(call.arguments["arguments"])).errors:
            return "protocol: arguments do not fit the schema"
        wanted = STATUS[scenario.approval] if spec.requires_approval else "done"
        if payload["status"] != wanted:
            return f"protocol: execution {payload['status']}"
    elif payload["status"] != "done":
        return f"protocol: a step {payload['status']}"
    return None


def _exchanges(messages: Sequence[Message]) -> Iterator[tuple[ToolCall, dict[str, Any]]]:
    answers = {m.tool_call_id: json.loads(m.content) for m in messages if m.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            yield call, answers[call.id]


def grounding_fault(
    scenario: Scenario, spec: ToolSpec, hint: ToolHint, messages: Sequence[Message]
) -> str | None:
    """Every passed value has a source; the missing one has none; the label follows from it."""
    before = decision_messages(messages, scenario.tool)
    sources = ground(
        spec,
        scenario.gold_arguments,
        before,
        composed=scenario.composed,
        hints=hint.arguments,
        derived=scenario.script.said,
        now=scenario.now,
    )
    loose = [name for name, source in sources.items() if source is None]
    if loose:
        return "grounding: a value has no source"
    required = spec.input_schema.get("required", ())
    properties = spec.input_schema.get("properties", {})
    open_names = [n for n in required if n not in sources and "default" not in properties[n]]
    if scenario.behaviour == "clarify":
        if tuple(open_names) != scenario.missing:
            return "grounding: not exactly the missing argument is open"
        texts = [m.content for m in before if m.role in ("system", "user")]
        if any(
            not absent(spec, name, value, texts, hint.arguments[name])
            for name, value in scenario.withheld.items()
        ):
            return "grounding: the missing value could be read from the request"
        if scenario.surface.persona and _asked(scenario, spec, hint) != scenario.missing:
            return "grounding: the question is not for exactly the missing argument"
    elif open_names and scenario.behaviour != "answer":
        return "grounding: dispatch is labelled, but a required argument is open"
    return None


def _asked(scenario: Scenario, spec: ToolSpec, hint: ToolHint) -> tuple[str, ...]:
    return asked_parameters(scenario.question, spec, hint, scenario.surface.language)


def thinking_fault(scenario: Scenario, spec: ToolSpec, messages: Sequence[Message]) -> str | None:
    """The thought of a decision: its draft is what is called, its verdicts say what is missing."""
    if scenario.behaviour == "decline":
        return None
    place = behind_stalls(messages, len(decision_messages(messages, scenario.tool)))
    turn = messages[place + (2 if scenario.slip else 0)]  # behind a slip and its answer
    opened, _, rest = turn.content.partition(THINK_OPENER)
    thought, closed, _ = rest.partition(THINK_CLOSER)
    if scenario.behaviour == "answer":
        known = thought == QUESTION_THOUGHT and not opened and closed
        return None if known else "thinking: not that of an answer"
    if scenario.behaviour == "hold":
        thought, waits, more = thought.partition(f"; {THOUGHTS[scenario.kind]}")
        if not waits or more:
            return "thinking: does not say why it waits"
    try:
        draft, end = json.JSONDecoder().raw_decode(thought)
        checks = [check.split(" ") for check in thought[end:].split("; ")[1:]]
        verdicts = {name: verdict for name, verdict in checks}
    except ValueError:
        return "thinking: no draft with verdicts"
    if opened or not closed or list(verdicts) != list(spec.required):
        return "thinking: not one verdict for each required argument"
    if (
        tuple(name for name, verdict in verdicts.items() if verdict == "missing")
        != scenario.missing
    ):
        return "thinking: another argument is missing"
    called = [call.arguments["arguments"] for call in turn.tool_calls] or [scenario.gold_arguments]
    if json.dumps(draft) != json.dumps(called[0]):
        return "thinking: the draft is not what is called, or in another order"
    return None


def history_fault(scenario: Scenario, catalog: Catalog, messages: Sequence[Message]) -> str | None:
    """Earlier requests were for other tools, said every value, and give away none that is missing.

    What they were answered counts as well as what they asked.
    """
    history = scenario.shape.history
    if not history:
        return None
    spoken = [i for i, m in enumerate(messages) if m.role == "user" and not m.synthetic]
    for past, place in zip(history, spoken, strict=False):
        spec = catalog.tool(past.tool)
        if spec is None or past.tool == scenario.tool:
            return "history: its tool is the scenario's own, or none of the split"
        before = decision_messages([messages[0], *messages[place:]], past.tool)
        calls = messages[place + len(before) - 1].tool_calls
        if [call.arguments.get("arguments") for call in calls] != [past.arguments]:
            return "history: other values are passed than were asked for"
        if None in ground(spec, past.arguments, before).values():
            return "history: a value has no source"
        if set(past.arguments) & set(scenario.missing):
            return "history: it says an argument that is missing"
    texts = _said_or_answered(messages[1 : request_place(messages, scenario)])
    spec = catalog.tools[scenario.tool]
    for name, value in scenario.withheld.items():
        named = any(f'"{name}":' in text for text in texts)
        if named or not absent(spec, name, value, texts):
            return "history: what came before shows a value for what is missing"
    return None


def _said_or_answered(messages: Sequence[Message]) -> list[str]:
    """What the user said and what executed calls answered."""
    said = [message.content for message in messages if message.role == "user"]
    payloads = [json_object(m.content) for m in messages if m.role == "tool"]
    return said + [compact_json(p["result"]) for p in payloads if "result" in p]


def decision_place(messages: Sequence[Message], scenario: Scenario) -> int:
    """Where in a conversation the turn stands that decides about the scenario's request."""
    place = request_place(messages, scenario)
    since = since_request(messages, scenario)
    return place - 1 + len(decision_messages(since, scenario.tool))


def decision_messages(messages: Sequence[Message], tool: str) -> list[Message]:
    """What stood in the conversation when the decision about `tool` was taken."""
    before: list[Message] = []
    for message in messages:
        decides = any(
            call.name == "execute_tool" and call.arguments.get("tool_name") == tool
            for call in message.tool_calls
        )
        if message.role == "assistant" and (decides or not message.tool_calls):
            break
        before.append(message)
    return before


def decided_at(messages: Sequence[Message], scenario: Scenario) -> int:
    """The place of the turn that decides in the end: behind stalls that were nudged."""
    return behind_stalls(messages, decision_place(messages, scenario))


def duplicate_key(scenario: Scenario) -> str:
    """Two rows with the same key teach the same thing; a kind's call leads on to something else."""
    key = f"{scenario.behaviour}/{scenario.tool}/{normalise(scenario.request)}"
    return key if scenario.behaviour == "clarify" else f"{scenario.kind}{key}"
