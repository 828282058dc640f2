"""How different people put the same wish: from a word or two to a rambling message.

A persona says which parts a request has and in which tone; the parts stand in `speech`. A plan
fixes all of them, so that its twins say the same words but one fact.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from breadcrumbs.data_gen.hints import ToolHint, Topic
from breadcrumbs.data_gen.phrases import parse_name
from breadcrumbs.data_gen.requests import Clause
from breadcrumbs.data_gen.speech import Language, RequestTexts, Surface, filled, speech
from breadcrumbs.data_gen.values import spoken
from breadcrumbs.gateway.catalog import ToolSpec

Join = Literal["flow", "after", "split", "lines", "drip"]
_OPENING_MARKS = "¿¡"
_COMMAS = (",", "，", "、")
_ENDS = (".", "!", "?", "。", "！", "？", "…", "...")


@dataclass(frozen=True, slots=True)
class Persona:
    """Which parts a request has. A tone names the part's list in `speech`."""

    greeting: str = ""
    before: tuple[Literal["hurry", "stories", "reasons"], ...] = ()
    ask: str = "casual"
    joins: tuple[Join, ...] = ("flow", "after", "split")
    closing: str = ""


PERSONAS: Mapping[str, Persona] = {
    "terse": Persona(ask="curt", joins=("flow", "lines")),
    "plain": Persona(),
    "polite": Persona(greeting="polite", ask="polite", closing="polite"),
    "hurried": Persona(before=("hurry",), ask="curt", joins=("flow", "after"), closing="hurry"),
    "chatty": Persona(
        greeting="casual", before=("reasons",), joins=("flow", "after", "drip"), closing="casual"
    ),
    "rambling": Persona(
        greeting="casual", before=("stories", "reasons"), joins=("drip", "split"), closing="casual"
    ),
    "lister": Persona(joins=("lines",), closing="casual"),
}
HELD_OUT_PERSONAS: Mapping[str, Persona] = {
    "storyteller": Persona(
        greeting="polite", before=("stories",), ask="polite", joins=("drip",), closing="polite"
    ),
}
"""People whom no training request comes from; evaluation draws from these as well."""
VERB_CLASSES = ("create", "append", "list", "get", "update", "delete", "other")
_VERBS: Mapping[str, str] = {
    verb: name
    for name, listed in {
        "create": "create add make book open register schedule post write start generate order",
        "list": "list search find query browse",
        "get": "get read fetch retrieve show describe view check track",
        "update": "update edit modify set change move rename reschedule",
        "delete": "delete remove cancel erase void destroy",
    }.items()
    for verb in listed.split()
}


def verb_class(spec: ToolSpec) -> str:
    """What a tool does: by its effect, else by the verb of its name."""
    if spec.effect is not None and spec.effect.op in VERB_CLASSES:
        return spec.effect.op
    return _VERBS.get(parse_name(spec.name, spec.domain).verb or "", "other")


@dataclass(frozen=True, slots=True)
class SpokenPlan:
    """Everything a persona's request consists of, before it is said."""

    language: Language
    persona: str
    greeting: str
    before: tuple[str, ...]
    ask: str
    intent: str
    clauses: tuple[Clause, ...]
    join: Join
    flow: str
    lead: str
    asides: tuple[str, ...]
    """One for each clause."""
    split_at: int
    closing: str

    def say(self, without: Collection[str] = ()) -> str:
        """The request as text, with the clauses of `without` left out."""
        texts = _texts(self.language)
        kept = [
            (place, clause.text.removeprefix("and "))
            for place, clause in enumerate(self.clauses)
            if clause.argument not in without
        ]
        inner = [text for place, text in kept if self._flows(place)]
        apart = [(place, text) for place, text in kept if not self._flows(place)]
        wish = self.intent
        if inner:
            wish = filled(self.flow, do=wish, clauses=texts.gap.join(inner))
        greeting = self.greeting
        if self.before and greeting.endswith(_COMMAS):
            greeting = greeting[:-1] + texts.stop
        sentences = [greeting, *self.before, filled(self.ask, do=wish)]
        sentences += self._apart(apart, texts)
        return _joined([*sentences, self.closing], texts.sentence_gap)

    def _flows(self, place: int) -> bool:
        """Whether a clause stands in the sentence that says what is wanted."""
        return self.join == "flow" or (self.join == "split" and place < self.split_at)

    def _apart(self, clauses: list[tuple[int, str]], texts: RequestTexts) -> list[str]:
        """The sentences behind the wish."""
        if not clauses:
            return []
        if self.join == "lines":
            lines = "".join(f"\n- {text}" for _, text in clauses)
            return [f"{self.lead}{lines}\n"]
        if self.join == "drip":
            return [
                f"{self.asides[place]}{texts.sentence_gap}{text}{texts.stop}"
                for place, text in clauses
            ]
        listed = texts.gap.join(text for _, text in clauses)
        return [f"{self.lead}{texts.sentence_gap}{listed}{texts.stop}"]

    @property
    def surface(self) -> Surface:
        """Language, persona, and the words that are the same whatever the request is about."""
        slots = (Clause("", "{1}"), Clause("", "{2}"))
        asides = (*self.asides, *self.asides, "", "")[:2]
        bare = dataclasses.replace(self, intent="{do}", clauses=slots, asides=asides, split_at=1)
        return Surface(self.language, self.persona, bare.say())


def plan_spoken(
    language: Language,
    spec: ToolSpec,
    hint: ToolHint,
    values: Mapping[str, Any],
    topic: Topic | None,
    rng: random.Random,
    *,
    held_out: bool = False,
) -> SpokenPlan:
    """Draw persona, wording and order for a request that says every one of `values`.

    `hint` is in the language already. `held_out` adds the personas that training never meets.
    """
    texts = _texts(language)
    people = {**PERSONAS, **HELD_OUT_PERSONAS} if held_out else PERSONAS
    name = rng.choice(list(people))
    person = people[name]
    parts: Mapping[str, tuple[str, ...]] = {
        "hurry": texts.hurry,
        "stories": texts.stories,
        "reasons": texts.reasons[verb_class(spec)],
    }
    intent = rng.choice(hint.intents)
    if topic is not None:
        intent = intent.replace("{topic}", topic.say)
    clauses = [_clause(n, value, spec, hint, texts, rng) for n, value in values.items()]
    rng.shuffle(clauses)
    return SpokenPlan(
        language=language,
        persona=name,
        greeting=rng.choice(texts.greetings[person.greeting]) if person.greeting else "",
        before=tuple(rng.choice(parts[part]) for part in person.before),
        ask=rng.choice(texts.asks[person.ask]),
        intent=intent,
        clauses=tuple(clauses),
        join=rng.choice(person.joins),
        flow=rng.choice(texts.flow),
        lead=rng.choice(texts.leads),
        asides=tuple(rng.choice(texts.asides) for _ in clauses),
        split_at=rng.randint(1, max(1, len(clauses) - 1)),
        closing=rng.choice(texts.closings[person.closing]) if person.closing else "",
    )


def _clause(
    name: str,
    value: Any,
    spec: ToolSpec,
    hint: ToolHint,
    texts: RequestTexts,
    rng: random.Random,
) -> Clause:
    schema = spec.input_schema["properties"].get(name, {})
    template = rng.choice(hint.arguments[name].clauses_for(value))
    return Clause(name, template.replace("{value}", spoken(value, schema, texts.joiner)))


def _texts(language: Language) -> RequestTexts:
    texts = speech(language).requests
    assert texts is not None
    return texts


def _joined(sentences: list[str], gap: str) -> str:
    """Sentences one after the other, each that follows a full stop with a capital."""
    text = ""
    for sentence in filter(None, sentences):
        starts = not text or text.endswith((*_ENDS, "\n"))
        between = "" if not text or text.endswith("\n") else gap
        text += between + (_capital(sentence) if starts else sentence)
    return text.strip()


def _capital(text: str) -> str:
    place = 1 if text[:1] in _OPENING_MARKS and text else 0
    return text[:place] + text[place : place + 1].upper() + text[place + 1 :]
