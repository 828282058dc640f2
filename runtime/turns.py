"""What a policy writes: one assistant turn, after its text has been streamed.

Owns the seam between the loop and whatever writes turns, and what a caller may wish of the
writing; it knows no model and no format.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from breadcrumbs.errors import BreadcrumbsError
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
    cut: bool = field(default=False, compare=False)
    """Whether a limit of tokens ended it."""

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


@dataclass(frozen=True, slots=True)
class Wishes:
    """How a caller wants turns written; by default as trained: the likeliest token each time."""

    max_tokens: int | None = None
    """Tokens of a turn, and of a run of the loop; None leaves it to the policy."""
    temperature: float | None = None
    """Naming this or `top_p` samples, the other one being 1 then; 0 does not sample."""
    top_p: float | None = None
    seed: int | None = None
    """The same seed, the same text; None draws another each time."""
    stop: tuple[str, ...] = ()
    """Texts before which a turn ends."""

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn."""
        return self.temperature != 0 and (self.temperature, self.top_p) != (None, None)


class UnservedWish(BreadcrumbsError):
    """A policy cannot write as a caller wishes."""


@runtime_checkable
class WishingPolicy(Policy, Protocol):
    """A policy that can write as a caller wishes."""

    def wishing(self, wishes: Wishes) -> Policy:
        """The same policy, writing so."""
        ...


def wishing(policy: Policy, wishes: Wishes) -> Policy:
    """A policy that writes as wished; without a wish, the policy itself.

    Raises:
        UnservedWish: it writes in one way only.
    """
    if wishes == Wishes():
        return policy
    if not isinstance(policy, WishingPolicy):
        raise UnservedWish("this model writes in one way; leave limits and sampling fields out")
    return policy.wishing(wishes)
