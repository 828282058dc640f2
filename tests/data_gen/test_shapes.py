"""Shapes of what a model sees: drawn, said by every row, and held against every row."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.config import parse
from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import (
    MANIFEST,
    Row,
    load_rows,
    read_manifest,
    read_records,
    write_dataset,
)
from breadcrumbs.data_gen.export import exported
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.pairs import exported_pair, pairs_of
from breadcrumbs.data_gen.shape import Shape
from breadcrumbs.data_gen.shaping import Shapes
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.namings import NAMINGS, OWN
from breadcrumbs.gateway.payloads import NEXT_STEP

HELD_OUT = "workbench"
TRAINED = tuple(name for name in NAMINGS if name != HELD_OUT)
OWN_WORDS = ("search_tool_catalog", "get_tool_schema", "execute_tool", "2_schema_disclosure")
Change = Callable[[Row], Row]


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def named(small_config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("named") / "data"
    config = dataclasses.replace(
        small_config,
        train=Amount(pairs=30, declines=4),
        corrected_share=0.3,
        shapes=Shapes(namings=TRAINED, held_out_namings=(HELD_OUT,)),
    )
    generate(config, out, _silent)
    return out


def respelled(folder: Path, out: Path, change: Change) -> Path:
    """A copy of the set with rows changed and the manifest made to fit."""
    kept = {
        key: value
        for key, value in read_manifest(folder).items()
        if key not in ("counts", "files", "shapes")
    }
    write_dataset(out, [change(row) for row in load_rows(folder)], kept)
    return out


def with_shape(row: Row, **changes: Any) -> Row:
    shape = dataclasses.replace(row.scenario.shape, **changes)
    return dataclasses.replace(row, scenario=dataclasses.replace(row.scenario, shape=shape))


def test_every_naming_occurs_and_the_held_out_one_only_where_it_may(named: Path) -> None:
    rows = load_rows(named)
    by_split: dict[str, set[str]] = {}
    for row in rows:
        by_split.setdefault(row.split, set()).add(row.scenario.shape.naming)
    assert by_split["train"] == set(TRAINED)
    assert by_split["held_out_tools"] == by_split["held_out_domain"] == {HELD_OUT}
    counts = read_manifest(named)["shapes"]["naming"]
    assert counts == {n: sum(r.scenario.shape.naming == n for r in rows) for n in sorted(NAMINGS)}


def test_twins_share_their_naming(named: Path) -> None:
    shapes: dict[str, set[Shape]] = {}
    for row in load_rows(named, "train"):
        shapes.setdefault(row.scenario.blueprint, set()).add(row.scenario.shape)
    assert all(len(found) == 1 for found in shapes.values())


def test_rows_lie_on_disk_as_a_model_sees_them(named: Path) -> None:
    others = 0
    for record in read_records(named / "train.parquet"):
        naming = json.loads(record["scenario"]).get("shape", {}).get("naming", OWN.name)
        shown = [json.loads(message) for message in record["messages"]]
        text = json.dumps([m for m in shown if m["role"] != "user"]) + "".join(record["tools"])
        own = [word for word in OWN_WORDS if word in text]
        assert bool(own) == (naming == OWN.name)
        others += not own
        for message in shown:
            if message["role"] == "tool":
                assert list(json.loads(message["content"]))[-1] == NEXT_STEP
    assert others > 30


def test_a_set_under_every_naming_validates(named: Path) -> None:
    result = validate(named, _silent)
    assert result.faults == ()
    assert result.rows == read_manifest(named)["counts"]["trajectories"]


def _first(named: Path, naming: str, behaviour: str = "dispatch") -> str:
    """A row of a training naming."""
    rows = load_rows(named, "train")
    return next(
        r.id for r in rows if r.scenario.shape.naming == naming and r.behaviour == behaviour
    )


def _faults(folder: Path) -> dict[str, list[str]]:
    return validate(folder, _silent).by_reason()


def test_a_held_out_naming_in_training_is_found(named: Path, tmp_path: Path) -> None:
    row_id = _first(named, "toolbox")
    spoiled = respelled(
        named,
        tmp_path / "data",
        lambda row: with_shape(row, naming=HELD_OUT) if row.id == row_id else row,
    )
    found = _faults(spoiled)
    assert [place for place in found["row: its naming is not one of its split"]]
    assert set(found) == {"row: its naming is not one of its split"}


def _spoil_payload(folder: Path, row_id: str, spoil: Callable[[str], str]) -> None:
    """Change the last tool message of a stored row, and nothing else."""
    from breadcrumbs.data_gen.dataset import _write_parquet, file_digest, table_of

    records = read_records(folder / "train.parquet")
    for record in records:
        for column in ("messages", "tools"):
            record[column] = [json.loads(value) for value in record[column]]
        for column in ("scenario", "meta"):
            record[column] = json.loads(record[column])
        if record["id"] == row_id:
            last = [m for m in record["messages"] if m["role"] == "tool"][-1]
            assert last["content"] != spoil(last["content"])
            last["content"] = spoil(last["content"])
    _write_parquet(folder / "train.parquet", table_of(records))
    manifest = read_manifest(folder)
    manifest["files"]["train.parquet"] = file_digest(folder / "train.parquet")
    (folder / MANIFEST).write_text(json.dumps(manifest))


def _keys_turned(content: str) -> str:
    payload = json.loads(content)
    keys = [key for key in payload if key != NEXT_STEP]
    turned = {key: payload[key] for key in (*reversed(keys), NEXT_STEP)}
    return json.dumps(turned, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize("naming", [n for n in TRAINED if not NAMINGS[n].inside])
def test_another_order_of_keys_is_found_under_every_naming(
    named: Path, tmp_path: Path, naming: str
) -> None:
    spoiled = respelled(named, tmp_path / "data", lambda row: row)
    assert _faults(spoiled) == {}
    _spoil_payload(spoiled, _first(named, naming), _keys_turned)
    assert len(_faults(spoiled)) == 1


@pytest.mark.parametrize("naming", [n for n in TRAINED if n != OWN.name])
def test_a_payload_in_the_own_words_is_found(named: Path, tmp_path: Path, naming: str) -> None:
    spoiled = respelled(named, tmp_path / "data", lambda row: row)
    words = NAMINGS[naming]

    def unshown(content: str) -> str:
        own = words.hear_payload(json.loads(content))
        return json.dumps(own, separators=(",", ":"), ensure_ascii=False)

    _spoil_payload(spoiled, _first(named, naming), unshown)
    assert len(_faults(spoiled)) == 1


def test_export_and_pairs_show_the_naming(named: Path) -> None:
    rows = load_rows(named, "train")
    row = next(
        r for r in rows if r.scenario.shape.naming == "toolbox" and r.behaviour == "dispatch"
    )
    line = exported(row)
    called = [c["function"]["name"] for m in line["messages"] for c in m.get("tool_calls", ())]
    assert called == ["find_tools", "describe_tools", "run_tool"]
    assert [tool["function"]["name"] for tool in line["tools"]] == called
    pairs = [pair for pair in pairs_of(rows)[0] if pair.row.scenario.shape.naming == "toolbox"]
    assert {pair.row.behaviour for pair in pairs} == {"dispatch", "clarify"}
    for pair in pairs:
        text = json.dumps(exported_pair(pair))
        assert not [word for word in OWN_WORDS if word in text.replace(row.scenario.request, "")]


def test_no_shape_leaves_no_byte(small_config: GenerateConfig, tmp_path: Path) -> None:
    manifest = generate(small_config, tmp_path / "data", _silent)
    assert "shapes" not in manifest
    assert "shapes" not in manifest["config"]
    assert all("shape" not in row.scenario.to_dict() for row in load_rows(tmp_path / "data"))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"namings": ["gateway", "nicknames"]}, "no naming 'nicknames'; choose from gateway"),
        ({"namings": []}, "namings: name one at least"),
        ({"held_out_namings": ["gateway"]}, "gateway is in namings too"),
        ({"names": ["gateway"]}, "names"),
    ],
)
def test_bad_shapes_are_one_clear_error(shapes: dict[str, Any], message: str) -> None:
    amount = {"pairs": 1}
    body = {
        "version": 1,
        "train": amount,
        "eval_tools": amount,
        "eval_domain": amount,
        "shapes": shapes,
    }
    with pytest.raises(ConfigError, match=message):
        parse(body, GenerateConfig, "here")
