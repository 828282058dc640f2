"""Preference pairs: both directions, and a wrong side that is wrong in this conversation."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from breadcrumbs.cli import main
from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.pairs import HASTY, INVENTED, exported_pair, pairs_of
from breadcrumbs.messages import Message
from breadcrumbs.openai_wire import ChatRequest, messages_in
from breadcrumbs.radar import Radar, situation_of


@pytest.fixture(scope="module")
def folder(small_config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pairs") / "set"
    generate(small_config, out, lambda done, total, note="": None)
    return out


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return load_rows(folder, "train")


def test_both_directions_have_a_pair_and_the_rest_is_counted(rows: list[Row]) -> None:
    pairs, without = pairs_of(rows)
    assert [pair.row.id for pair in pairs] == [r.id for r in rows if r.behaviour != "decline"]
    assert without == {"decline: has no opposite": 2}
    for pair in pairs:
        calls = pair.chosen.tool_calls, pair.rejected.tool_calls
        assert [bool(found) for found in calls] == (
            [False, True] if pair.fault == INVENTED else [True, False]
        )


def test_a_stall_is_one_to_the_radar_and_parts_behind_the_thought(rows: list[Row]) -> None:
    for pair in pairs_of(rows)[0]:
        if pair.fault == INVENTED:
            continue
        thought, _, said = pair.rejected.content.partition("</think>\n")
        assert pair.chosen.content == f"{thought}</think>"
        stall = Radar().classify(said, situation_of(pair.prompt))
        assert stall is not None
        assert stall.kind == pair.fault


def test_an_invented_value_stands_nowhere_in_the_conversation(rows: list[Row]) -> None:
    asking = [pair for pair in pairs_of(rows)[0] if pair.fault == INVENTED]
    assert len(asking) == 8
    for pair in asking:
        passed = pair.rejected.tool_calls[0].arguments["arguments"]
        for name in pair.row.scenario.missing:
            assert name in passed
            assert not any(str(passed[name]) in message.content for message in pair.prompt)


def test_a_value_that_is_said_after_all_gives_no_pair(rows: list[Row]) -> None:
    asking = next(row for row in rows if row.behaviour == "clarify")
    twin = next(row for row in rows if row.twin == asking.twin and row.behaviour == "dispatch")
    value = next(iter(asking.scenario.withheld.values()))
    spoiled = tuple(
        dataclasses.replace(m, content=f"{m.content} {value}") if m.role == "user" else m
        for m in asking.messages
    )
    said = dataclasses.replace(asking, messages=spoiled)
    assert pairs_of([said, twin])[1] == {"clarify: the missing value is said": 1}
    assert pairs_of([asking, twin])[1] == {}
    assert pairs_of([asking])[1] == {"clarify: its twin is not among the rows": 1}


def test_a_real_stall_that_was_kept_is_the_wrong_side(rows: list[Row]) -> None:
    row = next(row for row in rows if row.behaviour == "dispatch")
    real = dataclasses.replace(row, meta={"said": "Shall I?", "stall": "permission_ask"})
    (pair,), _ = pairs_of([real])
    assert (pair.rejected, pair.fault) == (Message("assistant", "Shall I?"), "permission_ask")


def test_where_somebody_says_to_wait_the_twins_call_is_the_wrong_side(
    small_config: GenerateConfig, tmp_path: Path
) -> None:
    config = dataclasses.replace(small_config, kinds={"hold": 3, "policy": 2})
    generate(config, tmp_path / "set", lambda done, total, note="": None)
    pairs, _ = pairs_of(load_rows(tmp_path / "set", "train"))
    hasty = [pair for pair in pairs if pair.fault == HASTY]
    assert {pair.row.behaviour for pair in hasty} == {"hold"}
    assert len(hasty) == 5
    for pair in hasty:
        assert not pair.chosen.tool_calls
        (call,) = pair.rejected.tool_calls
        assert call.arguments["tool_name"] == pair.row.scenario.tool


def test_the_command_writes_what_a_preference_trainer_reads(
    folder: Path, rows: list[Row], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "pairs.jsonl"
    main(["data", "pairs", str(folder), "--split", "train", "--out", str(out)])
    assert "16 pairs written" in capsys.readouterr().out
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert lines == [exported_pair(pair) for pair in pairs_of(rows)[0]]
    for line, pair in zip(lines, pairs_of(rows)[0], strict=True):
        whole = {"model": "m", "messages": line["prompt"] + line["chosen"]}
        messages = messages_in(ChatRequest.model_validate(whole))
        assert messages == [*pair.prompt, pair.chosen]
        assert len(line["chosen"]) == len(line["rejected"]) == 1
