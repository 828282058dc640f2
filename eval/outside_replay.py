"""An outside item up to its turn: search, schemas and earlier calls, all through the gateway.

The loop takes every turn before the one that is scored, by a script. What an earlier call did in
the benchmark's own environment is not known here: it answers that it is done, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breadcrumbs.data_gen.episodes import ScriptedApprover, last_payload, next_call
from breadcrumbs.data_gen.grounding import ground
from breadcrumbs.eval.outside_items import Exchange, Item
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.gateway.gateway import GatewaySettings, simulated_gateway
from breadcrumbs.gateway.identity import SeededIds
from breadcrumbs.gateway.protocol import EXECUTE, SCHEMA, SEARCH
from breadcrumbs.gateway.search import stems
from breadcrumbs.loop import LoopSettings, run
from breadcrumbs.messages import Message
from breadcrumbs.prompts import system_prompt
from breadcrumbs.turns import Turn

NOW = "2026-01-05T09:00"
ASKED = "One thing that I need for this is missing. Could you give it to me?"
"""What the assistant said where asking was right, in an earlier turn."""
REPORT = "Done."


@dataclass(frozen=True, slots=True)
class OutsideCase:
    """An item and the conversation that its turn follows."""

    item: Item
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    said: bool
    """Whether the user has said every required value of the first right call, or it has one."""


def replay_all(items: Sequence[Item], *, breadcrumb: bool) -> list[OutsideCase]:
    """Every item up to its turn, in the order given."""

    async def make() -> list[OutsideCase]:
        return [await replay(item, breadcrumb=breadcrumb) for item in items]

    return asyncio.run(make())


async def replay(item: Item, *, breadcrumb: bool) -> OutsideCase:
    """One item up to its turn."""
    hits = max(GatewaySettings().max_hits, len(item.read))
    settings = GatewaySettings(breadcrumbs=breadcrumb, max_hits=hits, unasked_hits=hits)
    simulated = simulated_gateway(item.catalog, seed=0, settings=settings)
    session = simulated.gateway.session()
    prompt = "\n".join(filter(None, (system_prompt(NOW).text, item.system)))
    conversation = [Message("system", prompt)]
    asked = Exchange(item.request, item.calls)
    known: set[str] = set()
    for exchange in (*item.history, asked):
        decides = exchange is asked
        used = dict.fromkeys(call.tool for call in exchange.calls if call.tool not in known)
        read = item.read if decides else tuple(used)
        known.update(read)
        specs = [item.catalog.tools[name] for name in read]
        script = _Script(exchange, specs, decides=decides)
        conversation.append(Message("user", exchange.request))
        await run(
            script,
            session,
            conversation,
            settings=LoopSettings(
                nudge=False,
                max_rounds=script.rounds,
                max_identical_calls=script.rounds + 1,  # a benchmark may repeat itself
            ),
            approver=ScriptedApprover("approve", simulated),
            ids=SeededIds(0),
        )
    return OutsideCase(
        item, tuple(conversation), tuple(session.tools), _is_said(item, conversation)
    )


class _Script:
    """Search and read what is not read yet, make the right calls one by one, report.

    Where an earlier request has no right call, it asks.
    """

    def __init__(self, exchange: Exchange, specs: Sequence[ToolSpec], *, decides: bool) -> None:
        self._exchange = exchange
        self._specs = specs
        self._decides = decides

    @property
    def rounds(self) -> int:
        """Turns that the whole exchange takes."""
        if self._decides:
            return 2 if self._specs else 1
        return len(self._exchange.calls) + 3

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The next turn."""
        turn = self._turn(messages)
        if turn.text:
            yield turn.text
        yield turn

    def _turn(self, messages: Sequence[Message]) -> Turn:
        since = messages[max(i for i, m in enumerate(messages) if m.role == "user") :]
        layer = last_payload(since).get("layer")
        if not (self._exchange.calls or self._decides):
            return Turn(ASKED)
        if layer is None and (self._specs or self._decides):
            return next_call(messages, SEARCH, {"query": self._query()})
        if layer == "1_catalog" and self._specs:
            names = [spec.name for spec in self._specs]
            return next_call(messages, SCHEMA, {"tool_names": names})
        ran = sum(call.name == EXECUTE for message in since for call in message.tool_calls)
        if ran < len(self._exchange.calls):
            call = self._exchange.calls[ran]
            arguments = {"tool_name": call.tool, "arguments": dict(call.arguments)}
            return next_call(messages, EXECUTE, arguments)
        return Turn(REPORT)

    def _query(self) -> str:
        """Words that the first tool is found by, so that the search is no dead end."""
        if not self._specs:
            return self._exchange.request
        name = self._specs[0].name.replace("_", " ")
        return name if stems(name) else self._specs[0].description or name


def _is_said(item: Item, conversation: Sequence[Message]) -> bool:
    if not item.calls:
        return True
    call = item.calls[0]
    spec = item.catalog.tools[call.tool]
    given = {name: call.arguments[name] for name in spec.required if name in call.arguments}
    return all(source is not None for source in ground(spec, given, conversation).values())
