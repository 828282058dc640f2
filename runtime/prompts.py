"""System prompts: tier 2 on leaves approval to the gateway, off asks for it in the chat.

Kept short, since every prompt pays for them. The first part is the steering whose share of
attention the probe measures; the rest is context.
"""

from __future__ import annotations

from dataclasses import dataclass

DECOUPLED = (
    "Act through the tool gateway. Never ask for permission: it holds writes for a person. Ask"
    " only for a required value that is missing.",
    "Find a tool, read its schema, run it. Approval is the gateway's job, not yours. Ask the user"
    " only when a required value was not given.",
    "Do what the user asks with the gateway's tools. Writes are approved there, so call at once."
    " Ask only for missing required values.",
    "Once a schema is shown, call execute_tool; the gateway asks a person before any write. If a"
    " required value is missing, ask for it.",
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
