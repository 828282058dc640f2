"""The user's side: a small grammar that turns an intent and drawn values into one request.

A plan fixes opener, intent, clause wording and order, joining and closing. Saying the plan
without one clause gives the twin: the same words, one fact fewer.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from breadcrumbs.data_gen.hints import ToolHint, Topic
from breadcrumbs.data_gen.values import spoken, words

GREETINGS = ("", "", "", "", "", "Hi, ", "Hello, ", "Hey, ", "Quick one: ", "Next: ", "Morning! ")
ASKS = (
    "",
    "",
    "",
    "please ",
    "please ",
    "could you ",
    "could you please ",
    "can you ",
    "would you ",
    "I need you to ",
    "I need to ",
    "I want to ",
    "I'd like to ",
    "I want you to ",
    "help me ",
    "go ahead and ",
)
HELD_OUT_ASKS = (
    "I would like you to ",
    "will you please ",
    "can you please ",
    "kindly ",
    "you need to ",
    "we have to ",
)
"""Openers that no training request uses; evaluation draws from these as well."""
CLOSINGS = ("", "", "", "", "", "", "Thanks.", "Thank you!", "Thanks in advance.", "That's all.")
DETAILS = ("Details:", "The details:", "To be exact:", "Here is what I know:")
PLAIN_ASKS = ("", "please ", "could you ", "I need you to ")
Phrasing = Literal["plain", "varied", "personas"]
JOINS = ("flow", "flow", "commas", "commas", "details", "split")
_QUESTIONS = ("could ", "can ", "would ", "will ")


@dataclass(frozen=True, slots=True)
class Clause:
    """One said argument."""

    argument: str
    text: str


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """Everything a request consists of, before it is said."""

    opener: str
    intent: str
    clauses: tuple[Clause, ...]
    join: str
    lead: str
    split_at: int
    closing: str
    is_question: bool

    def say(self, without: Collection[str] = ()) -> str:
        """The request as text, with the clauses of `without` left out."""
        kept = [(i, c.text) for i, c in enumerate(self.clauses) if c.argument not in without]
        end = "?" if self.is_question else "."
        if self.join == "details" and len(kept) > 1:
            facts = "; ".join(_bare(text) for _, text in kept)
            body = f"{self.opener}{self.intent}{end} {self.lead} {facts}."
        elif self.join == "split" and any(i >= self.split_at for i, _ in kept):
            first = _chain(self.intent, [t for i, t in kept if i < self.split_at], " ")
            rest = ", ".join(_bare(t) for i, t in kept if i >= self.split_at)
            body = f"{self.opener}{first}{end} {self.lead} {rest}."
        elif self.join == "list" and kept:
            body = f"{self.opener}{self.intent}: {', '.join(text for _, text in kept)}{end}"
        else:
            gap = ", " if self.join == "commas" else " "
            body = f"{self.opener}{_chain(self.intent, [t for _, t in kept], gap)}{end}"
        text = f"{body} {self.closing}".strip()
        return _capital(text)


def plan_request(
    hint: ToolHint,
    values: Mapping[str, Any],
    schemas: Mapping[str, Any],
    topic: Topic | None,
    rng: random.Random,
    *,
    held_out: bool = False,
    phrasing: Phrasing = "varied",
) -> RequestPlan:
    """Draw wording and order for a request that says every one of `values`.

    `schemas` holds the JSON Schema of each parameter. `held_out` adds the openers that
    training never sees. `plain` says every argument by its own name, in a list.
    """
    if phrasing == "plain":
        return _plain_request(hint, values, schemas, topic, rng)
    ask = rng.choice(ASKS + HELD_OUT_ASKS * 3 if held_out else ASKS)
    greeting = rng.choice(GREETINGS)
    fresh = greeting.endswith("! ")
    intent = rng.choice(hint.intents)
    if topic is not None:
        intent = intent.replace("{topic}", topic.say)
    clauses = [_clause(name, value, hint, schemas, rng) for name, value in values.items()]
    rng.shuffle(clauses)
    join = rng.choice(JOINS)
    return RequestPlan(
        opener=greeting + (_capital(ask) if fresh else ask),
        intent=_capital(intent) if fresh and not ask else intent,
        clauses=tuple(clauses),
        join=join,
        lead=rng.choice(DETAILS),
        split_at=rng.randint(1, max(1, len(clauses) - 1)),
        closing=rng.choice(CLOSINGS),
        is_question=ask.startswith(_QUESTIONS),
    )


def _plain_request(
    hint: ToolHint,
    values: Mapping[str, Any],
    schemas: Mapping[str, Any],
    topic: Topic | None,
    rng: random.Random,
) -> RequestPlan:
    intent = rng.choice(hint.intents)
    if topic is not None:
        intent = intent.replace("{topic}", topic.say)
    clauses = [_plain_clause(name, value, hint, schemas, rng) for name, value in values.items()]
    rng.shuffle(clauses)
    ask = rng.choice(PLAIN_ASKS)
    asks = ask.startswith(_QUESTIONS)
    return RequestPlan(ask, intent, tuple(clauses), "list", "", 0, "", is_question=asks)


def _plain_clause(
    name: str, value: Any, hint: ToolHint, schemas: Mapping[str, Any], rng: random.Random
) -> Clause:
    said = spoken(value, schemas.get(name, {}))
    if any("'{value}'" in clause for clause in hint.arguments[name].clauses_for(value)):
        said = f"'{said}'"
    return Clause(name, f"{rng.choice(('', 'with '))}{words(name)} {said}")


def _clause(
    name: str, value: Any, hint: ToolHint, schemas: Mapping[str, Any], rng: random.Random
) -> Clause:
    template = rng.choice(hint.arguments[name].clauses_for(value))
    return Clause(name, template.replace("{value}", spoken(value, schemas.get(name, {}))))


def _chain(intent: str, clauses: list[str], gap: str) -> str:
    if not clauses:
        return intent
    return gap.join([f"{intent} {clauses[0].removeprefix('and ')}", *clauses[1:]])


def _bare(clause: str) -> str:
    return clause.removeprefix("and ")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
