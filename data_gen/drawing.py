"""A row of a data set as a person reads it: lines of styled text, one segment after the other.

The words in front of the parts are the segments of the rendered prompt; `think` and `call` stand
for the assistant's. Nothing is cut, and what a terminal would hide is written out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from breadcrumbs.call_format import THINK_CLOSER, THINK_OPENER
from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.nudged import stalled_turns
from breadcrumbs.data_gen.shape import Shape, facts_of
from breadcrumbs.data_gen.verify import decided_at
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.prompt_grammar import steering_of
from breadcrumbs.segments import Segment, content_parts
from breadcrumbs.visible import visible

LABEL_CHARS = 12
RULE_CHARS = 80
STYLES: Mapping[str, str] = {
    Segment.STEERING: "magenta",
    Segment.SYSTEM: "bright_black",
    Segment.USER: "bold green",
    Segment.CATALOG: "blue",
    Segment.SCHEMA: "cyan",
    Segment.BREADCRUMB: "bold yellow",
    Segment.NUDGE: "red",
    Segment.TOOL_RESULT: "bright_blue",
    Segment.ASSISTANT: "bold",
    "think": "dim italic",
    "call": "bold bright_white",
}


def draw(row: Row) -> Iterator[Text]:
    """The row line by line: what it is, its messages, and what it left behind."""
    yield from _heading(row)
    notes = dict.fromkeys(stalled_turns(row.messages), "STALL")
    notes[decided_at(row.messages, row.scenario)] = "DECISION POINT"
    for position, message in enumerate(row.shown_messages):
        yield _rule(message, notes.get(position, ""))
        for label, text in _parts(message):
            yield from _labelled(label, text)
    yield _line("─" * RULE_CHARS, "dim")
    for name in ("outcome", "queue", "state_hash"):
        if name in row.meta:
            yield from _labelled(name, compact_json(row.meta[name]))


def _heading(row: Row) -> Iterator[Text]:
    scenario = row.scenario
    yield _line(row.id, "bold")
    facts = (row.behaviour, row.source, row.split, scenario.domain, scenario.tool, row.twin)
    yield _line(" · ".join((*facts, *filter(None, (scenario.kind,)))), "dim")
    for axis, value in () if scenario.shape == Shape() else facts_of(scenario.shape):
        yield _line(f"{axis}: {value}", "dim")
    for name, source in scenario.sources.items():
        yield _line(f"{name}: {source}", "dim")
    for name in scenario.missing:
        withheld = compact_json(scenario.withheld.get(name))
        yield _line(f"{name}: missing; the user would say {withheld}", "yellow")


def _rule(message: Message, note: str) -> Text:
    words: list[str] = [message.role]
    if message.synthetic:
        words.append("synthetic")
    if message.tool_call_id is not None:
        words.append(f"answers {message.tool_call_id}")
    if note:
        words.append(note)
    title = f"── {' · '.join(words)} "
    return _line(title.ljust(RULE_CHARS, "─"), "bold reverse" if note else "dim")


def _parts(message: Message) -> Iterator[tuple[str, str]]:
    """Labels with texts, in the order of the message."""
    if message.role == "assistant":
        yield from _turn_parts(message)
        return
    parts = content_parts(message, steering_of(message.content))
    if message.role == "tool" and len(parts) > 1:
        payload = json.loads(message.content)
        breadcrumb = payload.pop("next_step")
        yield parts[0][1], json.dumps(payload, indent=2, ensure_ascii=False)
        yield parts[1][1], breadcrumb if isinstance(breadcrumb, str) else compact_json(breadcrumb)
        return
    ends = [first for first, _ in parts[1:]] + [len(message.content)]
    for (first, segment), end in zip(parts, ends, strict=True):
        yield segment, message.content[first:end].strip("\n")


def _turn_parts(message: Message) -> Iterator[tuple[str, str]]:
    before, opened, rest = message.content.partition(THINK_OPENER)
    thought, _, after = rest.partition(THINK_CLOSER)
    if before.strip():
        yield Segment.ASSISTANT, before.strip("\n")
    if opened:
        yield "think", thought
    if after.strip():
        yield Segment.ASSISTANT, after.strip("\n")
    for call in message.tool_calls:
        yield "call", f"{call.id} {call.name} {compact_json(dict(call.arguments))}"


def _labelled(label: str, text: str) -> Iterator[Text]:
    style = STYLES.get(label, "dim")
    for number, line in enumerate(text.split("\n")):
        front = (label if number == 0 else "").ljust(LABEL_CHARS)
        yield Text.assemble((front, "dim"), (_shown(line), style))


def _line(text: Any, style: str) -> Text:
    return Text(visible(str(text)), style)


def _shown(line: str) -> str:
    """A line with its indent kept; padding inside it is written out."""
    body = line.lstrip(" ")
    return " " * (len(line) - len(body)) + visible(body)
