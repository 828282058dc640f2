"""How often each wording occurs: what a data set says, with everything left out that varies.

A template is a text whose values, names and labels are masked. No wording may fill much of a set:
`LIMIT` is the share of all rows that one may have.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from breadcrumbs.call_format import THINK_CLOSER
from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.speech import Language, lexicon
from breadcrumbs.data_gen.values import spoken, words

LIMIT = 0.02
"""Share of all rows above which a template counts as too frequent."""
PARTS = ("frame", "request", "system prompt", "question", "wait", "answer", "decline", "report")
"""What is looked at: a persona's frame, then whole texts of user, operator and assistant."""
_SAID_IN_LAST = {"clarify": "question", "hold": "wait", "answer": "answer", "decline": "decline"}
_MASK = "{…}"
_DIGITS = re.compile(r"[A-Za-z_]*\d[\w.:+-]*", re.ASCII)
_UNSPACED = ("zh", "ja")


def template_shares(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """For each part that occurs: its rows, its templates, and the most frequent one.

    `share` is of all rows, so that a part few rows have cannot look worse than it is.
    """
    found: dict[str, Counter[str]] = {part: Counter() for part in PARTS}
    for row in rows:
        for part, template in templates_of(row):
            found[part][template] += 1
    return {part: _figures(counts, len(rows)) for part, counts in found.items() if counts}


def too_frequent(shares: Mapping[str, Mapping[str, Any]], limit: float = LIMIT) -> list[str]:
    """Parts whose most frequent template has more than `limit` of all rows."""
    return [part for part, figures in shares.items() if figures["share"] > limit]


def _figures(counts: Counter[str], rows: int) -> dict[str, Any]:
    template, number = min(counts.items(), key=lambda item: (-item[1], item[0]))
    return {
        "rows": counts.total(),
        "distinct": len(counts),
        "most_frequent": template,
        "of_it": number,
        "share": number / rows,
    }


def templates_of(row: Row) -> Iterator[tuple[str, str]]:
    """What a row says, by part, masked."""
    scenario = row.scenario
    if scenario.surface.frame:
        yield "frame", scenario.surface.frame
    slots, language = _slots(row), scenario.surface.language
    yield "request", masked(scenario.request, slots, language)
    yield "system prompt", scenario.system_prompt.replace(scenario.now, _MASK)
    said = [m for m in row.messages if m.role == "assistant" and not m.tool_calls]
    first = said[0].content.rpartition(THINK_CLOSER)[2].strip() if said else ""
    part = _SAID_IN_LAST.get(row.behaviour, "report")
    yield part, _labels(language).sub(_MASK, masked(first, slots, language))


def masked(text: str, slots: Iterable[str], language: Language = "en") -> str:
    """A text without values, names and numbers; longest slots first."""
    return _DIGITS.sub(_MASK, _any_of(slots, language).sub(_MASK, text))


@cache
def _labels(language: Language) -> re.Pattern[str]:
    """What finds any known name of a parameter in a language."""
    known = lexicon("labels")
    labels = known if language == "en" else {words[language] for words in known.values()}
    return _any_of(labels, language)


def _any_of(forms: Iterable[str], language: Language) -> re.Pattern[str]:
    ordered = sorted(filter(str.strip, forms), key=lambda form: (-len(form), form))
    pattern = "|".join(map(re.escape, ordered)) or r"(?!)"
    if language not in _UNSPACED:
        pattern = rf"(?<![^\W\d_])(?:{pattern})(?![^\W\d_])"
    return re.compile(pattern, re.IGNORECASE)


def _slots(row: Row) -> set[str]:
    """What is masked: said values, names of tools and parameters as they are and as words."""
    scenario = row.scenario
    values = scenario.gold_arguments | scenario.withheld
    forms = {form for value in values.values() for form in (spoken(value, {}), str(value))}
    names = {scenario.tool, *values, *scenario.missing}
    names |= {step.tool for step in scenario.steps}
    return forms | {words(form) for form in forms} | names | {words(name) for name in names}
