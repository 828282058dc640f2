"""Seven languages: the same parts in each, read back by what has to understand them."""

from __future__ import annotations

import dataclasses
import random
import re
from typing import get_args

import pytest

from breadcrumbs.asking import parameters_of
from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.data_gen.localise import localised, spoken_name
from breadcrumbs.data_gen.questions import asked_parameters, spoken_question
from breadcrumbs.data_gen.scenarios import droppable
from breadcrumbs.data_gen.speech import (
    LANGUAGES,
    VOICES,
    Language,
    filled,
    in_any_voice,
    lexicon,
    pick,
    speech,
)
from breadcrumbs.data_gen.stalls import StallKind, Subject, stall_text
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.radar import Disclosed, Radar

CATALOG, HINTS = load_catalog(), load_hints()
TOOLS = random.Random(1).sample([n for n in CATALOG.names() if CATALOG.tools[n].required], 24)
KINDS: tuple[StallKind, ...] = get_args(StallKind)


@pytest.mark.parametrize("voice", VOICES)
def test_what_a_report_must_say_stands_in_every_wording_of_it(voice: str) -> None:
    texts = speech(voice)  # type: ignore[arg-type]
    reports, marks = texts.reports, texts.marks
    for status in ("waiting", "denied", "expired"):
        for text in getattr(reports, status):
            said = filled(text, tool="xx").lower()
            assert all(part in said for part in getattr(marks, status)), text
            for part in getattr(marks, status):
                said = said.replace(part, "")
            assert not re.search(marks.success, said), text
    for text in (*reports.done, *reports.created, *reports.updated, *reports.deleted):
        assert re.search(marks.success, filled(text, tool="xx", key="yy").lower()), text
    assert all(texts.kinds.nothing_run in text for text in texts.kinds.stays)
    waits = normalise(texts.kinds.not_run).strip()
    assert all(waits in normalise(text) for text in texts.kinds.would_run)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_as_much_to_say(language: Language) -> None:
    texts = speech(language)
    assert texts.requests is not None
    assert texts.questions is not None
    assert len(texts.declines) >= 6
    assert set(texts.requests.reasons) == set(speech("en").requests.reasons)  # type: ignore[union-attr]
    assert set(texts.requests.asks) == {"curt", "casual", "polite"}
    assert all("{do}" in ask for asks in texts.requests.asks.values() for ask in asks)


def test_every_tool_and_most_parameters_have_a_word_in_every_language() -> None:
    others = set(LANGUAGES) - {"en"}
    for name in CATALOG.names():
        assert set(lexicon("wishes")[name]) == others
    assert all(set(words) == others for words in lexicon("labels").values())
    required = {
        HINTS[n].arguments[a].label for n in CATALOG.names() for a in CATALOG.tools[n].required
    }
    assert required - set(lexicon("labels")) <= {"message text"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_questions_ask_for_exactly_what_is_missing(language: Language) -> None:
    for name in TOOLS:
        spec = CATALOG.tools[name]
        hint = localised(HINTS[name], spec, language)
        for missing in droppable(spec, hint):
            question = spoken_question(spec, hint, missing, language, random.Random(name))
            assert question is not None, (name, missing)
            assert asked_parameters(question, spec, hint, language) == (missing,)
            plain = question.replace("?", ".").replace("？", "。")
            named = spoken_name(missing, hint, language)
            gone = plain.replace(named, "").replace(hint.arguments[missing].label, "")
            assert asked_parameters(gone, spec, hint, language) != (missing,) or language == "en"


@pytest.mark.parametrize("language", LANGUAGES)
def test_asking_for_leave_asks_for_no_parameter(language: Language) -> None:
    spec = CATALOG.tools["cancel_order"]
    hint = localised(HINTS[spec.name], spec, language)
    for text in speech(language).kinds.may_i:
        assert asked_parameters(text, spec, hint, language) == ()


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_two_parameters_of_a_tool_share_a_name(language: Language) -> None:
    for name in CATALOG.names():
        hint = localised(HINTS[name], CATALOG.tools[name], language)
        labels = [argument.label.casefold() for argument in hint.arguments.values()]
        assert language == "en" or len(set(labels)) == len(labels), (name, labels)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_radar_knows_every_kind_of_stall(language: Language) -> None:
    rng, radar = random.Random(language), Radar()
    heard: dict[StallKind, list[bool]] = {kind: [] for kind in KINDS}
    texts: set[str] = set()
    for name in TOOLS[:8]:
        spec = CATALOG.tools[name]
        hint = localised(HINTS[name], spec, language)
        given = {n: "4711" for n in spec.input_schema["properties"]}
        asks = {n: a.questions for n, a in hint.arguments.items() if a.questions}
        task = lexicon("wishes")[name].get(language, "")
        subject = Subject(name, spec.input_schema, given, asks, language, task)
        parameters = parameters_of(spec.input_schema)
        said = " ".join(f"{n} 4711" for n in given)
        situation = Disclosed(name, tuple(parameters), said)
        for kind in KINDS:
            for _ in range(4):
                text = stall_text(kind, subject, rng)
                texts.add(text)
                heard[kind].append(radar.classify(text, situation) is not None)
    shares = {kind: sum(found) / len(found) for kind, found in heard.items()}
    asked = shares.pop("inferable_value_ask")  # 4711 fits few parameters
    assert min(shares.values()) >= 0.9, shares
    assert asked > 0.2
    assert len(texts) >= 100


def test_stalls_are_in_the_language_of_their_subject() -> None:
    spec = CATALOG.tools["cancel_order"]
    subject = Subject(spec.name, spec.input_schema, {"order_number": "ord_1"})
    for kind in KINDS:
        english = stall_text(kind, subject, random.Random(5))
        japanese = stall_text(kind, dataclasses.replace(subject, voice="ja"), random.Random(5))
        assert english.isascii() or kind == "param_dump"
        assert kind == "fake_call_in_text" or not japanese.isascii()


def test_slots_are_filled_once_and_strange_braces_stay() -> None:
    assert filled("{a} {b} {c}", a="{b}", b="1") == "{b} 1 {c}"
    assert filled('{"x": {a}}', a=2) == '{"x": 2}'


def test_a_pick_follows_from_its_key() -> None:
    assert pick("abc", 1, "x") == pick("abc", 1, "x")
    assert len({pick("abc", number) for number in range(30)}) == 3


def test_yes_and_no_are_never_the_same() -> None:
    assert not in_any_voice("yes") & in_any_voice("no")
    assert not in_any_voice("yes") & in_any_voice("waits")


def test_scripts_without_spaces_are_compared_letter_by_letter() -> None:
    assert normalise("标题为Spring roadmap。") == " 标 题 为 spring roadmap "
    assert normalise("Café-Termin 25.0") == " café termin 25 "
