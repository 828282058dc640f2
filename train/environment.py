"""The simulated gateway as TRL's environment: three meta-tools, one fresh world a try.

The loop of `breadcrumbs.loop` is the only other place where a model meets the gateway; a test
compares messages and answers of both. What the tools are shown as is the gateway's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from breadcrumbs.call_format import split_thinking
from breadcrumbs.data_gen.episodes import ScriptedApprover
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.rl_scenarios import Worlds
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import GatewaySession, LogEntry, SimulatedGateway
from breadcrumbs.messages import compact_json
from breadcrumbs.train.rewards import reward


class GatewayEnvironment:
    """One try. TRL resets it before each; every public method is a tool to the model."""

    def __init__(self, records: Sequence[Mapping[str, Any]], worlds: Worlds) -> None:
        self._records = records
        self._worlds = worlds
        self._simulated: SimulatedGateway
        self._session: GatewaySession
        self._scenario: Scenario
        self._catalog: Catalog
        self._hint: ToolHint | None
        self._answers: list[LogEntry] = []

    def reset(self, *, scenario: int, **_: Any) -> None:
        """Open the world of the scenario with that number."""
        record = self._records[scenario]
        self._scenario, rebuilt = self._worlds.rebuilt(record)
        self._catalog = rebuilt.catalog_of(self._scenario)
        self._hint = rebuilt.hint_of(self._scenario)
        self._simulated, self._session = self._worlds.open(record)
        self._answers = []

    def search_tool_catalog(self, **arguments: Any) -> str:
        """Find tools."""
        return self._answer("search_tool_catalog", arguments)

    def get_tool_schema(self, **arguments: Any) -> str:
        """Read schemas."""
        return self._answer("get_tool_schema", arguments)

    def execute_tool(self, **arguments: Any) -> str:
        """Call a tool."""
        return self._answer("execute_tool", arguments)

    def _answer(self, name: str, arguments: Mapping[str, Any]) -> str:
        payload = asyncio.run(self._call(name, arguments))
        self._answers.append(LogEntry(name, self._session.log[-1].arguments, payload))
        return compact_json(payload)

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The gateway's answer; a held write is decided at once, as the scenario says."""
        payload = await self._session.call(name, arguments)
        held = payload.get("status") == "approval_required" and not arguments.get("approval_id")
        gateway = self._simulated.gateway
        card = gateway.journal.get(str(payload["approval_id"])) if held else None
        if card is None:
            return payload
        approver = ScriptedApprover(self._scenario.approval, self._simulated)
        approve = await approver.decide(card)
        if approve is None:
            return gateway.standing(card.id)
        return await gateway.decide(card.id, approve=approve, by=self._session.principal.name)

    def _reward(self, said: str) -> float:
        """What this try was worth, ending with these words."""
        return reward(self._scenario, self._catalog, self._hint, self._answers, said)


def rewards(
    completions: Sequence[Sequence[Mapping[str, Any]]],
    environments: Sequence[GatewayEnvironment],
    **_: Any,
) -> list[float]:
    """TRL's reward function: each try by its own gateway's log and its last words."""
    pairs = zip(completions, environments, strict=True)
    return [environment._reward(last_words(messages)) for messages, environment in pairs]


def last_words(messages: Sequence[Mapping[str, Any]]) -> str:
    """The text behind the thinking of a last turn without a call; empty where there is none."""
    last = messages[-1] if messages else {}
    if last.get("role") != "assistant" or last.get("tool_calls"):
        return ""
    return split_thinking(str(last.get("content") or ""))[1]
