"""One turn at the decision point, scored against the scenario's hidden truth. No judge model.

An `execute_tool` counts as a call; a turn that only searches or reads schemas is an `other_call`,
neither a dispatch nor a stall. A call that cannot be read is no call, and is counted by its own
name. Every function is pure: same turn, same score, whatever stands beside it in a batch.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from breadcrumbs.data_gen.grounding import ground, worded_well
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.questions import asked_parameters
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.speech import Language
from breadcrumbs.eval.intervals import NOT_MEASURED, Estimate, Questions, ask_f1, rate
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.radar import Radar, situation_of
from breadcrumbs.radar_phrases import phrases_in
from breadcrumbs.turns import Turn

EXECUTE, SEARCH = "execute_tool", "search_tool_catalog"
METRICS = ("dad", "oar", "uar", "ask_f1", "arguments_exact", "end_state", "search_call_parsed")
EXTRAS = ("other_call", "malformed_call", "invented", "decline_told")
"""Beside the metrics: what explains them."""

_REFUSES = re.compile(
    r"\bno (?:\w+ )?tools?\b|\b(?:can(?:not|'t)|could(?: not|n't)|unable|not able to|sorry)\b"
    r"|\bnot (?:available|possible|supported)\b|\bisn't (?:available|possible|supported)\b"
)


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with everything its turn is judged by."""

    scenario: Scenario
    spec: ToolSpec
    hint: ToolHint | None
    messages: tuple[Message, ...]
    """The conversation up to the turn."""
    tools: tuple[Mapping[str, Any], ...] = ()
    shown: ToolSpec | None = None
    """The tool as its catalog has it, where that is another: what a call is checked by."""


@dataclass(frozen=True, slots=True)
class TurnScore:
    """What one turn did."""

    executed: bool
    """It called `execute_tool`, on whatever, with whatever."""
    other_call: bool
    """It called something, but not `execute_tool`."""
    malformed: bool
    """It tried to call, and nothing of it could be read."""
    dispatched: bool
    """One `execute_tool`, right tool, schema-valid, every required argument grounded."""
    exact: bool
    """As `dispatched` for the call itself, and every argument is the right one."""
    declined: bool
    """It made no call and said that this cannot be done."""
    stall: str | None
    """Kind of stall, where the turn made no call though dispatch was right."""
    asked: tuple[str, ...]
    """Parameters it asks for."""
    questions: int
    """Questions it asks; one that names no parameter counts too."""
    invented: tuple[str, ...]
    """Arguments of its call that are grounded nowhere."""
    faults: tuple[str, ...]
    """Why its call is not a right one."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def score_turn(turn: Turn, case: Case) -> TurnScore:
    """Score a parsed turn that follows `case.messages`."""
    executes = [call for call in turn.calls if call.name == EXECUTE]
    language = case.scenario.surface.language
    asked = () if turn.calls else asked_parameters(turn.text, case.spec, case.hint, language)
    names_none = not turn.calls and not asked and "?" in turn.text
    invented, faults = _judge_calls(executes, case)
    return TurnScore(
        executed=bool(executes),
        other_call=bool(turn.calls) and not executes,
        malformed=bool(turn.problems) and not turn.calls,
        dispatched=bool(executes) and not faults,
        exact=_is_exact(executes, case),
        declined=not turn.calls and not turn.problems and refuses(turn.text, language),
        stall=stall_of(turn, case.messages) if case.scenario.behaviour == "dispatch" else None,
        asked=asked,
        questions=len(asked) + names_none,
        invented=invented,
        faults=faults,
    )


def refuses(text: str, language: Language = "en") -> bool:
    """Whether a text says that something cannot be done, and asks nothing."""
    said = unicodedata.normalize("NFKC", text).lower().replace("’", "'")
    if "?" in said:
        return False
    if language == "en":
        return bool(_REFUSES.search(said))
    heard = phrases_in(language)
    return bool(heard.refuses.search(said))


def calls_search(turn: Turn) -> bool:
    """Whether a turn holds a readable search: the right name and a text to search for."""
    return any(
        call.name == SEARCH
        and isinstance(query := call.arguments.get("query"), str)
        and bool(query.strip())
        for call in turn.calls
    )


def _judge_calls(
    executes: Sequence[ToolCall], case: Case
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(invented arguments, faults) of the turn's executions; no fault means rightly dispatched."""
    if not executes:
        return (), ()
    if len(executes) > 1:
        return (), (f"{len(executes)} executions in one turn",)
    name, arguments = executes[0].arguments.get("tool_name"), executes[0].arguments.get("arguments")
    if executes[0].arguments.get("approval_id"):
        return (), ("polls an approval that does not exist",)
    if name != case.scenario.tool:
        return (), (f"tool {name!r} is not the right one"[:200],)
    if not isinstance(arguments, Mapping):
        return (), ("arguments are not an object",)
    checked = check_arguments(case.shown or case.spec, arguments)
    if checked.errors:
        return (), tuple(f"{e.path}: {e.message}"[:200] for e in checked.errors)
    sources = ground(
        case.spec,
        checked.values,
        case.messages,
        composed=case.scenario.composed,
        hints=case.hint.arguments if case.hint else None,
    )
    gold = case.scenario.gold_arguments  # verified: the same value in another spelling is grounded
    invented = tuple(
        n
        for n, source in sources.items()
        if source is None
        and not (n in gold and _same_argument(n, checked.values[n], gold[n], case))
    )
    required = case.spec.required
    return invented, tuple(f"{n}: grounded nowhere" for n in invented if n in required)


def _is_exact(executes: Sequence[ToolCall], case: Case) -> bool:
    """Whether the one call passes what the gold call passes.

    Both sides have their defaults filled in, so that leaving out an argument whose default is
    right is right, and so is saying it. Texts the assistant words are compared by what they must
    and must not say; everything else by `same_value`. An argument too many makes it inexact.
    """
    if len(executes) != 1 or executes[0].arguments.get("approval_id"):
        return False
    arguments = executes[0].arguments.get("arguments")
    if executes[0].arguments.get("tool_name") != case.scenario.tool:
        return False
    if not isinstance(arguments, Mapping):
        return False
    given = check_arguments(case.shown or case.spec, arguments)
    gold = check_arguments(case.spec, case.scenario.gold_arguments)
    if given.errors or gold.errors or given.values.keys() != gold.values.keys():
        return False
    return all(
        _same_argument(name, value, gold.values[name], case) for name, value in given.values.items()
    )


def _same_argument(name: str, given: Any, gold: Any, case: Case) -> bool:
    if name in case.scenario.composed:
        return worded_well(given, case.scenario.composed[name])
    schema = case.spec.input_schema["properties"][name]
    is_key = case.spec.effect is not None and case.spec.effect.key_argument == name
    return same_value(given, gold, schema, exact_case=is_key)


def same_value(
    given: Any, gold: Any, schema: Mapping[str, Any], *, exact_case: bool = False
) -> bool:
    """Equality of argument values.

    Numbers by value (25 and 25.0 are one; true and 1 are two); dates and times by the moment they
    name; lists item by item in order; objects key by key; other texts after NFKC, with runs of
    white space as one, none at the ends, and, unless `exact_case`, without regard to case.
    """
    if isinstance(given, bool) or isinstance(gold, bool):
        return given is gold
    if isinstance(gold, Mapping) and isinstance(given, Mapping):
        inner = schema.get("properties", {})
        return given.keys() == gold.keys() and all(
            same_value(given[key], gold[key], inner.get(key, {})) for key in gold
        )
    if isinstance(gold, list) and isinstance(given, list):
        inner = schema.get("items", {})
        return len(given) == len(gold) and all(
            same_value(a, b, inner) for a, b in zip(given, gold, strict=True)
        )
    if isinstance(gold, str) and isinstance(given, str):
        return _text(given, schema, exact_case) == _text(gold, schema, exact_case)
    return bool(given == gold)


def _text(text: str, schema: Mapping[str, Any], exact_case: bool) -> str:
    if schema.get("format") == "date-time":
        try:
            return datetime.fromisoformat(text.strip()).isoformat()
        except ValueError:
            pass
    if schema.get("format") == "time":
        text = re.sub(r"^(\d\d:\d\d):00$", r"\1", text.strip())
    plain = " ".join(unicodedata.normalize("NFKC", text).split())
    return plain if exact_case else plain.casefold()


def stall_of(turn: Turn, messages: Sequence[Message]) -> str | None:
    """The kind of stall, by the radar's eye, in a turn that should call; None where it does.

    `other_text` where the radar sees no stall.
    """
    if turn.calls:
        return None
    if turn.problems:
        return "malformed_call"
    found = Radar().classify(turn.text, situation_of(messages))
    return found.kind if found is not None else "other_text"


@dataclass(frozen=True, slots=True)
class Scored:
    """A scenario's behaviour and missing arguments beside the score of its turn."""

    behaviour: str
    missing: tuple[str, ...]
    score: TurnScore

    @property
    def questions(self) -> Questions:
        """What it adds to Ask-F1."""
        hits = len(set(self.score.asked) & set(self.missing))
        return Questions(self.score.questions, hits, len(self.missing))


def summarise(
    scored: Iterable[Scored],
    *,
    seed: int,
    searches: Sequence[bool] = (),
    ends: Sequence[bool] = (),
) -> dict[str, Estimate]:
    """All metrics of one cell, each with its interval; what was not measured has n = 0.

    Ask-F1 pools dispatch and clarify scenarios: a question where nothing is missing costs
    precision. `malformed_call` and `other_call` are over dispatch and clarify together,
    `invented` over the scenarios whose turn executed something.
    """
    every = list(scored)
    act = [s.score for s in every if s.behaviour == "dispatch"]
    ask = [s.score for s in every if s.behaviour == "clarify"]
    both = [s for s in every if s.behaviour in ("dispatch", "clarify")]
    return {
        "dad": rate([s.dispatched for s in act]),
        "oar": rate([s.stall is not None for s in act]),
        "uar": rate([s.executed for s in ask]),
        "ask_f1": ask_f1([s.questions for s in both], seed) if both else NOT_MEASURED,
        "arguments_exact": rate([s.exact for s in act]),
        "end_state": rate(list(ends)),
        "search_call_parsed": rate(list(searches)),
        "other_call": rate([s.score.other_call for s in both]),
        "malformed_call": rate([s.score.malformed for s in both]),
        "invented": rate([bool(s.score.invented) for s in both if s.score.executed]),
        "decline_told": rate([s.score.declined for s in every if s.behaviour == "decline"]),
    }
