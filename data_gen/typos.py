"""Slips of the fingers in what a user types, never in what the request hangs on.

Letters inside a word change places, are left out or come twice. Values, what quotes hold, words
with digits, negations and whole clauses that switch something on or off stay as they are.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Collection, Mapping
from typing import Any

from breadcrumbs.data_gen.personas import SpokenPlan
from breadcrumbs.data_gen.requests import Clause
from breadcrumbs.data_gen.values import spoken

SHARE = 0.15
"""Chance that a word that may have a slip has one."""
_SHORTEST = 5
_WORD = re.compile(r"(?<![\w{'’-])[^\W\d_]+(?![\w}'’-])")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|„[^“]*“|«[^»]*»|“[^”]*”")
NEGATIONS = frozenset(
    """no not nor never none nobody nothing neither without cannot dont don't isn isn't doesn
    nein nicht nichts nie niemals kein keine keinen keiner keines ohne noch niemand keiner
    non pas ne jamais rien sans aucun aucune personne
    nada nadie nunca jamás sin tampoco ningún ninguna ninguno
    não nem nunca sem ninguém nenhum nenhuma
    yes ja oui si sí sim""".split()
)
"""Words whose slip could turn a request round; and what answers them."""
_LATIN = frozenset(("en", "de", "fr", "es", "pt"))


def mistyped(text: str, keep: Collection[str], rng: random.Random, share: float = SHARE) -> str:
    """The text with slips in some words; nothing of `keep`, quotes, slots or negations is touched.

    A word next to a digit, a mark inside a word or a brace is no word of its own, and stays.
    """
    kept = [found.span() for found in _QUOTED.finditer(text)]
    for part in filter(None, keep):
        kept += [found.span() for found in re.finditer(re.escape(part), text, re.IGNORECASE)]

    def slipped(found: re.Match[str]) -> str:
        word = found.group()
        inside = any(first < found.end() and found.start() < end for first, end in kept)
        if inside or len(word) < _SHORTEST or word.casefold() in NEGATIONS:
            return word
        return _slip(word, rng) if rng.random() < share else word

    return _WORD.sub(slipped, text)


def _slip(word: str, rng: random.Random) -> str:
    """One slip behind the first letter; never a word that says no."""
    place = rng.randrange(1, len(word) - 2)
    first, second = word[place], word[place + 1]
    forms = (
        word[:place] + second + first + word[place + 2 :],
        word[:place] + word[place + 1 :],
        word[: place + 1] + word[place:],
    )
    found = rng.choice(forms)
    return word if found.casefold() in NEGATIONS else found


def with_typos(
    plan: SpokenPlan, values: Mapping[str, Any], schemas: Mapping[str, Any], rng: random.Random
) -> SpokenPlan:
    """A plan that was typed in haste; languages without letters to slip are left alone.

    `schemas` holds the JSON Schema of each parameter. Twins share the slips, as they share words.
    """
    if plan.language not in _LATIN:
        return plan
    keep = [part for name, value in values.items() for part in _said(value, schemas.get(name, {}))]

    def typed(text: str) -> str:
        return mistyped(text, keep, rng)

    def clause(one: Clause) -> Clause:
        switch = isinstance(values[one.argument], bool)
        return one if switch else dataclasses.replace(one, text=typed(one.text))

    return dataclasses.replace(
        plan,
        greeting=typed(plan.greeting),
        before=tuple(map(typed, plan.before)),
        ask=typed(plan.ask),
        lead=typed(plan.lead),
        clauses=tuple(map(clause, plan.clauses)),
        closing=typed(plan.closing),
    )


def _said(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Every form in which a value, or a part of it, may stand in the text."""
    if isinstance(value, list):
        return [part for item in value for part in _said(item, schema.get("items", {}))]
    if isinstance(value, Mapping):
        inner = schema.get("properties", {})
        return [part for name, one in value.items() for part in _said(one, inner.get(name, {}))]
    return [spoken(value, schema), str(value)]
