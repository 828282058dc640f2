"""How a model writes a tool call as text, and how such text is read back.

A frozen table says which chat template writes which format. Reading never raises: what looks
like a call and is none becomes a problem of the turn, so that the loop can name it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from breadcrumbs.call_literals import read_gemma, read_pythonic
from breadcrumbs.call_reading import (
    Reader,
    argument_types,
    call_problem,
    read_bare_json,
    read_harmony,
    read_mistral,
    tagged_json,
)
from breadcrumbs.call_tagged import read_glm, read_xml
from breadcrumbs.messages import ToolCall
from breadcrumbs.turns import Turn

THINK_OPENER, THINK_CLOSER = "<think>", "</think>"
Tools = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class CallFormat:
    """One way of writing turns: what a call begins with, how it is read, what ends the turn."""

    kind: str
    opener: str
    closer: str
    """What a call ends with; empty where only the end of the turn does."""
    read: Reader
    stop_text: str
    """The token that ends a turn."""
    call_stop: str = ""
    """The token that ends a turn with calls, where it is another one."""
    opens_at: str = ""
    """A pattern that finds the opener where it counts; empty: it counts everywhere."""
    markup: tuple[str, ...] = ()
    """The template's own words between the parts of a turn: nobody says them."""
    thinks: tuple[str, str] = (THINK_OPENER, THINK_CLOSER)
    """What reasoning at the beginning of a turn stands between."""
    starts_thinking: bool = False
    """Whether the generation prompt has opened the reasoning already."""
    thought_key: str | None = None
    """Where the template takes reasoning from; None: from the content, in <think>."""
    wants_description: bool = False
    """Whether the template fails on a tool without one."""
    sorts_keys: bool = False
    """Whether the family's own templates write arguments in the order of their names."""
    id_chars: int = 0
    """How many letters and digits the template wants a call's id to have; 0: it takes any."""

    @property
    def stops(self) -> tuple[str, ...]:
        """Every token that ends a turn."""
        return tuple(dict.fromkeys([self.stop_text, self.call_stop or self.stop_text]))

    def stop_behind(self, calls: bool) -> str:
        """What ends a turn with calls, or one without."""
        return (self.call_stop if calls else "") or self.stop_text

    def shown_id(self, call_id: str) -> str:
        """A call's id as the template takes it: `call_1` becomes `call00001` for Mistral."""
        if not self.id_chars:
            return call_id
        plain = re.sub(r"[^A-Za-z0-9]", "", call_id)
        if len(plain) > self.id_chars:
            return hashlib.sha256(call_id.encode()).hexdigest()[: self.id_chars]
        head = plain.rstrip("0123456789")
        return head + plain[len(head) :].zfill(self.id_chars - len(head))

    def parse_turn(self, text: str, first_id: int = 1, tools: Tools = ()) -> Turn:
        """Read one assistant turn; see the module's `parse_turn`."""
        return parse_turn(text, self, first_id, tools)

    def before_stop(self, text: str) -> str:
        """The text up to the first token that ends a turn."""
        return min((text.split(stop, 1)[0] for stop in self.stops), key=len)

    def find_call(self, text: str, at: int = 0) -> int:
        """Where the next call's opener begins, from `at` on; -1 if there is none."""
        if not self.opens_at:
            return text.find(self.opener, at)
        found = re.compile(self.opens_at).search(text, at)
        return -1 if found is None else found.end() - len(self.opener)

    def split_thinking(self, text: str) -> tuple[str, str]:
        """The reasoning a turn begins with, and what follows it."""
        opener, closer = self.thinks
        start = text.lstrip()
        if not self.starts_thinking and not start.startswith(opener):
            return "", text
        thinking, _, rest = start.removeprefix(opener).partition(closer)
        return thinking.strip(), rest

    def without_markup(self, text: str) -> str:
        """What is said in a text, without the template's own words."""
        if not self.markup:
            return text
        return re.sub("|".join(map(re.escape, self.markup)), "", text)


HERMES = CallFormat(
    "hermes", "<tool_call>", "</tool_call>", tagged_json("</tool_call>"), "<|im_end|>"
)
XML = replace(HERMES, kind="xml", read=read_xml, thought_key="reasoning_content")
GLM = CallFormat(
    "glm", "<tool_call>", "</tool_call>", read_glm, "<|user|>", call_stop="<|observation|>"
)
LLAMA = CallFormat(
    "llama",
    '{"name"',
    "",
    read_bare_json,
    "<|eot_id|>",
    opens_at=r'\A\s*(?:<\|python_tag\|>\s*)?\{"name"',
    markup=("<|python_tag|>",),
)
GEMMA = CallFormat(
    "gemma",
    "<|tool_call>",
    "<tool_call|>",
    read_gemma,
    "<turn|>",
    call_stop="<|tool_response>",
    thinks=("<|channel>thought\n", "<channel|>"),
    thought_key="reasoning_content",
    sorts_keys=True,
)
HARMONY = CallFormat(
    "harmony",
    " to=functions.",
    "",
    read_harmony,
    "<|return|>",
    call_stop="<|call|>",
    opens_at=r"(?:\A|<\|start\|>assistant|<\|channel\|>commentary) to=functions\.",
    markup=(
        *("<|start|>assistant", "<|channel|>final", "<|channel|>commentary"),
        *("<|message|>", "<|end|>"),
    ),
    thinks=("<|channel|>analysis<|message|>", "<|end|>"),
    thought_key="thinking",
    wants_description=True,
)
PYTHONIC = CallFormat(
    "pythonic", "<|tool_call_start|>", "<|tool_call_end|>", read_pythonic, "<|im_end|>"
)
MISTRAL = CallFormat("mistral", "[TOOL_CALLS]", "", read_mistral, "</s>", id_chars=9)
KINDS = (HERMES, XML, GLM, LLAMA, GEMMA, HARMONY, PYTHONIC, MISTRAL)

FORMATS: Mapping[str, CallFormat] = MappingProxyType(
    {
        # Keyed by the first 16 hex digits of the SHA-256 of the chat template's text.
        "cd8e9439f0570856": HERMES,  # Qwen2.5
        "64f85b198065d0fb": HERMES,  # Qwen3-Instruct-2507
        "a55ee1b1660128b7": HERMES,  # Qwen3
        "273d8e0e683b8850": XML,  # Qwen3.5, not thinking
        "a4aee8afcf2e0711": XML,  # Qwen3.5, thinking
        "e84f32a23fdda276": XML,  # Qwen3.6
        "c3cf9e34abf4f9e3": XML,  # Qwen3.8
        "e10ca381b1ccc5cf": LLAMA,  # Llama 3.1
        "5816fce10444e03c": LLAMA,  # Llama 3.2
        "33204f1acb5bd000": GEMMA,  # Gemma 4, and its later revisions
        "55572b8d3c834204": GEMMA,
        "781d10940fbc44be": GEMMA,
        "2f1b4d75d067bae3": GEMMA,
        "0a2c8073c878ab1d": GEMMA,
        "a4c9919cbbd4acdd": HARMONY,  # gpt-oss
        "44f815868bf02fa4": GLM,  # GLM-4 MoE
        "5504d163d879bfb6": PYTHONIC,  # LFM2
        "6d65c8804847ad74": PYTHONIC,  # LFM2.5
        "c5b67247c9f736f6": PYTHONIC,
    }
)

_PROBE_CALL = ToolCall("call00001", "probe_name", {"probe_key": "probe_value"})
_PROBE_TYPES = {"function": {"name": "probe_name", "parameters": {"properties": {}}}}


def find_format(template_hash: str, probe_turn: str, exact: bool = True) -> CallFormat | None:
    """The format a template writes: by its hash, else by how it wrote the turn of `probe_call()`.

    Not `exact` where other text may stand before the turn. None where neither tells: such a
    template must not be used, its calls could not be read.
    """
    known = FORMATS.get(template_hash[:16])
    form = known or next((one for one in KINDS if _writes_probe(one, probe_turn, exact)), None)
    if form is None or not form.call_stop:
        return form
    # Gemma's first template ended turns with calls like any other.
    as_any = form.stop_text in probe_turn.partition(form.call_stop)[0]
    return replace(form, call_stop="") if as_any else form


def _writes_probe(form: CallFormat, text: str, exact: bool) -> bool:
    if not exact:
        text = text[max(text.find(form.opener), 0) :]
    turn = form.parse_turn(text, tools=[_PROBE_TYPES])
    calls = [(call.name, call.arguments) for call in turn.calls]
    return calls == [(_PROBE_CALL.name, _PROBE_CALL.arguments)] and not turn.problems


def probe_call() -> ToolCall:
    """The call that a template must render for `find_format`."""
    return _PROBE_CALL


def parse_turn(text: str, form: CallFormat = HERMES, first_id: int = 1, tools: Tools = ()) -> Turn:
    """Read one assistant turn as it came from the model. Never raises.

    Calls are numbered from `first_id`: `call_1`, `call_2`…; give one more than the conversation
    has calls, so that ids stay unique in it. `tools` give the types of arguments that a format
    writes as bare text. A malformed or cut call becomes a problem, and so does one left in the
    thinking of a turn that says nothing else.
    """
    thinking, text = form.split_thinking(form.before_stop(text))
    types = argument_types(tools)
    pieces: list[str] = []
    calls: list[ToolCall] = []
    problems: list[str] = []
    at = 0
    while (start := form.find_call(text, at)) >= 0:
        pieces.append(text[at:start])
        found, at = form.read(text, start + len(form.opener), types)
        for one in found:
            if isinstance(one, str):
                problems.append(one)
            else:
                calls.append(ToolCall(f"call_{first_id + len(calls)}", *one))
    pieces.append(text[at:])
    said = form.without_markup("".join(pieces)).strip()
    lost = form.find_call(thinking)
    if lost >= 0 and not (said or calls or problems):
        problems.append(
            call_problem("it stands in the thinking, which is not read", thinking[lost:])
        )
    return Turn(said, tuple(calls), thinking, tuple(problems))


class TextStream:
    """The visible text of a turn while it is being written.

    Joined, what `push` and `finish` return equals the turn's `text`: thinking and calls are
    held back, and so is whatever may still become the opening of either.
    """

    def __init__(self, form: CallFormat = HERMES, first_id: int = 1, tools: Tools = ()) -> None:
        self._form = form
        self._first_id = first_id
        self._tools = tools
        self._raw = ""
        self._sent = 0
        self._closed = False
        # None until the first characters tell.
        self._thinking: bool | None = form.starts_thinking or None

    def push(self, delta: str) -> str:
        """Add what the model wrote; returns the text that may be shown now."""
        self._raw += delta
        if self._closed:
            return ""
        visible = self._visible()
        ready, self._sent = visible[self._sent :], max(self._sent, len(visible))
        return ready

    def finish(self) -> tuple[str, Turn]:
        """The text not shown yet, and the turn."""
        turn = parse_turn(self._raw, self._form, self._first_id, self._tools)
        return turn.text[self._sent :], turn

    def _visible(self) -> str:
        form, (think, thought) = self._form, self._form.thinks
        raw = form.before_stop(self._raw)  # ends a thought as well
        self._closed = len(raw) < len(self._raw)
        if self._thinking is None:
            start = raw.lstrip()
            if think.startswith(start[: len(think)]) and len(start) < len(think):
                return ""
            self._thinking = start.startswith(think)
        if self._thinking:
            _, closed, raw = raw.partition(thought)
            if not closed:
                return ""
        call = form.find_call(raw)
        if call >= 0:
            raw, self._closed = raw[:call], True
        raw = form.without_markup(raw)
        if not self._closed:
            raw = _without_beginning(raw, (form.opener, *form.stops, *form.markup))
        return raw.strip()


def _without_beginning(text: str, marks: tuple[str, ...]) -> str:
    """`text` less a tail that is the beginning of a mark."""
    longest = max(map(len, marks)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(mark.startswith(text[-size:]) for mark in marks):
            return text[:-size]
    return text


def split_thinking(text: str) -> tuple[str, str]:
    """The reasoning a kept content begins with, and what follows it."""
    return HERMES.split_thinking(text)
