"""A generated data set: the same bytes twice, no leaks, labels that follow from the text."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path

import pytest

from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.correction import Correction, correct
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.episodes import Episode, OraclePolicy, ledger, run_episode
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.grounding import absent
from breadcrumbs.data_gen.hints import check_hints, load_hints
from breadcrumbs.data_gen.origin import origin_scenario
from breadcrumbs.data_gen.values import spoken, words
from breadcrumbs.data_gen.verify import Verifier
from breadcrumbs.errors import CatalogError, ConfigError, DataError
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.messages import Message
from breadcrumbs.nudge import nudge_text
from breadcrumbs.radar import situation_of

CATALOG = load_catalog()
HINTS = load_hints()
SETTINGS = GatewaySettings(max_hits=2)
CONFIG = GenerateConfig(
    held_out_tools=("scheduled_jobs", "book_vehicle", "issue_refund"),
    held_out_domain="clinic",
    train=Amount(pairs=30, declines=4),
    eval_tools=Amount(pairs=6, declines=2, singles=1),
    eval_domain=Amount(pairs=6, declines=2),
    corrected_share=0.3,
)


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "set"
    generate(CONFIG, out, _silent)
    return out


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return load_rows(folder)


def test_shipped_hints_fit_the_shipped_catalogs() -> None:
    assert check_hints(HINTS, CATALOG) == []


def test_the_same_config_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    generate(CONFIG, tmp_path / "again", _silent)
    for file in sorted(folder.iterdir()):
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name
    other = dataclasses.replace(CONFIG, seed=2)
    generate(other, tmp_path / "other", _silent)
    assert (tmp_path / "other" / "train.parquet").read_bytes() != (
        folder / "train.parquet"
    ).read_bytes()


def test_held_out_tools_appear_nowhere_in_training(rows: list[Row]) -> None:
    held = set(CONFIG.held_out_tools) | {
        name for name, spec in CATALOG.tools.items() if spec.domain == CONFIG.held_out_domain
    }
    training = [row for row in rows if row.scenario.split == "train"]
    assert len(training) == 64
    for row in training:
        shown = json.dumps([message.to_dict() for message in row.messages])
        assert not [name for name in held if f'"{name}"' in shown.replace("\\", "")]
    evaluated = {row.scenario.tool for row in rows if row.scenario.split == "held_out_tools"}
    assert evaluated <= set(CONFIG.held_out_tools)


def test_a_missing_value_is_said_nowhere(rows: list[Row]) -> None:
    asking = [row for row in rows if row.scenario.behaviour == "clarify"]
    assert asking
    for row in asking:
        spec, (name,) = CATALOG.tools[row.scenario.tool], row.scenario.missing
        texts = (row.scenario.request, row.scenario.system_prompt)
        value, hint = row.scenario.withheld[name], HINTS[spec.name].arguments[name]
        assert absent(spec, name, value, texts, hint)
        schema = spec.input_schema["properties"][name]
        said = f"{words(name)} {spoken(value, schema)}"
        assert not absent(spec, name, value, (*texts, said), hint)


def test_twins_differ_in_one_fact(rows: list[Row]) -> None:
    pairs: dict[str, dict[str, Row]] = {}
    for row in rows:
        pairs.setdefault(row.scenario.twin, {})[row.scenario.behaviour] = row
    twins = [pair for pair in pairs.values() if {"dispatch", "clarify"} <= set(pair)]
    assert len(twins) == 42
    for pair in twins:
        acts, asks = pair["dispatch"].scenario, pair["clarify"].scenario
        assert set(acts.gold_arguments) - set(asks.gold_arguments) == set(asks.missing)
        assert (acts.system_prompt, acts.now, acts.tool) == (
            asks.system_prompt,
            asks.now,
            asks.tool,
        )
        assert len(asks.request) < len(acts.request)


def test_twins_stand_next_to_each_other(folder: Path) -> None:
    training = load_rows(folder, "train")
    for first, second in zip(training[::2], training[1::2], strict=True):
        alone = {"decline"} >= {first.scenario.behaviour, second.scenario.behaviour}
        assert alone or first.scenario.twin == second.scenario.twin


def test_corrected_rows_keep_no_trace_of_stall_or_nudge(rows: list[Row]) -> None:
    corrected = [row for row in rows if row.source == "corrected"]
    assert len(corrected) >= 5
    for row in corrected:
        assert not any(message.synthetic for message in row.messages)
        situation = situation_of(row.messages[:6])
        assert situation is not None
        nudge = nudge_text(situation)
        sentences = [part for part in nudge.split(". ") if len(part) > 20]
        said = " ".join(m.content for m in row.messages if m.role != "tool")
        assert not any(sentence in said for sentence in sentences)


def test_a_correction_changes_no_effect() -> None:
    scenario = origin_scenario(CATALOG, HINTS)
    spec, hint = CATALOG.tools[scenario.tool], HINTS[scenario.tool]
    found = asyncio.run(correct(scenario, spec, hint, CATALOG, SETTINGS, "param_dump"))
    assert isinstance(found, Correction)
    assert any(m.synthetic for m in found.nudged.messages)
    assert found.episode.state_hash == found.nudged.state_hash
    assert found.episode.queue == found.nudged.queue
    assert found.stall not in " ".join(m.content for m in found.episode.messages)


def test_scheduled_jobs_request_is_dispatched_with_the_default_time() -> None:
    scenario = origin_scenario(CATALOG, HINTS)
    spec = CATALOG.tools["scheduled_jobs"]
    assert str(spec.risk) == "write"
    assert spec.requires_approval
    assert len(spec.input_schema["properties"]) == 12
    assert "schedule_time" not in scenario.gold_arguments
    episode = asyncio.run(run_episode(scenario, CATALOG, SETTINGS, OraclePolicy(scenario, spec)))
    ((tool, stored, state),) = episode.queue
    arguments = json.loads(stored)
    assert (tool, state) == ("scheduled_jobs", "done")
    assert arguments["schedule_time"] == "+30m"
    assert "approvals" in arguments["title"]
    draft = json.dumps(scenario.gold_arguments)
    assert ledger(scenario, spec) == f"{draft}; title ok; message ok"
    schema = next(m for m in episode.messages if "2_schema_disclosure" in m.content)
    payload = json.loads(schema.content)
    assert list(payload)[-1] == "next_step"
    assert "schedule_time '+30m'" in payload["next_step"]


def _thinking(episode: Episode, said: str, instead: str) -> Episode:
    """The episode with something else in the thought of its decision."""
    changed = tuple(
        dataclasses.replace(m, content=m.content.replace(said, instead, 1))
        if m.content.startswith("<think>")
        else m
        for m in episode.messages
    )
    return dataclasses.replace(episode, messages=changed)


def test_spoiled_rows_are_dropped_for_the_right_reason(rows: list[Row]) -> None:
    row = next(
        r
        for r in rows
        if r.scenario.split == "train"
        and r.scenario.behaviour == "dispatch"
        and CATALOG.tools[r.scenario.tool].requires_approval
    )
    verifier = Verifier(CATALOG, SETTINGS)
    spec = CATALOG.tools[row.scenario.tool]
    policy = OraclePolicy(row.scenario, spec)
    good = asyncio.run(run_episode(row.scenario, CATALOG, SETTINGS, policy))
    spoilings = {
        "format": dataclasses.replace(good, messages=good.messages[:-1]),
        "protocol": dataclasses.replace(good, calls=good.calls[1:]),
        "replay": dataclasses.replace(good, state_hash="0" * 64),
    }
    hint = HINTS[row.scenario.tool]
    assert asyncio.run(verifier.reason(row.scenario, good, hint)) is None
    for said, instead in ((" ok", " missing"), ('{"', '{"more": 1, "'), ("</think>", "")):
        spoilt = _thinking(good, said, instead)
        assert "thinking" in str(asyncio.run(verifier.reason(row.scenario, spoilt, hint)))
    for reason, episode in spoilings.items():
        assert str(asyncio.run(verifier.reason(row.scenario, episode, hint))).startswith(reason)
    silent = dataclasses.replace(row.scenario, request="Please do it.")
    bare = dataclasses.replace(
        good, messages=(good.messages[0], Message("user", silent.request), *good.messages[2:])
    )
    assert "grounding" in str(asyncio.run(verifier.reason(silent, bare, hint)))


def test_a_finished_set_is_left_alone_and_another_config_refused(folder: Path) -> None:
    before = (folder / "manifest.json").stat().st_mtime_ns
    generate(CONFIG, folder, _silent)
    assert (folder / "manifest.json").stat().st_mtime_ns == before
    with pytest.raises(DataError, match="another config"):
        generate(dataclasses.replace(CONFIG, seed=9), folder, _silent)


def test_a_half_written_set_is_not_trusted(folder: Path, tmp_path: Path) -> None:
    half = tmp_path / "half"
    half.mkdir()
    (half / "train.parquet").write_bytes((folder / "train.parquet").read_bytes()[:100])
    with pytest.raises(DataError, match="half"):
        load_rows(half)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"held_out_tools": ("no_such_tool",)}, ConfigError, "no_such_tool"),
        ({"held_out_domain": "mars"}, ConfigError, "mars"),
        ({"catalogs": ("nowhere.yaml",)}, CatalogError, "nowhere.yaml"),
    ],
)
def test_bad_configs_are_one_clear_line(
    tmp_path: Path, change: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        generate(dataclasses.replace(CONFIG, **change), tmp_path / "x", _silent)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "x").exists()
