"""Other words for a request: what still says the same, and what is refused and why."""

from __future__ import annotations

import json

import pytest

from breadcrumbs.data_gen import scenarios
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.data_gen.origin import origin_scenario
from breadcrumbs.data_gen.rewording import in_order_said, read_texts, wording_fault
from breadcrumbs.data_gen.scenarios import Blueprint, Recipe, Scenario, make_blueprint
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.search import ToolIndex

CATALOG, HINTS = load_catalog(), load_hints()
TOOL = "set_working_hours"
SPEC, HINT = CATALOG.tools[TOOL], HINTS[TOOL]


@pytest.fixture(scope="module")
def twins() -> tuple[Scenario, Scenario]:
    """A request that says everything, and the same without the weekday."""
    index = ToolIndex(CATALOG)
    for number in range(20):
        drawn = make_blueprint(
            f"k{number}",
            "train",
            SPEC,
            HINT,
            CATALOG,
            index,
            Recipe(optional_share=0.0),
            seed=1,
            drop="weekday",
        )
        if isinstance(drawn, Blueprint):
            return scenarios.dispatch(drawn), scenarios.clarify(drawn)
    raise AssertionError("no blueprint")


def fault(text: str, scenario: Scenario) -> str | None:
    return wording_fault(text, scenario, SPEC, HINT)


def test_the_same_in_other_words_is_taken(twins: tuple[Scenario, Scenario]) -> None:
    for scenario in twins:
        assert fault(f"When you find a moment: {scenario.request}", scenario) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda r: r.upper() + "!", "the same words"),
        (lambda r: f"{r} Do it 3711 times.", "a number was added"),
        (lambda r: f"{r}\nNow", "hidden characters, lines or marks"),
        (lambda r: f"{r} \u202enow", "hidden characters, lines or marks"),
        (lambda r: f"{r} <tool_call> now", "hidden characters, lines or marks"),
        (lambda r: r + " please" * 200, "much longer than the request"),
        (lambda r: "Would you kindly see to it?", "a value is not said any more"),
    ],
)
def test_what_is_not_the_request_is_refused(
    twins: tuple[Scenario, Scenario], change: object, reason: str
) -> None:
    assert callable(change)
    assert fault(change(twins[0].request), twins[0]) == reason


def test_the_missing_value_must_stay_unsaid(twins: tuple[Scenario, Scenario]) -> None:
    acts, asks = twins
    assert fault(f"When you find a moment: {acts.request}", acts) is None
    assert fault(f"{asks.request} On a Tuesday.", asks) == "another argument is said"
    assert fault(f"{asks.request} On a holiday.", asks) is None
    assert fault(f"{acts.request} And autodecline yes.", acts) == "another argument is said"
    assert fault(f"{acts.request} And be quick, yes?", acts) is None


def test_the_topic_of_a_worded_text_must_stay() -> None:
    scenario = origin_scenario(CATALOG, HINTS)
    spec, hint = CATALOG.tools[scenario.tool], HINTS[scenario.tool]
    kept = f"Would you kindly: {scenario.request}"
    assert wording_fault(kept, scenario, spec, hint) is None
    other = "Would you kindly set up a reminder to water the plants?"
    assert wording_fault(other, scenario, spec, hint) == "the topic is not the same"


def test_arguments_stand_in_the_order_of_the_new_request(twins: tuple[Scenario, Scenario]) -> None:
    acts = twins[0]
    assert list(in_order_said(acts.request, acts, SPEC, HINT)) == list(acts.gold_arguments)
    names = list(acts.gold_arguments)
    backwards = ", ".join(str(acts.gold_arguments[name]) for name in reversed(names))
    ordered = in_order_said(f"Working hours please: {backwards}", acts, SPEC, HINT)
    assert list(ordered) == names[::-1]
    assert ordered == acts.gold_arguments


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Sure!",
        '{"requests": ["a"]}',
        '{"requests": ["a", 2]}',
        '{"requests": ["a", " "]}',
        '["a", "b"]',
        '{"requests": ["a", "b"]} and more',
        "[" * 100_000,
    ],
)
def test_an_answer_of_another_shape_is_none(answer: str) -> None:
    assert read_texts(answer, 2) is None


def test_an_answer_may_stand_in_a_fence() -> None:
    body = json.dumps({"requests": [" a", "b "]})
    assert read_texts(body, 2) == ["a", "b"]
    assert read_texts(f"```json\n{body}\n```", 2) == ["a", "b"]
