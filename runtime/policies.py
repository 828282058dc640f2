"""Policies around policies: a replay, a staller, one under another naming, one turn at a time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.namings import Naming
from breadcrumbs.messages import Message
from breadcrumbs.turns import Policy, Turn, Wishes, wishing


async def whole_turn(
    policy: Policy, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
) -> Turn:
    """A policy's next turn, where nobody reads along.

    Raises:
        ModelError: it ends without a turn, or fails.
    """
    async with aclosing(policy.stream(messages, tools)) as source:
        async for item in source:
            if isinstance(item, Turn):
                return item
    raise ModelError("the policy ended without a turn; its last item must be one")


class ScriptedPolicy:
    """Says the given turns in order."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._turns = list(turns)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The next turn of the script.

        Raises:
            ModelError: the script is over.
        """
        if not self._turns:
            raise ModelError("the script has no further turn")
        turn = self._turns.pop(0)
        if turn.text:
            yield turn.text
        yield turn


class StallerPolicy:
    """Stalls right after a schema was disclosed, `times` times, then leaves it to `inner`."""

    def __init__(
        self, inner: Policy, stall: Callable[[Sequence[Message]], str], times: int = 1
    ) -> None:
        self._inner = inner
        self._stall = stall
        self._left = times

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """A stall while there are any left and a schema is fresh; else the inner policy's turn."""
        if self._left and schema_is_fresh(messages):
            self._left -= 1
            text = self._stall(messages)
            yield text
            yield Turn(text)
            return
        async for item in self._inner.stream(messages, tools):
            yield item


def schema_is_fresh(messages: Sequence[Message]) -> bool:
    """Whether the last gateway payload disclosed a schema (nudges after it do not count)."""
    for message in reversed(messages):
        if message.role == "tool":
            payload = json.loads(message.content)
            return bool(payload.get("layer") == "2_schema_disclosure" and payload.get("disclosed"))
    return False


class NamedPolicy:
    """Lets a policy see the meta-tools under a naming; loop and gateway notice nothing of it.

    Text is passed on as it is written; the turn at its end is in the gateway's words.
    """

    def __init__(self, inner: Policy, naming: Naming) -> None:
        self._inner = inner
        self._naming = naming

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The inner policy's turn on the shown conversation."""
        shown, offered = self._naming.show(messages), self._naming.show_tools(tools)
        async with aclosing(self._inner.stream(shown, offered)) as turn:
            async for item in turn:
                yield heard(item, self._naming) if isinstance(item, Turn) else item


def heard(turn: Turn, naming: Naming) -> Turn:
    """A turn written under a naming, in the gateway's words."""
    return dataclasses.replace(
        turn,
        text=naming.hear_text(turn.text),
        thinking=naming.hear_text(turn.thinking),
        calls=tuple(map(naming.hear_call, turn.calls)),
    )


class SerialPolicy:
    """Lets many conversations share a policy that can write only some turns at a time."""

    def __init__(
        self, inner: Policy, at_once: int = 1, *, free: asyncio.Semaphore | None = None
    ) -> None:
        self._inner = inner
        self._free = free or asyncio.Semaphore(at_once)

    def wishing(self, wishes: Wishes) -> SerialPolicy:
        """The inner policy as wished, behind the same queue."""
        return SerialPolicy(wishing(self._inner, wishes), free=self._free)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The inner policy's turn, once there is room for it."""
        async with self._free, aclosing(self._inner.stream(messages, tools)) as turn:
            async for item in turn:
                yield item
