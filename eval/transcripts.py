"""A whole episode as it is scored: what was said, what crossed the gateway, what it changed.

A transcript is made by `playing`, kept on disk as JSON, and scored by `conduct` without a model or
a gateway. It holds no score, so that a report can be made anew by other rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from breadcrumbs.call_format import split_thinking
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.scenarios import Scenario, scenario_from_dict
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.messages import Message, ToolCall, json_object, messages_from_dicts
from breadcrumbs.turns import Turn

EXECUTE = "execute_tool"
RAN = frozenset({"done", "approval_required", "denied", "expired", "failed", "unknown"})
"""Statuses of a call that got as far as the tool or its approval."""
NOT_RUN = frozenset({"approval_required", "denied", "expired"})
REPAIRS = frozenset({"malformed_call", "fake_call_in_text"})
"""Synthetic turns that ask for a call to be written again; they are no nudges."""


@dataclass(frozen=True, slots=True)
class End:
    """Where a run left the world."""

    changes: Mapping[str, Any]
    """Records by `domain.collection/key` that are not as at the start; None for a deleted one."""
    writes: int = 0
    """Writes that got to the tool or to an approval."""
    answer: Any = None
    """What the scenario's tool answered last; None where it did not run."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of an episode, as whoever wrote the turns counted them."""

    read: int
    written: int


@dataclass(frozen=True)
class Transcript:
    """One run of the loop on one scenario, and where the right run would have ended."""

    scenario: Scenario
    spec: ToolSpec
    """The scenario's tool as it truly is, whatever the catalog said of its risk."""
    hint: ToolHint | None
    messages: tuple[Message, ...]
    end: End
    gold: End
    nudges: tuple[str, ...] = ()
    """The kind of each synthetic user turn, in order."""
    problems: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """What could not be read as a call, by the place of the turn."""
    outcome: str = "answered"
    usage: Usage | None = None
    run: int = 0
    """Which of several runs on the scenario."""
    others: int = 0
    """Tools that the searches showed beside the right one."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Further axes that whoever ran it wants figures broken down by, such as a language."""

    @property
    def key(self) -> str:
        """Names the run: its scenario and its number."""
        return f"{self.scenario.id}#{self.run}"

    @cached_property
    def turns(self) -> tuple[tuple[int, Turn], ...]:
        """The assistant's turns with their places; thinking is told from what is said."""
        return tuple(
            (place, turn_of_message(message, self.problems.get(place, ())))
            for place, message in enumerate(self.messages)
            if message.role == "assistant"
        )

    @cached_property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Every call with its answer, in order."""
        answers = {m.tool_call_id: json_object(m.content) for m in self.messages if m.tool_call_id}
        return tuple(
            Exchange(place, call, answers.get(call.id, {}))
            for place, message in enumerate(self.messages)
            for call in message.tool_calls
        )

    @cached_property
    def decision(self) -> int | None:
        """The place of the turn that decides; None where the run never got there."""
        return decision_place(self.messages, self.scenario)

    @property
    def said(self) -> str:
        """The last thing the assistant said to the user; empty where the run ended otherwise."""
        if not self.turns or self.turns[-1][0] != len(self.messages) - 1:
            return ""
        turn = self.turns[-1][1]
        return "" if turn.calls else turn.text

    def user_turns(self) -> list[str]:
        """What the user said, nudges not counted."""
        return [m.content for m in self.messages if m.role == "user" and not m.synthetic]

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values; tool and hint are looked up again when it is read."""
        record: dict[str, Any] = {
            "scenario": self.scenario.to_dict(),
            "run": self.run,
            "outcome": self.outcome,
            "nudges": list(self.nudges),
            "problems": [[place, list(found)] for place, found in self.problems.items()],
            "messages": [message.to_dict() for message in self.messages],
            "end": _end_record(self.end),
            "gold": _end_record(self.gold),
            "others": self.others,
        }
        if self.usage is not None:
            record["usage"] = {"read": self.usage.read, "written": self.usage.written}
        if self.extra:
            record["extra"] = dict(self.extra)
        return record


def decision_place(messages: Sequence[Message], scenario: Scenario) -> int | None:
    """The first assistant turn after the scenario's tool was disclosed; for `decline`, a search."""
    told = False
    for place, message in enumerate(messages):
        if told and message.role == "assistant":
            return place
        if message.role == "tool":
            payload = json_object(message.content)
            shown = [one.get("name") for one in payload.get("disclosed", ())]
            searched = payload.get("layer") == "1_catalog" and scenario.behaviour == "decline"
            told = told or searched or scenario.tool in shown
    return None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call and the gateway's last word on it."""

    place: int
    """Of the assistant's message."""
    call: ToolCall
    payload: Mapping[str, Any]

    @property
    def status(self) -> str:
        """`done`, `approval_required` and so on; empty where nothing was executed."""
        return str(self.payload.get("status", ""))

    @property
    def tool(self) -> str:
        """The tool that an execution names."""
        return str(self.call.arguments.get("tool_name", ""))

    @property
    def arguments(self) -> Any:
        """What an execution passes."""
        return self.call.arguments.get("arguments")

    @property
    def polls(self) -> bool:
        """Whether it only asks how a held write stands."""
        return bool(self.call.arguments.get("approval_id"))

    @property
    def ran(self) -> bool:
        """Whether it got as far as a tool, or as a tool's approval."""
        return self.call.name == EXECUTE and not self.polls and self.status in RAN

    @property
    def writes(self) -> bool:
        """Whether the gateway wanted an approval for it."""
        return self.ran and "approval_id" in self.payload


def turn_of_message(message: Message, problems: tuple[str, ...]) -> Turn:
    """The turn that left a message; thinking is told from what is said."""
    thinking, text = split_thinking(message.content)
    return Turn(text.strip(), message.tool_calls, thinking, problems)


def _end_record(end: End) -> dict[str, Any]:
    return {"changes": dict(end.changes), "writes": end.writes, "answer": end.answer}


def read_transcript(
    record: Mapping[str, Any], catalog: Catalog, hints: Mapping[str, ToolHint]
) -> Transcript:
    """Read `Transcript.to_record` back.

    Raises:
        DataError: a key is missing, or the catalog lacks the tool.
    """
    try:
        scenario = scenario_from_dict(record["scenario"])
        spec = catalog.tool(scenario.tool)
        if spec is None:
            raise DataError(f"{scenario.id}: no tool {scenario.tool!r} in the catalog")
        usage = record.get("usage")
        return Transcript(
            scenario=scenario,
            spec=spec,
            hint=hints.get(scenario.tool),
            messages=tuple(messages_from_dicts(record["messages"])),
            end=End(**record["end"]),
            gold=End(**record["gold"]),
            nudges=tuple(record["nudges"]),
            problems={place: tuple(found) for place, found in record["problems"]},
            outcome=record["outcome"],
            usage=None if usage is None else Usage(**usage),
            run=record["run"],
            others=record["others"],
            extra=record.get("extra", {}),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"transcript: {error}; run the episodes again") from error


def read_transcripts(
    records: Sequence[Mapping[str, Any]], catalog: Catalog, hints: Mapping[str, ToolHint]
) -> list[Transcript]:
    """`read_transcript` over the records of a file."""
    return [read_transcript(record, catalog, hints) for record in records]
