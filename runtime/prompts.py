"""System prompts: tier 2 on leaves approval to the gateway, off asks for it in the chat.

Kept short, since every prompt pays for them. The first part is the steering whose share of
attention the probe measures; the rest is context.
"""

from __future__ import annotations

from dataclasses import dataclass

DECOUPLED = (
    "Act through the gateway; writes are approved there. Ask only for a missing required value.",
    "Find a tool and run it; approval is the gateway's job. Ask only for missing required values.",
    "Use the tools at once: the gateway approves writes. Ask only for missing required values.",
    "Once a schema is there, run it: the gateway holds writes. Ask only for a missing value.",
)
COUPLED = (
    "You act through a tool gateway: search the catalog, read the schema, then call execute_tool."
    " Always confirm with the user before you run anything that writes.",
    "Work with tools: search_tool_catalog, then get_tool_schema, then execute_tool. Show the user"
    " the parameters and ask for permission before every write.",
)


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """A system message in two parts, so that its steering can be told from its context."""

    steering: str
    rest: str

    @property
    def text(self) -> str:
        """The whole message."""
        return f"{self.steering}\n{self.rest}"


def system_prompt(now: str, *, decoupled: bool = True, wording: int = 0) -> SystemPrompt:
    """The system prompt at a time (ISO, minutes); `wording` picks one, counting round."""
    wordings = DECOUPLED if decoupled else COUPLED
    return SystemPrompt(wordings[wording % len(wordings)], f"Now: {now}.")
