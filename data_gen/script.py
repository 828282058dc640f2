"""What a scenario of a special kind adds to the plain one: steps before, a rule, an odd world.

Plain data. `kinds` writes it, the oracle follows it, `kind_checks` holds the row against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from breadcrumbs.data_gen.speech import in_any_voice, speech
from breadcrumbs.errors import DataError
from breadcrumbs.prompt_grammar import demands_confirmation

Kind = Literal[
    "held",
    "denied",
    "expired",
    "policy",
    "hold",
    "question",
    "read",
    "candidates",
    "derived",
    "several",
    "injected",
    "mislabelled",
    "repair",
]

RULES: Mapping[str, tuple[str, ...]] = {
    "House rule: before anything is changed, tell the user what will be done and get a yes.": (
        "write",
        "destructive",
    ),
    "Policy: read a change back to the user and obtain an explicit yes before it is made.": (
        "write",
        "destructive",
    ),
    "Of this desk: tools of risk write or destructive run only after the user confirms.": (
        "write",
        "destructive",
    ),
    "House rule: tools of risk destructive run only after the user's explicit yes.": (
        "destructive",
    ),
    "Policy: for risk destructive, list the details and wait for the user to confirm.": (
        "destructive",
    ),
}
"""Rules of an operator in the system prompt, with the risks that need the user's yes first."""
CHANGE_RULES = tuple(RULES)[:2]
"""Rules that speak of what a call does, not of what it is labelled."""
_PLAIN = speech("plain").kinds
WAITS = _PLAIN.waits
"""What a user says who wants to see a call before it is made."""
GOES = _PLAIN.goes
YES, NO = _PLAIN.yes, _PLAIN.no
"""How a user answers who was asked for a yes, or wanted to see a call first."""
PROGRESS = _PLAIN.progress
"""What a user asks whose write waits for approval."""
THOUGHTS: Mapping[str, str] = {
    "policy": "confirmation first",
    "mislabelled": "confirmation first",
    "hold": "user waits",
}
"""What ends the thought of a turn that holds, by kind."""
QUESTION_THOUGHT = "{}; a question about the tool"
"""The thought of a turn that answers from the schema: a draft without arguments, and why.

It begins as every draft does, so that its first token is among those that decide.
"""
AFTER: frozenset[str] = frozenset({"held", "denied", "expired", "injected"})
"""Kinds whose lesson lies behind the decision: training must not cut them there."""


def needs_yes(system_prompt: str) -> frozenset[str]:
    """The risks for which the rules of a system prompt demand the user's confirmation."""
    lines = system_prompt.splitlines()
    if demands_confirmation(system_prompt):
        return frozenset(("write", "destructive"))
    return frozenset(risk for rule, risks in RULES.items() if rule in lines for risk in risks)


def asks_to_wait(request: str) -> bool:
    """Whether the user says not to run it yet."""
    return any(wait in request for wait in in_any_voice("waits"))


def says_yes(text: str) -> bool:
    """Whether a reply is a user's yes to a call that was shown."""
    return text in in_any_voice("yes")


def says_no(text: str) -> bool:
    """Whether a reply is a user's no to a call that was shown."""
    return text in in_any_voice("no")


@dataclass(frozen=True, slots=True)
class Step:
    """A whole search, disclosure and call that comes before the one that is decided about."""

    query: str
    tool: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Lookup:
    """An argument that is not said: the record is described, and a read shows its key."""

    argument: str
    key: str
    """The field of the record that holds the argument's value."""
    field: str
    described: str
    """What the user says of the record: the value of its `field`."""


@dataclass(frozen=True, slots=True)
class Script:
    """The kind of a scenario, and what only its kind needs; as it stands, of a plain one."""

    kind: Kind | Literal[""] = ""
    steps: tuple[Step, ...] = ()
    lookup: Lookup | None = None
    records: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Collections of the tool's domain whose records are others here."""
    said: dict[str, str] = field(default_factory=dict)
    """Arguments that the user says otherwise than they are passed, and in which words."""
    injected: str = ""
    """What a record holds that is no data but an order to the assistant."""
    shown_risk: str = ""
    """The risk the catalog gives the tool, where that is wrong."""
    slip: dict[str, Any] = field(default_factory=dict)
    """The arguments of a first call, which the schema refuses; training does not learn it."""
    replies: tuple[str, ...] = ()
    """What the user says next, each behind an answer of the assistant."""


def script_from_dict(data: Mapping[str, Any]) -> Script:
    """Read a script back from plain JSON values.

    Raises:
        DataError: a key is missing or unknown.
    """
    body = dict(data)
    try:
        body["steps"] = tuple(Step(**step) for step in body["steps"])
        body["replies"] = tuple(body["replies"])
        body["lookup"] = None if body["lookup"] is None else Lookup(**body["lookup"])
        return Script(**body)
    except (KeyError, TypeError) as error:
        raise DataError(f"script: {error}; regenerate the data") from error
