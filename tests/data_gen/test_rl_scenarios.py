"""Scenarios for training by reward: read back, rebuilt, and run at the gateway to the same end."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.episodes import OraclePolicy, queue_of, run_episode
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.nudged import stalled_turns
from breadcrumbs.data_gen.pairs import pairs_of
from breadcrumbs.data_gen.rl_scenarios import Worlds, read_scenarios, write_scenarios
from breadcrumbs.data_gen.scenarios import scenario_from_dict
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.identity import SeededIds
from breadcrumbs.loop import LoopSettings, run
from breadcrumbs.messages import Message


@pytest.fixture(scope="module")
def folder(small_config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All behaviours, made-up tools, and every training call from a nudged episode."""
    out = tmp_path_factory.mktemp("scenarios") / "set"
    config = dataclasses.replace(
        small_config,
        corrected_share=1.0,
        nudged="mask",
        practice_pairs=2,
        kinds={"hold": 1, "question": 1},
    )
    generate(config, out, lambda done, total, note="": None)
    return out


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return load_rows(folder)


@pytest.fixture(scope="module")
def records(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    out = tmp_path_factory.mktemp("file") / "scenarios.parquet"
    written = json.loads(json.dumps(write_scenarios(folder, out)))
    assert read_scenarios(out) == written
    return read_scenarios(out)


def test_a_scenario_shows_what_was_asked_and_nothing_that_was_answered(
    records: list[dict[str, Any]], rows: list[Row]
) -> None:
    assert [record["id"] for record in records] == [row.id for row in rows]
    for record, row in zip(records, rows, strict=True):
        system, user = row.messages[:2]
        assert (record["system"], record["user"]) == (system.content, user.content)
        assert record["prompt"] == [{"role": m.role, "content": m.content} for m in (system, user)]
        assert (record["behaviour"], record["tool"]) == (row.behaviour, row.scenario.tool)
        assert scenario_from_dict(record["scenario"]) == row.scenario


def test_every_scenario_can_be_rebuilt_and_run_to_the_expected_end(
    records: list[dict[str, Any]],
) -> None:
    worlds = Worlds()
    behaviours = set()
    for record in records:
        scenario, rebuilt = worlds.rebuilt(record)
        catalog = rebuilt.catalog_of(scenario)
        spec = catalog.tool(record["tool"])
        assert spec is not None
        policy = OraclePolicy(scenario, spec)
        again = asyncio.run(run_episode(scenario, catalog, rebuilt.settings, policy))
        assert again.state_hash == record["expected"]["state_hash"]
        assert [list(entry) for entry in again.queue] == record["expected"]["queue"]
        behaviours.add(record["behaviour"])
    assert behaviours == {"dispatch", "clarify", "decline", "hold", "answer"}


def test_the_loop_runs_at_the_gateway_a_record_opens(records: list[dict[str, Any]]) -> None:
    """As a trainer would: from the record's own prompt, with nothing else at hand."""
    worlds = Worlds()
    record = next(r for r in records if r["behaviour"] == "dispatch")
    scenario, rebuilt = worlds.rebuilt(record)
    simulated, session = worlds.open(record)
    spec = rebuilt.catalog_of(scenario).tools[record["tool"]]
    conversation = [Message(m["role"], m["content"]) for m in record["prompt"]]
    asyncio.run(
        run(
            OraclePolicy(scenario, spec),
            session,
            conversation,
            settings=LoopSettings(nudge=False),
            ids=SeededIds(record["seed"]),
        )
    )
    (entry,) = queue_of(simulated)
    assert entry[0] == record["tool"]
    # nobody decides here, so the write waits and the world is not the expected one
    assert entry[2] == "pending"
    assert simulated.world.state_hash() != record["expected"]["state_hash"]


def test_one_nudged_prefix_gives_a_row_a_pair_and_a_scenario(
    records: list[dict[str, Any]], rows: list[Row]
) -> None:
    pairs = {pair.row.id: pair for pair in pairs_of(rows)[0]}
    by_id = {record["id"]: record for record in records}
    nudged = [row for row in rows if row.source == "nudged"]
    assert len(nudged) >= 6
    for row in nudged:
        record, pair = by_id[row.id], pairs[row.id]
        (place,) = stalled_turns(row.messages)
        assert tuple(row.messages[:place]) == pair.prompt
        assert [m.content for m in pair.prompt[:2]] == [record["system"], record["user"]]
        assert (record["stall"], record["behaviour"]) == (pair.fault, "dispatch")
        asking = next(r for r in rows if r.twin == row.twin and r.behaviour == "clarify")
        assert not pairs[asking.id].chosen.tool_calls
        assert pairs[asking.id].rejected.tool_calls
        assert by_id[asking.id]["expected"]["missing"] == list(asking.scenario.missing)
    plain = {row.id for row in rows} - {row.id for row in nudged}
    assert not any(by_id[row_id]["stall"] for row_id in plain)


def test_a_world_that_changed_is_noticed(records: list[dict[str, Any]]) -> None:
    """The negative control: with other catalogs the tool is not there, or the end is another."""
    record = next(r for r in records if r["behaviour"] == "dispatch")
    moved = {**record, "world": {**record["world"], "catalogs": [], "held_out_tools": []}}
    scenario, rebuilt = Worlds().rebuilt({**moved, "world": {**moved["world"], "hints": []}})
    assert rebuilt.catalog_of(scenario).tool(record["tool"]) is None or (
        rebuilt.hint_of(scenario) is None
    )


def test_the_datasets_library_reads_the_file(folder: Path, tmp_path: Path) -> None:
    import datasets

    out = tmp_path / "scenarios.parquet"
    written = write_scenarios(folder, out, "train")
    loaded = datasets.load_dataset(
        "parquet", data_files=str(out), cache_dir=str(tmp_path / "cache"), split="train"
    )
    assert list(loaded) == json.loads(json.dumps(written))


def test_a_file_of_something_else_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no scenarios; write them with"):
        read_scenarios(folder / "train.parquet")
    with pytest.raises(DataError, match="damaged or missing"):
        read_scenarios(tmp_path / "nowhere.parquet")


def test_the_command_says_what_it_wrote(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "scenarios.parquet"
    main(["data", "scenarios", str(folder), "--split", "train", "--out", str(out)])
    said = capsys.readouterr().out
    assert f"{len(read_scenarios(out))} scenarios written to {out}" in said
    assert "where a stall was nudged and mended: " in said
    with pytest.raises(SystemExit):
        main(["data", "scenarios", str(folder), "--out", str(folder / "s.parquet")])
    assert "lies in the data set" in capsys.readouterr().err
