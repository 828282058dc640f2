"""Made-up tools: as checked as the real ones, met once each, in training alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.hints import check_hints
from breadcrumbs.data_gen.practice import DOMAIN, practice_tools
from breadcrumbs.data_gen.scenarios import droppable
from breadcrumbs.data_gen.splits import make_splits
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.data_gen.workshop import practice_for
from breadcrumbs.gateway.catalog import Catalog, load_catalog

CONFIG = GenerateConfig(
    held_out_tools=("issue_refund",),
    held_out_domain="clinic",
    train=Amount(pairs=6, declines=2),
    eval_tools=Amount(pairs=2),
    eval_domain=Amount(pairs=2),
    practice_pairs=8,
    phrasing="plain",
)


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def known() -> Catalog:
    return make_splits(load_catalog(), CONFIG.held_out_tools, "clinic").catalog_for("train")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("practice") / "set"
    generate(CONFIG, out, _silent)
    return out


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return [row for row in load_rows(folder) if row.scenario.domain == DOMAIN]


def test_made_up_tools_pass_what_real_ones_pass(known: Catalog) -> None:
    made = practice_tools(200, 1, known)
    assert check_hints(made.hints, made.catalog) == []
    assert len(made.catalog.tools) == 200
    assert not set(made.catalog.tools) & set(known.tools)
    for name, spec in made.catalog.tools.items():
        assert set(droppable(spec, made.hints[name])) == set(spec.required)


def test_the_same_seed_makes_the_same_tools(known: Catalog) -> None:
    one, same, more, other = (
        practice_tools(count, seed, known) for count, seed in ((20, 1), (20, 1), (40, 1), (20, 2))
    )
    assert (one.catalog.tools, one.hints) == (same.catalog.tools, same.hints)
    assert list(one.catalog.tools) == list(more.catalog.tools)[:20]
    assert not set(one.catalog.tools) & set(other.catalog.tools)


def test_few_known_words_are_enough() -> None:
    made = practice_tools(20, 1, Catalog({}))
    assert check_hints(made.hints, made.catalog) == []
    assert len(made.catalog.tools) == 20


def test_no_word_comes_from_a_held_out_tool(known: Catalog) -> None:
    """ "parvo" stands in the held-out domain alone; with all tools it is soon drawn."""

    def drawn(catalog: Catalog) -> set[str]:
        tools = practice_tools(300, 1, catalog).catalog.tools.values()
        return set(re.findall("[a-z]+", repr([spec.input_schema for spec in tools])))

    assert "parvo" not in drawn(known)
    assert "parvo" in drawn(load_catalog())


def test_each_is_met_in_one_pair_of_training(rows: list[Row], known: Catalog) -> None:
    assert {row.scenario.split for row in rows} == {"train"}
    behaviours = [row.scenario.behaviour for row in rows]
    assert behaviours == ["dispatch", "clarify"] * CONFIG.practice_pairs
    assert len({row.scenario.tool for row in rows}) == CONFIG.practice_pairs
    for row in rows:  # search finds made-up tools only
        text = repr(row.messages)
        assert not [name for name in known.tools if re.search(rf"\b{name}\b", text)]


def test_they_are_replayed_like_any_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert validate(folder, _silent).faults == ()
    other = GenerateConfig(**{**vars(CONFIG), "seed": 2})
    splits = make_splits(load_catalog(), other.held_out_tools, other.held_out_domain)
    monkeypatch.setattr(
        "breadcrumbs.data_gen.rebuilding.practice_for", lambda *_: practice_for(other, splits)
    )
    assert len(validate(folder, _silent).faults) == 2 * CONFIG.practice_pairs
