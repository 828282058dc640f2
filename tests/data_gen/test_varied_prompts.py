"""System prompts put together from parts: what they demand still decides the label."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from breadcrumbs.data_gen.config import Amount, GenerateConfig, config_dict
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.data_gen.kind_checks import leave_fault
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.gateway.catalog import Risk, load_catalog
from breadcrumbs.prompt_grammar import demands_confirmation, steering_of
from breadcrumbs.prompts import DECOUPLED

CATALOG, HINTS = load_catalog(), load_hints()
CONFIG = GenerateConfig(
    held_out_tools=("scheduled_jobs", "book_vehicle"),
    held_out_domain="clinic",
    train=Amount(pairs=40),
    eval_tools=Amount(pairs=2),
    eval_domain=Amount(pairs=0),
    prompts="varied",
    kinds={"policy": 8},
)


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prompts") / "set"
    generate(CONFIG, out, _silent)
    return out


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return load_rows(folder)


def test_the_set_is_valid(folder: Path) -> None:
    assert not validate(folder, _silent).faults


def test_most_rows_have_a_prompt_of_their_own(rows: list[Row]) -> None:
    found = {row.scenario.system_prompt.replace(row.scenario.now, "") for row in rows}
    assert len(found) > len(rows) / 3  # twins share theirs
    assert all(steering_of(row.scenario.system_prompt) for row in rows)


def test_tier_2_off_binds_writes_and_leaves_reads_alone(rows: list[Row]) -> None:
    off = [row for row in rows if demands_confirmation(row.scenario.system_prompt)]
    held = [row for row in off if row.behaviour == "hold"]
    reads = [row for row in off if row.behaviour == "dispatch"]
    assert held
    assert reads
    assert all(CATALOG.tools[row.scenario.tool].risk is Risk.READ for row in reads)
    for row in held:
        spec = CATALOG.tools[row.scenario.tool]
        prompt = f"{DECOUPLED[0]}\n{row.scenario.system_prompt.partition(chr(10))[2]}"
        on = dataclasses.replace(row.scenario, system_prompt=prompt)
        assert leave_fault(row.scenario, spec) is None
        assert str(leave_fault(on, spec)).startswith("leave: hold is labelled")
        acts = dataclasses.replace(row.scenario, behaviour="dispatch")
        assert str(leave_fault(acts, spec)).startswith("leave: dispatch is labelled")


def test_few_prompts_are_the_default_and_are_not_named() -> None:
    plain = dataclasses.replace(CONFIG, prompts="few")
    assert "prompts" not in config_dict(plain)
    assert config_dict(CONFIG)["prompts"] == "varied"
