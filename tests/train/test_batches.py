from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.attention import branches_of
from breadcrumbs.errors import DataError
from breadcrumbs.messages import Message, messages_from_dicts
from breadcrumbs.train.batches import (
    GRAIN,
    IGNORED,
    TwinSampler,
    build_example,
    common_beginning,
    decision_message,
    pack_rows,
    pad_rows,
    to_dataset,
    twin_order,
)


def batches_of(order: list[int], size: int) -> list[list[int]]:
    return [order[at : at + size] for at in range(0, len(order), size)]


@given(
    st.lists(st.integers(1, 2), max_size=30),
    st.sampled_from([2, 4, 8]),
    st.integers(0, 5),
)
def test_order_is_a_permutation_that_keeps_twins_together(
    sizes: list[int], batch_rows: int, seed: int
) -> None:
    twins = [f"t{n}" for n, size in enumerate(sizes) for _ in range(size)]
    order = twin_order(twins, batch_rows, seed)
    assert sorted(order) == list(range(len(twins)))
    assert order == twin_order(twins, batch_rows, seed)
    full = [b for b in batches_of(order, batch_rows) if len(b) == batch_rows]
    parted = 0
    for batch in full:
        for index in batch:
            partners = {i for i, twin in enumerate(twins) if twin == twins[index]}
            parted += not partners <= set(batch)
    assert parted <= 2  # at most one pair, where the rest of the epoch did not come out even
    if batch_rows == 2:
        assert parted == 0


def test_epochs_and_seeds_give_other_orders() -> None:
    twins = [f"t{n // 2}" for n in range(40)]
    sampler = TwinSampler(twins, 2, seed=3)
    first = list(sampler)
    sampler.set_epoch(1)
    assert list(sampler) != first
    sampler.set_epoch(0)
    assert list(sampler) == first
    assert twin_order(twins, 2, 3) != twin_order(twins, 2, 4)
    assert len(sampler) == 40


@pytest.mark.parametrize(("behaviour", "index"), [("dispatch", 6), ("clarify", 6), ("decline", 4)])
def test_the_decision_is_the_turn_behind_the_payload(
    make_row: Any, behaviour: str, index: int
) -> None:
    messages = messages_from_dicts(make_row(1, behaviour)["messages"])
    assert decision_message(messages, behaviour, "create_event") == index


def test_a_row_without_its_schema_has_no_decision(make_row: Any) -> None:
    messages = messages_from_dicts(make_row(1, "dispatch")["messages"])
    with pytest.raises(DataError, match="no 2_schema_disclosure payload for 'other'"):
        decision_message(messages, "dispatch", "other")
    with pytest.raises(DataError, match="no assistant turn after"):
        decision_message([*messages[:6], Message("user", "?")], "dispatch", "create_event")


def test_an_example_marks_the_decision_turn(make_row: Any, renderer: Any) -> None:
    example = build_example(make_row(1, "clarify"), renderer)
    turn = renderer.tokenizer.decode(list(example.ids[example.decision : example.decision_end]))
    assert turn == "When does review 1 start?<|im_end|>"
    assert example.labels[example.decision - 1] == IGNORED
    with pytest.raises(DataError, match="behaviour 'stall'"):
        build_example(make_row(1, "clarify") | {"behaviour": "stall"}, renderer)


def test_a_turn_that_thinks_decides_at_each_fork_and_behind_it(
    make_row: Any, renderer: Any
) -> None:
    row = make_row(1, "clarify")
    draft = '{"title": "Review é 1}; start ok"}'  # the value looks like an end and a verdict
    content = f"<think>{draft}; title ok; start missing</think>\nWhen does it start?"
    row = {**row, "messages": [*row["messages"][:6], {**row["messages"][6], "content": content}]}
    example = build_example(row, renderer)
    ids, decode = list(example.ids), renderer.tokenizer.decode
    search, schema, opens, *others = example.deciding
    assert example.labels[search - 1] == example.labels[schema - 1] == IGNORED
    assert search < schema < example.decision
    assert "{" in decode([ids[opens]])
    marks = (
        ('<think>{"', "title"),  # which argument
        ('{"title', '"'),  # the name ends here
        ('"title":', ' "'),  # text or literal
        (' "', "Review"),  # which value
        ('; start ok"', "}"),  # goes on or ends
        ('"}; title', " "),
        ("title ok", ";"),
        (" ok; start", " "),
        ("start missing", "<"),
        ("</think>", "W"),
    )
    for at, (before, first) in zip(others, marks, strict=True):
        assert decode(ids[example.decision : at]).rstrip("\n").endswith(before)
        assert decode([ids[at]]).startswith(first)
    plain = build_example(make_row(1, "clarify"), renderer)
    assert plain.deciding == (search, schema, plain.decision)


def test_the_arguments_of_a_call_decide_as_their_draft_does(make_row: Any, renderer: Any) -> None:
    row = make_row(1, "dispatch")
    arguments = {"title": "Review", "notify": True}
    call = {"tool_name": "add_reminder", "arguments": arguments}
    turn = row["messages"][6]
    turn = {**turn, "content": f"<think>{json.dumps(arguments)}; title ok</think>"}
    turn["tool_calls"] = [{**turn["tool_calls"][0], "name": "execute_tool", "arguments": call}]
    example = build_example({**row, "messages": [*row["messages"][:6], turn]}, renderer)
    ids, decode = list(example.ids), renderer.tokenizer.decode
    behind = [at for at in example.deciding if "</think>" in decode(ids[example.decision : at])]
    texts = [decode(ids[example.decision : at]).rpartition('"arguments":')[2] for at in behind[1:]]
    assert [text.strip() for text in texts] == [
        "",
        '{"',
        '{"title',
        '{"title":',
        '{"title": "',
        '{"title": "Review',
        '{"title": "Review", "',
        '{"title": "Review", "notify',
        '{"title": "Review", "notify":',
        '{"title": "Review", "notify": true',
    ]


def test_rows_are_padded_on_the_right_without_a_mask(make_rows: Any, renderer: Any) -> None:
    examples = [build_example(row, renderer) for row in make_rows(1)]
    batch = pad_rows(list(to_dataset(examples)), pad_id=0)
    assert set(batch) == {
        "input_ids",
        "position_ids",
        "labels",
        "deciding",
        "deciding_row",
        "behaviour",
        "row",
    }
    longest = max(len(example.ids) for example in examples)
    assert batch["input_ids"].shape == batch["labels"].shape == (2, longest)
    for number, example in enumerate(examples):
        length = len(example.ids)
        assert batch["input_ids"][number, :length].tolist() == list(example.ids)
        assert set(batch["labels"][number, length:].tolist()) <= {IGNORED}
    assert batch["behaviour"].tolist() == [0, 1]


def test_packed_rows_keep_every_label_and_share_what_they_can(
    make_rows: Any, renderer: Any
) -> None:
    examples = [build_example(row, renderer) for row in make_rows(1)]
    rows = list(to_dataset(examples))
    shared = common_beginning(rows) // GRAIN * GRAIN
    assert shared > 100  # system prompt and tools
    batch = pack_rows(rows)
    first, second = (-(-len(example.ids) // GRAIN) * GRAIN for example in examples)
    total = first + second - shared
    assert batch["input_ids"].shape == batch["labels"].shape == (1, total)
    kept = [token for token in batch["labels"][0].tolist() if token != IGNORED]
    assert kept == [label for e in examples for label in e.labels if label != IGNORED]
    tokens = batch["input_ids"].view(-1)[batch["deciding"]].tolist()
    assert batch["deciding_row"].tolist() == [n for n in (0, 1) for _ in examples[n].deciding]
    assert tokens == [example.ids[at] for example in examples for at in example.deciding]
    assert branches_of(batch["position_ids"]) == (
        ((shared, first), (first, total)),
        shared,
    )


def test_a_row_alone_has_no_branches(make_rows: Any, renderer: Any) -> None:
    examples = [build_example(row, renderer) for row in make_rows(1)]
    batch = pack_rows(list(to_dataset(examples))[:1])
    assert branches_of(batch["position_ids"]) == ((), 0)


def test_equal_rows_share_nothing_that_is_trained() -> None:
    row = {"input_ids": [5, 6, 7, 8], "labels": [-100, -100, 7, 8]}
    assert common_beginning([row, row]) == 1  # token 6 predicts the first label: each needs its own
