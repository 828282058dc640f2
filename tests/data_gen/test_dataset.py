"""The set on disk: what goes in comes out, whole or not at all."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from breadcrumbs.data_gen.dataset import (
    Row,
    already_complete,
    features,
    load_rows,
    load_scenarios,
    read_manifest,
    write_dataset,
)
from breadcrumbs.data_gen.hints import Composed
from breadcrumbs.data_gen.scenarios import Scenario, scenario_from_dict
from breadcrumbs.data_gen.splits import SPLITS, Split
from breadcrumbs.errors import DataError
from breadcrumbs.messages import Message, ToolCall

MANIFEST = {"inputs_hash": "abc", "config": {}, "dropped": {}}


def _row(number: int, arguments: dict[str, object]) -> Row:
    scenario = Scenario(
        id=f"s{number}",
        blueprint="b",
        twin=f"t{number}",
        split="train",
        domain="d",
        tool="t",
        behaviour="dispatch",
        request="r",
        system_prompt="s",
        now="2026-03-02T09:00",
        seed=number,
        search_query="q",
        gold_arguments=dict(arguments),
        composed={"title": Composed("Write it", ("write",))},
    )
    call = ToolCall("call_1", "execute_tool", {"tool_name": "t", "arguments": arguments})
    messages = (Message("user", "42"), Message("assistant", "", (call,)))
    return Row(f"s{number}", scenario, "oracle", messages, ({"type": "function"},), {"n": None})


ROWS = [
    _row(0, {"a": 1, "b": [1, {"c": None}]}),
    _row(1, {"x": {"deep": {"er": [True, 2.5]}}, "ü": "\u2028 '\""}),
    _row(2, {}),
]


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    manifest = write_dataset(tmp_path / "set", ROWS, MANIFEST)
    assert load_rows(tmp_path / "set", "train") == ROWS
    assert load_scenarios(tmp_path / "set", "train") == [row.scenario for row in ROWS]
    assert load_rows(tmp_path / "set", "held_out_tools") == []
    assert load_rows(tmp_path / "set", behaviour="clarify") == []
    assert read_manifest(tmp_path / "set") == manifest
    assert manifest["counts"]["trajectories"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["set"]
    card = (tmp_path / "set" / "README.md").read_text()
    assert "| behaviour | dispatch | 3 |" in card


def test_the_datasets_library_reads_it_without_injected_nulls(tmp_path: Path) -> None:
    import datasets

    write_dataset(tmp_path / "set", ROWS, MANIFEST)
    files = {"train": str(tmp_path / "set" / "train.parquet")}
    loaded = datasets.load_dataset(
        "parquet", data_files=files, cache_dir=str(tmp_path / "cache"), split="train"
    )
    calls = [row["messages"][1]["tool_calls"][0]["arguments"]["arguments"] for row in loaded]
    assert calls == [row.scenario.gold_arguments for row in ROWS]
    assert loaded[0]["messages"][0]["content"] == "42"


def test_only_the_same_inputs_count_as_done(tmp_path: Path) -> None:
    place = tmp_path / "set"
    assert not already_complete(place, "abc")
    write_dataset(place, ROWS, MANIFEST)
    assert already_complete(place, "abc")
    with pytest.raises(DataError, match="another config"):
        already_complete(place, "other")
    (place / "manifest.json").unlink()
    assert not already_complete(place, "abc")
    write_dataset(place, ROWS[:1], MANIFEST)
    assert len(load_rows(place)) == 1


def test_other_peoples_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=r"thesis\.txt"):
        already_complete(tmp_path, "abc")
    with pytest.raises(DataError, match="is a file"):
        already_complete(tmp_path / "thesis.txt", "abc")


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    broken = _row(3, {"a": "\ud800"})  # half a character: no UTF-8 for it
    with pytest.raises(ValueError, match="surrogates"):
        write_dataset(tmp_path / "set", [*ROWS, broken], MANIFEST)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_place_is_one_clear_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataError, match="cannot write") as caught:
        write_dataset(tmp_path / "set", ROWS, MANIFEST)
    tmp_path.chmod(0o700)
    assert "\n" not in str(caught.value)


def test_a_file_in_the_way_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        write_dataset(tmp_path / "file" / "set", ROWS, MANIFEST)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"format": 99}', "{}", '{"format": 1, "config": []}']
)
def test_a_broken_manifest_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json") as caught:
        read_manifest(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_damaged_split_is_named(tmp_path: Path) -> None:
    write_dataset(tmp_path / "set", ROWS, MANIFEST)
    path = tmp_path / "set" / "train.parquet"
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(DataError, match=r"train\.parquet"):
        load_rows(tmp_path / "set", "train")


def test_a_scenario_of_another_version_is_named() -> None:
    data = ROWS[0].scenario.to_dict()
    assert scenario_from_dict(data) == ROWS[0].scenario
    with pytest.raises(DataError, match="s0"):
        scenario_from_dict({**data, "colour": "red"})
    del data["missing"]
    with pytest.raises(DataError, match="missing"):
        scenario_from_dict(data)


def in_split(row: Row, split: Split) -> Row:
    return dataclasses.replace(row, scenario=dataclasses.replace(row.scenario, split=split))


@pytest.mark.parametrize("splits", [SPLITS, ("train",), ("train", "held_out_domain")])
def test_a_folder_loads_by_its_card_alone(tmp_path: Path, splits: tuple[Split, ...]) -> None:
    """As the Hub would show it: splits from the card, features from the files, no network.

    A split that nothing lies in is none there.
    """
    import datasets

    rows = [in_split(row, split) for split in splits for row in ROWS]
    write_dataset(tmp_path / "set", rows, MANIFEST)
    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert tuple(loaded) == splits
    for split in splits:
        assert loaded[split].features == features()
        assert [row["id"] for row in loaded[split]] == [row.id for row in ROWS]
        assert loaded[split][0]["messages"][0]["content"] == "42"


def test_a_split_in_several_files_loads_by_its_card(tmp_path: Path) -> None:
    import datasets

    from breadcrumbs.data_gen import dataset

    tables = [dataset.table_of([row.to_record()]) for row in ROWS]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dataset, "FILE_ROWS", 2)
        empty = {split: iter([dataset.table_of([])]) for split in SPLITS}
        dataset.write_tables(tmp_path / "set", {**empty, "train": iter(tables)}, MANIFEST)
    assert (tmp_path / "set" / "train-00001.parquet").is_file()
    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert [row["id"] for row in loaded["train"]] == [row.id for row in ROWS]


def test_a_card_that_names_no_files_gives_no_splits(tmp_path: Path) -> None:
    """The negative control: it is the card that says where the splits are."""
    import datasets

    write_dataset(tmp_path / "set", ROWS, MANIFEST)
    card = tmp_path / "set" / "README.md"
    card.write_text(card.read_text().replace("path: train.parquet", "path: nowhere.parquet"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
