"""What the loop says to a model that stalled: a synthetic user turn, marked as such."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

NudgeStyle = Literal["contract", "seed"]


def nudge_text(tool: str, required: Sequence[str], style: NudgeStyle = "contract") -> str:
    """The nudge for a disclosed tool.

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
    fields = f" and its required fields ({', '.join(required)})" if required else ""
    return (
        f"A tool runs only when it is called. The schema of {tool} is above. Either call"
        f" execute_tool with tool_name '{tool}'{fields}, or say which required value is missing,"
        " or say that no call is needed. Writes are held for approval by the gateway."
    )


def repair_text(problems: Sequence[str]) -> str:
    """What to say about a call that could not be read."""
    return f"The call could not be read: {'; '.join(problems)}. Write it again as one tool call."
