"""What the loop says to a model that stalled: a synthetic user turn, marked as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from breadcrumbs.radar import Disclosed

NudgeStyle = Literal["contract", "seed"]


def nudge_text(situation: Disclosed, style: NudgeStyle = "contract") -> str:
    """The nudge for what was disclosed.

    `contract` states how calls work and offers every way out; `seed` is the imperative wording
    of the original four-tier design, kept for comparison.
    """
    if style == "seed":
        return (
            "You have already inspected the tool schema. DO NOT ask conversational questions,"
            " request confirmation, or dump parameter lists to the user in text. You MUST"
            " directly invoke `execute_tool` now! Synthesize all required arguments from the"
            " user's intent and workspace context. If a write tool requires approval, the MCP"
            " Gateway will handle it automatically."
        )
    if situation.others:
        names = ", ".join((situation.tool, *situation.others))
        shown, call = f"schemas of {names} are", "the tool_name that fits and its required fields"
    else:
        required = ", ".join(situation.required)
        fields = f" and its required fields ({required})" if required else ""
        shown, call = f"schema of {situation.tool} is", f"tool_name '{situation.tool}'{fields}"
    return (
        f"A tool runs only when it is called. The {shown} above. Either call execute_tool with"
        f" {call}, or say which required value is missing, or say that no call is needed. Writes"
        " are held for approval by the gateway."
    )


def repair_text(problems: Sequence[str]) -> str:
    """What to say about a call that could not be read."""
    return f"The call could not be read: {'; '.join(problems)}. Write it again as one tool call."
