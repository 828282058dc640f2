"""Twins of a complete request in which calling is wrong though every argument is there.

One fact differs each time: the user says to wait (`hold`), a policy in the system prompt demands
the user's confirmation (`confirm`), or the user only asks what a tool needs (`answer`).
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args

from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.scenarios import Behaviour, Blueprint, Scenario, dispatch, of_blueprint
from breadcrumbs.data_gen.values import spoken, words

Kind = Literal["hold", "confirm", "answer"]
KINDS: tuple[Kind, ...] = get_args(Kind)
HOLDING = "hold"
"""How the thought of a held call ends."""

_HOLDS = (
    "Don't run it yet.",
    "Do not run it yet, I will say when.",
    "But don't run anything before I say so.",
    "Only get it ready: do not execute it yet.",
    "Prepare it, but please don't submit it yet.",
    "Do not call it yet; I want to look at it first.",
)
_POLICIES = (
    "House rule: ask the user to confirm every write before it runs.",
    "Company policy: repeat the values to the user and ask for confirmation before any write.",
    "Rule of this desk: no write without the user's own confirmation in this chat.",
    "Policy: before anything is written, the user must confirm it here.",
)
_READY = (
    "It is ready and has not run: {call}. Say when it should run.",
    "Prepared, not run: {call}. I will run it when you tell me to.",
    "I have it ready, and nothing has run yet: {call}. Tell me when.",
)
_CONFIRM = (
    "The policy requires your confirmation: {call}. Shall I run it?",
    "The rules ask for your confirmation first: {call}. Yes or no?",
    "Before I write anything, the policy requires you to confirm it: {call}. Do you confirm?",
)
_QUESTIONS = (
    "What do I need to {intent}?",
    "How do I {intent}, and which details does it take?",
    "Explain what is needed to {intent}.",
    "What does it take to {intent}? I only want to know.",
)
_NEEDS = (
    "To {task} I need: {required}.",
    "It takes {required}.",
    "These are needed to {task}: {required}.",
)
_OPTIONAL = (
    " Optional: {optional}.",
    " You may also say: {optional}.",
    " You can leave out {optional}.",
)


def twin_of(kind: Kind, blueprint: Blueprint) -> Scenario:
    """The twin of `scenarios.dispatch(blueprint)` in which that call is wrong."""
    rng = random.Random(f"{blueprint.seed}/{kind}")
    made: dict[Kind, Callable[[Blueprint, random.Random], Scenario]] = {
        "hold": _hold,
        "confirm": _confirm,
        "answer": _answer,
    }
    return made[kind](blueprint, rng)


def _hold(blueprint: Blueprint, rng: random.Random) -> Scenario:
    complete = dispatch(blueprint)
    request = f"{complete.request} {rng.choice(_HOLDS)}"
    twin = of_blueprint(blueprint, "hold", request, complete.gold_arguments)
    return _named(twin, "hold", rng.choice(_READY).format(call=_call(blueprint)))


def _confirm(blueprint: Blueprint, rng: random.Random) -> Scenario:
    complete = dispatch(blueprint)
    twin = of_blueprint(blueprint, "hold", complete.request, complete.gold_arguments)
    twin = dataclasses.replace(twin, system_prompt=f"{twin.system_prompt}\n{rng.choice(_POLICIES)}")
    return _named(twin, "confirm", rng.choice(_CONFIRM).format(call=_call(blueprint)))


def _answer(blueprint: Blueprint, rng: random.Random) -> Scenario:
    intent = blueprint.plan.intent
    question = rng.choice(_QUESTIONS).format(intent=f"{intent[0].lower()}{intent[1:]}")
    twin = of_blueprint(blueprint, "answer", question, {})
    spec = blueprint.spec
    optional = [
        words(name) for name in spec.input_schema["properties"] if name not in spec.required
    ]
    reply = rng.choice(_NEEDS).format(
        task=words(spec.name), required=", ".join(map(words, spec.required)) or "nothing"
    )
    if optional:
        reply += rng.choice(_OPTIONAL).format(optional=", ".join(optional))
    return _named(dataclasses.replace(twin, composed={}), "answer", reply)


def _named(scenario: Scenario, kind: Kind, reply: str) -> Scenario:
    return dataclasses.replace(scenario, id=f"{scenario.blueprint}-{kind}", reply=reply)


def _call(blueprint: Blueprint) -> str:
    """The call in words: "create invoice with customer 'Ann', amount 12"."""
    properties = blueprint.spec.input_schema["properties"]
    parts = [f"{words(name)} {_said(v, properties[name])}" for name, v in blueprint.gold.items()]
    return " with ".join(part for part in (words(blueprint.spec.name), ", ".join(parts)) if part)


def _said(value: Any, schema: Any) -> str:
    text = spoken(value, schema)
    return f"'{text}'" if " " in text else text


def kind_fault(behaviour: Behaviour, reply: str, request: str, texts: Iterable[str]) -> str | None:
    """Whether somebody says to wait in `texts`, or only asks in `request`, where the label says so.

    The label follows from what was said: with these words a call is wrong, without them the same
    conversation would make it right.
    """
    said = normalise("\n".join(texts))
    waits = any(normalise(phrase) in said for phrase in (*_HOLDS, *_POLICIES))
    if behaviour == "hold" and not waits:
        return "grounding: hold is labelled, but nobody says to wait"
    if behaviour in ("dispatch", "clarify") and waits:
        return f"grounding: {behaviour} is labelled, but somebody says to wait"
    if behaviour == "answer" and not _only_asks(request):
        return "grounding: answer is labelled, but the request is more than a question"
    if behaviour in ("hold", "answer") and not reply:
        return "grounding: nothing to say"
    return None


def _only_asks(request: str) -> bool:
    asked = normalise(request)
    return any(asked.startswith(normalise(q.split("{")[0])) for q in _QUESTIONS)
