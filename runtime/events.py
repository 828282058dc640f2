"""What the loop tells its watcher, one small frozen class per event.

The last event of a run is always `Done`, and its `reason` says why the run ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from breadcrumbs.messages import ToolCall

DoneReason = Literal[
    "answered",
    "stalled",
    "max_rounds",
    "repeated_call",
    "out_of_time",
    "out_of_tokens",
    "cancelled",
    "model_error",
]
"""`cancelled` is said by whoever runs the loop, since the loop itself is closed then."""


@dataclass(frozen=True, slots=True)
class Think:
    """Text kept from the chat window: model reasoning or a caught stall."""

    text: str
    type: Literal["think"] = "think"


@dataclass(frozen=True, slots=True)
class Text:
    """Text for the user; pieces in order make the whole."""

    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ToolCallEvent:
    """The model called a meta-tool."""

    call: ToolCall
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The gateway's payload for a call, as it enters the conversation."""

    call_id: str
    payload: Mapping[str, Any]
    type: Literal["tool_result"] = "tool_result"


@dataclass(frozen=True, slots=True)
class Approval:
    """A write is held. `card` is the gateway's own rendering of the stored row."""

    card: Mapping[str, Any]
    type: Literal["approval"] = "approval"


@dataclass(frozen=True, slots=True)
class Nudge:
    """A stall was caught; `text` is the synthetic turn, `kind` what the radar saw."""

    text: str
    kind: str
    count: int
    type: Literal["nudge"] = "nudge"


@dataclass(frozen=True, slots=True)
class Done:
    """The run is over; `text` is the last assistant text, empty where there is none."""

    reason: DoneReason
    text: str = ""
    type: Literal["done"] = "done"


Event = Think | Text | ToolCallEvent | ToolResult | Approval | Nudge | Done
