"""What regular expressions can cost, and that nobody is held up by them."""

from typing import Any

import pytest

from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Risk, ToolSpec
from breadcrumbs.gateway.imports.schemas import normalise
from breadcrumbs.gateway.patterns import pattern_steps, steps

SLOW = "^[01]*1[01]{9000}$"
"""40 µs for each character of a text of zeros and ones."""


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("", 0),
        ("abc", 3),
        (r"^\d{3}$", 5),
        ("[01]{9000}", 9000),
        ("a{2,50}", 50),
        ("a{20,}", 20),
        ("(ab{3}){10}", 40),
        ("((a{10}){10}){10}", 1000),
        ("[]a{9000}]", 9002),  # an empty class and a repeat, or one class: the graver counts
        ("[[]a{9000}]", 9002),
        (r"[\]a{9000}]", 1),
        (r"\[a{9000}", 9001),
        ("a{x}{0}", 4),
        ("(a{90})+{90}", 8101),
        (")){9}(", 10),
    ],
)
def test_steps_of_a_pattern(pattern: str, count: int) -> None:
    assert pattern_steps(pattern) == count


def test_every_pattern_of_a_schema_counts() -> None:
    inner = {"items": {"anyOf": [{"pattern": "ab"}, {"patternProperties": {"abc": {}}}]}}
    assert steps({"properties": {"pattern": inner, "x": {"pattern": "a"}}}) == 6


def patterned(pattern: str, **more: Any) -> dict[str, Any]:
    field = {"type": "string", "pattern": pattern, **more}
    return {"type": "object", "properties": {"a": field}, "required": []}


def test_long_texts_meet_no_slow_pattern() -> None:
    """250 000 characters would hold the processor for ten seconds, under one pattern of many."""
    spec = ToolSpec("t", "", patterned(SLOW), Risk.READ, "d")
    (fault,) = check_arguments(spec, {"a": "01" * 125_000}).errors
    assert fault.message == "too much text to match against the patterns of this schema"
    assert not check_arguments(spec, {"a": "1" * 9_001}).errors
    plain = ToolSpec("t", "", patterned("^[01]*$"), Risk.READ, "d")
    assert not check_arguments(plain, {"a": "01" * 125_000}).errors


def test_a_default_meets_no_slow_pattern() -> None:
    """A tool may have hundreds of them, and a server thousands of tools."""
    for pattern, kept in (("^[01]*1[01]{900}$", False), ("^[01]*1[01]{9}$", True)):
        normalised = normalise(patterned(pattern, default="1" * 1_000))
        assert ("default" in normalised.schema["properties"]["a"]) is kept
