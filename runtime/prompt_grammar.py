"""System prompts from hand-written parts, so that no one wording of the rules is learnt by heart.

The first line is the steering, as in `prompts`: how to act, then when to ask. What follows is
context: who speaks, what time it is, how answers sound. (seed, place) fixes a prompt to the byte.
"""

from __future__ import annotations

import itertools
import random
from functools import cache

from breadcrumbs.prompts import COUPLED, DECOUPLED, SystemPrompt

ACT = (
    "Act through the gateway; writes are approved there.",
    "Work through the tool gateway, which holds every write for approval by itself.",
    "Find a tool, read its schema, run it; whether a write may happen is the gateway's decision.",
    "When the schema is there, run the tool: approval is asked for elsewhere.",
    "Do what is asked with the tools you find. Approvals are handled behind them, not in the chat.",
    "Search, disclose, execute. The gateway stops whatever needs a person's consent.",
    "You get things done with tools. A person approves writes at the gateway, so do not ask for"
    " leave here.",
    "Use the catalog, then the schema, then execute_tool; writes wait at the gateway.",
    "Carry requests out without asking for permission: the gateway is what guards changes.",
    "Your work is to call tools. Consent to changes is collected by the gateway after a call.",
)
"""How to act where the gateway holds writes: tier 2 on."""
ASK = (
    "Ask only for a missing required value.",
    "Put a question only where a required value stands nowhere.",
    "If a required argument is said nowhere, ask for that one and nothing else.",
    "A question is right when something required is missing, never for what was said already.",
    "Optional arguments take their defaults; ask just for what is required and unknown.",
    "Take values from the conversation; only a required one that is not in it is asked for.",
    "Do not recite parameters. Ask when, and only when, a required one is unknown.",
    "Lack a required value? Ask for it. Otherwise go on.",
)
"""When to ask, tier 2 on."""
HELD_OUT_ACT = (
    "Requests are carried out by tools; the gateway, not you, sees to it that writes are allowed.",
    "Be quick to act: any write is put before a person by the gateway.",
)
"""Ways to act that no training prompt has; evaluation draws from these as well."""
WAY = (
    "You act through a tool gateway: search the catalog, read the schema, then call execute_tool.",
    "Work with tools: search_tool_catalog, then get_tool_schema, then execute_tool.",
    "Find a tool, read its schema, run it.",
    "Requests are carried out with the tools of the gateway.",
    "You get things done with tools that you look up first.",
    "Search for a tool, have its schema disclosed, then execute it.",
    "Use the tool catalog for whatever the user wants done.",
)
"""How to act where the chat is asked for leave: tier 2 off."""
CONFIRM = (
    "Always confirm with the user before you run anything that writes.",
    "Show the user the parameters and ask for permission before every write.",
    "Nothing is changed before the user has said yes to the exact call.",
    "Before a write, list what you are about to send and wait for the user's consent.",
    "Every change needs the user's explicit go-ahead in this conversation first.",
    "Read each write back to the user, and run it only after a yes.",
)
"""That leave is asked in the chat, tier 2 off."""
ROLES = (
    "",
    "",
    "You are the assistant of a busy team.",
    "You help the staff with everyday matters.",
    "You are an operations assistant.",
    "You serve people who are in a hurry.",
    "You work at a help desk.",
)
TIMES = ("Now: {now}.", "Current time: {now}.", "It is {now}.", "Time: {now}", "Clock: {now}.")
MANNERS = (
    "",
    "",
    "Answer in the language of the user.",
    "Keep answers to a sentence or two.",
    "Say plainly what happened and what did not.",
    "No small talk.",
    "Never claim more than a tool has answered.",
)


def varied_prompt(now: str, seed: int, place: str, *, held_out: bool = False) -> SystemPrompt:
    """The prompt of a place at a time (ISO, minutes), tier 2 on; same seed and place, same prompt.

    `held_out` adds wordings of the rules that training never sees.
    """
    rng = random.Random(f"{seed}/{place}/prompt")
    steering = rng.choice(_steering(held_out))
    time = rng.choice(TIMES).format(now=now)
    context = [part for part in (rng.choice(ROLES), rng.choice(MANNERS), time) if part]
    rng.shuffle(context)
    return SystemPrompt(steering, "\n".join(context))


def with_tier_2_off(text: str, seed: int, place: str) -> str:
    """A prompt whose steering demands the user's leave in place of what it said; same context."""
    rng = random.Random(f"{seed}/{place}/prompt off")
    return "\n".join((rng.choice(_coupled()), *text.split("\n")[1:]))


def steering_of(text: str) -> str | None:
    """The steering that a system prompt begins with; None where none of ours does."""
    line = text.partition("\n")[0]
    known = line in (*_steering(held_out=True), *_coupled(), *COUPLED)
    return line if known else None


def demands_confirmation(text: str) -> bool:
    """Whether a system prompt is one with tier 2 off: the user must say yes to every write."""
    return text.partition("\n")[0] in (*_coupled(), *COUPLED)


@cache
def _steering(held_out: bool) -> tuple[str, ...]:
    acts = ACT + HELD_OUT_ACT if held_out else ACT
    return (*DECOUPLED, *(f"{act} {ask}" for act, ask in itertools.product(acts, ASK)))


@cache
def _coupled() -> tuple[str, ...]:
    return tuple(f"{way} {confirm}" for way, confirm in itertools.product(WAY, CONFIRM))
