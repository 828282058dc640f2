"""Which part of a prompt each token belongs to.

Spans are found by rendering once clean and once with private-use marks around every content;
where the marks do not come off cleanly the template is refused instead of guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from breadcrumbs.errors import DataError, ModelError
from breadcrumbs.messages import Message

LOCAL_TOKENS = 16
PRIVATE_USE = range(0xE000, 0xF8FF)


class Segment(StrEnum):
    """A labelled part of the rendered prompt."""

    SINK = "sink"
    TEMPLATE = "template"
    STEERING = "steering"
    SYSTEM = "system"
    USER = "user"
    CATALOG = "catalog"
    SCHEMA = "schema"
    BREADCRUMB = "breadcrumb"
    NUDGE = "nudge"
    TOOL_RESULT = "tool_result"
    ASSISTANT = "assistant"
    LOCAL = "local"


Span = tuple[int, int, Segment]
"""Characters from the first up to, without, the second."""

_LAYERS = {
    "1_catalog": Segment.CATALOG,
    "2_schema_disclosure": Segment.SCHEMA,
    "3_execution": Segment.TOOL_RESULT,
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as text and ids, with one segment per token.

    `straddling` lists the positions of tokens that overlap more than one segment; each is
    counted to the one it shares most characters with.
    """

    text: str
    ids: list[int]
    segments: list[Segment]
    straddling: list[int]


def content_parts(message: Message, steering: str | None = None) -> list[tuple[int, Segment]]:
    """How a message's content splits: (first character, segment), in order.

    Raises:
        DataError: the system message does not begin with `steering`.
    """
    if message.role == "system":
        if steering is None:
            return [(0, Segment.SYSTEM)]
        if not message.content.startswith(steering):
            raise DataError(
                "the system message does not begin with the steering text "
                f"{steering[:40]!r}; pass the steering it was made with"
            )
        return [(0, Segment.STEERING), (len(steering), Segment.SYSTEM)]
    if message.role == "user":
        return [(0, Segment.NUDGE if message.synthetic else Segment.USER)]
    return _payload_parts(message.content)


def _payload_parts(content: str) -> list[tuple[int, Segment]]:
    try:
        payload = json.loads(content)
    except ValueError:
        payload = None
    layer = payload.get("layer") if isinstance(payload, dict) else None
    if not isinstance(payload, dict) or not isinstance(layer, str) or layer not in _LAYERS:
        return [(0, Segment.TOOL_RESULT)]
    parts = [(0, _LAYERS[layer])]
    if next(reversed(payload)) == "next_step":
        # A quoted key cannot stand inside a JSON string unescaped, so the last one is the key.
        parts.append((content.rindex('"next_step"'), Segment.BREADCRUMB))
    return parts


def locate_spans(
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    text: str,
    render: Callable[[list[dict[str, Any]], bool], str],
    steering: str | None,
) -> list[Span]:
    """Spans of contents and tool definitions in the clean `text`; assistant turns are left out.

    `render(messages, generation_prompt)` renders template messages as `text` was.

    Raises:
        ModelError: the template changes contents or hides the tool definitions.
        DataError: as `content_parts`.
    """
    used = set("".join(message.content for message in messages)) | set(text)
    opener, closer = [chr(code) for code in PRIVATE_USE if chr(code) not in used][:2]
    marked, wrapped = [], []
    for message in messages:
        shape = message.to_template()
        core = message.content.strip()
        if message.role != "assistant" and core:
            # Inside the outer white space, so that templates that trim still can.
            shape["content"] = message.content.replace(core, f"{opener}{core}{closer}", 1)
            wrapped.append((message, len(message.content) - len(message.content.lstrip())))
        marked.append(shape)
    starts = _take_marks(_like(text, marked, render, opener, closer), opener, closer)
    if len(starts) != len(wrapped):
        raise ModelError("the chat template drops or repeats messages; use another template")
    spans = _tool_spans(tools, text)
    for (message, lead), (start, end) in zip(wrapped, starts, strict=True):
        parts = content_parts(message, steering)
        for (first, segment), (behind, _) in zip(
            parts, [*parts[1:], (len(message.content), segment_end())], strict=True
        ):
            span = (max(start, start - lead + first), min(end, start - lead + behind), segment)
            if span[0] < span[1]:
                spans.append(span)
    return spans
