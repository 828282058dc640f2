"""Where values come from: said, defaulted, read from a result, worded, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.data_gen.grounding import absent, ground, normalise, says, worded_well
from breadcrumbs.data_gen.hints import Composed, ToolHint
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.messages import Message, compact_json


def _talk(request: str, *others: Message) -> list[Message]:
    return [Message("system", "Now: 2026-03-02T09:00."), Message("user", request), *others]


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        ("Budget sync", "called 'budget  Sync'", True),
        ("Budget sync", "the budget and then a sync", False),
        (25, "for 25.0 minutes", True),
        (25, "for 250 minutes", False),
        (25.5, "over 25.50", True),
        (9, "at 09:30", False),
        ("2026-03-05T14:00", "at 2026-03-05 14:00", True),
        ("2026-03-05", "on 2026-03-06", False),
        ("in_progress", "which are in progress", True),
        (["a@example.com", "b@example.com"], "invite b@example.com and a@example.com", True),
        (["a@example.com", "b@example.com"], "invite a@example.com", False),
        ({"city": "Oslo", "zip": 150}, "in Oslo, 150", True),
        ([], "nothing at all", False),
    ],
)
def test_a_value_is_said_as_whole_words(value: Any, text: str, expected: bool) -> None:
    assert says(normalise(text), value, {}) is expected


def test_every_source_is_told_apart(
    small_catalog: Catalog, small_hints: Mapping[str, ToolHint]
) -> None:
    spec = small_catalog.tools["create_calendar_event"]
    result = compact_json({"layer": "3_execution", "result": {"room": "Hall Seven"}})
    schema = compact_json({"layer": "2_schema_disclosure", "disclosed": [{"name": "Studio Two"}]})
    talk = _talk(
        "Book it, called 'Retro', and make it private.",
        Message("tool", schema, tool_call_id="call_1"),
        Message("tool", result, tool_call_id="call_2"),
        Message("user", "The duration is 45.", synthetic=True),
    )
    arguments = {
        "title": "Retro",
        "start": "2026-03-02T09:00",
        "location": "Hall Seven",
        "duration_minutes": 45,
        "calendar": "work",
        "private": True,
    }
    hints = small_hints["create_calendar_event"].arguments
    assert ground(spec, arguments, talk, hints=hints) == {
        "title": "user",
        "start": "system",
        "location": "tool_result",
        "duration_minutes": None,  # a nudge grounds nothing
        "calendar": "default",
        "private": "user",
    }
    only_disclosed = ground(spec, {"location": "Studio Two"}, talk)
    assert only_disclosed == {"location": None}  # a schema's words ground nothing


def test_composed_text_is_judged_by_its_facts(small_catalog: Catalog) -> None:
    facts = Composed("Merge and report", must=("merge", "report"), must_not=("deploy",))
    assert worded_well("Please merge, then update the REPORT", facts)
    assert not worded_well("Please merge", facts)
    assert not worded_well("merge, report and deploy", facts)
    assert not worded_well(7, facts)
    spec = small_catalog.tools["add_reminder"]
    found = ground(spec, {"title": "x"}, _talk("x"), composed={"title": facts})
    assert found == {"title": None}  # said, but not what the request is about


def test_no_allowed_value_may_be_said_of_a_missing_choice(
    small_catalog: Catalog, small_hints: Mapping[str, ToolHint]
) -> None:
    spec = small_catalog.tools["create_calendar_event"]
    hints = small_hints["create_calendar_event"].arguments
    assert absent(spec, "calendar", "home", ["put it on my calendar"])
    assert not absent(spec, "calendar", "home", ["a team event"])
    assert absent(spec, "private", True, ["an event"], hints["private"])
    assert not absent(spec, "private", True, ["visible to everyone"], hints["private"])


@given(st.text(max_size=80), st.text(max_size=80), st.text(max_size=80))
def test_a_word_or_number_is_found_wherever_it_stands(before: str, word: str, after: str) -> None:
    text = normalise(f"{before} | {word} | {after}")
    assert not normalise(word).strip() or says(text, word, {})
    assert normalise(text) == text
