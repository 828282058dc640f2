"""Stalls as models write them, put together from parts, for a scripted staller to say.

Five kinds in each language; every text is about the tool that was just disclosed and draws on its
schema, so that no fixed list of sentences can be learnt or matched. The parts stand in `speech`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.speech import StallTexts, Voice, filled, lexicon, speech
from breadcrumbs.data_gen.values import words

StallKind = Literal[
    "param_dump",
    "permission_ask",
    "inferable_value_ask",
    "announce_without_call",
    "fake_call_in_text",
]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a stall is about: the tool just disclosed, and what the user gave for it."""

    tool: str
    schema: Mapping[str, Any]
    given: Mapping[str, Any]
    questions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Ways to ask for a parameter; one without is asked for by its name."""
    voice: Voice = "plain"
    task: str = ""
    """What the tool is for; the words of its name where that is not told."""

    @property
    def texts(self) -> StallTexts:
        """What the stall is put together from."""
        return speech(self.voice).stalls


def subject_of(
    scenario: Scenario,
    schema: Mapping[str, Any],
    questions: Mapping[str, Sequence[str]] | None = None,
) -> Subject:
    """What a stall in place of a scenario's right turn is about, in its language."""
    surface = scenario.surface
    task = lexicon("wishes").get(scenario.tool, {}).get(surface.language, "")
    given = scenario.gold_arguments
    return Subject(scenario.tool, schema, given, questions or {}, surface.voice, task)


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
    task = subject.task or words(subject.tool)
    return text.replace("{tool}", subject.tool).replace("{task}", task).strip()


def _param_dump(subject: Subject, rng: random.Random) -> str:
    properties = subject.schema["properties"]
    required, texts = subject.schema.get("required", ()), subject.texts
    style = rng.choice(("inline", "bullets", "numbers"))
    if style == "inline":
        body = ", ".join(properties)
        return f"{rng.choice(texts.dump_openings)} {body}... {rng.choice(texts.dump_closings)}"
    lines = [
        f"{'-' if style == 'bullets' else f'{number}.'} "
        + _field(name, schema, texts.required if name in required else texts.optional)
        for number, (name, schema) in enumerate(properties.items(), 1)
    ]
    return "\n".join([rng.choice(texts.dump_openings), *lines, rng.choice(texts.dump_closings)])


def _field(name: str, schema: Mapping[str, Any], need: str) -> str:
    about = schema.get("description", "")
    return f"{name} ({schema.get('type', 'any')}, {need})" + (f": {about}" if about else "")


def _permission_ask(subject: Subject, rng: random.Random) -> str:
    texts = subject.texts
    ask = rng.choice(texts.permission_asks).replace("{go}", rng.choice(texts.goes))
    return f"{rng.choice(texts.permission_openings)} {ask}"


def _inferable_value_ask(subject: Subject, rng: random.Random) -> str:
    """Ask for something the user said, or for something that has a default."""
    properties = subject.schema["properties"]
    known = [n for n in properties if n in subject.given or "default" in properties[n]]
    name = rng.choice(known or list(properties))
    texts = subject.texts
    asks = subject.questions.get(name) or [filled(ask, label=words(name)) for ask in texts.asks]
    return f"{rng.choice(texts.ask_openings)} {rng.choice(asks)}"


def _announce(subject: Subject, rng: random.Random) -> str:
    return f"{rng.choice(subject.texts.announcements)} {rng.choice(subject.texts.after)}"


def _fake_call(subject: Subject, rng: random.Random) -> str:
    arguments = json.dumps(dict(subject.given), ensure_ascii=False)
    forms = (
        f"execute_tool(tool_name='{subject.tool}', arguments={arguments})",
        f'```json\n{{"tool_name": "{subject.tool}", "arguments": {arguments}}}\n```',
        f'{{"name": "execute_tool", "arguments": {{"tool_name": "{subject.tool}",'
        f' "arguments": {arguments}}}}}',
    )
    return f"{rng.choice(subject.texts.call_openings)}\n{rng.choice(forms)}"
