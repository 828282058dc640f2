"""Token-span mapping, proved by decoding each segment under every template that is supported."""

from __future__ import annotations

import importlib.util
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.messages import Message, ToolCall, compact_json
from breadcrumbs.rendering import Renderer, Segment
from breadcrumbs.schema_parts import SchemaPart
from breadcrumbs.segments import Rendered, label_parts

STEERING = "Act through the gateway. Never ask for permission."
CONTEXT = "\nNow: 2026-03-02T09:00."
REQUEST = "Put 'Standup 🎉' on my calendar"
NUDGE = "The schema is there: call it."
TOOL = {
    "name": "create_event",
    "description": "Puts an event é on the calendar.",
    "risk": "write",
    "requiresApproval": True,
    "inputSchema": {"type": "object", "properties": {"title": {}}, "required": ["title"]},
}
SCHEMA = {"layer": "2_schema_disclosure", "disclosed": [TOOL], "next_step": "Call execute_tool."}
MESSAGES = [
    Message("system", STEERING + CONTEXT),
    Message("user", REQUEST),
    Message("assistant", "", tool_calls=(ToolCall("c1", "get_tool_schema", {"n": 1}),)),
    Message("tool", compact_json(SCHEMA), tool_call_id="c1"),
    Message("user", NUDGE, synthetic=True),
]
BREADCRUMB = '"next_step":"Call execute_tool."}'
EXPECTED = {
    Segment.STEERING: STEERING,
    Segment.USER: REQUEST,
    Segment.SCHEMA: compact_json(SCHEMA).removesuffix(BREADCRUMB),
    Segment.BREADCRUMB: BREADCRUMB,
    Segment.NUDGE: NUDGE,
}
PARTS = {
    SchemaPart.DESCRIPTION: '"Puts an event é on the calendar."',
    SchemaPart.REQUIRED: '["title"]',
}
MUST_WORK = {"qwen2_5", "qwen3", "qwen3_instruct_2507"}


def templates() -> list[Path]:
    spec = importlib.util.find_spec("trl")
    assert spec is not None
    places = [Path(place) / "chat_templates" for place in spec.submodule_search_locations or ()]
    return sorted(path for place in places for path in place.glob("*.jinja"))


def decoded(renderer: Renderer, rendered: Rendered, positions: list[int]) -> str:
    return str(renderer.tokenizer.decode([rendered.ids[at] for at in positions]))


def prove(
    renderer: Renderer, rendered: Rendered, labels: list[Any], straddling: list[int], expected: Any
) -> None:
    """The tokens of a label decode to its text; only straddling tokens reach over its ends."""
    for label, text in expected.items():
        inside = [at for at, found in enumerate(labels) if found == label]
        assert inside == list(range(inside[0], inside[-1] + 1)), f"{label} is in pieces"
        around = [at for at in (inside[0] - 1, inside[-1] + 1) if at in straddling]
        assert text in decoded(renderer, rendered, sorted({*inside, *around})), label
        whole = [at for at in inside if at not in straddling]
        assert decoded(renderer, rendered, whole) in text, label


def test_each_segment_decodes_to_its_text_under_every_template(chatml_tokenizer: Any) -> None:
    proved = set()
    for path in templates():
        try:
            renderer = Renderer(chatml_tokenizer, path.read_text(encoding="utf-8"))
            rendered = renderer.render(MESSAGES, META_TOOLS, steering=STEERING)
        except ModelError:  # refused: nothing is measured under it
            continue
        prove(renderer, rendered, rendered.segments, rendered.straddling, EXPECTED)
        prove(renderer, rendered, rendered.schema_parts, rendered.straddling_parts, PARTS)
        assert len(rendered.ids) == len(rendered.segments) == len(rendered.schema_parts)
        assert {s for s, _ in groupby(rendered.segments)} >= set(EXPECTED)
        proved.add(path.stem)
    assert proved >= MUST_WORK


def test_risk_flags_are_two_pieces_of_the_schema(chatml_tokenizer: Any) -> None:
    path = next(path for path in templates() if path.stem == "qwen2_5")
    renderer = Renderer(chatml_tokenizer, path.read_text(encoding="utf-8"))
    rendered = renderer.render(MESSAGES, META_TOOLS, steering=STEERING)
    inside = [at for at, part in enumerate(rendered.schema_parts) if part == SchemaPart.RISK]
    text = decoded(renderer, rendered, inside)
    assert '"write"' in text
    assert "true" in text
    assert "create_event" not in text
    parts = {p for p in rendered.schema_parts if p is not None}
    assert parts == set(SchemaPart)
    of_schema = [
        rendered.segments[at] for at, part in enumerate(rendered.schema_parts) if part is not None
    ]
    assert set(of_schema) == {Segment.SCHEMA}


def test_a_token_over_the_border_of_a_part_is_listed() -> None:
    labels, straddling = label_parts(6, [(0, 2), (2, 5), (5, 6)], [(3, 6, SchemaPart.RISK)])
    assert labels == [None, SchemaPart.RISK, SchemaPart.RISK]
    assert straddling == [1]


def test_a_template_that_escapes_contents_moves_no_border(chatml_tokenizer: Any) -> None:
    """As Llama's and gpt-oss' do with what tools answer: every label lies on the escaped text."""
    template = next(p for p in templates() if p.stem == "qwen2_5").read_text(encoding="utf-8")
    assert "{{- message.content }}" in template
    escaping = template.replace("{{- message.content }}", "{{- message.content | tojson }}")
    renderer = Renderer(chatml_tokenizer, escaping)
    rendered = renderer.render(MESSAGES, META_TOOLS, steering=STEERING)

    def escaped(expected: dict[Any, str]) -> dict[Any, str]:
        inside = {Segment.SCHEMA, Segment.BREADCRUMB, *SchemaPart}
        return {
            label: json.dumps(text, ensure_ascii=False)[1:-1] if label in inside else text
            for label, text in expected.items()
        }

    assert escaped(PARTS) != PARTS
    prove(renderer, rendered, rendered.segments, rendered.straddling, escaped(EXPECTED))
    prove(renderer, rendered, rendered.schema_parts, rendered.straddling_parts, escaped(PARTS))


def test_a_template_that_drops_the_system_prompt_is_refused(chatml_tokenizer: Any) -> None:
    template = next(p for p in templates() if p.stem == "qwen2_5").read_text(encoding="utf-8")
    assert "messages[0]['content']" in template or "messages[0].content" in template
    dropping = template.replace("messages[0]['content']", "'probe_system'")
    dropping = dropping.replace("messages[0].content", "'probe_system'")
    renderer = Renderer(chatml_tokenizer, dropping)
    with pytest.raises(ModelError, match="changes, drops or repeats message contents"):
        renderer.render(MESSAGES, META_TOOLS, steering=STEERING)
