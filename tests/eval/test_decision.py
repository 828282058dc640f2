from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.errors import DataError
from breadcrumbs.eval.config import Cell
from breadcrumbs.eval.decision import constant_turn, filler, pick, search_cases
from breadcrumbs.eval.metrics import Case, score_turn
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import load_catalog

MakeScenario = Callable[..., Scenario]


def cell(dispatch: int, clarify: int) -> Cell:
    return Cell(breadcrumb=True, split="held_out_tools", dispatch=dispatch, clarify=clarify)


def test_the_first_scenarios_of_each_behaviour_are_taken(make_scenario: MakeScenario) -> None:
    stored = [
        make_scenario(kind, id=f"{kind}-{i}") for i in range(3) for kind in ("dispatch", "clarify")
    ]
    assert [s.id for s in pick(stored, cell(2, 1), "here")] == [
        "dispatch-0",
        "dispatch-1",
        "clarify-0",
    ]


def test_too_few_scenarios_are_an_error_that_says_how_many(make_scenario: MakeScenario) -> None:
    with pytest.raises(DataError, match="here: 2 clarify scenarios wanted, the data set has 0"):
        pick([make_scenario()], cell(1, 2), "here")


def test_always_dispatch_fills_what_is_missing_with_a_valid_value(
    make_case: Callable[..., Case],
) -> None:
    case = make_case("clarify")
    (call,) = constant_turn("always_dispatch", case).calls
    arguments = call.arguments["arguments"]
    assert not check_arguments(case.spec, arguments).errors
    assert arguments["title"] == "Budget sync"
    assert score_turn(constant_turn("always_dispatch", case), case).invented == ("start",)


def test_always_ask_asks_for_the_first_required_parameter(make_case: Callable[..., Case]) -> None:
    case = make_case("clarify")
    assert score_turn(constant_turn("always_ask", case), case).asked == ("title",)


def test_fillers_fit_every_shipped_tool() -> None:
    catalog = load_catalog()
    assert len(catalog.names()) >= 40
    for name in catalog.names():
        spec = catalog.tool(name)
        assert spec is not None
        properties = spec.input_schema["properties"]
        arguments = {key: filler(schema) for key, schema in properties.items()}
        assert not check_arguments(spec, arguments).errors, name


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "string", "pattern": "^CC-7{4}$"}, "CC-7777"),
        ({"type": "string", "pattern": "^(?<year>"}, "something"),
        ({"type": "number", "exclusiveMinimum": 2}, 2.5),
        ({"type": "integer", "maximum": 0}, 0),
        ({"type": "string", "minLength": 12}, "somethingxxx"),
        ({"type": "string", "maxLength": 4}, "some"),
        ({"type": ["string", "null"]}, "something"),
        ({"type": "array", "minItems": 2, "items": {"type": "boolean"}}, [False, False]),
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "string", "default": "+30m"}, "+30m"),
    ],
)
def test_fillers_respect_bounds(schema: dict[str, Any], value: Any) -> None:
    assert filler(schema) == value


def test_a_search_turn_sees_system_and_request_alone(
    make_scenario: MakeScenario, catalog: Any, hints: Any
) -> None:
    (case,) = search_cases([make_scenario()], catalog, hints)
    assert [message.role for message in case.messages] == ["system", "user"]
    assert len(case.tools) == 3
