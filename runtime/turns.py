"""What a policy writes: one assistant turn, after its text has been streamed.

Owns the seam between the loop and whatever writes turns; it knows no model and no format.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from breadcrumbs.messages import Message, ToolCall


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a turn cost, where its policy counts them."""

    prompt: int
    completion: int

    def __add__(self, other: Usage) -> Usage:
        return Usage(self.prompt + other.prompt, self.completion + other.completion)


@dataclass(frozen=True, slots=True)
class Turn:
    """One finished assistant turn.

    `problems` says, one sentence each, why something that looked like a call was not one;
    such a call is not among `calls`. `thinking` is reasoning text kept out of `text`.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    problems: tuple[str, ...] = ()
    usage: Usage | None = field(default=None, compare=False)

    @property
    def content(self) -> str:
        """What the turn leaves in the conversation: its reasoning, if any, before its text.

        This is the text that was generated, so that the next prompt continues it.
        """
        if not self.thinking:
            return self.text
        return f"<think>{self.thinking}</think>\n{self.text}".rstrip()


class Policy(Protocol):
    """Whatever writes assistant turns: a script, a local model, an endpoint."""

    def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """Yield the turn's text as it is written; the last item is always the `Turn`.

        Closing the generator stops the work behind it.
        """
        ...
