"""Pairs become token ids: the sides part where call and stall do, and pieces move whole."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.data_gen.pairs import Pair
from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.decision_points import (
    DecisionPoint,
    dispatch_pairs,
    inserted,
    moved,
    neutral_prose,
    nudged,
    point_of,
    random_span,
    replaced,
    span_of_mass,
    without,
)
from breadcrumbs.rendering import Renderer, load_renderer
from breadcrumbs.segments import LOCAL_TOKENS, Segment


@pytest.fixture(scope="module")
def pairs(small_data: Path) -> list[Pair]:
    return dispatch_pairs(small_data, "held_out_tools", 2)


@pytest.fixture(scope="module")
def renderer(tiny_model_folder: Path) -> Renderer:
    return load_renderer(tiny_model_folder)


@pytest.fixture(scope="module")
def point(pairs: list[Pair], renderer: Renderer) -> DecisionPoint:
    return point_of(pairs[0], renderer, thought=True)


def decoded(renderer: Renderer, ids: Any) -> str:
    return str(renderer.tokenizer.decode(list(ids)))


def test_both_sides_go_on_behind_the_forced_thought(
    pairs: list[Pair], point: DecisionPoint, renderer: Renderer
) -> None:
    text = decoded(renderer, point.ids)
    thought = pairs[0].chosen.content
    assert text.endswith(f"{thought}\n")
    assert text.startswith(renderer.prompt_text(pairs[0].prompt, pairs[0].row.shown_tools)[:200])
    (call,) = point.openers.call
    assert renderer.call_format.opener.startswith(decoded(renderer, [call]))
    assert call not in point.openers.prose
    opener = decoded(renderer, point.call)
    assert opener.startswith(renderer.call_format.opener)
    assert renderer.call_format.opener not in decoded(renderer, point.call[:-1])
    stall = pairs[0].rejected.content.removeprefix(thought).strip()
    assert any(stall.startswith(decoded(renderer, [one])) for one in point.openers.prose)


def test_without_the_thought_the_prompt_itself_decides(
    pairs: list[Pair], renderer: Renderer
) -> None:
    bare = point_of(pairs[0], renderer, thought=False)
    assert list(bare.ids) == renderer.prompt_ids(pairs[0].prompt, pairs[0].row.shown_tools)


def test_segments_cover_the_forced_tokens_too(point: DecisionPoint, renderer: Renderer) -> None:
    assert len(point.segments) == len(point.ids)
    near = point.segments[-LOCAL_TOKENS:]
    assert set(near) == {Segment.LOCAL}
    assert Segment.LOCAL not in point.segments[:-LOCAL_TOKENS]
    assert point.segments[-LOCAL_TOKENS - 1] == Segment.ASSISTANT
    crumb = decoded(renderer, [point.ids[at] for at in point.last_run(Segment.BREADCRUMB)])
    assert "execute_tool" in crumb
    assert "get_tool_schema" not in crumb, "that of the catalog is another run"
    flags = decoded(renderer, [point.ids[at] for at in point.risk])
    assert "risk" in flags
    assert "requiresApproval" in flags
    assert not set(point.others()) & set(point.positions(Segment.SCHEMA, Segment.STEERING))


def test_a_nudge_stands_behind_the_stall(pairs: list[Pair], renderer: Renderer) -> None:
    messages = nudged(pairs[0])
    assert messages is not None
    assert [m.role for m in messages[-2:]] == ["assistant", "user"]
    point = point_of(pairs[0], renderer, thought=True, messages=messages)
    text = decoded(renderer, [point.ids[at] for at in point.positions(Segment.NUDGE)])
    assert "A tool runs only when it is called" in text


def test_more_pairs_than_there_are_is_one_line(small_data: Path) -> None:
    with pytest.raises(ProbeError, match="lower `prompts` or generate more"):
        dispatch_pairs(small_data, "held_out_tools", 10_000)


def test_pieces_move_whole() -> None:
    ids = list(range(10))
    assert moved(ids, (7, 8), 2) == [0, 1, 7, 8, 2, 3, 4, 5, 6, 9]
    assert moved(ids, (2, 3), 6) == [0, 1, 4, 5, 2, 3, 6, 7, 8, 9]
    assert without(ids, (0, 9)) == ids[1:9]
    assert replaced(ids, range(2, 4), [7, 7]) == [0, 1, 7, 7, 4, 5, 6, 7, 8, 9]


def test_what_was_put_in_is_found_with_its_seam() -> None:
    found = inserted([1, 2, 3, 4], [1, 2, 8, 9, 3, 4])
    assert (found.short, found.long) == (range(2, 2), range(2, 4))
    assert found.there((0, 1, 2, 3)) == (0, 1, 4, 5)
    seam = inserted([1, 2, 3, 4], [1, 2, 8, 9, 4])
    assert (seam.short, seam.long) == (range(2, 3), range(2, 4))
    assert seam.there((1, 2, 3)) == (1, 4)
    with pytest.raises(ProbeError, match="raise schema_tokens"):
        inserted([1, 2, 3], [1, 2, 3])
    with pytest.raises(ProbeError, match="raise schema_tokens"):
        inserted(list(range(30)), list(range(100, 160)))


def test_placebo_spans_have_the_length_or_the_mass_asked_for() -> None:
    pool = [*range(0, 50), *range(70, 100)]
    rng = random.Random(0)
    spans = {random_span(pool, 7, rng) for _ in range(40)}
    assert len(spans) > 10
    assert all(len(span) == 7 and set(span) <= set(pool) for span in spans)
    assert random_span(pool[:3], 7, rng) == (0, 1, 2)
    mass = [0.01] * 100
    for wanted in (0.05, 0.2):
        span = span_of_mass(pool, wanted, mass, rng)
        assert len(span) * 0.01 == pytest.approx(wanted, abs=0.011)
    assert len(span_of_mass(pool, 9.0, mass, rng)) > 40, "all there is where it is not enough"


def test_neutral_prose_has_the_length_asked_for_and_is_the_same_twice(renderer: Renderer) -> None:
    one = neutral_prose(123, renderer, random.Random(4))
    assert len(one) == 123
    assert one == neutral_prose(123, renderer, random.Random(4))
    assert one != neutral_prose(123, renderer, random.Random(5))
    assert "tool" not in decoded(renderer, one)
