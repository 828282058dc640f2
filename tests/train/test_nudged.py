"""A stall that is kept for its context is never learned; one that is to be learned is."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from breadcrumbs.train.batches import IGNORED, build_example
from breadcrumbs.train.config import DpoConfig, TrainConfig
from breadcrumbs.train.preflight import examine
from breadcrumbs.train.rows import up_to_decision

CONFIG = TrainConfig(data="d", out="o", steps=1)
STALL, NUDGE = "Would you like me to proceed?", "A tool runs only when it is called."
PLACE = 6  # where the decision turn of a plain row stands


@pytest.fixture
def nudged(make_row: Any) -> Any:
    """A dispatch row with a stall and a nudge before its call, told as the mode tells it."""

    def make(**meta: Any) -> dict[str, Any]:
        row = copy.deepcopy(make_row(1, "dispatch"))
        blank = {"tool_calls": [], "tool_call_id": None}
        row["messages"][PLACE:PLACE] = [
            {"role": "assistant", "content": STALL, "synthetic": False, **blank},
            {"role": "user", "content": NUDGE, "synthetic": True, **blank},
        ]
        return {**row, "meta": meta}

    return make


def learned(row: dict[str, Any], renderer: Any) -> str:
    """The text in the loss."""
    example = build_example(row, renderer)
    ids = [label for label in example.labels if label != IGNORED]
    return str(renderer.tokenizer.decode(ids))


def reasons(row: dict[str, Any], renderer: Any) -> list[str]:
    return [fault.reason for fault in examine([row], renderer, CONFIG)[1]]


MASK = {"nudged": "mask", "stalls": [PLACE], "unlearned": [PLACE]}
KEEP = {"nudged": "keep", "stalls": [PLACE]}


def test_a_masked_stall_lies_outside_the_loss(nudged: Any, renderer: Any) -> None:
    row = nudged(**MASK)
    assert reasons(row, renderer) == []
    example = build_example(row, renderer)
    text = learned(row, renderer)
    assert STALL not in text
    assert NUDGE not in text
    assert '"execute_tool"' in text
    assert '"execute_tool"' in renderer.tokenizer.decode(
        example.ids[example.decision : example.decision_end]
    )
    # the stall is read all the same
    assert STALL in renderer.tokenizer.decode(list(example.ids))


def test_a_kept_stall_is_learned_and_decides(nudged: Any, renderer: Any) -> None:
    """The negative control of the mask: the same row, and its stall is in the loss."""
    row = nudged(**KEEP)
    assert reasons(row, renderer) == []
    example, text = build_example(row, renderer), learned(row, renderer)
    assert STALL in text
    assert NUDGE not in text
    first = {renderer.tokenizer.decode(list(example.ids[at : at + 4])) for at in example.deciding}
    assert any(piece and STALL.startswith(piece) for piece in first)
    masked = build_example(nudged(**MASK), renderer)
    assert len(masked.deciding) == len(example.deciding) - 1


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ({}, "the row does not say what it is for"),
        ({"stalls": [PLACE]}, "the row does not say what it is for"),
        ({"nudged": "mask", "stalls": [PLACE]}, "a stall that is to be masked is in the loss"),
    ],
)
def test_a_stall_in_the_loss_by_mistake_stops_the_run(
    nudged: Any, renderer: Any, meta: dict[str, Any], words: str
) -> None:
    assert any(words in reason for reason in reasons(nudged(**meta), renderer))


def test_a_row_cut_at_its_decision_ends_with_the_call(nudged: Any) -> None:
    for meta in (MASK, KEEP):
        cut = up_to_decision(nudged(**meta))["messages"]
        assert len(cut) == PLACE + 3
        assert cut[-1]["tool_calls"][0]["name"] == "execute_tool"


def test_a_pair_of_a_nudged_row_passes_its_preflight(renderer: Any, small_config: Any) -> None:
    """Its prompt ends before the stall, so the row's own marks do not fit it."""
    import dataclasses
    import tempfile
    from pathlib import Path

    from breadcrumbs.data_gen.generate import generate
    from breadcrumbs.train.pairs import preflight_pairs, read_pairs

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "set"
        config = dataclasses.replace(small_config, corrected_share=1.0, nudged="mask")
        generate(config, data, lambda done, total, note="": None)
        settings = DpoConfig(data=str(data), out="o", adapter="a", steps=1)
        pairs = read_pairs(settings)
        assert any(pair.row.source == "nudged" for pair in pairs)
        assert len(preflight_pairs(pairs, renderer, settings)) == len(pairs)
