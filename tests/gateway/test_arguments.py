"""Argument checks: one field-level fault for each thing that is wrong, and bounds that hold."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.gateway.arguments import MAX_BYTES, check_arguments, find_unfit
from breadcrumbs.gateway.catalog import Catalog


def test_defaults_fill_what_was_left_open(desk: Catalog) -> None:
    given_ = {"title": "Fan is loud"}
    checked = check_arguments(desk.tools["create_ticket"], given_)
    assert checked.values == {"title": "Fan is loud", "priority": "normal"}
    assert not checked.errors
    assert given_ == {"title": "Fan is loud"}


@pytest.mark.parametrize(
    ("arguments", "path", "expected"),
    [
        ({}, "title", "string minLength 1"),
        ({"title": 5}, "title", "string minLength 1"),
        ({"title": ""}, "title", "string minLength 1"),
        ({"title": "x", "priority": "urgent"}, "priority", 'one of ["low","normal","high"]'),
        ({"title": "x", "colour": 1}, "colour", "only title, priority, due, place, watchers"),
        ({"title": "x", "due": "soon"}, "due", "string (date-time)"),
        ({"title": "x", "place": {}}, "place.floor", "integer minimum 0 maximum 40"),
        (
            {"title": "x", "place": {"floor": 99}},
            "place.floor",
            "integer minimum 0 maximum 40",
        ),
        ({"title": "x", "place": {"floor": 1, "wing": "B"}}, "place.wing", "only floor"),
        ({"title": "x", "watchers": "ann"}, "watchers", "array of string"),
        ({"title": "x", "watchers": ["ann", 3]}, "watchers.1", "string"),
    ],
)
def test_a_fault_names_its_field_and_what_is_expected(
    desk: Catalog, arguments: dict[str, Any], path: str, expected: str
) -> None:
    checked = check_arguments(desk.tools["create_ticket"], arguments)
    assert [(fault.path, fault.expected) for fault in checked.errors] == [(path, expected)]
    assert checked.values == {}


def test_all_faults_come_together(desk: Catalog) -> None:
    checked = check_arguments(desk.tools["create_ticket"], {"priority": 1, "a": 1, "b": 2})
    assert {fault.path for fault in checked.errors} == {"title", "priority", "a", "b"}


@pytest.mark.parametrize("due", ["2026-03-04T09:00", "2026-03-04 09:00:00", "2026-03-04T09:00:00Z"])
def test_a_moment_may_leave_out_seconds_and_zone(desk: Catalog, due: str) -> None:
    assert not check_arguments(desk.tools["create_ticket"], {"title": "x", "due": due}).errors


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "value",
    [
        nested(100_000),
        {"a": float("nan")},
        {"a": float("inf")},
        {"a": 2**53},
        {"a": [-(2**60)]},
        {"a": "\ud800"},
        {"\udfff": 1},
        {1: "a"},
        {"a": b"bytes"},
        {"a": "x" * MAX_BYTES},
        ["not", "an", "object"],
        None,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_safe_json_is_refused(desk: Catalog, value: Any) -> None:
    assert find_unfit(value) is not None
    assert check_arguments(desk.tools["create_ticket"], value).errors


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["title", "priority", "place", "x"]), json_values))
def test_no_arguments_make_it_raise(desk: Catalog, arguments: dict[str, Any]) -> None:
    checked = check_arguments(desk.tools["create_ticket"], arguments)
    assert bool(checked.errors) != bool(checked.values)
