"""The radar where it works: over whole episodes, whose right turns and stalls are known."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.episodes import Episode, OraclePolicy, run_episode
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.stalls import StallKind, stall_text, subject_of
from breadcrumbs.events import Nudge
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.loop import LoopSettings
from breadcrumbs.policies import StallerPolicy
from breadcrumbs.radar import Disclosed, Radar, Stall
from breadcrumbs.turns import Policy

KINDS: tuple[StallKind, ...] = get_args(StallKind)


class Eager(Radar):
    """Takes every text after a disclosure for a stall."""

    def classify(self, text: str, situation: Disclosed | None) -> Stall | None:
        return None if situation is None else Stall("permission_ask", text)


@pytest.fixture(scope="module")
def rows(small_config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    config = dataclasses.replace(
        small_config, corrected_share=0.0, train=Amount(pairs=40, declines=6)
    )
    out = tmp_path_factory.mktemp("radar") / "data"
    generate(config, out, lambda done, total, note="": None)
    return load_rows(out)


@pytest.fixture(scope="module")
def catalog(small_config: GenerateConfig) -> Catalog:
    return load_catalog([Path(name) for name in small_config.catalogs])


def nudges(row: Row, catalog: Catalog, stall: str | None, radar: Radar | None = None) -> int:
    """How often a run of the row's scenario is nudged, its policy stalling once or never."""
    scenario = row.scenario
    policy: Policy = OraclePolicy(scenario, catalog.tools[scenario.tool])
    if stall is not None:
        policy = StallerPolicy(policy, lambda messages: stall, 1)
    nudging = LoopSettings(nudge=True)
    settings = GatewaySettings(max_hits=2)
    episode: Episode = asyncio.run(
        run_episode(scenario, catalog, settings, policy, loop_settings=nudging, radar=radar)
    )
    return sum(isinstance(event, Nudge) for event in episode.events)


def test_G61_over_whole_episodes_nearly_every_nudge_answers_a_stall(
    rows: list[Row], catalog: Catalog, record_property: Callable[[str, object], None]
) -> None:
    """Precision at least 0.98; the recall of stalls put together from parts is reported."""
    false = sum(nudges(row, catalog, None) for row in rows)
    calls = [row for row in rows if row.scenario.behaviour == "dispatch"]
    stalls = caught = 0
    for number, row in enumerate(calls):
        schema = catalog.tools[row.scenario.tool].input_schema
        subject = subject_of(row.scenario, schema)
        kind = KINDS[number % len(KINDS)]
        stall = stall_text(kind, subject, random.Random(number))
        stalls += 1
        caught += nudges(row, catalog, stall) == 1
    quiet = len(rows) - len(calls)
    record_property("stalls, caught, false alarms, runs", (stalls, caught, false, len(rows)))
    assert quiet >= 40  # questions and refusals
    assert stalls >= 40
    assert caught / (caught + false) >= 0.98
    assert caught / stalls >= 0.7


def test_a_radar_that_hears_a_stall_in_every_text_nudges_turns_that_are_right(
    rows: list[Row], catalog: Catalog
) -> None:
    """The count of false alarms counts: each question and refusal would be one."""
    asked = [row for row in rows if row.scenario.behaviour == "clarify"][:10]
    assert all(nudges(row, catalog, None, Eager()) > 0 for row in asked)
