"""The hesitation radar: is a text turn after a disclosed schema a stall, and of which kind.

Structure first: only a turn without a call, after a disclosure and before any execution, is
looked at. Then the text: a call written as text, a dumped schema, a question for permission, a
question for something the user gave or that has a default, an announcement that nothing follows.
A question for a required value that is found nowhere is no stall. Patterns are English; the mode
`markers` is the eight substrings of the original four-tier design, for comparison.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from breadcrumbs.messages import Message

StallKind = Literal[
    "param_dump",
    "permission_ask",
    "inferable_value_ask",
    "announce_without_call",
    "fake_call_in_text",
]
RadarMode = Literal["full", "markers"]

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
"""This many parameter names in list shape are a recited schema, not a question."""
_FAKE_CALL = re.compile(
    r"<tool_(?:call|response)>|\"(?:layer|inputSchema|next_step|tool_name)\"\s*:|"
    r"\{\s*\"(?:name|function|tool)\"\s*:|\bexecute_tool\s*\(|<function[ =]",
)
_PERMISSION = re.compile(
    r"(?:would you like|do you want|shall|should|may|can) (?:me to|i|we)\b[^.?!]*"
    r"(?:proceed|continue|go ahead|run|execute|create|send|schedule|submit|make|call|do (?:it|this|that)"
    r"|start|apply|book|add|delete|update|perform)"
    r"|would you like to (?:proceed|continue|confirm)|(?:please )?confirm (?:if|that|whether|before|to)"
    r"|let me know if you(?:'d| would)? (?:like|want)|is (?:that|this) (?:ok|okay|correct|right)\?"
    r"|ready to proceed|go ahead\?|with your (?:approval|permission|confirmation)",
    re.IGNORECASE,
)
_ANNOUNCE = re.compile(
    r"\b(?:i(?:'ll| will| am going to|'m going to)|let me|now i|next,? i|going to|about to)\b"
    r"[^.?!]*(?:call|use|run|execute|create|schedule|send|set up|add|update|delete|proceed|book|"
    r"submit|do (?:it|that|this)|start)|^\s*(?:calling|running|executing|creating|scheduling)\b",
    re.IGNORECASE,
)
_REQUEST = re.compile(
    r"\?|please (?:provide|specify|give|tell|enter|supply|share)|(?:i|you) need (?:to provide|the|a|you)"
    r"|(?:could|can) you (?:provide|tell|give|share|specify)|what (?:is|should|would)|which\b"
    r"|required parameters|following (?:details|information|parameters)",
    re.IGNORECASE,
)
_LISTED = re.compile(
    r"^\s*(?:[-*•]|\d+[.)])?\s*[`\"*_]*([A-Za-z][\w ]{1,40}?)[`\"*_]*\s*(?:\(|:|-|$)"
)
_PLAN_ONLY = re.compile(
    r"\b(?:explain|what does|how does|describe|show me (?:first|the plan)|don'?t (?:run|execute|call)"
    r"|do not (?:run|execute|call)|only plan|just plan|before you)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """What the radar knows of one disclosed parameter."""

    name: str
    required: bool = False
    has_default: bool = False
    type: str = "string"
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Disclosed:
    """The situation of a turn: what was disclosed, and what the user has said."""

    tool: str
    parameters: tuple[Parameter, ...]
    user_text: str = ""
    executed: bool = False
    """Whether a call was executed since the schema was disclosed."""
    known: Mapping[str, Any] = field(default_factory=dict)

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

    def __init__(self, mode: RadarMode = "full") -> None:
        self.mode = mode

    def classify(self, text: str, situation: Disclosed | None) -> Stall | None:
        """The stall in a turn that made no call; None where the turn is legitimate.

        `situation` is None where no schema was disclosed in this exchange: then nothing is a
        stall.
        """
        if self.mode == "markers":
            return _by_marker(text)
        if situation is None or situation.executed or _PLAN_ONLY.search(situation.user_text):
            return None
        if not text.strip():
            return Stall("announce_without_call", "empty turn")
        fake = _FAKE_CALL.search(text)
        if fake:
            return Stall("fake_call_in_text", fake.group(0))
        return _by_question(text, situation) or _by_announcement(text)


def situation_of(messages: Sequence[Message]) -> Disclosed | None:
    """What was disclosed since the last real user message, read from the conversation."""
    start = max(
        (i for i, m in enumerate(messages) if m.role == "user" and not m.synthetic), default=0
    )
    found: dict[str, Any] | None = None
    executed = False
    for message in messages[start:]:
        if message.role != "tool":
            continue
        payload = json.loads(message.content)
        if payload.get("layer") == "2_schema_disclosure" and payload.get("disclosed"):
            found, executed = payload["disclosed"][0], False
        elif payload.get("layer") == "3_execution" and payload.get("status") not in (
            "invalid",
            "not_disclosed",
        ):
            executed = True
    if found is None:
        return None
    user_text = "\n".join(m.content for m in messages if m.role == "user" and not m.synthetic)
    return Disclosed(found["name"], parameters_of(found["inputSchema"]), user_text, executed)


def parameters_of(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """Parameters of a disclosed JSON Schema."""
    required = schema.get("required", ())
    return tuple(
        Parameter(
            name,
            name in required,
            "default" in value,
            str(value.get("type", "string")),
            tuple(str(choice) for choice in value.get("enum", ())),
        )
        for name, value in schema.get("properties", {}).items()
    )


def _by_marker(text: str) -> Stall | None:
    lowered = text.lower()
    for marker in MARKERS:
        if marker in lowered:
            return Stall("param_dump", marker)
    return None


def _by_question(text: str, situation: Disclosed) -> Stall | None:
    asked = asked_parameters(text, situation.parameters)
    listed = _listed_parameters(text, situation.parameters)
    if len(listed) >= ECHO_NAMES:
        return Stall("param_dump", ", ".join(listed))
    permission = _PERMISSION.search(_closing(text))
    missing = [p for p in asked if p.required and not _given(p, situation.user_text)]
    if permission and not missing:
        return Stall("permission_ask", permission.group(0))
    if asked and not missing and _REQUEST.search(text):
        return Stall("inferable_value_ask", ", ".join(p.name for p in asked))
    return None


def _by_announcement(text: str) -> Stall | None:
    closing = _closing(text)
    announced = _ANNOUNCE.search(closing)
    if announced and "?" not in closing:
        return Stall("announce_without_call", announced.group(0))
    return None


def asked_parameters(text: str, parameters: Sequence[Parameter]) -> list[Parameter]:
    """Parameters whose name (or its words) a text mentions outside code."""
    plain = re.sub(r"```.*?```", " ", text, flags=re.DOTALL).lower()
    return [p for p in parameters if _named(p.name, plain)]


def _named(name: str, text: str) -> bool:
    words = re.escape(name.lower()).replace("_", "[ _-]")
    return re.search(rf"(?<![\w]){words}(?![\w])", text) is not None


def _listed_parameters(text: str, parameters: Sequence[Parameter]) -> list[str]:
    """Parameter names that stand at the head of a line, in backticks, or in a comma list."""
    names = {p.name.lower(): p.name for p in parameters}
    heads = {m.group(1).strip().lower().replace(" ", "_") for m in _line_heads(text)}
    ticked = {t.lower() for t in re.findall(r"`([\w-]+)`", text)}
    found = [original for low, original in names.items() if low in heads | ticked]
    if len(found) < ECHO_NAMES:
        runs = re.findall(r"[\w ]+(?:, (?:and )?[\w ]+){2,}", text.lower())
        for run in runs:
            items = {i.strip().removeprefix("and ").replace(" ", "_") for i in run.split(",")}
            hits = [original for low, original in names.items() if low in items]
            if len(hits) >= ECHO_NAMES:
                return hits
    return found


def _line_heads(text: str) -> list[re.Match[str]]:
    return [m for line in text.splitlines() if (m := _LISTED.match(line))]


def _closing(text: str, sentences: int = 3) -> str:
    """The last sentences, code blocks and quotations left out."""
    plain = re.sub(r"```.*?```|`[^`]*`|\"[^\"]*\"", " ", text, flags=re.DOTALL).strip()
    return " ".join(re.split(r"(?<=[.!?:])\s+", plain)[-sentences:])


def _given(parameter: Parameter, user_text: str) -> bool:
    """A cautious guess at whether the user gave a value: a choice, a number, a date, an id."""
    text = user_text.lower()
    if any(re.search(rf"\b{re.escape(c.lower())}\b", text) for c in parameter.choices):
        return True
    if parameter.type in ("integer", "number"):
        return re.search(r"(?<![\w-])\d+(?:\.\d+)?(?![\w-])", text) is not None
    words = re.escape(parameter.name.lower()).replace("_", "[ _-]")
    return re.search(rf"\b{words}\b\W*(?:is|to|of|=|:)?\W*['\"]?\w", text) is not None
