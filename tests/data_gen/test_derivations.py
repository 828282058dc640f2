"""Other words for a value: worded one way, read back another, equal in every case or none."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from breadcrumbs.data_gen.derivations import read_back, reworded, said_otherwise

NOW = "2026-02-26T08:15"
DATE = {"type": "string", "format": "date"}
MOMENT = {"type": "string", "format": "date-time"}
CLOCK = {"type": "string", "format": "time"}
INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}


def test_what_is_said_means_the_value_and_no_other() -> None:
    start = datetime.fromisoformat(NOW)
    cases: list[tuple[str, Any, dict[str, Any]]] = []
    for ahead in range(1, 60):
        moment = (start + timedelta(days=ahead)).replace(hour=ahead % 24, minute=15 * (ahead % 4))
        cases += [
            ("day", f"{moment:%Y-%m-%d}", DATE),
            ("start", f"{moment:%Y-%m-%dT%H:%M}", MOMENT),
            ("opens", f"{moment:%H:%M}", CLOCK),
        ]
    cases += [("duration_minutes", n, INTEGER) for n in range(5, 300, 5)]
    cases += [("horizon_days", n, INTEGER) for n in range(1, 60)]
    cases += [("seats", n, INTEGER) for n in range(0, 30)]
    cases += [("amount", n / 8, NUMBER) for n in range(0, 40000, 777)]
    worded = 0
    for number, (name, value, schema) in enumerate(cases):
        said = said_otherwise(name, value, schema, NOW, random.Random(number))
        if said is not None:
            worded += 1
            assert read_back(name, said, schema, NOW) == value, (name, value, said)
            assert str(value) not in said.split()
    assert worded > 230


@pytest.mark.parametrize(
    ("name", "said", "schema"),
    [
        ("day", "next week", DATE),
        ("day", "31 February 2026", DATE),
        ("start", "tomorrow", MOMENT),
        ("opens", "13:00 pm", CLOCK),
        ("amount", "2 hours", NUMBER),
        ("duration_minutes", "a while", INTEGER),
        ("duration_minutes", "3 weeks", INTEGER),
    ],
)
def test_words_that_mean_no_value_are_none(name: str, said: str, schema: dict[str, Any]) -> None:
    assert read_back(name, said, schema, NOW) is None


def test_a_clause_takes_other_words_whole() -> None:
    assert reworded("lasting 120 minutes", "120", "2 hours") == "lasting 2 hours"
    assert reworded("on 2026-02-27", "2026-02-27", "tomorrow") == "tomorrow"
    assert reworded("at 09:00", "09:00", "9:00 am") == "at 9:00 am"
    assert reworded("5 or 5", "5", "five") is None
