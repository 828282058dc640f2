"""Argument checks: one field-level fault for each thing that is wrong, and bounds that hold."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.gateway.arguments import (
    MAX_BYTES,
    MAX_EXPECTED,
    MAX_FAULTS,
    MAX_MESSAGE,
    check_arguments,
    find_unfit,
)
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec


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


def many(rules: int) -> ToolSpec:
    """A tool whose list must fit many rules, each broken by each item 1."""
    items = {"allOf": [{"minimum": bound} for bound in range(2, 2 + rules)]}
    schema = {"type": "object", "required": [], "properties": {"a": {"type": "array"}}}
    schema["properties"]["a"]["items"] = items  # type: ignore[index]
    return ToolSpec("t", "", schema, Risk.READ, "d")


def test_faults_are_named_up_to_a_bound_and_the_rest_counted() -> None:
    errors = check_arguments(many(5), {"a": [1] * 8}).errors
    assert len(errors) == MAX_FAULTS + 1
    assert errors[-1].message == f"and {5 * 8 - MAX_FAULTS} more faults"
    assert len(check_arguments(many(2), {"a": [1] * 10}).errors) == MAX_FAULTS  # just all


def test_where_faults_could_be_millions_only_the_first_is_named() -> None:
    """All of them would take gigabytes: 30 000 items under 300 rules."""
    errors = check_arguments(many(300), {"a": [1] * 30_000}).errors
    assert [(fault.path, fault.message) for fault in errors] == [
        ("a.0", "1 is less than the minimum of 2")
    ]
    assert not check_arguments(many(300), {"a": [5000] * 30_000}).errors


def test_what_would_block_everyone_for_long_is_not_matched_at_all() -> None:
    """45 000 items under 8 000 rules hold the processor for some seconds, though all fit."""
    errors = check_arguments(many(8000), {"a": [9000] * 45_000}).errors
    assert [fault.message for fault in errors] == ["too many values to match against this schema"]
    assert not check_arguments(many(8000), {"a": [9000] * 1_000}).errors


def test_under_long_names_only_the_first_fault_is_named() -> None:
    """Each fault holds its whole path: 9 000 of them under a name of 30 000 are 270 MB."""
    schema = {
        "type": "object",
        "required": [],
        "properties": {},
        "additionalProperties": {"items": {"type": "string"}},
    }
    spec = ToolSpec("t", "", schema, Risk.READ, "d")
    assert len(check_arguments(spec, {"k" * 30_000: [1] * 9_000}).errors) == 1
    assert len(check_arguments(spec, {"k" * MAX_MESSAGE: [1] * 9}).errors) == 9


def test_what_was_expected_is_cut_where_it_is_long() -> None:
    """Each fault repeats it: an enum of 100 kB under twelve faults would be an answer of 1 MB."""
    items = {"enum": ["x" * 100_000, "y"]}
    schema = {"type": "object", "required": [], "properties": {"a": {"items": items}}}
    errors = check_arguments(ToolSpec("t", "", schema, Risk.READ, "d"), {"a": [1, 2]}).errors
    shown = [fault.to_dict()["expected"] for fault in errors]
    assert shown == ['one of ["'.ljust(MAX_EXPECTED, "x") + "…"] * 2


def test_a_path_is_no_longer_than_is_shown() -> None:
    """With whole paths, 200 000 of them are 80 GB of copying."""
    unfit = find_unfit({"k" * 400_000: [*([0] * 200_000), float("nan")]})
    assert unfit is not None
    assert unfit.path == "k" * MAX_MESSAGE


def test_schemas_that_are_true_or_false_are_described() -> None:
    schema = {
        "type": "object",
        "properties": {
            "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
            "place": {"type": "object", "properties": {"floor": True}, "required": ["floor"]},
        },
        "additionalProperties": False,
    }
    spec = ToolSpec("t", "", schema, Risk.WRITE, "d")
    faults = {e.path: e.expected for e in check_arguments(spec, {"pair": 1, "place": {}}).errors}
    assert faults == {"pair": "array of nothing", "place.floor": "any value"}
