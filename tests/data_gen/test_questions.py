"""The matcher against hand-labelled questions, and against every question the hints can ask."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.questions import asked_parameters, plain_question
from breadcrumbs.gateway.catalog import Catalog, load_catalog

LABELLED = [
    (tool, text, tuple(asks))
    for tool, cases in yaml.safe_load(Path(__file__).with_name("asked.yaml").read_text()).items()
    for text, asks in cases
]
SHIPPED, SHIPPED_HINTS = load_catalog(), load_hints()


def test_hand_labelled_questions(
    small_catalog: Catalog, small_hints: Mapping[str, ToolHint]
) -> None:
    hits = wrong = missed = exact = 0
    for tool, text, asks in LABELLED:
        found = asked_parameters(text, small_catalog.tools[tool], small_hints[tool])
        hits += len(set(found) & set(asks))
        wrong += len(set(found) - set(asks))
        missed += len(set(asks) - set(found))
        exact += set(found) == set(asks)
    assert len(LABELLED) >= 120
    assert hits / (hits + wrong) >= 0.97
    assert hits / (hits + missed) >= 0.97
    assert exact / len(LABELLED) >= 0.97


def test_names_alone_never_invent_a_parameter(small_catalog: Catalog) -> None:
    for tool, text, asks in LABELLED:
        assert set(asked_parameters(text, small_catalog.tools[tool])) <= set(asks), text


@pytest.mark.parametrize("tool", SHIPPED.names())
def test_every_question_of_the_hints_asks_for_exactly_its_argument(tool: str) -> None:
    spec, hint = SHIPPED.tools[tool], SHIPPED_HINTS[tool]
    for name in spec.required:
        for question in (*hint.arguments[name].questions, plain_question(name)):
            assert asked_parameters(question, spec, hint) == (name,), question


def test_a_recited_schema_asks_for_everything(small_catalog: Catalog) -> None:
    spec = small_catalog.tools["transfer_money"]
    lines = "\n".join(f"- {name}" for name in spec.input_schema["properties"])
    text = f"Please provide the following parameters:\n{lines}"
    assert asked_parameters(text, spec) == tuple(spec.input_schema["properties"])


def test_quoted_values_are_not_questions(small_catalog: Catalog) -> None:
    spec = small_catalog.tools["create_calendar_event"]
    assert asked_parameters("When should 'title and location' start?", spec) == ("start",)


@given(st.text(max_size=300))
def test_any_text_is_answered_with_parameters_in_schema_order(text: str) -> None:
    spec = SHIPPED.tools["scheduled_jobs"]
    found = asked_parameters(text, spec, SHIPPED_HINTS["scheduled_jobs"])
    order = list(spec.input_schema["properties"])
    assert list(found) == sorted(set(found), key=order.index)
