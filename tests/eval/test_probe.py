"""The dilution curve: schemas that grow, rows that are kept, sums that stay right."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pyarrow import parquet

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval import probe
from breadcrumbs.eval.probe import ProbeConfig, lengthen, probe_attention
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.rendering import Renderer, load_renderer


@pytest.fixture(scope="module")
def shipped() -> Catalog:
    return load_catalog()


@pytest.fixture(scope="module")
def renderer(tiny_model_folder: Path) -> Renderer:
    return load_renderer(tiny_model_folder)


@pytest.fixture(scope="module")
def data(small_data: Path) -> Path:
    return small_data


def _disclosure(catalog: Catalog, tool: str) -> list[Message]:
    from breadcrumbs.gateway.payloads import schema_payload

    spec = catalog.tool(tool)
    assert spec is not None
    payload = schema_payload([spec], [], [], breadcrumb=True)
    return [Message("user", "Go."), Message("tool", compact_json(payload), tool_call_id="c1")]


def _config(tiny: Path, data: Path, out: Path, **changes: Any) -> ProbeConfig:
    settings = {"schema_tokens": (1500, 2500), "prompts": 1, "dtype": "float32"} | changes
    return ProbeConfig(model=str(tiny), data=data, out=out, **settings)


def _counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The targets measured from now on, as they are measured."""
    measured: list[int] = []
    honest = probe._measure

    def counting(model: Any, name: str, prompt: Any, heads: Path) -> Any:
        measured.append(prompt.target)
        return honest(model, name, prompt, heads)

    monkeypatch.setattr(probe, "_measure", counting)
    return measured


@pytest.mark.parametrize("target", [1200, 3000])
def test_a_schema_grows_to_its_length_and_the_breadcrumb_stays_last(
    shipped: Catalog, renderer: Renderer, target: int
) -> None:
    short = _disclosure(shipped, "book_vehicle")
    before = json.loads(short[-1].content)
    after = json.loads(lengthen(short, shipped, renderer, target)[-1].content)
    assert list(after)[-1] == "next_step"
    assert after["next_step"] == before["next_step"]
    size = renderer.count(compact_json(after["disclosed"]))
    assert target <= size <= target * 1.15
    own = before["disclosed"][0]["inputSchema"]
    grown = after["disclosed"][0]["inputSchema"]
    assert own["properties"].items() <= grown["properties"].items()
    assert grown["required"] == own["required"], "only optional fields are added"


def test_a_schema_that_is_long_already_stays(shipped: Catalog, renderer: Renderer) -> None:
    short = _disclosure(shipped, "book_vehicle")
    assert lengthen(short, shipped, renderer, 10)[-1].content == short[-1].content


def test_more_than_the_catalog_holds_is_refused(shipped: Catalog, renderer: Renderer) -> None:
    few = load_catalog_of(shipped, 2)
    with pytest.raises(ProbeError, match="too small"):
        lengthen(_disclosure(shipped, "book_vehicle"), few, renderer, 100_000)


def load_catalog_of(catalog: Catalog, count: int) -> Catalog:
    names = catalog.names()
    return catalog.without(names[count:])


def test_a_prompt_without_a_schema_is_refused(shipped: Catalog, renderer: Renderer) -> None:
    with pytest.raises(ProbeError, match="does not end with a disclosed schema"):
        lengthen([Message("tool", '{"layer":"1_catalog"}')], shipped, renderer, 100)


def test_masses_add_up_and_a_stopped_run_goes_on(
    tiny_model_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _config(tiny_model_folder, data, tmp_path)
    table = probe_attention(config, lambda *_: None)
    assert "base" in table
    assert table.endswith("base: attention in 2 of 2 layers")
    result = json.loads((tmp_path / probe.RESULT).read_text())
    for row in result["rows"]:
        total = sum(values[3] for values in row["mass"].values())
        assert 0.5 < total < 1.0002  # other segments (calls, tool definitions) have the rest
        shift = row["log_odds"][1] - row["log_odds_per_token"][1]
        assert shift == pytest.approx(
            math.log(row["steering_tokens"] / row["schema_tokens"]), abs=1e-3
        )
    assert [point["target"] for point in result["curves"]["base"]] == [1500, 2500]

    kept = (tmp_path / "rows.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "rows.jsonl").write_text(kept[0] + kept[1][:40])  # killed while writing
    measured = _counted(monkeypatch)
    assert probe_attention(config, lambda *_: None) == table
    assert measured == [2500]


def test_every_head_is_in_the_tables_and_agrees_with_the_summary(
    tiny_model_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = _config(tiny_model_folder, data, tmp_path, schema_tokens=(1500,))
    probe_attention(config, lambda *_: None)
    (row,) = json.loads((tmp_path / probe.RESULT).read_text())["rows"]
    (path,) = (tmp_path / probe.HEADS).glob("*.parquet")
    records = parquet.read_table(path).to_pylist()
    heads = {(record["layer"], record["head"]) for record in records}
    assert len(heads) == 2 * 4
    whole = [record for record in records if record["part_of"] is None]
    for layer, head in heads:
        shares = [r["mass"] for r in whole if (r["layer"], r["head"]) == (layer, head)]
        assert sum(shares) == pytest.approx(1, abs=1e-5)
    assert {r["segment"] for r in records if r["part_of"] == "schema"} == {
        "schema.risk",
        "schema.required",
        "schema.description",
    }
    for measure in ("mass", "log2_density", "value_share", "logit_attribution"):
        values = [r[measure] for r in whole if r["segment"] == "schema"]
        assert row[measure]["schema"][1] == pytest.approx(median(values), abs=1e-5)
    parts = sum(r["mass"] for r in records if r["part_of"] == "schema" and not r["head"])
    schema = sum(r["mass"] for r in whole if r["segment"] == "schema" and not r["head"])
    assert 0 < parts < schema
    assert row["refusals"] == []
    assert row["coverage"] == "attention in 2 of 2 layers"
    assert row["straddling_tokens"] < row["prompt_tokens"] / 10

    before = path.read_bytes()
    path.unlink()  # a row without its table is not finished
    (path.parent / "base-9-stale.parquet").write_bytes(b"of another config")
    measured = _counted(monkeypatch)
    probe_attention(config, lambda *_: None)
    assert measured == [1500]
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before, "the same run gives the same bytes"


def test_rows_of_another_config_are_measured_anew(
    tiny_model_folder: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe_attention(_config(tiny_model_folder, data, tmp_path), lambda *_: None)
    measured = _counted(monkeypatch)
    probe_attention(_config(tiny_model_folder, data, tmp_path, seed=1), lambda *_: None)
    assert measured == [1500, 2500]


def test_too_many_prompts_and_too_long_a_prompt_are_one_line(
    tiny_model_folder: Path, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(ProbeError, match="lower `prompts` or generate more"):
        probe_attention(_config(tiny_model_folder, data, tmp_path, prompts=9), lambda *_: None)
    long = _config(tiny_model_folder, data, tmp_path, schema_tokens=(20_000,))
    with pytest.raises(ProbeError, match="lower schema_tokens"):
        probe_attention(long, lambda *_: None)


def test_a_missing_data_folder_is_one_line(tiny_model_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="run the step that makes it first"):
        probe_attention(_config(tiny_model_folder, tmp_path, tmp_path / "out"), lambda *_: None)
