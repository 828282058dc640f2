"""What rows of special kinds must hold beside what every row must: above all, honest reports.

Each check answers with a reason or nothing, as those of `verify` do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.values import words
from breadcrumbs.messages import Message, json_object

_MUST_SAY: Mapping[str, tuple[str, ...]] = {
    "approval_required": ("waits for approval", "has not run"),
    "denied": ("denied", "nothing was changed"),
    "expired": ("ran out", "nothing was changed"),
}
"""What a report on a write that did not run says, by the status of the gateway's answer."""
_SUCCESS = re.compile(
    r"\b(?:done|success\w*|completed?|(?:was|were|is|are|has been|have been) (?!denied\b|not\b)\w+ed)\b"
)
"""Words that tell of a write as one that ran."""
_NOTHING = re.compile(r"\bnothing was changed\b")


def kind_fault(scenario: Scenario, messages: Sequence[Message]) -> str | None:
    """The first thing that a row of a special kind lacks; None for plain rows and good ones."""
    if scenario.script is None:
        return None
    return report_fault(scenario, messages)


def report_fault(scenario: Scenario, messages: Sequence[Message]) -> str | None:
    """A write that waits, was denied or ran out is reported as that, never as done."""
    answers = [json_object(m.content) for m in messages if m.role == "tool"]
    status = str(answers[-1].get("status", "")) if answers else ""
    if status not in _MUST_SAY:
        return None
    said = messages[-1].content.lower().replace(words(scenario.tool).lower(), "")
    if any(part not in said for part in _MUST_SAY[status]):
        return f"report: does not say that it {_STANDS[status]}"
    if _SUCCESS.search(_NOTHING.sub("", said)):
        return "report: tells of success where there was none"
    return None


_STANDS = {"approval_required": "waits", "denied": "was denied", "expired": "ran out"}
