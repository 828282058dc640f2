"""Stalls as models write them, put together from parts, for a scripted staller to say.

Five kinds; every text is about the tool that was just disclosed and draws on its schema, so
that no fixed list of sentences can be learnt or matched.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from breadcrumbs.data_gen.values import words

StallKind = Literal[
    "param_dump",
    "permission_ask",
    "inferable_value_ask",
    "announce_without_call",
    "fake_call_in_text",
]
_DUMP_OPENINGS = (
    "To {task}, you need to provide the following details:",
    "I found the tool {tool}. It takes these parameters:",
    "Before I can {task}, please provide the following parameters:",
    "The {tool} tool requires the following information:",
)
_DUMP_CLOSINGS = (
    "Would you like to proceed? If so, please provide the necessary parameters.",
    "Please provide these values so that I can continue.",
    "Let me know the values for each of these fields.",
    "Once I have these details, I can proceed.",
)
_PERMISSION_OPENINGS = (
    "I have found the right tool, {tool}.",
    "I have everything I need to {task}.",
    "This is a write operation and needs approval.",
    "The {tool} tool is ready.",
    "",
)
_PERMISSION_ASKS = (
    "Would you like me to {go}?",
    "Do you want me to {go}?",
    "Shall I {go}?",
    "Should I {go}?",
    "Please confirm that I should {go}.",
    "Can I {go}?",
)
_GOES = ("proceed", "go ahead", "go ahead with this", "execute {tool}", "{task} now", "continue")
_ANNOUNCEMENTS = (
    "I will now {task}.",
    "I'll {task} for you now.",
    "Let me {task}.",
    "I am going to call {tool} with these values.",
    "Next, I will call execute_tool to {task}.",
)
_AFTER_ANNOUNCING = ("", "One moment please.", "This will only take a moment.", "Please wait.")
_ASK_OPENINGS = ("", "Sure.", "I can do that.", "Before I {task}, one question.")
_CALL_OPENINGS = ("", "Calling the tool:", "Here is the call:", "I will execute this:")


@dataclass(frozen=True, slots=True)
class Subject:
    """What a stall is about: the tool just disclosed, and what the user gave for it."""

    tool: str
    schema: Mapping[str, Any]
    given: Mapping[str, Any]
    questions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Ways to ask for a parameter; one without is asked for by its name."""


def stall_text(kind: StallKind, subject: Subject, rng: random.Random) -> str:
    """One stall of a kind; same `rng` state, same text."""
    say: dict[StallKind, Callable[[Subject, random.Random], str]] = {
        "param_dump": _param_dump,
        "permission_ask": _permission_ask,
        "inferable_value_ask": _inferable_value_ask,
        "announce_without_call": _announce,
        "fake_call_in_text": _fake_call,
    }
    text = say[kind](subject, rng)
    return text.replace("{tool}", subject.tool).replace("{task}", words(subject.tool)).strip()


def _param_dump(subject: Subject, rng: random.Random) -> str:
    properties = subject.schema["properties"]
    required = subject.schema.get("required", ())
    style = rng.choice(("inline", "bullets", "numbers"))
    if style == "inline":
        body = ", ".join(properties)
        return f"{rng.choice(_DUMP_OPENINGS)} {body}... {rng.choice(_DUMP_CLOSINGS)}"
    lines = [
        f"{'-' if style == 'bullets' else f'{number}.'} {_field(name, schema, name in required)}"
        for number, (name, schema) in enumerate(properties.items(), 1)
    ]
    return "\n".join([rng.choice(_DUMP_OPENINGS), *lines, rng.choice(_DUMP_CLOSINGS)])


def _field(name: str, schema: Mapping[str, Any], is_required: bool) -> str:
    need = "required" if is_required else "optional"
    about = schema.get("description", "")
    return f"{name} ({schema.get('type', 'any')}, {need})" + (f": {about}" if about else "")


def _permission_ask(subject: Subject, rng: random.Random) -> str:
    ask = rng.choice(_PERMISSION_ASKS).format(go=rng.choice(_GOES))
    return f"{rng.choice(_PERMISSION_OPENINGS)} {ask}"


def _inferable_value_ask(subject: Subject, rng: random.Random) -> str:
    """Ask for something the user said, or for something that has a default."""
    properties = subject.schema["properties"]
    known = [n for n in properties if n in subject.given or "default" in properties[n]]
    name = rng.choice(known or list(properties))
    asks = subject.questions.get(name) or (f"Which {words(name)} should I use?",)
    return f"{rng.choice(_ASK_OPENINGS)} {rng.choice(asks)}"


def _announce(subject: Subject, rng: random.Random) -> str:
    return f"{rng.choice(_ANNOUNCEMENTS)} {rng.choice(_AFTER_ANNOUNCING)}"


def _fake_call(subject: Subject, rng: random.Random) -> str:
    arguments = json.dumps(dict(subject.given), ensure_ascii=False)
    forms = (
        f"execute_tool(tool_name='{subject.tool}', arguments={arguments})",
        f'```json\n{{"tool_name": "{subject.tool}", "arguments": {arguments}}}\n```',
        f'{{"name": "execute_tool", "arguments": {{"tool_name": "{subject.tool}",'
        f' "arguments": {arguments}}}}}',
    )
    return f"{rng.choice(_CALL_OPENINGS)}\n{rng.choice(forms)}"
