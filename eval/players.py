"""Who takes part in an episode beside the model: a scripted user, and policies to compare with.

The user knows the scenario's truth and answers only what was asked, always in the same words. An
LLM as user would tie every figure to its moods (tau-bench threads #182, #496).
"""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from breadcrumbs import prompts
from breadcrumbs.call_format import split_thinking
from breadcrumbs.data_gen.episodes import OraclePolicy, last_payload
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.stalls import StallKind, Subject, stall_text
from breadcrumbs.data_gen.values import spoken, words
from breadcrumbs.eval.decision import NOTHING, filled_arguments, first_question
from breadcrumbs.eval.metrics import Case
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import Message, json_object
from breadcrumbs.turns import Turn

PATIENCE = 3
"""Answers after which the user gives up."""
Tools = Sequence[Mapping[str, Any]]
KINDS: tuple[StallKind, ...] = (
    "param_dump",
    "permission_ask",
    "inferable_value_ask",
    "announce_without_call",
)


class ScriptedUser:
    """Says what the scenario has the user say, else answers what is asked, else falls silent."""

    def __init__(self, scenario: Scenario, spec: ToolSpec, hint: ToolHint | None) -> None:
        self.scenario = scenario
        self.spec = spec
        self.hint = hint
        self.said: list[str] = []

    def reply(self, messages: Sequence[Message]) -> str | None:
        """The next words of the user after the assistant's last turn; None ends the episode."""
        if len(self.said) >= PATIENCE:
            return None
        text = self._scripted(messages) or self._answer(split_thinking(messages[-1].content)[1])
        if text:
            self.said.append(text)
        return text

    def _scripted(self, messages: Sequence[Message]) -> str | None:
        """The scenario's own reply: to a plan at once, about a write once it waits."""
        left = [text for text in self.scenario.replies if text not in self.said]
        if not left:
            return None
        waits = any(
            json_object(m.content).get("status") == "approval_required"
            for m in messages
            if m.role == "tool"
        )
        return left[0] if waits or self.scenario.behaviour == "hold" else None

    def _answer(self, text: str) -> str | None:
        asked = asked_parameters(text, self.spec, self.hint)
        if asked:
            return " ".join(map(self._value, asked))
        leave = "?" in text and self.scenario.behaviour in ("dispatch", "clarify")
        return self.scenario.speech.kinds.yes[0] if leave else None

    def _value(self, name: str) -> str:
        known = {**self.scenario.gold_arguments, **self.scenario.withheld}
        if name not in known:
            return f"Leave {words(name)} as it is."
        said = spoken(known[name], self.spec.input_schema["properties"][name])
        return f"{words(name)}: {said}."


def completed(scenario: Scenario) -> Scenario:
    """The scenario once the user has given what was missing."""
    arguments = {**scenario.gold_arguments, **scenario.withheld}
    return replace(
        scenario, behaviour="dispatch", gold_arguments=arguments, missing=(), withheld={}
    )


class TurnByTurn:
    """A policy whose turns follow from the conversation alone."""

    def turn(self, messages: Sequence[Message]) -> Turn:
        """The next turn."""
        raise NotImplementedError

    async def stream(
        self, messages: Sequence[Message], tools: Tools
    ) -> AsyncGenerator[str | Turn, None]:
        """The turn's text, then the turn."""
        turn = self.turn(messages)
        if turn.text:
            yield turn.text
        yield turn


class Oracle(TurnByTurn):
    """Always right, also after the user has answered."""

    def __init__(self, scenario: Scenario, spec: ToolSpec) -> None:
        self.scenario = scenario
        self._first = OraclePolicy(scenario, spec)
        self._then = OraclePolicy(completed(scenario), spec)

    def turn(self, messages: Sequence[Message]) -> Turn:
        """The right turn."""
        users = sum(m.role == "user" and not m.synthetic for m in messages)
        answered = self.scenario.behaviour == "clarify" and users > 1
        return (self._then if answered else self._first).turn(messages)


class Idle(TurnByTurn):
    """Does nothing: a suite in which this succeeds measures nothing."""

    def turn(self, messages: Sequence[Message]) -> Turn:
        """Always the same word."""
        return Turn(NOTHING)


class Constant(TurnByTurn):
    """Finds the tool, then always does the same: calls whatever is missing, or asks."""

    def __init__(
        self, scenario: Scenario, spec: ToolSpec, hint: ToolHint | None, *, calls: bool
    ) -> None:
        case = Case(scenario, spec, hint, ())
        plain = replace(scenario, script=replace(scenario.script, slip={}, replies=()))
        self._inner = OraclePolicy(
            replace(plain, behaviour="dispatch", gold_arguments=filled_arguments(case), missing=())
            if calls
            else replace(plain, behaviour="clarify", question=first_question(case)),
            spec,
        )

    def turn(self, messages: Sequence[Message]) -> Turn:
        """The oracle's turn on a scenario that is always taken for the same."""
        return self._inner.turn(messages)


class Wavering(Oracle):
    """Right at heart, but stalls and guesses by chances that depend on the tiers it meets.

    It sees of the tiers what a model sees: the last key of a payload, the first line of the system
    prompt, a nudge. So the effects of the tiers on it are known, and an ablation must find them.
    """

    STALLS: Mapping[int, float] = {0: 0.9, 1: 0.6, 2: 0.2}
    """By how many of tiers 1 and 2 speak to it."""
    STALLS_AGAIN = 0.25
    """After a nudge."""
    GUESSES, GUESSES_WHEN_PUSHED = 0.05, 0.3
    """Calls with a filler where a value is missing; pushed is with a breadcrumb or a nudge."""

    def __init__(self, scenario: Scenario, spec: ToolSpec, hint: ToolHint | None, run: int) -> None:
        super().__init__(scenario, spec)
        self.spec = spec
        self._reckless = Constant(scenario, spec, hint, calls=True)
        hints = {} if hint is None else hint.arguments
        questions = {name: argument.questions for name, argument in hints.items()}
        self._subject = Subject(spec.name, spec.input_schema, scenario.gold_arguments, questions)
        self._seed = f"{scenario.id}/{run}"

    def turn(self, messages: Sequence[Message]) -> Turn:
        """A stall, a guess, or the right turn."""
        right = super().turn(messages)
        if last_payload(messages).get("layer") != "2_schema_disclosure":
            return right
        nudged = messages[-1].synthetic
        rng = random.Random(f"{self._seed}/{sum(m.role != 'tool' for m in messages)}")
        chance = rng.random()
        shown = "next_step" in last_payload(messages)
        if right.calls:
            steered = messages[0].content.partition("\n")[0] not in prompts.COUPLED
            stalls = self.STALLS_AGAIN if nudged else self.STALLS[shown + steered]
            if chance < stalls:
                return Turn(stall_text(rng.choice(KINDS), self._subject, rng))
        elif self.scenario.behaviour == "clarify":
            pushed = shown or nudged
            if chance < (self.GUESSES_WHEN_PUSHED if pushed else self.GUESSES):
                return self._reckless.turn(messages)
        return right


Maker = Callable[[Scenario, ToolSpec, ToolHint | None, int], TurnByTurn]
SCRIPTED: Mapping[str, Maker] = {
    "oracle": lambda scenario, spec, hint, run: Oracle(scenario, spec),
    "do_nothing": lambda scenario, spec, hint, run: Idle(),
    "always_dispatch": lambda s, spec, hint, run: Constant(s, spec, hint, calls=True),
    "always_ask": lambda s, spec, hint, run: Constant(s, spec, hint, calls=False),
    "wavering": Wavering,
}
"""Policies that need no model."""
