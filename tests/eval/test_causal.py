"""The whole study on a random model: cells that are kept, the same bytes twice, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError, ProbeError
from breadcrumbs.eval import causal
from breadcrumbs.eval.causal import CausalConfig, CellStore, PromptStudy, probe_causal
from breadcrumbs.eval.decision_points import dispatch_pairs


def _config(tiny: Path, data: Path, out: Path, **changes: Any) -> CausalConfig:
    settings = {"prompts": 2, "schema_tokens": 2500, "doses": (-1.0, 2.0)} | changes
    return CausalConfig(model=str(tiny), data=data, out=out, **settings)


@pytest.fixture(scope="module")
def finished(
    tiny_model_folder: Path, small_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[CausalConfig, str]:
    config = _config(tiny_model_folder, small_data, tmp_path_factory.mktemp("run"))
    return config, probe_causal(config, lambda *_: None)


def _result(config: CausalConfig) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((config.out / causal.RESULT).read_text())
    return found


def test_every_change_is_there_with_its_placebos(finished: tuple[CausalConfig, str]) -> None:
    config, table = finished
    found = {(e["name"], e["rows"], e["dose"]): e for e in _result(config)["effects"]}
    for segment in ("steering", "breadcrumb", "schema", "nudge"):
        for rows in ("decision", "later"):
            effect = found["knockout " + segment, rows, None]
            assert set(effect["placebos"]) == {"same length", "same mass"}
            assert effect["achieved"] == 0 < effect["mass"]
            assert effect["change"]["n"] == effect["excess"]["n"] == 2
    for name in ("breadcrumb at head", "breadcrumb at middle", "breadcrumb absent"):
        assert set(found[name, "prompt", None]["placebos"]) == {"same length"}
    for name in ("filler prose", "filler shuffled", "filler repeated", "competitors alone"):
        assert found[name, "prompt", None]["tokens"] > 500
    assert set(found["risk flags removed", "prompt", None]["placebos"]) == {"same length"}
    assert set(found["distance alone", "prompt", None]["placebos"]) == {"same length"}
    for rows in ("decision", "later"):
        less, more = (found["bias", rows, dose] for dose in (-1.0, 2.0))
        assert less["achieved"] < less["mass"] == more["mass"] < more["achieved"]
    clamped = found["clamp long to short", "decision", None]
    assert set(clamped["placebos"]) == {"breadcrumb", "user", "template", "same length"}
    back = found["clamp short to long", "decision", None]
    assert clamped["achieved"] == pytest.approx(back["mass"], rel=1e-3)
    assert back["achieved"] == pytest.approx(clamped["mass"], rel=1e-3)
    assert "base: " in table.splitlines()[-1]
    assert "few" in table.splitlines()[-1] or "not measured" in table.splitlines()[-1]


def test_a_stopped_run_goes_on_by_cell_and_gives_the_same_bytes(
    finished: tuple[CausalConfig, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, table = finished
    files = {path: path.read_bytes() for path in config.out.rglob("*.json*")}
    assert len(files) == 2 * len(causal.GROUPS) + 1
    lost = sorted(path for path in files if path.name.endswith(("-dose.jsonl", "-clamp.jsonl")))
    lost[0].unlink()
    lost[1].write_text("{cut")
    ran: list[str] = []
    honest = PromptStudy.cell

    def counting(study: PromptStudy, group: Any) -> Any:
        ran.append(group)
        return honest(study, group)

    monkeypatch.setattr(PromptStudy, "cell", counting)
    assert probe_causal(config, lambda *_: None) == table
    assert len(ran) == 2
    assert {path: path.read_bytes() for path in config.out.rglob("*.json*")} == files


def test_a_smaller_study_takes_its_cells_from_a_larger_one(
    finished: tuple[CausalConfig, str], monkeypatch: pytest.MonkeyPatch, tiny_model_folder: Path
) -> None:
    config, _ = finished
    monkeypatch.setattr(causal, "load_model", lambda _: pytest.fail("nothing is left to run"))
    smaller = _config(tiny_model_folder, config.data, config.out, groups=("knockout",))
    before = (config.out / causal.RESULT).read_text()
    try:
        table = probe_causal(smaller, lambda *_: None)
    finally:
        (config.out / causal.RESULT).write_text(before)
    assert "knockout steering" in table
    assert "bias" not in table


def test_cells_of_another_setting_are_not_trusted(finished: tuple[CausalConfig, str]) -> None:
    config, _ = finished
    other = _config(Path(config.model), config.data, config.out, seed=1)
    (pair,) = dispatch_pairs(config.data, config.split, 1)
    key = causal.Key("base", pair.row.id, "dose")
    assert CellStore(config).read(key) is not None
    assert CellStore(other).read(key) is None


def test_bad_input_is_one_line(tiny_model_folder: Path, small_data: Path, tmp_path: Path) -> None:
    many = _config(tiny_model_folder, small_data, tmp_path, prompts=999)
    with pytest.raises(ProbeError, match="lower `prompts` or generate more"):
        probe_causal(many, lambda *_: None)
    untrained = _config(tiny_model_folder, small_data, tmp_path, adapter=tmp_path / "none")
    with pytest.raises(ConfigError, match="train first, or leave `adapter` out"):
        probe_causal(untrained, lambda *_: None)
    long = _config(tiny_model_folder, small_data, tmp_path, schema_tokens=20_000, groups=("clamp",))
    with pytest.raises(ProbeError, match="lower schema_tokens"):
        probe_causal(long, lambda *_: None)
