"""Parts of a schema by structure: a name or a quotation that looks like one is none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.messages import compact_json
from breadcrumbs.schema_parts import SchemaPart, schema_part_spans

TOOL = {
    "name": "create_ticket",
    "description": 'Says "risk":"read" and "required":["x"] in its text.',
    "risk": "write",
    "requiresApproval": True,
    "inputSchema": {
        "type": "object",
        "description": "The whole.",
        "properties": {
            "required": {"type": "string", "description": "A parameter of that name."},
            "description": {"type": "string", "default": "plain"},
            "risk": {"anyOf": [{"type": "string", "description": "One way."}, {"type": "null"}]},
            "guests": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"é": {"description": 'Ünïcode \\ "quoted"'}},
                    "required": ["é"],
                },
            },
        },
        "required": ["required", "description"],
    },
}
PAYLOAD = {
    "layer": "2_schema_disclosure",
    "disclosed": [TOOL, {"name": "other", "risk": "read", "inputSchema": True}],
    "unauthorized": [],
    "next_step": 'Call it; "risk" is none of yours.',
}
EXPECTED = [
    ("description", compact_json(TOOL["description"])),
    ("risk", '"risk":"write"'),
    ("risk", '"requiresApproval":true'),
    ("description", '"The whole."'),
    ("description", '"A parameter of that name."'),
    ("description", '"One way."'),
    ("description", compact_json('Ünïcode \\ "quoted"')),
    ("required", '["é"]'),
    ("required", '["required","description"]'),
    ("risk", '"risk":"read"'),
]


def parts(content: str) -> list[tuple[str, str]]:
    return [(str(part), content[start:end]) for start, end, part in schema_part_spans(content)]


def test_every_part_is_found_and_nothing_that_looks_like_one() -> None:
    assert parts(compact_json(PAYLOAD)) == EXPECTED


@pytest.mark.parametrize("indent", [None, 2])
def test_spaces_do_not_matter(indent: int | None) -> None:
    spread = json.dumps(PAYLOAD, ensure_ascii=False, indent=indent)
    found = parts(f" {spread}\n")
    assert [part for part, _ in found] == [part for part, _ in EXPECTED]
    values = [text.partition(":")[2] if part == "risk" else text for part, text in found]
    expected = [text.partition(":")[2] if part == "risk" else text for part, text in EXPECTED]
    assert [json.loads(text) for text in values] == [json.loads(text) for text in expected]


@pytest.mark.parametrize(
    "payload", [{}, {"disclosed": {}}, {"disclosed": [1, "a", None]}, {"disclosed": [{}]}]
)
def test_payloads_without_a_schema_have_no_parts(payload: dict[str, Any]) -> None:
    assert parts(compact_json(payload)) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["description", "required", "properties", "items", "anyOf", "risk", "a"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_schema_is_walked_and_spans_stand_in_order(schema: Any) -> None:
    content = compact_json({"disclosed": [{"inputSchema": schema}], "next_step": "x"})
    at = 0
    for start, end, part in schema_part_spans(content):
        assert at <= start < end
        if part is not SchemaPart.RISK:
            json.loads(content[start:end])
        at = end
