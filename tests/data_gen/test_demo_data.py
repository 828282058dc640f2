"""The demo's own data set: the numbers its config promises, and the mix training needs."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Any

import pytest

from breadcrumbs.config import load, read_yaml, resolve
from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.scenarios import droppable
from breadcrumbs.data_gen.splits import kinds_seen_in_training, make_splits
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.models import SMALL, resolve_model
from breadcrumbs.rendering import load_renderer
from breadcrumbs.train.batches import decision_message

CATALOG, HINTS = load_catalog(), load_hints()
CONFIG = load("configs/generate/demo.yaml", GenerateConfig)
STEPS = read_yaml(resolve("configs/train/demo.yaml"))["steps"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[Row]]:
    out = tmp_path_factory.mktemp("demo") / "data"
    calls: list[tuple[int, int]] = []

    def report(done: int, total: int, note: str = "") -> None:
        calls.append((done, total))

    manifest = generate(CONFIG, out, report)
    assert calls == sorted(calls)
    assert calls[-1] == (len(load_rows(out)), manifest["counts"]["trajectories"])
    return manifest, load_rows(out)


def test_there_are_enough_rows_tools_and_domains(
    made: tuple[dict[str, Any], list[Row]],
) -> None:
    counts = made[0]["counts"]
    assert counts["trajectories"] >= 600
    assert len(counts["tool"]) >= 40
    assert len(counts["domain"]) >= 6
    cells = Counter((row.scenario.split, row.scenario.behaviour) for row in made[1])
    for split, least in (("held_out_tools", 100), ("held_out_domain", 60)):
        assert cells[split, "dispatch"] >= least
        assert cells[split, "clarify"] >= least
    assert cells["held_out_tools", "decline"] >= 40
    assert cells["held_out_domain", "decline"] >= 20


def test_acting_and_asking_are_even_in_training(made: tuple[dict[str, Any], list[Row]]) -> None:
    training = [row for row in made[1] if row.scenario.split == "train"]
    found = Counter(row.scenario.behaviour for row in training)
    assert len(training) == 2 * STEPS  # each is met once
    assert found["dispatch"] == found["clarify"]
    assert 0.04 <= found["decline"] / len(training) <= 0.10
    corrected = sum(row.source == "corrected" for row in training)
    assert 0.12 <= corrected / found["dispatch"] <= 0.16


def test_training_is_spread_over_tools_and_missing_arguments(
    made: tuple[dict[str, Any], list[Row]],
) -> None:
    asking = [
        row.scenario
        for row in made[1]
        if row.scenario.split == "train" and row.scenario.behaviour == "clarify"
    ]
    practised = [scenario for scenario in asking if scenario.domain == PRACTICE]
    assert len({scenario.tool for scenario in practised}) == CONFIG.practice_pairs
    asking = [scenario for scenario in asking if scenario.domain != PRACTICE]
    by_tool = Counter(scenario.tool for scenario in asking)
    worded = {name for name in by_tool if HINTS[name].composed}
    for group in (worded, by_tool.keys() - worded):
        numbers = [by_tool[name] for name in group]
        assert max(numbers) - min(numbers) <= 2
    share = sum(by_tool[name] for name in worded) / len(asking)
    assert CONFIG.worded_share <= share < CONFIG.worded_share + 0.1
    for tool, number in by_tool.items():
        missing = Counter(s.missing[0] for s in asking if s.tool == tool)
        names = droppable(CATALOG.tools[tool], HINTS[tool])
        assert len(missing) >= min(number, len(names))
    decoys = sum(scenario.decoy for scenario in asking)
    assert decoys / len(asking) > 0.3  # a value of the same kind is said, and must not be taken


def test_every_held_out_kind_of_argument_occurs_in_training() -> None:
    splits = make_splits(CATALOG, CONFIG.held_out_tools, CONFIG.held_out_domain)
    assert "scheduled_jobs" in splits.tools("held_out_tools")
    unseen = [kind for kind, seen in kinds_seen_in_training(splits).items() if not seen]
    assert unseen == []


def test_declines_see_no_fitting_tool(made: tuple[dict[str, Any], list[Row]]) -> None:
    declines = [row for row in made[1] if row.scenario.behaviour == "decline"]
    for row in declines:
        scenario = row.scenario
        assert scenario.tool in scenario.hidden_tools
        assert f'"{scenario.tool}"' not in row.messages[3].content
        assert row.messages[-1].content == scenario.reply


def test_drops_are_few_and_named(made: tuple[dict[str, Any], list[Row]]) -> None:
    dropped = made[0]["dropped"]
    assert sum(dropped.values()) <= 0.05 * made[0]["counts"]["trajectories"]
    assert all(reason and number > 0 for reason, number in dropped.items())


@pytest.mark.parametrize("split", ["train", "held_out_tools", "held_out_domain"])
def test_most_prompts_stay_under_800_tokens(
    made: tuple[dict[str, Any], list[Row]], split: str
) -> None:
    """With the small real model's own tokenizer, up to where act or ask is decided."""
    renderer = load_renderer(resolve_model(SMALL))
    rows = [row for row in made[1] if row.scenario.split == split]
    lengths = []
    for row in rows:
        messages = list(row.messages)
        decided = decision_message(messages, row.behaviour, row.scenario.tool)
        lengths.append(len(renderer.prompt_ids(messages[:decided], list(row.tools))))
    assert median(lengths) < 800
    assert max(lengths) < 1000
