"""What a recorded run did where a schema lay open, and what of it can be learnt from.

A run is parted into requests, one wish of the user each, with the system prompt in front. In a
request the radar judges every text turn as the loop would have. A user turn behind a stall that
says nothing but "go on" is a nudge: the runtime's own words, or words of leave alone. Then:

- dispatched at once: taken as it is;
- stalled, nudged, dispatched: stall and nudge are cut out, as `breadcrumbs.data_gen.correction`
  cuts them;
- asked, answered with a value, dispatched: taken up to the question;
- anything else gives a reason and no row.

Whether the values were known before the nudge is not asked here: `trace_import` checks it on what
is left, in which nothing of the nudge stands any more.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

from pydantic import BaseModel, ValidationError

from breadcrumbs.data_gen.correction import cut_stalls, reissue_ids
from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.trace_reading import Recorded, spoken_text
from breadcrumbs.gateway.arguments import find_unfit
from breadcrumbs.gateway.catalog import Risk
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.messages import Message, ToolCall, json_object
from breadcrumbs.nudge import NudgeStyle, nudge_text
from breadcrumbs.radar import NOT_EXECUTED, Radar, Stall, StallKind, situation_of

META = tuple(str(tool["function"]["name"]) for tool in META_TOOLS)
NO_CALLS = "no tool is called in it"
PLAIN_TOOLS = "its tools are called directly: no schema is disclosed, so no turn can be judged"
UNPAIRED = "a tool's answer names no call of the turn before it"
BAD_ARGUMENTS = "a call's arguments are not safe JSON"
BAD_PAYLOAD = "a tool's answer has a layer of the gateway, but not its shape"
NO_SCHEMA = "no schema was disclosed"
UNFINISHED = "the record ends at the schema"
NEVER_CALLED = "stalled, and no call followed"
SAID_MORE = "stalled, and the user's answer says more than to go on"
TEXT_ONLY = "neither called nor stalled, and no call followed"
TALKED_ON = "user and assistant talked on between schema and call, not only of leave"
SPEAKS_OF_IT = "what follows the nudge speaks of it, or repeats the stall"
_YES = frozenset("yes yeah yep sure ok okay go proceed continue confirm confirmed do run".split())
_LEAVE = _YES | frozenset(
    "absolutely agree agreed ahead alright and approve approved call correct definitely exactly"
    " execute fine for good great i invoke it just me now of please perfect course right send so"
    " submit thank thanks that the this tool with you".split()
)
"""Words that give leave and say nothing else: none can be a value, a refusal or another wish."""
_AFTERMATH = re.compile(
    r"\b(?:you(?:'ve| have)?|user(?: has)?) (?:just |now )?(?:confirmed|agreed|said yes)"
    r"|\b(?:your|user's) (?:confirmation|go-ahead|permission)"
    r"|\bthank(?:s| you) for (?:confirming|your)|\bas (?:you )?confirmed|\bapologi[sz]e|\bsorry\b"
    r"|\b(?:was|been|being) nudged",
    re.IGNORECASE,
)
Ending = Literal["at_once", "corrected", "question"]


class _Match(BaseModel):
    name: str


class _Catalog(BaseModel):
    matches: list[_Match]


class _Parameter(BaseModel):
    enum: list[Any] = []


class _Schema(BaseModel):
    properties: dict[str, _Parameter] = {}
    required: list[str] = []


class _Tool(BaseModel):
    name: str
    description: str = ""
    risk: Risk
    requiresApproval: bool
    inputSchema: _Schema


class _Schemas(BaseModel):
    disclosed: list[_Tool]


class _Result(BaseModel):
    status: str


_LAYERS: Mapping[str, type[BaseModel]] = {
    "1_catalog": _Catalog,
    "2_schema_disclosure": _Schemas,
    "3_execution": _Result,
}
ANSWERED_BY: Mapping[str, str] = dict(zip(META, _LAYERS, strict=True))
"""The layer in which each meta-tool answers."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One request of a run: its messages, nudges marked as synthetic, and its stalls."""

    messages: tuple[Message, ...]
    stalls: Mapping[int, Stall]
    """By position of the turn."""

    @property
    def kinds(self) -> tuple[StallKind, ...]:
        """Kinds of the stalls, in order."""
        return tuple(stall.kind for stall in self.stalls.values())


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may become a row, once it is checked."""

    ending: Ending
    messages: tuple[Message, ...]
    call: ToolCall
    """The first `execute_tool`; behind the messages where they end with a question."""


def run_fault(run: Recorded) -> str | None:
    """Why a run cannot be judged; None where what follows may trust its shape."""
    calls = [call for message in run.messages for call in message.tool_calls]
    if not calls:
        return NO_CALLS
    if not any(call.name in META for call in calls):
        return PLAIN_TOOLS
    if not _paired(run.messages):
        return UNPAIRED
    if any(find_unfit(call.arguments) for call in calls):
        return BAD_ARGUMENTS
    if not all(_well_shaped(m.content) for m in run.messages if m.role == "tool"):
        return BAD_PAYLOAD
    return None


def _paired(messages: Sequence[Message]) -> bool:
    waiting: set[str] = set()
    for message in messages:
        if message.role != "tool":
            waiting = {call.id for call in message.tool_calls}
        elif message.tool_call_id not in waiting:
            return False
    return True


def _well_shaped(content: str) -> bool:
    payload = json_object(content)
    layer = payload.get("layer")
    if layer is None or layer == "0_usage":
        return True
    if not isinstance(layer, str) or layer not in _LAYERS:
        return False
    try:
        _LAYERS[layer].model_validate(payload)
    except ValidationError:
        return False
    return True


def requests(messages: Sequence[Message]) -> list[list[Message]]:
    """A run's requests; each begins with the system prompt, if any, and the user's wish.

    A user turn that answers a text about an open schema wishes nothing new: the request goes on.
    """
    system = [message for message in messages[:1] if message.role == "system"]
    starts: list[int] = []
    open_schema = False
    for place, message in enumerate(messages):
        payload = json_object(message.content) if message.role == "tool" else {}
        if payload.get("layer") == "2_schema_disclosure":
            open_schema = bool(payload["disclosed"])
        elif payload.get("layer") == "3_execution" and payload["status"] not in NOT_EXECUTED:
            open_schema = False
        elif message.role == "user" and not (open_schema and _leads_to_call(messages, place)):
            open_schema = False
            starts.append(place)
    return [[*system, *messages[a:b]] for a, b in pairwise([*starts, len(messages)])]


def _leads_to_call(messages: Sequence[Message], place: int) -> bool:
    """Whether a user turn follows a text, and the next call, if any, is an execution."""
    before = messages[place - 1]
    if before.role != "assistant" or before.tool_calls:
        return False
    following = (message.tool_calls[0].name for message in messages[place:] if message.tool_calls)
    return next(following, "execute_tool") == "execute_tool"


def judge(messages: Sequence[Message], radar: Radar) -> Judged:
    """Find the stalls of one request, and mark the nudges."""
    marked: list[Message] = []
    stalls: dict[int, Stall] = {}
    for message in messages:
        place = len(marked)
        if message.role == "user" and place - 1 in stalls and _is_nudge(message.content, marked):
            message = dataclasses.replace(message, synthetic=True)
        elif message.role == "assistant" and not message.tool_calls:
            stall = radar.classify(spoken_text(message), situation_of(marked))
            if stall is not None:
                stalls[place] = stall
        marked.append(message)
    return Judged(tuple(marked), stalls)


def _is_nudge(text: str, before: Sequence[Message]) -> bool:
    situation = situation_of(before)
    if situation is None:
        return False
    own = {nudge_text(situation, style) for style in get_args(NudgeStyle)}
    return text.strip() in own or only_gives_leave(text)


def only_gives_leave(text: str) -> bool:
    """Whether a text agrees and says nothing else: one word more, and it might add something."""
    said = set(normalise(text).split())
    return bool(said & _YES) and said <= _LEAVE


def candidate(judged: Judged) -> Candidate | str:
    """What may become a row, or why there is nothing to learn from."""
    messages = judged.messages
    decision = _decision(messages)
    if decision is None:
        return NO_SCHEMA
    if decision == len(messages):
        return UNFINISHED
    calls = [
        (place, call)
        for place, message in enumerate(messages)
        for call in message.tool_calls
        if call.name == "execute_tool"
    ]
    if not calls or calls[-1][0] < max(judged.stalls, default=0):
        return NEVER_CALLED if judged.stalls else TEXT_ONLY
    call = calls[0][1]
    if judged.stalls:
        return _corrected(judged, call)
    if not messages[decision].tool_calls:
        left = reissue_ids(messages[: decision + 1])
        return Candidate("question", tuple(left), call)
    left = reissue_ids(messages)
    return Candidate("at_once", tuple(left), call) if _one_wish(left) else TALKED_ON


def _decision(messages: Sequence[Message]) -> int | None:
    """Position behind the first disclosure, which may be the end; None where there is none."""
    for place, message in enumerate(messages):
        payload = json_object(message.content) if message.role == "tool" else {}
        if payload.get("layer") == "2_schema_disclosure" and payload["disclosed"]:
            return place + 1
    return None


def _corrected(judged: Judged, call: ToolCall) -> Candidate | str:
    messages = judged.messages
    if not all(messages[place + 1].synthetic for place in judged.stalls):
        return SAID_MORE
    left = reissue_ids(cut_stalls(messages))
    stalls = [spoken_text(messages[place]).strip() for place in judged.stalls]
    answers = [m for m in left if m.role == "assistant"]
    if any(_AFTERMATH.search(m.content) for m in answers) or any(
        stall and stall in m.content for stall in stalls for m in left
    ):
        return SPEAKS_OF_IT
    if not _one_wish(left):
        return TALKED_ON
    return Candidate("corrected", tuple(left), call)


def _one_wish(messages: Sequence[Message]) -> bool:
    """Whether the user speaks once: else the turn behind the schema may be a text still."""
    return sum(message.role == "user" for message in messages) == 1
