"""Tools made up for training: names and values drawn from words at random, met once each.

On a tool it knows a model can recall a name or a value; on these it can only copy. Hammer masks
functions to the same end (arXiv 2410.04587). No evaluation sees them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from breadcrumbs.data_gen.hints import ArgumentHint, ToolHint
from breadcrumbs.data_gen.phrases import clauses_of, questions_of, switch_clauses
from breadcrumbs.data_gen.values import kind_of, words
from breadcrumbs.gateway.catalog import Catalog, Collection, Effect, Risk, ToolSpec
from breadcrumbs.gateway.synthetic_words import VERBS
from breadcrumbs.messages import compact_json

DOMAIN = "practice"
_WORD = re.compile(r"[A-Za-z][a-z]{3,}")
_LONGEST = 11
_SPOKEN_FOR = frozenset("missing default search tool tools catalog schema execute approval".split())
"""Words that mean something in a trace."""
_ONSETS = "b c d f g h j k l m n p r s t v w y z ch sh st tr".split()
_NUCLEI = "aeiou"
_CODAS = ["", "", *"d f k l m n r s t".split()]
_SWITCHES = "allow include keep notify use skip share show lock hide".split()
_DESCRIBED = 0.3
"""Share of the arguments with a description; the names say as much."""
_KIN = 0.25
"""Chance that an argument's name begins like the one before: only all of it tells them apart."""
_ENDINGS = "id code ref number".split()


@dataclass(frozen=True, slots=True)
class Practice:
    """A catalog of made-up tools, and how people talk about them."""

    catalog: Catalog
    hints: Mapping[str, ToolHint]


def practice_tools(count: int, seed: int, known: Catalog) -> Practice:
    """`count` tools; (seed, place, the words of `known`) fixes each to the byte.

    Args:
        count: how many.
        seed: of the data set.
        known: the training tools, whose texts the words are taken from.
    """
    vocabulary = _vocabulary(known)
    tools: dict[str, ToolSpec] = {}
    hints: dict[str, ToolHint] = {}
    for place in itertools.count():
        if len(tools) == count:
            break
        spec, hint = _Maker(Random(f"{seed}/practice/{place}"), vocabulary).tool()
        if spec.name not in tools and spec.name not in known.tools:
            tools[spec.name], hints[spec.name] = spec, hint
    collections = {DOMAIN: {"calls": Collection("call_id", "CALL")}}
    return Practice(Catalog(tools, collections), hints)


def _vocabulary(known: Catalog) -> list[str]:
    texts = (f"{s.description} {compact_json(s.input_schema)}" for s in known.tools.values())
    found = {word.lower() for text in texts for word in _WORD.findall(text)}
    return sorted(word for word in found - _SPOKEN_FOR if len(word) <= _LONGEST)


Field = tuple[dict[str, Any], dict[str, Any], bool]
"""Schema, values as hints name them, and whether people put the value in quotes."""


class _Maker:
    """Makes one tool; no word stands for two things in it."""

    def __init__(self, rng: Random, vocabulary: list[str]) -> None:
        self.rng = rng
        drawn = rng.sample(vocabulary, len(vocabulary))
        # A few short tools hold few words: coined ones follow, without end.
        self.words = itertools.chain(drawn, iter(self.coined, None))
        self.humps = rng.choice((0.0, 0.0, 0.4, 0.6, 1.0))
        """Share of the names in camel case; messy tools mix both."""
        self.before: str | None = None
        """The first word of the last argument's name, where it has two."""

    def tool(self) -> tuple[ToolSpec, ToolHint]:
        """The tool and its hint."""
        verb, doing, risk = self.rng.choice(VERBS)
        thing, part = next(self.words), next(self.words)
        required = dict(self._argument() for _ in range(self.rng.choice((2, 2, 3, 3, 4))))
        optional = dict(self._argument() for _ in range(self.rng.choice((2, 2, 3, 3))))
        fields = {**required, **optional}
        for name in optional:
            self._default(fields[name][0])
        name = f"{verb}_{thing}_{part}"
        spec = ToolSpec(
            name=name,
            description=f"{doing} the {thing} {part} of a {next(self.words)}.",
            input_schema={
                "type": "object",
                "required": list(required),
                "properties": {name: field[0] for name, field in fields.items()},
                "additionalProperties": False,
            },
            risk=risk,
            domain=DOMAIN,
            requires_approval=risk is not Risk.READ,
            effect=None if risk is Risk.READ else Effect("record", "calls"),
        )
        hint = ToolHint(
            search=(f"{verb} {thing} {part}",),
            intents=(f"{verb} the {thing} {part}", f"{verb} {thing} {part} now"),
            arguments={name: _hint(name, *field[1:]) for name, field in fields.items()},
        )
        return spec, hint

    def _argument(self) -> tuple[str, Field]:
        kind = self.rng.choice(_KINDS)
        schema, values, quoted = kind(self)
        parts = [next(self.words) for _ in range(self.rng.choice((1, 2, 2)))]
        if self.before and self.rng.random() < _KIN:
            parts = [self.before, parts[-1]]
        self.before = parts[0] if len(parts) > 1 else None
        if kind is _identifier:
            parts.append(self.rng.choice(_ENDINGS))
        if kind is _switch:
            parts.insert(0, self.rng.choice(_SWITCHES))
        about = " ".join(parts)
        if self.rng.random() < _DESCRIBED:
            schema["description"] = f"{about.capitalize()} to use."
        return self._name(parts), (schema, values, quoted)

    def _name(self, parts: list[str]) -> str:
        if self.rng.random() < self.humps:
            return parts[0] + "".join(part.capitalize() for part in parts[1:])
        return "_".join(parts)

    def _default(self, schema: dict[str, Any]) -> None:
        if "enum" in schema and self.rng.random() < 0.5:
            schema["default"] = self.rng.choice(schema["enum"])
        elif schema["type"] == "boolean":
            schema["default"] = self.rng.random() < 0.5

    def word(self) -> str:
        """A word of the vocabulary, or one that is in no vocabulary."""
        return next(self.words) if self.rng.random() < 0.6 else self.coined()

    def coined(self) -> str:
        """Two or three syllables; now and then the first letter is missing."""
        syllables = (_ONSETS, _NUCLEI) * self.rng.choice((1, 1, 2))
        parts = (*syllables, _ONSETS, _NUCLEI, _CODAS)
        word = "".join(self.rng.choice(part) for part in parts)
        return word[1:] if self.rng.random() < 0.2 else word  # "elif", "ona"

    def choices(self) -> list[str]:
        """Values of an enum."""
        long = self.rng.random() < 0.3
        return [
            f"{self.word()}_{self.word()}" if long and place % 2 else self.word()
            for place in range(self.rng.choice((3, 4, 4, 5)))
        ]


def _hint(name: str, values: dict[str, Any], quoted: bool) -> ArgumentHint:
    label, kind = words(name), kind_of(values)
    return ArgumentHint(
        label=label,
        values=values,
        clauses=switch_clauses(label)
        if kind == "boolean"
        else clauses_of(label, quoted=quoted, kind=kind),
        questions=questions_of(label, kind),
        aliases=(label,),
    )


def _choice(made: _Maker) -> Field:
    return {"type": "string", "enum": made.choices()}, {"enum": True}, False


def _text(made: _Maker) -> Field:
    pool = [made.word() for _ in range(3)]
    return {"type": "string"}, {"pool": pool}, False


def _title(made: _Maker) -> Field:
    pool = [f"{made.word().capitalize()} {made.word().capitalize()}" for _ in range(3)]
    return {"type": "string"}, {"pool": pool}, False


def _phrase(made: _Maker) -> Field:
    pool = [" ".join(made.word() for _ in range(made.rng.choice((2, 3)))) for _ in range(3)]
    return {"type": "string"}, {"pool": pool}, True


def _identifier(made: _Maker) -> Field:
    front = made.word()[: made.rng.choice((2, 3, 4))]
    mark = made.rng.choice("_-")
    front = made.rng.choice((front, front.upper()))
    pool = [f"{front}{mark}{made.rng.randrange(100, 10**5)}" for _ in range(3)]
    return {"type": "string"}, {"pool": pool}, False


def _person(made: _Maker) -> Field:
    pool = [f"{made.coined().capitalize()} {made.coined().capitalize()}" for _ in range(3)]
    return {"type": "string"}, {"pool": pool}, False


def _email(made: _Maker) -> Field:
    pool = [f"{made.coined()}.{made.coined()}@{made.word()}.example.com" for _ in range(3)]
    return {"type": "string", "format": "email"}, {"pool": pool}, False


def _whole(made: _Maker) -> Field:
    top = made.rng.choice((20, 100, 1000))
    return {"type": "integer", "minimum": 1}, {"integer": [2, top]}, False


def _amount(_: _Maker) -> Field:
    return {"type": "number", "minimum": 0}, {"number": [1, 500]}, False


def _day(_: _Maker) -> Field:
    return {"type": "string", "format": "date"}, {"date": True}, False


def _moment(_: _Maker) -> Field:
    return {"type": "string", "format": "date-time"}, {"datetime": True}, False


def _switch(_: _Maker) -> Field:
    return {"type": "boolean"}, {"boolean": True}, False


def _several(made: _Maker) -> Field:
    items = made.choices()
    schema = {"type": "array", "items": {"type": "string", "enum": items}}
    return schema, {"list": {"enum": True}, "length": [1, 3]}, False


def _words(made: _Maker) -> Field:
    pool = [made.word() for _ in range(5)]
    schema = {"type": "array", "items": {"type": "string"}}
    return schema, {"list": {"pool": pool}, "length": [1, 3]}, False


_KINDS: tuple[Callable[[_Maker], Field], ...] = (
    _choice,
    _choice,
    _choice,
    _text,
    _text,
    _title,
    _phrase,
    _identifier,
    _identifier,
    _person,
    _email,
    _email,
    _whole,
    _amount,
    _day,
    _moment,
    _switch,
    _several,
    _words,
)
