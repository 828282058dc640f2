"""Values said otherwise than they are passed: a time from now, another unit, another format.

`said_otherwise` words a value; `read_back` is written apart from it and proves that the words
mean that value at that time, and nothing else.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from breadcrumbs.data_gen.values import words

NUMBERS = tuple("two three four five six seven eight nine ten eleven twelve".split())
"""Said as words from 2 on."""
_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "minutes": (("hours", 60),),
    "hours": (("days", 24),),
    "days": (("weeks", 7),),
}
"""The larger unit in which a parameter whose name ends in a smaller one can be said."""
_MONTHS = tuple(
    "January February March April May June July August September October November December".split()
)
_TIMES = {"date": "%Y-%m-%d", "date-time": "%Y-%m-%dT%H:%M", "time": "%H:%M"}
_FAR_DAYS = 20
_ON = re.compile(r"\b(?:on|at) (?=tomorrow\b|the day after\b|\d+ (?:days|weeks) from\b)")


def can_differ(schema: Mapping[str, Any]) -> bool:
    """Whether values of a parameter may have another wording; some values still have none."""
    return schema.get("format") in _TIMES or schema.get("type") in ("integer", "number")


def said_otherwise(
    name: str, value: Any, schema: Mapping[str, Any], now: str, rng: random.Random
) -> str | None:
    """Other words for a value at the time `now` (ISO, minutes); None where there are none."""
    kind = schema.get("format")
    if kind in _TIMES and isinstance(value, str):
        try:
            moment = datetime.strptime(value, _TIMES[kind])
        except ValueError:
            return None
        day = _day(moment, datetime.fromisoformat(now), rng) if kind != "time" else ""
        clock = _clock(moment) if kind != "date" else ""
        said = " at ".join(part for part in (day, clock) if part)
        return None if value in said.split() else said  # "10:30 am" is no other wording
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return _number(name, value)


def _day(moment: datetime, now: datetime, rng: random.Random) -> str:
    ahead = (moment.date() - now.date()).days
    written = (
        f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}",
        f"{_MONTHS[moment.month - 1]} {moment.day}, {moment.year}",
    )
    near = {1: "tomorrow", 2: "the day after tomorrow"}
    if ahead in near:
        return near[ahead]
    if ahead > 0 and ahead % 7 == 0:
        return f"{ahead // 7} weeks from today" if ahead > 7 else "7 days from today"
    if 0 < ahead <= _FAR_DAYS and rng.random() < 0.5:
        return f"{ahead} days from today"
    return rng.choice(written)


def _clock(moment: datetime) -> str:
    if (moment.hour, moment.minute) == (12, 0):
        return "noon"
    return f"{moment.hour % 12 or 12}:{moment.minute:02} {'am' if moment.hour < 12 else 'pm'}"


def _number(name: str, value: float) -> str | None:
    last = words(name).split()[-1]
    for unit, size in _UNITS.get(last, ()):
        parts = value / size
        if parts >= 2 and parts * 2 == int(parts * 2):
            return f"{parts:g} {unit}"
    if last in _UNITS:
        return None
    if isinstance(value, int) and 2 <= value < 2 + len(NUMBERS):
        return NUMBERS[value - 2]
    return f"{value:,}" if value >= 1000 else None


def reworded(clause: str, spoken: str, said: str) -> str | None:
    """A clause with a value in other words; None where the value does not stand there once."""
    if clause.count(spoken) != 1:
        return None
    # "30 minutes" in a clause names the unit that the other words name as well.
    unit = "|".join(_UNITS)
    return _ON.sub(
        "", re.sub(rf"{re.escape(spoken)}(?: (?:{unit}|minute|day|hour))?", said, clause)
    )


def read_back(name: str, said: str, schema: Mapping[str, Any], now: str) -> Any:
    """The value that words mean for a parameter at the time `now`; None where they mean none."""
    kind = schema.get("format")
    if kind not in _TIMES:
        return _read_number(name, said, schema)
    day_text, _, clock_text = said.partition(" at ") if kind == "date-time" else (said, "", said)
    day = _read_day(day_text, datetime.fromisoformat(now)) if kind != "time" else None
    clock = _read_clock(clock_text) if kind != "date" else None
    if kind == "date":
        return day
    if kind == "time":
        return clock
    return f"{day}T{clock}" if day and clock else None


def _read_day(said: str, now: datetime) -> str | None:
    if found := re.fullmatch(r"(\d+) (days|weeks) from today", said):
        ahead = int(found[1]) * (7 if found[2] == "weeks" else 1)
    elif said in ("tomorrow", "the day after tomorrow"):
        ahead = said.count("day after") + 1
    else:
        for form in ("%d %B %Y", "%B %d, %Y"):
            try:
                return datetime.strptime(said, form).date().isoformat()
            except ValueError:
                continue
        return None
    return (now + timedelta(days=ahead)).date().isoformat()


def _read_clock(said: str) -> str | None:
    try:
        return "12:00" if said == "noon" else f"{datetime.strptime(said, '%I:%M %p'):%H:%M}"
    except ValueError:
        return None


def _read_number(name: str, said: str, schema: Mapping[str, Any]) -> Any:
    """A number word, digits with commas, or an amount in a larger unit than the parameter's."""
    text, _, unit = said.partition(" ")
    if text in NUMBERS and not unit:
        return NUMBERS.index(text) + 2
    try:
        number = float(text.replace(",", ""))
    except ValueError:
        return None
    smaller = {"hours": ("minutes", 60), "days": ("hours", 24), "weeks": ("days", 7)}.get(unit)
    if smaller is not None:
        if not name.lower().endswith(smaller[0]):
            return None
        number *= smaller[1]
    elif unit:
        return None
    return int(number) if schema.get("type") == "integer" else number
