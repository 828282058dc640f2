"""Requests by persona: many wordings, twins one fact apart, slips that touch nothing needed."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadcrumbs.data_gen.config import Amount, GenerateConfig, config_dict
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.data_gen.localise import localised
from breadcrumbs.data_gen.personas import (
    HELD_OUT_PERSONAS,
    PERSONAS,
    VERB_CLASSES,
    SpokenPlan,
    plan_spoken,
    verb_class,
)
from breadcrumbs.data_gen.speech import LANGUAGES, Language
from breadcrumbs.data_gen.templates import LIMIT, template_shares, too_frequent
from breadcrumbs.data_gen.typos import NEGATIONS, mistyped, with_typos
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.catalog import load_catalog

CATALOG, HINTS = load_catalog(), load_hints()
CONFIG = GenerateConfig(
    held_out_tools=("scheduled_jobs", "book_vehicle"),
    held_out_domain="clinic",
    train=Amount(pairs=40, declines=10),
    eval_tools=Amount(pairs=2),
    eval_domain=Amount(pairs=2),
    phrasing="personas",
    prompts="varied",
    languages=LANGUAGES,
    typo_share=0.3,
    kinds={"held": 2, "denied": 2, "policy": 2, "hold": 2, "question": 3, "read": 2, "several": 2},
)


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("personas") / "set"
    generate(CONFIG, out, _silent)
    return out


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return load_rows(folder)


def _plan(
    tool: str, language: Language, seed: object, values: Mapping[str, Any] | None = None
) -> SpokenPlan:
    spec = CATALOG.tools[tool]
    hint = localised(HINTS[tool], spec, language)
    topic = hint.topics[0] if hint.topics else None
    said = {"order_id": "ord_12"} if values is None else values
    return plan_spoken(language, spec, hint, said, topic, random.Random(f"{seed}"))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", VERB_CLASSES)
def test_a_verb_class_has_two_hundred_phrasings(name: str, language: Language) -> None:
    tools = [n for n in CATALOG.names() if verb_class(CATALOG.tools[n]) == name]
    if not tools:
        assert name == "other"  # every tool of the catalog that ships has an effect
        return
    frames = {_plan(tools[0], language, n, {}).surface.frame for n in range(500)}
    assert len(frames) >= 200


def test_same_draw_same_words() -> None:
    assert _plan("cancel_order", "fr", 1) == _plan("cancel_order", "fr", 1)
    assert len({_plan("cancel_order", "fr", n).say() for n in range(20)}) > 10


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_request_without_a_value_says_the_same_but_for_it(language: Language) -> None:
    for number in range(40):
        plan = _plan("cancel_order", language, number)
        assert "ord_12" in plan.say()
        assert "ord_12" not in plan.say(("order_id",))
        assert normalise(plan.intent) in normalise(plan.say(("order_id",)))


def test_held_out_personas_are_for_evaluation(rows: list[Row]) -> None:
    training = {row.scenario.surface.persona for row in rows if row.split == "train"}
    assert training == set(PERSONAS)
    assert not training & set(HELD_OUT_PERSONAS)


def test_the_set_is_valid_and_speaks_every_language(folder: Path, rows: list[Row]) -> None:
    assert not validate(folder, _silent).faults
    assert {row.scenario.surface.language for row in rows} == set(LANGUAGES)


def test_twins_speak_alike(rows: list[Row]) -> None:
    surfaces: dict[str, set[object]] = {}
    for row in rows:
        surfaces.setdefault(row.twin, set()).add(row.scenario.surface)
    assert all(len(found) == 1 for found in surfaces.values())


def test_no_template_is_frequent(rows: list[Row]) -> None:
    few = 3 / len(rows)  # a small set: three rows are more than two in a hundred
    assert too_frequent(template_shares(rows), max(LIMIT, few)) == []


def test_one_wording_for_all_is_seen(rows: list[Row]) -> None:
    alike = [_with_frame(row, "Please {do}.") for row in rows]
    assert too_frequent(template_shares(alike))[0] == "frame"
    prompts = [
        dataclasses.replace(r, scenario=dataclasses.replace(r.scenario, system_prompt="Act."))
        for r in rows
    ]
    assert "system prompt" in too_frequent(template_shares(prompts))


def _with_frame(row: Row, frame: str) -> Row:
    surface = dataclasses.replace(row.scenario.surface, frame=frame)
    return dataclasses.replace(row, scenario=dataclasses.replace(row.scenario, surface=surface))


@given(
    st.lists(st.text("abcdefghijklmnopqrstuvwxyzäéñ", min_size=1, max_size=12), max_size=12),
    st.text("abcdefghij0123456789-_. ", min_size=1, max_size=15),
    st.sampled_from(sorted(NEGATIONS)),
    st.integers(),
)
@settings(max_examples=60, deadline=None)
def test_a_slip_touches_no_value_and_no_negation(
    around: list[str], value: str, negation: str, seed: int
) -> None:
    text = " ".join([*around, negation, value, *around])
    slipped = mistyped(text, (value,), random.Random(seed), share=1.0)
    assert value in slipped
    assert len(re.findall(rf"(?<!\w){re.escape(negation)}(?!\w)", slipped)) >= 1
    assert [w for w in slipped.split() if w.lower() in NEGATIONS] == [
        w for w in text.split() if w.lower() in NEGATIONS
    ]


def test_without_its_guards_a_slip_would_touch_both() -> None:
    touched = {mistyped("never move blueprint", (), random.Random(n), share=1.0) for n in range(20)}
    assert any("blueprint" not in text for text in touched)
    assert all("never" in text for text in touched)
    kept = {mistyped("never blueprint", ("blueprint",), random.Random(n), 1.0) for n in range(20)}
    assert kept == {"never blueprint"}


def test_a_plan_typed_in_haste_keeps_its_values() -> None:
    spec, values = CATALOG.tools["cancel_order"], {"order_id": "ord_12"}
    slipped = 0
    for number in range(60):
        plan = _plan("cancel_order", "de", number)
        typed = with_typos(plan, values, spec.input_schema["properties"], random.Random(number))
        assert "ord_12" in typed.say()
        assert typed.intent == plan.intent
        slipped += typed.say() != plan.say()
    assert slipped > 20
    plan = _plan("cancel_order", "ja", 1)
    assert with_typos(plan, values, {}, random.Random(1)) == plan


def test_choices_of_words_need_personas(tmp_path: Path) -> None:
    for changed in ({"languages": ("de",)}, {"typo_share": 0.5}):
        config = dataclasses.replace(
            CONFIG, **{"phrasing": "varied", "languages": ("en",), "typo_share": 0.0, **changed}
        )
        with pytest.raises(ConfigError, match="needs phrasing personas"):
            generate(config, tmp_path / "x", _silent)
    only = dataclasses.replace(CONFIG, languages=("ja",), kinds={"derived": 1})
    with pytest.raises(ConfigError, match="add en to languages"):
        generate(only, tmp_path / "x", _silent)


def test_what_is_left_as_it_was_is_not_named() -> None:
    plain = GenerateConfig(train=Amount(1), eval_tools=Amount(0), eval_domain=Amount(0))
    assert not {"prompts", "languages", "typo_share"} & set(config_dict(plain))
    assert {"prompts", "languages", "typo_share"} <= set(config_dict(CONFIG))
