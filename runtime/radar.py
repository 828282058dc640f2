"""The hesitation radar: is a text turn after a disclosed schema a stall, and of which kind.

Structure first: only a turn without a call, after a disclosure and before any execution, is
looked at. Then the text: a call written as text, a recited schema, a question for permission, a
question for something the user gave or that may be left out, an announcement that nothing
follows. A question for a required value that is found nowhere is no stall. Patterns are English;
the mode `markers` is the eight substrings of the original four-tier design, for comparison.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from breadcrumbs.asking import OPEN_QUESTION, Parameter, asked_parameters, is_given, parameters_of
from breadcrumbs.messages import Message, json_object

StallKind = Literal[
    "param_dump",
    "permission_ask",
    "inferable_value_ask",
    "announce_without_call",
    "fake_call_in_text",
]
RadarMode = Literal["full", "markers"]
Layer = Literal["gate", "repair", "echo", "grounding", "permission", "announcement"]
LAYERS: tuple[Layer, ...] = (
    "gate",
    "repair",
    "echo",
    "grounding",
    "permission",
    "announcement",
)

MARKERS = (
    "you need to provide",
    "please provide the following",
    "would you like to proceed",
    "would you like me to proceed",
    "let me know if you would like",
    "confirm if you would like",
    "required parameters",
    "following details:",
)
ECHO_NAMES = 3
"""This many parameter names in list shape are a recited schema (or all, where there are fewer)."""
MAX_CHARS = 6000
CLOSING_CHARS = 600
NOT_EXECUTED = frozenset({"invalid", "not_disclosed"})

_FAKE_CALL = re.compile(
    r"<tool_(?:call|response)>|</?function\b|\"(?:layer|disclosed|tool_name|tool_call)\"\s*:"
    r"|\b(?:execute_tool|get_tool_schema|search_tool_catalog)\s*\("
    r"|^\s*action(?: input)?\s*:|^\s*<(\w+_\w+)>.*?</\1>",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_RECITED = re.compile(r"\"(?:inputSchema|properties)\"\s*:")
_ACT = (
    r"(?:add|apply|begin|book|call|cancel|carry|change|check|continue|create|delete|do|edit"
    r"|execute|fetch|fill|find|get|go ahead|go on|invoke|look|make|move|open|perform|proceed"
    r"|pull|put|query|read|remove|rename|retrieve|run|schedule|search|send|set|start|submit|take"
    r"|update|use|work|write)"
)
_PERMISSION = re.compile(
    rf"\b(?:would you like|do you want|want|shall|should|may|can) (?:me to|i|we)\b[^.?!]*\b{_ACT}\b"
    r"|\bwould you like to (?:proceed|continue|confirm|go ahead)"
    r"|\b(?:please confirm|confirm (?:if|that|whether|before|to))\b"
    r"|\blet me know if you(?:'d| would)? (?:like|want)"
    r"|\bif you(?:'d| would)? (?:like|want),? i (?:can|could|will)\b"
    rf"|\bi(?:'ll| will) {_ACT}[^.?!]* if you (?:agree|confirm|approve)"
    r"|\bis (?:that|this|it|all of this) (?:ok|okay|correct|right)\b"
    r"|\bis it (?:ok|okay|fine|all right)|\b(?:go ahead|proceed|continue)\?"
    r"|\bready to (?:proceed|continue)|\bwith your (?:approval|permission|confirmation)",
    re.IGNORECASE,
)
_MANDATED = re.compile(
    r"\b(?:organi[sz]ation|policy|regulations?|rules?) (?:asks?|requires?|says?)"
    r"|\brequired to (?:read|confirm|ask|repeat)",
    re.IGNORECASE,
)
_CHOICE = re.compile(r"\bor (?!cancel\b|do you\b|not\b|shall\b|should\b|wait\b|would\b)[^.!?\n]*\?")
_ASKS_LEAVE = re.compile(
    r"\b(?:would you like me to|want me to|(?:shall|should|may|can) i)\b([^?]*)\?",
    re.IGNORECASE,
)
_ANNOUNCE = re.compile(
    r"\b(?:i(?:'ll| will| am going to|'m going to| am about to)|let me|next,? i(?:'ll| will)?)"
    r" (?:now )?(?!be\b|gladly\b|have\b|know\b|leave\b|need\b|never\b|not\b|wait\b)[a-z]\w+"
    r"|^\s*\w+ing\b[^.?!]*(?:\bnow\b|\.\.\.|:\s*$)",
    re.IGNORECASE | re.MULTILINE,
)
_WAITS = re.compile(
    r"\?|\b(?:if|once|when|after|as soon as|unless) you\b|\btell me\b|\blet me know\b"
    r"|\bwhich one\b|\bi can(?:'t|not)\b|\bi(?:'m| am) (?:not|unable)\b"
    r"|\bi (?:won't|will not)\b|\bno (?:suitable )?tool\b",
    re.IGNORECASE,
)
_ONLY_TALK = re.compile(
    r"^\s*(?:explain|describe|how (?:do|does|can|would) (?:i|you|it|\w+_\w+)"
    r"|what (?:does|do|is|are|can) (?:i|it|\w+_\w+|the \w+ tool))\b"
    r"|\b(?:do not|don'?t) (?:\w+ )?(?:run|execute|call|send|do|submit)\b"
    r"|\bshow me (?:what|how)\b|\b(?:only|just|draft|make|write) (?:a |the )?plan\b",
    re.IGNORECASE,
)
_HEAD = re.compile(
    r"^\s*(?:[-*•|#]+|\d+[.)])?\s*[`\"*_]*([A-Za-z][\w ]{0,40}?)[`\"*_]*\s*(?:[(:=|–—]|-+>?|$)"
)
_COMMA_LIST = re.compile(r"[`\w ]+(?:, (?:and )?[`\w ]+){1,}(?:,? and [`\w ]+)?")


@dataclass(frozen=True, slots=True)
class Disclosed:
    """The situation of a turn: what was disclosed, and what the user has said."""

    tool: str
    parameters: tuple[Parameter, ...]
    user_text: str = ""
    """Everything the user said, oldest first."""
    executed: bool = False
    """Whether a call was executed since the schema was disclosed."""
    others: tuple[str, ...] = ()
    """Names of further tools disclosed by the same call; `parameters` holds theirs too."""

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the required parameters."""
        return tuple(p.name for p in self.parameters if p.required)


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall and what gave it away."""

    kind: StallKind
    evidence: str


class Radar:
    """Classifies text turns."""

    def __init__(self, mode: RadarMode = "full", layers: Collection[Layer] = LAYERS) -> None:
        self.mode = mode
        self.layers = frozenset(layers)

    def passes_gate(self, situation: Disclosed) -> bool:
        """Whether a text turn can be a stall at all, before its words are looked at."""
        if "gate" not in self.layers:
            return True
        return not situation.executed and not _ONLY_TALK.search(
            situation.user_text.rpartition("\n")[2]
        )

    def classify(self, text: str, situation: Disclosed | None) -> Stall | None:
        """The stall in a turn that made no call; None where the turn is legitimate.

        `situation` is None where no schema was disclosed since the user spoke; then, and once
        something was executed, nothing is a stall.
        """
        if situation is None or ("gate" in self.layers and situation.executed):
            return None
        text = _shortened(text)
        if self.mode == "markers":
            return _by_marker(text)
        return self._by_layers(text, situation) if self.passes_gate(situation) else None

    def _by_layers(self, text: str, situation: Disclosed) -> Stall | None:
        if "announcement" in self.layers and not text.strip():
            return Stall("announce_without_call", "empty turn")
        layers: tuple[tuple[Layer, Callable[[str, Disclosed], Stall | None]], ...] = (
            ("repair", _by_call),
            ("echo", _by_echo),
            ("permission", _by_permission),
            ("grounding", _by_question),
            ("announcement", _by_announcement),
        )
        on = (look(text, situation) for layer, look in layers if layer in self.layers)
        return next((stall for stall in on if stall is not None), None)


def situation_of(messages: Sequence[Message]) -> Disclosed | None:
    """What was disclosed since the last real user message, read from the conversation."""
    spoken = [i for i, m in enumerate(messages) if m.role == "user" and not m.synthetic]
    found: list[dict[str, Any]] = []
    executed = False
    for message in messages[spoken[-1] if spoken else 0 :]:
        payload = _payload(message)
        if payload.get("layer") == "2_schema_disclosure" and payload.get("disclosed"):
            found, executed = payload["disclosed"], False
        elif payload.get("layer") == "3_execution":
            executed = executed or payload.get("status") not in NOT_EXECUTED
    if not found:
        return None
    merged: dict[str, Parameter] = {}
    for tool in found:
        for parameter in parameters_of(tool["inputSchema"]):
            merged.setdefault(parameter.name, parameter)
    return Disclosed(
        found[0]["name"],
        tuple(merged.values()),
        "\n".join(messages[i].content.replace("\n", " ") for i in spoken),
        executed,
        tuple(tool["name"] for tool in found[1:]),
    )


def _payload(message: Message) -> Mapping[str, Any]:
    """A tool message's payload; empty for anything else, and for text that is no object."""
    return json_object(message.content) if message.role == "tool" else {}


def _shortened(text: str) -> str:
    """Beginning and end of a text too long to be searched whole; stalls show there."""
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"


def _by_marker(text: str) -> Stall | None:
    lowered = text.lower()
    return next((Stall("param_dump", m) for m in MARKERS if m in lowered), None)


def _by_call(text: str, situation: Disclosed) -> Stall | None:
    found = _FAKE_CALL.search(text)
    if found:
        return Stall("fake_call_in_text", found.group(0)[:80])
    for tool in (situation.tool, *situation.others):
        name = re.escape(tool)
        found = re.search(rf"\b{name}\s*\(\s*[\w\"'{{)]|[{{,]\s*\"\w+\"\s*:\s*\"{name}\"", text)
        if found and not _RECITED.search(text) and not re.search(rf"{name}\(\w+\s*:", text):
            return Stall("fake_call_in_text", found.group(0))
    keys = set(re.findall(r"\"(\w+)\"\s*:", text))
    if situation.required and keys >= set(situation.required) and not _RECITED.search(text):
        return Stall("fake_call_in_text", ", ".join(sorted(keys)))
    return None


def _by_echo(text: str, situation: Disclosed) -> Stall | None:
    """A recited schema; naming only what is really missing is a question, however it looks."""
    recited = _RECITED.search(text)
    if recited:
        return Stall("param_dump", recited.group(0))
    listed = _listed(text, situation)
    enough = min(ECHO_NAMES, len(situation.parameters))
    if len(listed) < max(enough, 2) or _MANDATED.search(text):
        return None
    if all(_is_missing(parameter, situation) for parameter in listed):
        return None
    return Stall("param_dump", ", ".join(p.name for p in listed))


def _by_permission(text: str, situation: Disclosed) -> Stall | None:
    if any(_is_missing(p, situation) for p in asked_parameters(text, situation.parameters)):
        return None
    closing = "\n".join(
        sentence
        for sentence in _closing(text).split("\n")
        if not OPEN_QUESTION.search(sentence) and not _CHOICE.search(sentence)
    )
    permission = _PERMISSION.search(closing) or _leave_for_task(closing, situation.tool)
    if permission and not _MANDATED.search(text):
        return Stall("permission_ask", permission.group(0))
    return None


def _by_question(text: str, situation: Disclosed) -> Stall | None:
    asked = asked_parameters(text, situation.parameters)
    if asked and not any(_is_missing(parameter, situation) for parameter in asked):
        return Stall("inferable_value_ask", ", ".join(p.name for p in asked))
    return None


def _leave_for_task(closing: str, tool: str) -> re.Match[str] | None:
    """A question for leave to do what the tool is named after, whatever the verb."""
    names = set(re.findall(r"[a-z]{3,}", tool.lower()))
    for found in _ASKS_LEAVE.finditer(closing):
        said = set(re.findall(r"[a-z]{3,}", found.group(1).lower()))
        if 2 * len(names & said) >= len(names) > 0:
            return found
    return None


def _by_announcement(text: str, situation: Disclosed) -> Stall | None:
    closing = _closing(text)
    announced = _ANNOUNCE.search(closing)
    if any(_is_missing(p, situation) for p in asked_parameters(text, situation.parameters)):
        return None
    if announced and not _WAITS.search(closing):
        return Stall("announce_without_call", announced.group(0))
    return None


def _is_missing(parameter: Parameter, situation: Disclosed) -> bool:
    return (
        parameter.required
        and not parameter.has_default
        and not is_given(parameter, situation.user_text, situation.parameters)
    )


def _listed(text: str, situation: Disclosed) -> list[Parameter]:
    """Parameters that stand at the head of a line, in backticks, or in a comma list."""
    heads = {_key(m.group(1)) for line in text.splitlines() if (m := _HEAD.match(line))}
    heads |= {_key(ticked) for ticked in re.findall(r"`([\w ]+)`", text)}
    for run in _COMMA_LIST.findall(text):
        heads |= {_key(item.strip().removeprefix("and ")) for item in re.split(r",| and ", run)}
    return [p for p in situation.parameters if "".join(p.words) in heads]


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _closing(text: str, sentences: int = 3) -> str:
    """The last sentences, code blocks and quotations left out."""
    plain = re.sub(r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"", " it ", text, flags=re.DOTALL)
    parts = re.split(r"(?<=[.!?:])\s+|\n+", plain.replace("’", "'").strip())
    return "\n".join(parts[-sentences:])[-CLOSING_CHARS:]
