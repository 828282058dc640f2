"""Hints in other languages: the same tool and values, with wishes, labels and clauses translated.

Values keep their letters. Where no word is known the English one is said, as people do who talk
about a tool by the names on its screen.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping

from breadcrumbs.data_gen.hints import ArgumentHint, ToolHint
from breadcrumbs.data_gen.speech import Language, RequestTexts, filled, lexicon, speech
from breadcrumbs.data_gen.values import kind_of, words
from breadcrumbs.gateway.catalog import ToolSpec


def localised(hint: ToolHint, spec: ToolSpec, language: Language) -> ToolHint:
    """A tool's hint in a language; English ones stand as they are written."""
    texts = speech(language).requests
    if language == "en" or texts is None:
        return hint
    wish = lexicon("wishes").get(spec.name, {}).get(language)
    wish = wish or filled(texts.unknown, tool=words(spec.name))
    if hint.topics:
        wish = filled(texts.topic, do=wish)  # {topic} stays
    labels = _labels(hint, language)
    arguments = {
        name: _argument(argument, labels[name], language, texts)
        for name, argument in hint.arguments.items()
    }
    return dataclasses.replace(hint, intents=(wish,), arguments=arguments)


def spoken_name(name: str, hint: ToolHint, language: Language) -> str:
    """What a parameter is called: by its own name in English, else by its label."""
    argument = hint.arguments.get(name)
    return words(name) if language == "en" or argument is None else argument.label


def _labels(hint: ToolHint, language: Language) -> dict[str, str]:
    """By parameter; two that would be called the same have their English label beside it."""
    known = lexicon("labels")
    found = {
        name: known.get(argument.label, {}).get(language, argument.label)
        for name, argument in hint.arguments.items()
    }
    times = Counter(label.casefold() for label in found.values())
    return {
        name: f"{label} ({words(name)})" if times[label.casefold()] > 1 else label
        for name, label in found.items()
    }


def _argument(
    argument: ArgumentHint, label: str, language: Language, texts: RequestTexts
) -> ArgumentHint:
    asks = speech(language).questions
    return dataclasses.replace(
        argument,
        label=label,
        clauses=_clauses(argument, label, texts),
        questions=tuple(filled(ask, label=label) for ask in asks.asks) if asks else (),
        aliases=(argument.label, *argument.aliases),
    )


def _clauses(
    argument: ArgumentHint, label: str, texts: RequestTexts
) -> tuple[str, ...] | dict[bool, tuple[str, ...]]:
    if isinstance(argument.clauses, Mapping):
        return {
            value: tuple(filled(clause, label=label) for clause in clauses)
            for value, clauses in texts.switches.items()
        }
    if not argument.values or kind_of(argument.values) == "boolean":
        return argument.clauses
    quoted = any("'{value}'" in clause for clause in argument.clauses)
    said = texts.quotes if quoted else "{value}"
    return tuple(filled(clause, label=label, value=said) for clause in texts.clauses)
