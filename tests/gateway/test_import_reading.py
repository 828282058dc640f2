"""Reading untrusted documents: plain values come out, or one error that says what and where."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.imports.reading import (
    MAX_DEPTH,
    parse_json,
    parse_yaml,
)

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"amount": 1, "amount": 100}', "key 'amount' stands twice"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ("[1e400]", "Infinity are not JSON"),
        ('["\\ud800"]', "half of a surrogate pair"),
        ('{"\\udfff": 1}', "half of a surrogate pair"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"deeper than {MAX_DEPTH}"),
        ("1" * 5_000, "digits"),
        ('{"a": 1', "not valid JSON at line 1 column 8"),
        ("", "not valid JSON"),
    ],
)
def test_json_that_is_refused(text: str, says: str) -> None:
    with pytest.raises(CatalogError, match=says) as caught:
        parse_json(text, "tools.json")
    assert str(caught.value).startswith("tools.json: ")
    assert len(str(caught.value)) < 200


def test_what_the_plain_parsers_would_have_let_through() -> None:
    """The negative control of the table above and below."""
    assert json.loads('{"amount": 1, "amount": 100}') == {"amount": 100}
    assert json.loads('["\\ud800"]') == ["\ud800"]
    assert json.loads("[1e400]") == [float("inf")]
    assert yaml.safe_load("amount: 1\namount: 100") == {"amount": 100}
    assert yaml.safe_load("{on: no, day: 2020-01-01}") != {"on": "no", "day": "2020-01-01"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("amount: 1\namount: 100", "line 2 column 1: key 'amount' stands twice"),
        ("200: a\n'200': b", "key '200' stands twice"),
        (BOMB, "more than 2000000 values"),
        ("a: &a [*a]", "nested deeper"),
        ("- " * 3_000 + "a", "nested deeper"),
        ("[" * 100_000 + "]" * 100_000, "maximum nesting depth"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: !!binary aGk=", "bytes is not a JSON value"),
        ("a: !!set {b}", "set is not a JSON value"),
        ("b: &b {c: 1}\na: {<<: *b}", "merges maps"),
        ("? [a, b]\n: 1", "must be text"),
        ('a: "\\ud800"', "invalid Unicode"),
        ("a: !!float .nan", "Infinity are not JSON"),
        ("a: \x00", "control characters"),
        ("a: [1", "not valid YAML at line 2 column 1"),
    ],
)
def test_yaml_that_is_refused(text: str, says: str) -> None:
    with pytest.raises(CatalogError, match=says) as caught:
        parse_yaml(text, "api.yaml")
    assert "api.yaml" in str(caught.value)


def test_yaml_is_read_without_the_surprises_of_1_1() -> None:
    text = "on: yes\n200: {day: 2020-01-01, octal: 010, ten: 1e1, time: 12:30:00, none: , t: true, n: -3}"
    assert parse_yaml(text, "x") == {
        "on": "yes",
        "200": {
            "day": "2020-01-01",
            "octal": "010",
            "ten": 10.0,
            "time": "12:30:00",
            "none": None,
            "t": True,
            "n": -3,
        },
    }


@given(PLAIN)
def test_plain_json_comes_out_as_it_went_in(value: Any) -> None:
    assert parse_json(json.dumps(value), "x") == value


@given(PLAIN)
def test_plain_yaml_comes_out_as_it_went_in(value: Any) -> None:
    assert parse_yaml(yaml.safe_dump(value), "x") == value


@given(st.text(max_size=60) | st.text(alphabet="{}[]:,-&*!?|>'\"\n ab01", max_size=60))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    for parser in (parse_json, parse_yaml):
        with contextlib.suppress(CatalogError):
            json.dumps(parser(text, "x"), allow_nan=False)
