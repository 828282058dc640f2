"""Twins in which a complete call is wrong: somebody says to wait, or only asks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.pairs import HASTY, pairs_of
from breadcrumbs.data_gen.stats import decision_of, decisions
from breadcrumbs.data_gen.verify import decision_messages, grounding_fault, thinking_fault
from breadcrumbs.gateway.catalog import Catalog, Risk, load_catalog
from breadcrumbs.messages import Message
from breadcrumbs.radar import Radar, situation_of
from breadcrumbs.train.batches import decision_message

SMALL = Path(__file__).parent / "small"
CATALOGS = tuple(str(SMALL / name) for name in ("calendar.yaml", "bank.yaml", "travel.yaml"))
HINTS = tuple(str(path) for path in sorted(SMALL.glob("hints_*.yaml")))
CONFIG = GenerateConfig(
    catalogs=CATALOGS,
    hints=HINTS,
    held_out_tools=("create_calendar_event",),
    held_out_domain="travel",
    train=Amount(pairs=4, holds=5, confirms=4, answers=3),
    eval_tools=Amount(pairs=1),
    eval_domain=Amount(pairs=1, holds=1),
)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    out = tmp_path_factory.mktemp("kinds") / "set"
    generate(CONFIG, out, lambda done, total, note="": None)
    return load_rows(out)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog(CATALOGS)


@pytest.fixture(scope="module")
def hints() -> dict[str, ToolHint]:
    return dict(load_hints(HINTS))


def kind(row: Row) -> str:
    return row.id.rsplit("-", 1)[1]


def one(rows: list[Row], name: str) -> Row:
    return next(row for row in rows if kind(row) == name)


def fault(row: Row, catalog: Catalog, hints: dict[str, ToolHint]) -> str | None:
    spec = catalog.tools[row.scenario.tool]
    return grounding_fault(row.scenario, spec, hints[spec.name], row.messages)


def respoken(row: Row, old: str, new: str) -> Row:
    """The row with something else said, in its messages and its scenario."""
    messages = tuple(
        dataclasses.replace(m, content=m.content.replace(old, new)) if m.role != "tool" else m
        for m in row.messages
    )
    request = row.scenario.request.replace(old, new)
    scenario = dataclasses.replace(row.scenario, request=request)
    return dataclasses.replace(row, messages=messages, scenario=scenario)


def test_as_many_as_asked_for_beside_a_dispatch_of_the_same_blueprint(rows: list[Row]) -> None:
    train = [row for row in rows if row.split == "train"]
    found = Counter(kind(row) for row in train)
    assert (found["hold"], found["confirm"], found["answer"], found["clarify"]) == (5, 4, 3, 4)
    assert found["dispatch"] == 5 + 4 + 3 + 4
    for row in train:
        if row.behaviour in ("hold", "answer"):
            twins = [other for other in train if other.twin == row.twin]
            assert [other.behaviour for other in twins] == ["dispatch", row.behaviour]


def test_the_right_turn_calls_nothing_and_is_no_stall(rows: list[Row], catalog: Catalog) -> None:
    radar = Radar()
    for row in rows:
        if row.behaviour not in ("hold", "answer"):
            continue
        before = decision_messages(row.messages)
        (turn,) = row.messages[len(before) :]
        assert not turn.tool_calls
        assert radar.classify(row.scenario.reply, situation_of(before)) is None, row.scenario.reply
        assert decision_message(row.messages, row.behaviour, row.scenario.tool) == len(before)
        assert decision_of(row) == row.behaviour
        if row.behaviour == "hold":
            assert catalog.tools[row.scenario.tool].risk is not Risk.READ
            assert row.meta["queue"] == []


def test_calls_and_turns_without_one_are_counted(rows: list[Row]) -> None:
    found = decisions([row for row in rows if row.split == "train"])["train"]
    assert found["act_per_ask"] == 1.0
    assert (found["ask"], found["hold"], found["answer"]) == (4, 9, 3)


def test_without_the_words_the_label_is_wrong(
    rows: list[Row], catalog: Catalog, hints: dict[str, ToolHint]
) -> None:
    for name in ("hold", "confirm", "answer", "dispatch", "clarify"):
        assert fault(one(rows, name), catalog, hints) is None
    hold, confirm = one(rows, "hold"), one(rows, "confirm")
    twin = next(r for r in rows if r.twin == hold.twin and r.behaviour == "dispatch")
    said = hold.scenario.request.removeprefix(twin.scenario.request)
    nobody = "grounding: hold is labelled, but nobody says to wait"
    assert fault(respoken(hold, said, ""), catalog, hints) == nobody
    policy = confirm.scenario.system_prompt.splitlines()[-1]
    assert fault(respoken(confirm, policy, ""), catalog, hints) == nobody
    answer = one(rows, "answer")
    asked = respoken(answer, answer.scenario.request, twin.scenario.request)
    assert fault(asked, catalog, hints) == (
        "grounding: answer is labelled, but the request is more than a question"
    )


@pytest.mark.parametrize("name", ["dispatch", "clarify"])
def test_a_call_or_a_question_is_wrong_where_somebody_says_to_wait(
    rows: list[Row], catalog: Catalog, hints: dict[str, ToolHint], name: str
) -> None:
    row = one(rows, name)
    waiting = respoken(row, row.scenario.request, f"{row.scenario.request} Don't run it yet.")
    reason = f"grounding: {name} is labelled, but somebody says to wait"
    assert fault(waiting, catalog, hints) == reason


def test_the_thought_says_that_it_holds_and_only_then(rows: list[Row], catalog: Catalog) -> None:
    reason = "thinking: it holds where it should not, or does not"
    for name, old, new in (("hold", "; hold</", "</"), ("dispatch", "</think>", "; hold</think>")):
        row = one(rows, name)
        spec = catalog.tools[row.scenario.tool]
        assert thinking_fault(row.scenario, spec, row.messages) is None
        spoiled = respoken(row, old, new)
        assert thinking_fault(spoiled.scenario, spec, spoiled.messages) == reason


def test_a_held_call_is_a_pair_against_the_call_of_its_twin(rows: list[Row]) -> None:
    train = [row for row in rows if row.split == "train"]
    pairs, without = pairs_of(train)
    assert without == {"answer: has no opposite": 3}
    hasty = [pair for pair in pairs if pair.fault == HASTY]
    assert len(hasty) == 9
    for pair in hasty:
        assert isinstance(pair.chosen, Message)
        assert not pair.chosen.tool_calls
        assert pair.rejected.tool_calls
