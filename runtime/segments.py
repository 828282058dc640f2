"""Which part of a prompt each token belongs to.

Spans are found by rendering once clean and once with private-use marks around every content;
where the marks do not come off cleanly the template is refused instead of guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from breadcrumbs.errors import DataError, ModelError
from breadcrumbs.gateway.namings import layer_of
from breadcrumbs.messages import Message, json_object
from breadcrumbs.schema_parts import PartSpan, SchemaPart, schema_part_spans

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


Tools = Sequence[Mapping[str, Any]]
Render = Callable[[list[dict[str, Any]], Tools], str]
Span = tuple[int, int, Segment]
"""Characters from the first up to, without, the second."""
_Label = TypeVar("_Label")

_LAYERS = {
    "1_catalog": Segment.CATALOG,
    "2_schema_disclosure": Segment.SCHEMA,
    "3_execution": Segment.TOOL_RESULT,
}


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as text and ids, with one segment per token.

    `straddling` lists the positions of tokens that overlap more than one segment; each is
    counted to the one it shares most characters with. Inside `schema`, `schema_parts` says which
    tokens are risk flags, required names or descriptions, with straddling tokens of its own.
    """

    text: str
    ids: list[int]
    segments: list[Segment]
    straddling: list[int]
    schema_parts: list[SchemaPart | None]
    straddling_parts: list[int]


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
    payload = json_object(content)
    layer = layer_of(payload)
    if layer not in _LAYERS:
        return [(0, Segment.TOOL_RESULT)]
    parts = [(0, _LAYERS[layer])]
    if next(reversed(payload)) == "next_step":
        # A quoted key cannot stand inside a JSON string unescaped, so the last one is the key.
        parts.append((content.rindex('"next_step"'), Segment.BREADCRUMB))
    return parts


def locate_spans(
    messages: Sequence[Message],
    tools: Tools,
    text: str,
    render: Render,
    shape: Callable[[Message], dict[str, Any]],
    steering: str | None = None,
) -> tuple[list[Span], list[PartSpan]]:
    """Spans of contents and tool definitions in the clean `text`, and of the parts of schemas.

    Assistant turns are left out. `render` renders messages and tools in the template's shape just
    as `text` was rendered; `shape` gives a message that shape.

    Raises:
        ModelError: the template changes contents or hides the tool definitions.
        DataError: as `content_parts`.
    """
    used = set("".join(message.content for message in messages)) | set(text)
    opener, closer = [chr(code) for code in PRIVATE_USE if chr(code) not in used][:2]
    marked: list[dict[str, Any]] = []
    pieces: list[_Piece] = []
    for message in messages:
        dressed = shape(message)
        if message.role != "assistant":
            cut = _pieces(message, steering)
            pieces += cut
            dressed["content"] = _with_marks(message.content, cut, opener, closer)
        marked.append(dressed)
    clean, places = _take_marks(render(marked, tools), opener, closer)
    if clean != text or len(places) != len(pieces):
        raise ModelError(
            "the chat template changes, drops or repeats message contents, so segments cannot "
            "be told apart; use another template"
        )
    spans = [(*place, piece.segment) for place, piece in zip(places, pieces, strict=True)]
    inside = [
        (*place, piece.part)
        for place, piece in zip(places, pieces, strict=True)
        if piece.part is not None
    ]
    dicts = [shape(message) for message in messages]

    def render_tools(others: Tools) -> str:
        return render(dicts, others)

    return [*spans, *_tool_spans(tools, text, render_tools, opener, spans)], inside


class _Piece(NamedTuple):
    """A part of a message's content under one label: what a template may escape, but not move."""

    start: int
    end: int
    segment: Segment
    part: SchemaPart | None


def _pieces(message: Message, steering: str | None) -> list[_Piece]:
    """A content without its outer white space, cut wherever a label begins or ends."""
    content = message.content
    core = content.strip()
    if not core:
        return []
    lead = content.index(core)
    end = lead + len(core)
    segments = content_parts(message, steering)
    schema = any(segment == Segment.SCHEMA for _, segment in segments)
    inside = schema_part_spans(content) if schema else []
    borders = {first for first, _ in segments} | {at for span in inside for at in span[:2]}
    cuts = sorted({lead, end, *(at for at in borders if lead < at < end)})
    parts = {start: part for start, _, part in inside}
    pieces = []
    for start, stop in pairwise(cuts):
        segment = [segment for first, segment in segments if first <= start][-1]
        pieces.append(_Piece(start, stop, segment, parts.get(start)))
    return pieces


def _with_marks(content: str, pieces: Sequence[_Piece], opener: str, closer: str) -> str:
    """The content with every piece between marks, outside of which it may be trimmed."""
    if not pieces:
        return content
    marked = (f"{opener}{content[piece.start : piece.end]}{closer}" for piece in pieces)
    return "".join([content[: pieces[0].start], *marked, content[pieces[-1].end :]])


def label_tokens(
    chars: int, offsets: Sequence[tuple[int, int]], spans: Sequence[Span]
) -> tuple[list[Segment], list[int]]:
    """One segment per token, and the positions of tokens that straddle a border.

    `offsets` are the tokens' character spans in a text of `chars` characters; what no span
    covers is template. The first token is the sink; template and assistant among the last
    16 tokens are local.

    Raises:
        ModelError: the offsets run backwards or do not reach the end of the text.
    """
    segments, straddling = _cover(_tile(chars, spans, Segment.TEMPLATE), offsets)
    _mark_edges(segments)
    return segments, straddling


def label_parts(
    chars: int, offsets: Sequence[tuple[int, int]], spans: Sequence[PartSpan]
) -> tuple[list[SchemaPart | None], list[int]]:
    """One part of a schema, or none, per token, and the tokens that straddle a border.

    Raises:
        ModelError: as `label_tokens`.
    """
    covered: list[tuple[int, int, SchemaPart | None]] = list(spans)
    return _cover(_tile(chars, covered, None), offsets)


def _cover(
    tiles: Sequence[tuple[int, int, _Label]], offsets: Sequence[tuple[int, int]]
) -> tuple[list[_Label], list[int]]:
    """The label of most of each token's characters, and which tokens have more than one."""
    chars = tiles[-1][1]
    labels: list[_Label] = []
    straddling: list[int] = []
    at = tile = 0
    for position, (start, end) in enumerate(offsets):
        # Bytes of one character share its span; a gap is white space the tokenizer trimmed.
        start = min(start, at)
        if end < at or end > chars:
            raise ModelError("the tokenizer's offsets do not tile the text; use a fast tokenizer")
        while tiles[tile][1] <= start and tile + 1 < len(tiles):
            tile += 1
        while tile and tiles[tile][0] > start:
            tile -= 1
        shares: dict[_Label, int] = {}
        reach = tile
        while reach < len(tiles) and (tiles[reach][0] < end or reach == tile):
            share = min(end, tiles[reach][1]) - max(start, tiles[reach][0])
            shares[tiles[reach][2]] = shares.get(tiles[reach][2], 0) + share
            reach += 1
        labels.append(max(shares, key=lambda label: shares[label]))
        if len(shares) > 1:
            straddling.append(position)
        at = end
    if at != chars:
        raise ModelError("the tokenizer's offsets do not reach the end of the text")
    return labels, straddling


def _mark_edges(segments: list[Segment]) -> None:
    for position in range(max(0, len(segments) - LOCAL_TOKENS), len(segments)):
        if segments[position] in (Segment.TEMPLATE, Segment.ASSISTANT):
            segments[position] = Segment.LOCAL
    if segments:
        segments[0] = Segment.SINK


def _tile(
    chars: int, spans: Sequence[tuple[int, int, _Label]], between: _Label
) -> list[tuple[int, int, _Label]]:
    """`spans` in order with another label between them, so that every character has one."""
    tiles: list[tuple[int, int, _Label]] = []
    at = 0
    for start, end, label in sorted(spans, key=lambda span: span[:2]):
        if start < at:
            raise ModelError("the chat template nests contents; use another template")
        if start > at:
            tiles.append((at, start, between))
        tiles.append((start, end, label))
        at = end
    if at < chars or not tiles:
        tiles.append((at, chars, between))
    return tiles


def _take_marks(marked: str, opener: str, closer: str) -> tuple[str, list[tuple[int, int]]]:
    """The text without marks, and where in it each marked content begins and ends."""
    places = []
    pieces = marked.split(opener)
    at = len(pieces[0])
    for piece in pieces[1:]:
        if piece.count(closer) != 1:
            raise ModelError("the chat template cuts message contents; use another template")
        places.append((at, at + piece.index(closer)))
        at += len(piece) - len(closer)
    return marked.replace(opener, "").replace(closer, ""), places


def _tool_spans(
    tools: Tools,
    text: str,
    render_tools: Callable[[Tools], str],
    mark: str,
    contents: Sequence[Span],
) -> list[Span]:
    spans: list[Span] = []
    at = 0
    for tool in tools:
        for indent in (None, 4, 2):
            body = json.dumps(dict(tool), ensure_ascii=False, indent=indent)
            start = text.find(body, at)
            if start >= 0:
                break
        else:
            return [_own_words_span(tools, text, render_tools, mark, contents)]
        at = start + len(body)
        spans.append((start, at, Segment.SYSTEM))
    return spans


def _own_words_span(
    tools: Tools,
    text: str,
    render_tools: Callable[[Tools], str],
    mark: str,
    contents: Sequence[Span],
) -> Span:
    """All tool definitions of a template that writes them in words of its own.

    A mark in each name finds the first one; rendered twice, a tool shows how long its
    definition is, and what stands before the name in each.
    """
    named = render_tools([_renamed(tool, mark) for tool in tools])
    if named.replace(mark, "") != text or named.count(mark) != len(tools):
        raise ModelError(
            "the chat template writes tool definitions so that they cannot be found again, and "
            "segments cannot be told apart; use another template"
        )
    first = named.index(mark)
    twice = [render_tools([*tools[: at + 1], *tools[at:]]) for at in range(len(tools))]
    lengths = [len(doubled) - len(text) for doubled in twice]
    lead = 0
    while lead < first and twice[0][first - lead - 1] == twice[0][first + lengths[0] - lead - 1]:
        lead += 1
    start = max([first - lead, *(end for _, end, _ in contents if end <= first)])
    return start, min(first - lead + sum(lengths), len(text)), Segment.SYSTEM


def _renamed(tool: Mapping[str, Any], mark: str) -> dict[str, Any]:
    function = dict(tool["function"])
    return {**tool, "function": {**function, "name": f"{mark}{function['name']}"}}
