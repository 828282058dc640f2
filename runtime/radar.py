"""The hesitation radar: is a text turn after a disclosed schema a stall, and of which kind.

Six layers, each of which can be switched off. The gate looks at structure alone: a turn without
a call, after a disclosure and before an execution, of a user who did not ask for talk only. Then
the text: a call left in it (`repair`), a recited schema (`echo`), a question for leave
(`permission`), a question for something that the user gave or that may be left out
(`grounding`), a step announced that nothing follows (`announcement`). A question for a required
value that is found nowhere is no stall. The phrases of each language are read by `radar_phrases`;
the mode `markers` is the eight substrings of the original four-tier design, for comparison.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from breadcrumbs.asking import Parameter, parameters_of
from breadcrumbs.messages import Message, json_object
from breadcrumbs.radar_phrases import Phrases, languages
from breadcrumbs.radar_values import asked_values, is_grounded, names_a_lookup

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
Since = Literal["nothing", "read", "work"]

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
CLOSING_SENTENCES = 3
CLOSING_CHARS = 600
NOT_EXECUTED = frozenset({"invalid", "not_disclosed"})

_FAKE_CALL = re.compile(
    r"<\|?tool_(?:call|response)\|?>|</?function\b|</?invoke\b|\[tool_(?:call|request)\]"
    r"|\"(?:layer|disclosed|tool_name|tool_call)\"\s*:"
    r"|\b(?:execute_tool|get_tool_schema|search_tool_catalog)\s*\("
    r"|^\s*action(?: input)?\s*:|^\s*<(\w+_\w+)>.{0,2000}?</\1>"
    r"|^\s*(?:print\()?await [\w.]{1,80}\(",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_NAMED_CALL = re.compile(
    r"\{\s*\"\w{1,20}\"\s*:\s*\"[\w.-]{1,80}\"\s*,\s*"
    r"\"(?:arguments|parameters|params|args|input|action_input)\"\s*:\s*[{\"]"
)
_RECITED = re.compile(r"\"(?:inputSchema|properties)\"\s*:|\"type\"\s*:\s*\"object\"")
_SHELL_END = re.compile(r"```(?:bash|sh|shell|console|zsh|sql|python|py)\n[^`]{1,3000}```\s*\Z")
_RUNS_CODE = frozenset(
    {"command", "commands", "cmd", "code", "script", "sql", "statement", "query"}
)
_WRITES_CODE = re.compile(
    r"\b(?:write|show|give|draft|suggest|schreib\w*|zeig\w*|écri\w*|montre\w*|escrib\w*|muestra\w*"
    r"|escrev\w*|mostr\w*)\b|写|给出|展示|書いて|見せて"
)
_HEAD = re.compile(
    r"^\s*(?:[-*•·・|#>]+|\d+[.)])?\s*[`\"*_]*([^\W\d]\w*(?: \w+){0,4}?)[`\"*_]*\s*"
    r"(?:[(:=|–—]|-+>?|$)"
)
_ITEM = re.compile(r"^\s*(?:[-*•·・|]|\d+[.)、])")
_COMMA_LIST = re.compile(r"[`\w ]{1,60}(?:(?:, |、)[`\w ]{1,60}){1,30}")
_AND = re.compile(r", |、| (?:and|und|et|y|e) ")
_MASKED = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]{0,300}`|\"[^\"\n]{0,300}\"|“[^”\n]{0,300}”|„[^“”\n]{0,300}[“”]"
    r"|«[^»\n]{0,300}»|「[^」\n]{0,300}」|『[^』\n]{0,300}』|(?<!\w)'[^'\n]{1,100}'(?!\w)"
    r"|^\s*>[^\n]{0,2000}$",
    re.DOTALL | re.MULTILINE,
)
_BLANKS = re.compile(r"\s{3,}")
_SPLIT = re.compile(r"(?<=[.!?:])\s+|(?<=。)|(?<=[\u3040-\u30ff\u4e00-\u9fff][!?;])|\n+")


@dataclass(frozen=True, slots=True)
class Disclosed:
    """The situation of a turn: what was disclosed, and what the user has said."""

    tool: str
    parameters: tuple[Parameter, ...]
    user_text: str = ""
    """What the user said for the present request, oldest first."""
    executed: bool = False
    """Whether a call was executed since the schema was disclosed."""
    others: tuple[str, ...] = ()
    """Names of further tools disclosed by the same call; `parameters` holds theirs too."""
    since: Since = "nothing"
    """What happened since, without ending the matter: a read, or work that must go on."""

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the required parameters."""
        return tuple(p.name for p in self.parameters if p.required)


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall and what gave it away."""

    kind: StallKind
    evidence: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """A turn made ready for the layers."""

    situation: Disclosed
    text: str
    """As written, but in NFKC form and without the middle of a very long turn."""
    plain: str
    """Lower case, code and quotations blanked."""
    closing: tuple[str, ...]
    """The last sentences of `plain`."""
    asking: tuple[str, ...]
    """Sentences of `plain` that ask for something other than leave."""

    @property
    def request(self) -> str:
        """What the user said last, lower case."""
        return _normal(self.situation.user_text.rpartition("\n")[2])


class Radar:
    """Classifies text turns.

    Args:
        mode: `full`, or `markers` for the original substring list behind the gate.
        layers: the layers that are on; all of them unless some are left out to measure it.
    """

    def __init__(self, mode: RadarMode = "full", layers: Collection[Layer] = LAYERS) -> None:
        self.mode = mode
        self.layers = frozenset(layers)
        if mode == "full":
            languages()  # read now rather than in the middle of the first turn

    def classify(self, text: str, situation: Disclosed | None) -> Stall | None:
        """The stall in a turn that made no call; None where the turn is legitimate.

        `situation` is None where no schema was disclosed since the user spoke; then, and once
        something was executed, nothing is a stall.
        """
        if situation is None or ("gate" in self.layers and situation.executed):
            return None
        if self.mode == "markers":
            return _by_marker(_shortened(text))
        return self._by_layers(_read(text, situation)) if self.passes_gate(situation) else None

    def passes_gate(self, situation: Disclosed) -> bool:
        """Whether a text turn can be a stall at all, before its words are looked at."""
        if "gate" not in self.layers:
            return True
        return not situation.executed and not _wants_talk(situation)

    def _by_layers(self, reading: _Reading) -> Stall | None:
        layers: tuple[tuple[Layer, Callable[[_Reading], Stall | None]], ...] = (
            ("repair", _by_call),
            ("echo", _by_echo),
        )
        stall = self._first(layers, reading)
        if stall is not None or ("grounding" in self.layers and _asks_for_missing(reading)):
            return stall
        layers = (
            ("permission", _by_permission),
            ("grounding", _by_question),
            ("announcement", _by_announcement),
        )
        return self._first(layers, reading)

    def _first(
        self,
        layers: Sequence[tuple[Layer, Callable[[_Reading], Stall | None]]],
        reading: _Reading,
    ) -> Stall | None:
        looks = (look(reading) for layer, look in layers if layer in self.layers)
        return next((stall for stall in looks if stall is not None), None)


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
        "\n".join(
            messages[i].content.replace("\n", " ") for i in _of_this_request(messages, spoken)
        ),
        executed,
        tuple(tool["name"] for tool in found[1:]),
    )


def _of_this_request(messages: Sequence[Message], spoken: Sequence[int]) -> Sequence[int]:
    """Which of the user's messages are about the present request.

    What was said for work that ran and was reported on, without a question, gives nothing to the
    request that follows.
    """
    for at in range(len(spoken) - 1, 0, -1):
        between = messages[spoken[at - 1] : spoken[at]]
        ran = any(_payload(message).get("status") == "done" for message in between)
        asked = "?" in unicodedata.normalize("NFKC", between[-1].content)
        if ran and not asked:
            return spoken[at:]
    return spoken


def _payload(message: Message) -> Mapping[str, Any]:
    """A tool message's payload; empty for anything else, and for text that is no object."""
    return json_object(message.content) if message.role == "tool" else {}


def _shortened(text: str) -> str:
    """Beginning and end of a text too long to be searched whole; stalls show there."""
    if len(text) <= MAX_CHARS:
        return text
    return f"{text[: MAX_CHARS // 2]}\n{text[-MAX_CHARS // 2 :]}"


def _normal(text: str) -> str:
    """Lower case in one form: full-width marks plain, apostrophes straight."""
    folded = unicodedata.normalize("NFKC", _shortened(text)).replace("’", "'")
    return _shortened(folded).lower()


def _read(text: str, situation: Disclosed) -> _Reading:
    whole = _shortened(unicodedata.normalize("NFKC", _shortened(text)).replace("’", "'"))
    whole = _BLANKS.sub(lambda run: "\n\n" if "\n" in run.group() else "  ", whole)
    masked = re.sub(r"[ \t]+", " ", _MASKED.sub(" it ", whole).replace("*", "")).lower().strip()
    sentences = [part.strip() for part in _SPLIT.split(masked) if part and part.strip()]
    return _Reading(
        situation,
        whole,
        masked,
        tuple(sentence[-CLOSING_CHARS:] for sentence in sentences[-CLOSING_SENTENCES:]),
        tuple(sentence for sentence in sentences if _asks(sentence)),
    )


def _heard(purpose: Callable[[Phrases], re.Pattern[str]], text: str) -> re.Match[str] | None:
    """The first phrase for a purpose that a text holds, whatever its language."""
    found = (purpose(phrases).search(text) for phrases in languages())
    return next((match for match in found if match is not None), None)


def _asks(sentence: str) -> bool:
    """Whether a sentence asks for a value: an open question, or a demand."""
    if "?" not in sentence and _heard(lambda p: p.wants, sentence) is None:
        return False
    return _is_open(sentence) or _leave(sentence) is None


def _is_open(sentence: str) -> bool:
    """Whether yes or no is no answer: a question word leads, or two ways are offered."""
    word = _heard(lambda p: p.open_question, sentence)
    leave = _leave(sentence)
    if word is not None and (leave is None or word.start() <= leave.start()):
        return True
    return _heard(lambda p: p.choice, sentence) is not None


def _wants_talk(situation: Disclosed) -> bool:
    """Whether the user asked for words: an explanation, a plan, something about the tool."""
    request = _normal(situation.user_text.rpartition("\n")[2])
    if _heard(lambda p: p.only_talk, request):
        return True
    about = "_" in situation.tool and situation.tool.lower() in request
    return about and (
        request.rstrip().endswith("?") or _heard(lambda p: p.asks_facts, request) is not None
    )


def _leave(sentence: str) -> re.Match[str] | None:
    return _heard(lambda p: p.leave, sentence)


def _by_marker(text: str) -> Stall | None:
    lowered = text.lower()
    return next((Stall("param_dump", m) for m in MARKERS if m in lowered), None)


def _by_call(reading: _Reading) -> Stall | None:
    """A call that was written as text: in prose, in tags, in a code block."""
    text, situation = reading.text, reading.situation
    found = _FAKE_CALL.search(text)
    if found:
        return Stall("fake_call_in_text", found.group(0)[:80])
    if _RECITED.search(text):
        return None
    found = _NAMED_CALL.search(text)
    if found:
        return Stall("fake_call_in_text", found.group(0)[:80])
    for tool in (situation.tool, *situation.others):
        name = re.escape(tool)
        found = re.search(rf"\b{name}\s*\(\s*[\w\"'{{)]|[{{,]\s*\"\w+\"\s*:\s*\"{name}\"", text)
        if found and not re.search(rf"{name}\(\w+\s*:", text):
            return Stall("fake_call_in_text", found.group(0))
    keys = set(re.findall(r"\"(\w{1,80})\"\s*:", text))
    if situation.required and keys >= set(situation.required):
        return Stall("fake_call_in_text", ", ".join(sorted(keys)))
    return _by_code(reading)


def _by_code(reading: _Reading) -> Stall | None:
    """A turn that ends in a block of code which the disclosed tool would have run."""
    situation = reading.situation
    if situation.since != "nothing" or _WRITES_CODE.search(reading.request):
        return None
    if not any(not _RUNS_CODE.isdisjoint(p.words) for p in situation.parameters if p.required):
        return None
    found = _SHELL_END.search(reading.text)
    return Stall("fake_call_in_text", found.group(0)[:80]) if found else None


def _by_echo(reading: _Reading) -> Stall | None:
    """A recited schema; naming only what is really missing is a question, however it looks."""
    text, situation = reading.text, reading.situation
    if situation.since == "work":
        return None
    recited = _RECITED.search(text)
    if recited:
        return Stall("param_dump", recited.group(0))
    if _heard(lambda p: p.mandated, reading.plain):
        return None
    listed = _listed(text, situation)
    enough = min(ECHO_NAMES, len(situation.parameters))
    whole = len(listed) > 1 and {p.name for p in listed} >= set(situation.required)
    if len(listed) >= max(enough, 2) or (whole and situation.required):
        if not _speaks_schema(reading) or all(_is_missing(p, situation) for p in listed):
            return None
        return Stall("param_dump", ", ".join(p.name for p in listed))
    return _by_field_list(reading)


def _speaks_schema(reading: _Reading) -> bool:
    """Whether names are listed to be filled in, and not with values that were found."""
    lowered = reading.text.lower()
    return (
        _heard(lambda p: p.field, lowered) is not None
        or _heard(lambda p: p.wants, lowered) is not None
    )


def _by_field_list(reading: _Reading) -> Stall | None:
    """A list whose items are described as fields, whatever their names were turned into."""
    items = [line.lower() for line in reading.text.splitlines() if _ITEM.match(line)]
    fields = [line for line in items if _heard(lambda p: p.field, line)]
    spare = [line for line in fields if _heard(lambda p: p.spare, line)]
    if len(fields) >= ECHO_NAMES - 1 and spare and _heard(lambda p: p.wants, reading.plain):
        return Stall("param_dump", fields[0][:80])
    return None


def _asks_for_missing(reading: _Reading) -> bool:
    """Whether the turn asks for something required that stands nowhere."""
    if not reading.asking:
        return False
    asked = _asked(reading)
    unclear = _heard(lambda p: p.unclear, reading.plain) is not None
    if unclear and reading.situation.since == "read":
        return True
    if names_a_lookup(reading.text, reading.situation.tool) and not unclear:
        return False
    if any(_is_missing(parameter, reading.situation) for parameter in asked):
        return True
    return unclear and not any(_may_be_left(p) for p in asked)


def _asked(reading: _Reading) -> list[Parameter]:
    return asked_values(reading.asking, reading.text, reading.situation.parameters)


def _by_permission(reading: _Reading) -> Stall | None:
    situation = reading.situation
    if _heard(lambda p: p.mandated, reading.plain) or _heard(lambda p: p.refuses, reading.plain):
        return None
    answered = situation.since != "nothing"
    if answered and _heard(lambda p: p.asks_facts, reading.request):
        return None
    for sentence in reading.closing:
        if _is_open(sentence) or (answered and _heard(lambda p: p.more, sentence)):
            continue
        found = _leave(sentence)
        if found is None and not answered:
            found = _leave_for_task(sentence, situation.tool)
        if found is None and not answered and not reading.asking:
            found = _heard(lambda p: p.offer, sentence)
        if found is not None:
            return Stall("permission_ask", found.group(0)[:80])
    return None


_ASKS_LEAVE = re.compile(
    r"\b(?:would you like me to|want me to|(?:shall|should|may|can) i)\b([^?]{0,200})\?"
)


def _leave_for_task(sentence: str, tool: str) -> re.Match[str] | None:
    """A question for leave to do what the tool is named after, whatever the verb."""
    names = set(re.findall(r"[a-z]{3,}", tool.lower()))
    for found in _ASKS_LEAVE.finditer(sentence):
        said = set(re.findall(r"[a-z]{3,}", found.group(1)))
        if 2 * len(names & said) >= len(names) > 0:
            return found
    return None


def _by_question(reading: _Reading) -> Stall | None:
    """A question for what the user gave, what has a default, or what a read would find."""
    if not reading.asking or reading.situation.since == "work":
        return None
    if _heard(lambda p: p.refuses, reading.plain):
        return None
    said = "\n".join(reading.asking)
    if reading.situation.since == "read" and _heard(lambda p: p.more, said):
        return None
    asked = _asked(reading)
    if asked:
        return Stall("inferable_value_ask", ", ".join(p.name for p in asked))
    spare = _heard(lambda p: p.spare, said)
    if spare:
        return Stall("inferable_value_ask", spare.group(0))
    return None


def _by_announcement(reading: _Reading) -> Stall | None:
    if not reading.plain:
        return Stall("announce_without_call", "empty turn")
    if _heard(lambda p: p.refuses, reading.plain):
        return None
    closing = "\n".join(reading.closing)
    if _heard(lambda p: p.waits, closing):
        return None
    if reading.text.rstrip().endswith(":"):
        return Stall("announce_without_call", closing[-80:])
    last = closing if reading.situation.since == "nothing" else "\n".join(reading.closing[-2:])
    announced = _heard(lambda p: p.announces, last)
    return Stall("announce_without_call", announced.group(0)[:80]) if announced else None


def _may_be_left(parameter: Parameter) -> bool:
    return parameter.has_default or not parameter.required


def _is_missing(parameter: Parameter, situation: Disclosed) -> bool:
    return not _may_be_left(parameter) and not is_grounded(
        parameter, situation.user_text, situation.parameters
    )


def _listed(text: str, situation: Disclosed) -> list[Parameter]:
    """Parameters that stand at the head of a line, in backticks, or in a comma list."""
    heads = {_key(m.group(1)) for line in text.splitlines() if (m := _HEAD.match(line))}
    heads |= {_key(ticked) for ticked in re.findall(r"`([\w ]{1,80})`", text)}
    for run in _COMMA_LIST.findall(text):
        heads |= {_key(item.strip().removeprefix("and ")) for item in _AND.split(run)}
    return [p for p in situation.parameters if "".join(p.words) in heads]


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())
