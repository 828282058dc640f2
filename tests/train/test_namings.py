"""Preflight under every naming of the meta-tools: good rows pass, a naming that is not theirs fails."""

from __future__ import annotations

from typing import Any

import pytest

from breadcrumbs.gateway.namings import NAMINGS, OWN, Naming
from breadcrumbs.messages import messages_from_dicts
from breadcrumbs.rendering import Segment
from breadcrumbs.train.batches import build_example
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.preflight import examine, preflight
from breadcrumbs.train.serving import most_hits

CONFIG = TrainConfig(data="d", out="o", steps=1)
OTHERS = [naming for naming in NAMINGS.values() if naming is not OWN]


def shown(row: dict[str, Any], naming: Naming) -> dict[str, Any]:
    messages = naming.show(messages_from_dicts(row["messages"]))
    return {
        **row,
        "messages": [message.to_dict() for message in messages],
        "tools": naming.show_tools(row["tools"]),
        "scenario": {"shape": {"naming": naming.name}},
    }


@pytest.mark.parametrize("naming", NAMINGS.values(), ids=lambda naming: naming.name)
def test_rows_pass_and_decide_at_the_same_turn(
    naming: Naming, make_rows: Any, renderer: Any
) -> None:
    rows = make_rows(2, 1)
    named = [shown(row, naming) for row in rows]
    result = preflight(named, renderer, CONFIG)
    assert len(result.examples) == len(rows)
    assert most_hits(named) == most_hits(rows) > 0
    for row, other in zip(rows, named, strict=True):
        examples = [build_example(one, renderer) for one in (row, other)]
        decided = [renderer.tokenizer.decode(e.ids[e.decision : e.decision_end]) for e in examples]
        assert (decided[0] == decided[1]) == (naming is OWN or row["behaviour"] != "dispatch")


@pytest.mark.parametrize("naming", OTHERS, ids=lambda naming: naming.name)
def test_segments_are_the_same_parts(naming: Naming, make_row: Any, renderer: Any) -> None:
    row = shown(make_row(1, "dispatch"), naming)
    rendered = renderer.render(messages_from_dicts(row["messages"]), row["tools"])
    text = {part: "" for part in Segment}
    pieces = zip(rendered.ids, rendered.segments, strict=True)
    for token, segment in pieces:
        text[segment] += renderer.tokenizer.decode([token])
    assert "Put an event on a calendar." in text[Segment.SCHEMA]
    assert "create_event" in text[Segment.CATALOG]
    assert text[Segment.BREADCRUMB].count("next_step") == 2
    assert "next_step" not in text[Segment.SCHEMA] + text[Segment.CATALOG]


@pytest.mark.parametrize("naming", OTHERS, ids=lambda naming: naming.name)
def test_rows_that_say_another_naming_do_not_pass(
    naming: Naming, make_row: Any, renderer: Any
) -> None:
    row = shown(make_row(1, "dispatch"), naming)
    _, faults = examine([{**row, "scenario": {}}], renderer, CONFIG)
    assert "no 2_schema_disclosure payload" in faults[0].reason


@pytest.mark.parametrize("naming", OTHERS, ids=lambda naming: naming.name)
def test_tools_that_are_not_renamed_do_not_pass(
    naming: Naming, make_row: Any, renderer: Any
) -> None:
    row = make_row(1, "dispatch")
    _, faults = examine([{**shown(row, naming), "tools": row["tools"]}], renderer, CONFIG)
    assert f"calls undeclared tool {naming.calls['execute_tool']!r}" in faults[-1].reason
