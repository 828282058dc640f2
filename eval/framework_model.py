"""What evaluation frameworks share: their model's messages as turns, our figures as flat numbers.

Frameworks call models in the form of OpenAI's chat completions or near it. What comes back is read
by the code that reads any endpoint, so that the same words get the same score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from breadcrumbs.call_reading import call_problem
from breadcrumbs.endpoint_wire import turn_of
from breadcrumbs.eval.intervals import Estimate
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.turns import Turn


def silent(done: int, total: int, note: str = "") -> None:
    """Progress is the framework's to show."""


def framework_turn(
    message: Mapping[str, Any],
    before: Sequence[Message],
    *,
    cut: bool = False,
    usage: Mapping[str, int] | None = None,
) -> Turn:
    """The turn in an assistant message of OpenAI's form.

    Args:
        message: `content`, `tool_calls` and `reasoning`, as a completion has them; a call that the
            framework could not read has a `parse_error` beside its `function`.
        before: the conversation it follows; calls without an id are numbered on.
        cut: whether a limit of tokens ended it.
        usage: `prompt_tokens` and `completion_tokens`.

    Raises:
        ModelError: it is no message.
    """
    calls = message.get("tool_calls") or []
    unread = [call for call in calls if call.get("parse_error")]
    read = [call for call in calls if not call.get("parse_error")]
    choice = {
        "message": {**message, "tool_calls": read},
        "finish_reason": "length" if cut else "stop",
    }
    first_id = 1 + sum(len(m.tool_calls) for m in before)
    turn = turn_of({"choices": [choice], "usage": usage}, first_id)
    problems = (
        call_problem(str(call["parse_error"]), compact_json(call["function"])) for call in unread
    )
    return dataclasses.replace(turn, problems=(*turn.problems, *problems))


def flat(figures: Mapping[str, Estimate]) -> dict[str, float]:
    """Each figure that was measured, as `dad`, with its interval, `dad_low` and `dad_high`."""
    found: dict[str, float] = {}
    for name, estimate in figures.items():
        if estimate.value is not None and estimate.low is not None and estimate.high is not None:
            found |= {
                name: estimate.value,
                f"{name}_low": estimate.low,
                f"{name}_high": estimate.high,
            }
    return found
