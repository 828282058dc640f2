"""What becomes of stall and nudge in a corrected row: cut out, kept without loss, or kept.

`remove` teaches to do it straight away. `mask` leaves both in the conversation and the stall out
of the loss, which teaches to go on after one (masked, not learned: SRFT, arXiv 2605.10674). `keep`
has the stall in the loss too: such rows teach to stall, which a staller is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from breadcrumbs.messages import Message

Nudged = Literal["remove", "mask", "keep"]
_MARKS = ("nudged", "stalls", "unlearned")


def source_of(mode: Nudged) -> Literal["corrected", "nudged"]:
    """What a row's `source` says of it."""
    return "corrected" if mode == "remove" else "nudged"


def stalled_turns(messages: Sequence[Message]) -> tuple[int, ...]:
    """Indices of the assistant texts that the runtime answered with a turn of its own."""
    return tuple(
        place
        for place, (said, answer) in enumerate(zip(messages, messages[1:], strict=False))
        if said.role == "assistant" and answer.role == "user" and answer.synthetic
    )


def behind_stalls(messages: Sequence[Message], place: int) -> int:
    """`place`, or where it is a stall, the first turn behind it and its nudges that is none."""
    stalls = stalled_turns(messages)
    while place in stalls:
        place += 2
    return place


def without_marks(meta: Mapping[str, Any]) -> dict[str, Any]:
    """A row's `meta` without what `nudged_meta` says."""
    return {key: value for key, value in meta.items() if key not in _MARKS}


def nudged_meta(mode: Nudged, messages: Sequence[Message]) -> dict[str, Any]:
    """What a row says of its stalls: which they are, and whether a trainer may learn them.

    Nothing where they were cut out.
    """
    if mode == "remove":
        return {}
    stalls = list(stalled_turns(messages))
    body: dict[str, Any] = {"nudged": mode, "stalls": stalls}
    return {**body, "unlearned": stalls} if mode == "mask" else body
