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
from breadcrumbs.data_gen.distractors import near_names, with_distractors
from breadcrumbs.data_gen.episodes import request_place, since_request
from breadcrumbs.data_gen.export import exported
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.lengthening import lengthened, schema_length
from breadcrumbs.data_gen.pairs import exported_pair, pairs_of
from breadcrumbs.data_gen.shape import Past
from breadcrumbs.data_gen.shaping import Shapes
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.data_gen.verify import decision_place, history_fault
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings, simulated_gateway
from breadcrumbs.gateway.namings import NAMINGS, OWN
from breadcrumbs.gateway.payloads import NEXT_STEP
from breadcrumbs.messages import compact_json
from breadcrumbs.rendering import load_renderer
from breadcrumbs.train.batches import decision_message
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.preflight import examine

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
    _twins_share_a_shape(named)


def _twins_share_a_shape(folder: Path) -> None:
    shapes: dict[str, set[str]] = {}
    for row in load_rows(folder, "train"):
        shapes.setdefault(row.twin, set()).add(repr(row.scenario.shape))
    assert all(len(found) == 1 for found in shapes.values())
    assert len({shape for found in shapes.values() for shape in found}) > 5


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
    from breadcrumbs.data_gen.dataset import file_digest, table_of, write_parquet

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
    write_parquet(folder / "train.parquet", table_of(records))
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
        ({"hits": [0, 3]}, r"hits: give \[from, to\] within 1 and 30"),
        ({"hits": [5, 3]}, "the lower one first"),
        ({"schema_tokens": [100, 99_000]}, "schema_tokens: give"),
        ({"history": [0, 9]}, "history: give"),
        ({"near_share": 1.5}, "near_share"),
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


@pytest.fixture(scope="module")
def mixed(small_config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set with everything but namings, so that faults are told in the gateway's words."""
    out = tmp_path_factory.mktemp("mixed") / "data"
    shapes = Shapes(
        hits=(1, 30), near_share=0.6, parallel_share=0.6, schema_tokens=(100, 8000), history=(0, 2)
    )
    config = dataclasses.replace(
        small_config,
        train=Amount(pairs=24, declines=4),
        corrected_share=0.3,
        shapes=shapes,
    )
    generate(config, out, _silent)
    return out


def _payloads(row: Row, layer: str) -> list[dict[str, Any]]:
    """A row's payloads of a layer that belong to its own request."""
    since = since_request(row.messages, row.scenario)
    found = [json.loads(m.content) for m in since if m.role == "tool"]
    return [payload for payload in found if payload["layer"] == layer]


def test_a_set_of_every_shape_validates(mixed: Path) -> None:
    assert validate(mixed, _silent).faults == ()
    _twins_share_a_shape(mixed)
    counted = read_manifest(mixed)["shapes"]
    rows = read_manifest(mixed)["counts"]["trajectories"]
    assert all(sum(values.values()) == rows for values in counted.values())
    assert all(len(values) > 1 for axis, values in counted.items() if axis != "naming")


@pytest.mark.parametrize("folder", ["named", "mixed"])
def test_generated_rows_pass_preflight(
    folder: str, request: pytest.FixtureRequest, chatml_tokenizer: Any
) -> None:
    rows = [row.to_record() for row in load_rows(request.getfixturevalue(folder), "train")]
    config = TrainConfig(data="d", out="o", steps=1, max_tokens=None)
    examples, faults = examine(rows, load_renderer(chatml_tokenizer), config)
    assert faults == []
    assert len(examples) == len(rows)


def test_searches_show_up_to_their_hits_and_made_up_tools_among_them(mixed: Path) -> None:
    longest, near = 0, 0
    catalog = set(_catalog(mixed).tools)
    for row in load_rows(mixed):
        shape = row.scenario.shape
        for payload in _payloads(row, "1_catalog"):
            names = [match["name"] for match in payload["matches"]]
            assert len(names) <= shape.hits
            assert (row.scenario.tool in names) == (row.behaviour != "decline")
            longest, near = max(longest, len(names)), near + bool(set(names) & set(shape.near))
        assert not set(shape.near) & catalog
    assert longest > 10
    assert near > 10


def _catalog(folder: Path) -> Catalog:
    return load_catalog(read_manifest(folder)["config"]["catalogs"])


def test_several_schemas_are_read_in_one_call(mixed: Path) -> None:
    several = 0
    for row in load_rows(mixed):
        for payload in _payloads(row, "2_schema_disclosure"):
            names = [one["name"] for one in payload["disclosed"]]
            assert names == (list(row.scenario.shape.read) or [row.scenario.tool])
            several += len(names) > 1
            assert ("tool_name='NAME'" in payload[NEXT_STEP]) == (len(names) > 1)
    assert several > 10


def test_schemas_grow_and_stay_what_they_ask_for(mixed: Path) -> None:
    catalog, lengths = _catalog(mixed), []
    for row in load_rows(mixed):
        for payload in _payloads(row, "2_schema_disclosure"):
            shown = next(one for one in payload["disclosed"] if one["name"] == row.scenario.tool)
            own = catalog.tools[row.scenario.tool].input_schema
            assert shown["inputSchema"]["required"] == list(own["required"])
            assert (
                list(shown["inputSchema"]["properties"])[: len(own["required"])] == own["required"]
            )
            lengths.append(len(compact_json(shown["inputSchema"])) // 4)
    assert min(lengths) < 250
    assert max(lengths) > 3000


@pytest.mark.parametrize("tokens", [100, 250, 1000, 8000])
def test_a_lengthened_tool_takes_the_same_calls(small_catalog: Catalog, tokens: int) -> None:
    for spec in small_catalog.tools.values():
        longer = lengthened(spec, tokens)
        assert longer == lengthened(spec, tokens)
        own = schema_length(spec)
        assert own <= schema_length(longer)
        assert schema_length(longer) <= max(tokens, own)
        assert tokens - schema_length(longer) < 400
        added = set(longer.input_schema["properties"]) - set(spec.input_schema["properties"])
        assert '"default"' not in compact_json(
            {n: longer.input_schema["properties"][n] for n in added}
        )
        assert check_arguments(longer, {}).values == check_arguments(spec, {}).values


def test_histories_are_run_and_the_decision_comes_after_them(mixed: Path) -> None:
    rows = [row for row in load_rows(mixed) if row.scenario.shape.history]
    assert len(rows) > 15
    assert {row.behaviour for row in rows} == {"dispatch", "clarify", "decline"}
    for row in rows:
        history = row.scenario.shape.history
        asked = [m.content for m in row.messages if m.role == "user"]
        assert asked == [*(past.request for past in history), row.scenario.request]
        place = decision_place(row.messages, row.scenario)
        assert place > request_place(row.messages, row.scenario) > 2
        assert place == decision_message(row.messages, row.behaviour, row.scenario.tool)
        executed = [
            c for m in row.messages[:place] for c in m.tool_calls if c.name == "execute_tool"
        ]
        assert [c.arguments["arguments"] for c in executed] == [past.arguments for past in history]
        for name in row.scenario.missing:
            assert all(name not in past.arguments for past in history)


def test_corrected_rows_keep_the_shape_of_their_twins(mixed: Path) -> None:
    corrected = [row for row in load_rows(mixed) if row.source == "corrected"]
    assert any(row.scenario.shape.history for row in corrected)
    assert all(not message.synthetic for row in corrected for message in row.messages)


def _one(folder: Path, wanted: Callable[[Row], bool]) -> Row:
    return next(row for row in load_rows(folder, "train") if wanted(row))


def _dispatches(row: Row) -> bool:
    return row.behaviour == "dispatch"


SPOILED: tuple[tuple[str, Callable[[Row], bool], Change, str], ...] = (
    (
        "fewer hits",
        lambda row: (
            _dispatches(row) and row.scenario.shape.hits > 3 and len(row.scenario.shape.near) > 3
        ),
        lambda row: with_shape(row, hits=1),
        "replay: the conversation differs",
    ),
    (
        "no made-up tool",
        lambda row: _dispatches(row) and len(row.scenario.shape.near) > 1,
        lambda row: with_shape(row, near=()),
        "replay: the conversation differs",
    ),
    (
        "an unknown made-up tool",
        lambda row: bool(row.scenario.shape.near),
        lambda row: with_shape(row, near=("tool_of_nobody",)),
        "row: not shaped as a trajectory",
    ),
    (
        "schemas in another order",
        lambda row: _dispatches(row) and len(row.scenario.shape.read) > 1,
        lambda row: with_shape(row, read=row.scenario.shape.read[::-1]),
        "protocol: schema not disclosed",
    ),
    (
        "another length",
        lambda row: _dispatches(row) and row.scenario.shape.schema_tokens > 400,
        lambda row: with_shape(row, schema_tokens=300),
        "replay: the conversation differs",
    ),
    (
        "no history",
        lambda row: _dispatches(row) and bool(row.scenario.shape.history),
        lambda row: with_shape(row, history=()),
        "protocol: other calls than the behaviour needs",
    ),
    (
        "values nobody asked for",
        lambda row: _dispatches(row) and bool(row.scenario.shape.history),
        lambda row: with_shape(row, history=_with_first(row, arguments={"title": "Zebra"})),
        "history: other values are passed than were asked for",
    ),
    (
        "the tool itself before",
        lambda row: _dispatches(row) and bool(row.scenario.shape.history),
        lambda row: with_shape(row, history=_with_first(row, tool=row.scenario.tool)),
        "protocol: ",
    ),
)


def _with_first(row: Row, **changes: Any) -> tuple[Past, ...]:
    first, *rest = row.scenario.shape.history
    return (dataclasses.replace(first, **changes), *rest)


@pytest.mark.parametrize(("name", "wanted", "spoil", "reason"), SPOILED, ids=lambda v: str(v)[:24])
def test_a_row_spoiled_in_its_shape_is_found(
    mixed: Path,
    tmp_path: Path,
    name: str,
    wanted: Callable[[Row], bool],
    spoil: Change,
    reason: str,
) -> None:
    row_id = _one(mixed, wanted).id
    spoiled = respelled(mixed, tmp_path / "data", lambda r: spoil(r) if r.id == row_id else r)
    (found,) = _faults(spoiled)
    assert found.startswith(reason)


def test_a_history_that_tells_what_is_missing_is_a_fault(mixed: Path) -> None:
    row = _one(
        mixed,
        lambda r: (
            r.behaviour == "clarify" and any(p.arguments for p in r.scenario.shape.history[:1])
        ),
    )
    catalog = _catalog(mixed)
    assert history_fault(row.scenario, catalog, row.messages) is None
    (missing,) = row.scenario.missing
    said = str(row.scenario.withheld[missing])
    messages = list(row.messages)
    messages[1] = dataclasses.replace(messages[1], content=f"{messages[1].content} Also {said}.")
    fault = history_fault(row.scenario, catalog, messages)
    assert fault == "history: what came before shows a value for what is missing"
    unsaid = list(row.messages)
    unsaid[1] = dataclasses.replace(unsaid[1], content="Do that thing.")
    assert history_fault(row.scenario, catalog, unsaid) == "history: a value has no source"


async def test_made_up_tools_run_and_change_nothing(small_catalog: Catalog) -> None:
    tool = "create_calendar_event"
    names = near_names(small_catalog, tool)
    assert len(names) > 20
    assert not set(names) & set(small_catalog.tools)
    crowded = with_distractors(small_catalog, names[:3])
    assert set(crowded.tools) == set(small_catalog.tools) | set(names[:3])
    with pytest.raises(DataError, match="no made-up tool 'tool_of_nobody'"):
        with_distractors(small_catalog, ["tool_of_nobody"])
    settings = GatewaySettings(hold_writes=False)
    simulated = simulated_gateway(crowded, seed=1, settings=settings)
    before, session = simulated.world.state_hash(), simulated.gateway.session()
    for name in names[:3]:
        await session.call("get_tool_schema", {"tool_names": [name]})
        given = dict.fromkeys(crowded.tools[name].required, "x")
        call = {"tool_name": name, "arguments": given}
        assert (await session.call("execute_tool", call))["status"] == "done"
    assert simulated.world.state_hash() == before


async def test_a_search_that_names_no_limit_shows_as_many_as_the_shape_says(
    small_catalog: Catalog,
) -> None:
    crowded = with_distractors(small_catalog, near_names(small_catalog, "create_calendar_event"))
    for unasked, shown in ((5, 5), (12, 12)):
        settings = GatewaySettings(max_hits=30, unasked_hits=unasked)
        session = simulated_gateway(crowded, seed=1, settings=settings).gateway.session()
        payload = await session.call("search_tool_catalog", {"query": "calendar event"})
        assert len(payload["matches"]) == shown
        payload = await session.call("search_tool_catalog", {"query": "calendar event", "limit": 2})
        assert len(payload["matches"]) == 2
