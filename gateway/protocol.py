"""The gateway's protocol, written down: where a request can stand, and what moves it on.

A model that only does what `next_step` says walks along the moves whose cause is the breadcrumb.
Without a change from outside these have no cycle, so following them always ends: in a call that
has run or waits, or in words to the user. Every other move belongs to a person, the clock, the
gateway, a crash, or a catalog that changes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from breadcrumbs.gateway import payloads


class State(StrEnum):
    """Where a request stands after a payload."""

    START = "start"
    USAGE = "usage"
    """The call could not be read."""
    FOUND = "found"
    NO_FIT = "no_fit"
    DISCLOSED = "disclosed"
    CLOSED = "closed"
    """The tool is not open to the caller."""
    MISSING = "missing"
    """There is no such tool, or no such approval in this session."""
    UNREAD = "unread"
    """The schema was not read yet, or changed since."""
    INVALID = "invalid"
    HELD = "held"
    RUNNING = "running"
    """Approved, and not finished."""
    DONE = "done"
    DENIED = "denied"
    EXPIRED = "expired"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Cause(StrEnum):
    """What moves a request."""

    BREADCRUMB = "breadcrumb"
    PERSON = "person"
    CLOCK = "clock"
    GATEWAY = "gateway"
    CRASH = "crash"
    CHANGE = "change"
    """The tool is another than the one that was shown or approved, or gone, or closed by now."""


@dataclass(frozen=True, slots=True)
class Move:
    """One way from state to state; for a breadcrumb, by which meta-tool."""

    before: State
    cause: Cause
    after: State
    call: str = ""


SEARCH, SCHEMA, EXECUTE = "search_tool_catalog", "get_tool_schema", "execute_tool"
ENDS = frozenset(
    {
        State.NO_FIT,
        State.CLOSED,
        State.HELD,
        State.RUNNING,
        State.DONE,
        State.DENIED,
        State.EXPIRED,
        State.FAILED,
        State.UNKNOWN,
    }
)
"""Where the breadcrumb says to speak to the user and names no call."""
_RAN = (State.HELD, State.RUNNING, State.DONE, State.DENIED, State.FAILED, State.UNKNOWN)


def _by(call: str, before: State, *after: State) -> tuple[Move, ...]:
    return tuple(Move(before, Cause.BREADCRUMB, state, call) for state in after)


MOVES: tuple[Move, ...] = (
    *_by(SEARCH, State.START, State.FOUND, State.NO_FIT),
    *_by(SEARCH, State.USAGE, State.FOUND, State.NO_FIT),
    *_by(SCHEMA, State.USAGE, State.DISCLOSED, State.CLOSED, State.MISSING),
    *_by(EXECUTE, State.USAGE, State.CLOSED, State.MISSING, State.UNREAD, State.INVALID, *_RAN),
    *_by(SEARCH, State.MISSING, State.FOUND, State.NO_FIT),
    *_by(SCHEMA, State.FOUND, State.DISCLOSED),
    *_by(SCHEMA, State.UNREAD, State.DISCLOSED),
    *_by(EXECUTE, State.DISCLOSED, State.INVALID, *_RAN),
    *_by(EXECUTE, State.INVALID, *_RAN),  # with every field mended that was named
    Move(State.DISCLOSED, Cause.CHANGE, State.UNREAD),
    Move(State.INVALID, Cause.CHANGE, State.UNREAD),
    *(
        Move(before, Cause.CHANGE, after)
        for before in (State.FOUND, State.UNREAD, State.DISCLOSED, State.INVALID)
        for after in (State.MISSING, State.CLOSED)
    ),
    Move(State.HELD, Cause.PERSON, State.RUNNING),
    Move(State.HELD, Cause.PERSON, State.DENIED),
    Move(State.HELD, Cause.CLOCK, State.EXPIRED),
    Move(State.HELD, Cause.CHANGE, State.FAILED),
    Move(State.RUNNING, Cause.GATEWAY, State.DONE),
    Move(State.RUNNING, Cause.GATEWAY, State.FAILED),
    Move(State.RUNNING, Cause.GATEWAY, State.UNKNOWN),
    Move(State.RUNNING, Cause.CRASH, State.UNKNOWN),
)

_BY_STATUS = {
    "invalid": State.INVALID,
    "not_disclosed": State.UNREAD,
    "unauthorized": State.CLOSED,
    "not_found": State.MISSING,
    "approval_required": State.HELD,
    "done": State.DONE,
    "denied": State.DENIED,
    "expired": State.EXPIRED,
    "failed": State.FAILED,
    "unknown": State.UNKNOWN,
}
_CALL = re.compile(rf"\b({SEARCH}|{SCHEMA}|{EXECUTE})\(")


def state_of(payload: Mapping[str, Any]) -> State:
    """Where a payload leaves the request; that a write was approved shows in `next_step` alone."""
    layer = payload["layer"]
    if layer == "0_usage":
        return State.USAGE
    if layer == "1_catalog":
        return State.FOUND if payload["matches"] else State.NO_FIT
    if layer == "2_schema_disclosure":
        if payload["disclosed"]:
            return State.DISCLOSED
        return State.CLOSED if payload["unauthorized"] else State.MISSING
    if payload.get(payloads.NEXT_STEP) in payloads.DECIDED.values():
        return State.RUNNING
    return _BY_STATUS[payload["status"]]


def calls_in(next_step: str) -> tuple[str, ...]:
    """The meta-tools a directive says to call, in its order."""
    return tuple(dict.fromkeys(_CALL.findall(next_step)))


def legal_calls(state: State) -> frozenset[str]:
    """The meta-tools that a breadcrumb may name in a state; none where the request ends."""
    return frozenset(m.call for m in MOVES if m.before is state and m.cause is Cause.BREADCRUMB)


def fault_of(payload: Mapping[str, Any]) -> str | None:
    """What is wrong with how a payload ends; None where its breadcrumb is legal and last."""
    if payloads.NEXT_STEP not in payload:
        return "no next_step"
    if list(payload)[-1] != payloads.NEXT_STEP:
        return "next_step is not the last key"
    state = state_of(payload)
    named = set(calls_in(str(payload[payloads.NEXT_STEP])))
    if state in ENDS and named:
        return f"{state}: the request ends here, but next_step names {', '.join(sorted(named))}"
    if state not in ENDS and not named:
        return f"{state}: next_step names no call"
    if strange := named - legal_calls(state):
        return f"{state}: next_step names {', '.join(sorted(strange))}"
    return None
