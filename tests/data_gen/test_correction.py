"""Cutting stalls and nudges: what is left is whole, alternates, and does the same."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.data_gen.correction import Correction, correct, cut_stalls, reissue_ids
from breadcrumbs.data_gen.episodes import OraclePolicy, run_episode
from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.origin import origin_scenario
from breadcrumbs.data_gen.stalls import StallKind
from breadcrumbs.data_gen.verify import effect_difference, format_fault
from breadcrumbs.errors import DataError
from breadcrumbs.events import Nudge
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.messages import Message, ToolCall

CATALOG, HINTS = load_catalog(), load_hints()
SETTINGS = GatewaySettings(max_hits=2)
ORIGIN = origin_scenario(CATALOG, HINTS)
SPEC, HINT = CATALOG.tools[ORIGIN.tool], HINTS[ORIGIN.tool]
KINDS: tuple[StallKind, ...] = get_args(StallKind)
PAYLOAD = '{"layer":"1_catalog","next_step":"x"}'


@st.composite
def nudged(draw: st.DrawFn) -> tuple[list[Message], list[Message]]:
    """A conversation with stalls, and the same one without; ids are drawn anew."""
    messages = [Message("system", "s"), Message("user", "u")]
    clean = list(messages)
    for number in range(draw(st.integers(1, 5))):
        for _ in range(draw(st.integers(0, 2))):
            messages.append(Message("assistant", draw(st.text(max_size=9))))
            messages.append(Message("user", "nudge", synthetic=True))
        ids = [
            f"x{draw(st.integers(0, 10**6))}_{number}_{i}" for i in range(draw(st.integers(1, 2)))
        ]
        turn = [Message("assistant", "", tuple(ToolCall(i, "f", {}) for i in ids))]
        turn += [Message("tool", PAYLOAD, tool_call_id=i) for i in ids]
        messages += turn
        clean += turn
    last = Message("assistant", "done")
    return [*messages, last], [*clean, last]


@given(nudged())
def test_cutting_leaves_exactly_the_turns_without_stalls(
    pair: tuple[list[Message], list[Message]],
) -> None:
    with_stalls, clean = pair
    left = cut_stalls(with_stalls)
    assert left == clean
    assert cut_stalls(left) == left
    renamed = reissue_ids(left)
    assert format_fault(renamed) is None
    assert reissue_ids(renamed) == renamed
    ids = [call.id for message in renamed for call in message.tool_calls]
    assert ids == [f"call_{number}" for number in range(1, len(ids) + 1)]
    assert [m.content for m in renamed] == [m.content for m in left]


def test_a_nudge_without_a_stall_is_an_error() -> None:
    nudge = Message("user", "nudge", synthetic=True)
    call = Message("assistant", "", (ToolCall("a", "f", {}),))
    for before in ([Message("user", "u")], [call], []):
        with pytest.raises(DataError, match="without a stall"):
            cut_stalls([*before, nudge])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_stall_is_caught_cut_and_replayed(kind: StallKind) -> None:
    caught = 0
    for seed in range(6):
        scenario = dataclasses.replace(ORIGIN, seed=seed)
        found = asyncio.run(correct(scenario, SPEC, HINT, CATALOG, SETTINGS, kind))
        if not isinstance(found, Correction):
            assert found == "correction: the radar let the stall pass"
            continue
        caught += 1
        assert [type(e) for e in found.nudged.events].count(Nudge) == 1
        assert any(m.content == found.stall for m in found.nudged.messages)
        said = "\n".join(m.content for m in found.episode.messages)
        assert found.stall not in said
        assert found.nudge not in said
        assert not any(m.synthetic for m in found.episode.messages)
        assert effect_difference(found.nudged, found.episode) is not None  # messages differ
        oracle = asyncio.run(run_episode(scenario, CATALOG, SETTINGS, OraclePolicy(scenario, SPEC)))
        assert effect_difference(oracle, found.episode) is None
    # asking for a title one should word oneself is beyond the radar's rules; better missed
    assert caught >= (2 if kind == "inferable_value_ask" else 5)


def test_what_was_not_known_before_the_nudge_is_no_correction() -> None:
    unsaid = dataclasses.replace(
        ORIGIN, composed={}, gold_arguments={"title": "Call the plumber", "message": "Call him"}
    )
    found = asyncio.run(correct(unsaid, SPEC, HINT, CATALOG, SETTINGS, "permission_ask"))
    assert found == "correction: not everything was known before the nudge"


def test_the_stall_itself_is_reproducible() -> None:
    first, second = (
        asyncio.run(correct(ORIGIN, SPEC, HINT, CATALOG, SETTINGS, "param_dump")) for _ in range(2)
    )
    assert isinstance(first, Correction)
    assert isinstance(second, Correction)
    assert first.stall == second.stall
    assert first.episode == second.episode


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_without_parameters_is_never_asked_about_one(kind: StallKind) -> None:
    spec = ToolSpec("ring_bell", "", {"type": "object", "properties": {}}, Risk.READ, "sea")
    spec = dataclasses.replace(spec, requires_approval=False)
    catalog = Catalog({spec.name: spec})
    scenario = dataclasses.replace(
        ORIGIN,
        tool="ring_bell",
        domain="sea",
        request="Please ring the bell.",
        search_query="ring bell",
        gold_arguments={},
        composed={},
        sources={},
    )
    hint = ToolHint(("ring bell",), ("ring the bell",))
    found = asyncio.run(correct(scenario, spec, hint, catalog, SETTINGS, kind))
    assert isinstance(found, Correction)
    assert found.kind not in ("param_dump", "inferable_value_ask")
