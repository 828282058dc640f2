"""The gateway: three meta-tools over a catalog, writes held for a person.

`GatewaySession.call` never raises on what a model sends: every fault is a payload that says what
to do next. The tool boundary is `_execute`: whatever a tool throws becomes a failed execution.
"""

from __future__ import annotations

import copy
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.gateway import payloads
from breadcrumbs.gateway.approval_card import storable
from breadcrumbs.gateway.approvals import DEFAULT_TTL_S, FINAL, ApprovalCard, ApprovalJournal
from breadcrumbs.gateway.arguments import FieldError, check_arguments, find_unfit
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.challenge import KeyRing, fits, mint
from breadcrumbs.gateway.execution import ApprovedWrites
from breadcrumbs.gateway.guesses import GuessLimit
from breadcrumbs.gateway.identity import Clock, Ids, SeededIds, SimulatedClock
from breadcrumbs.gateway.search import Embed, index_of
from breadcrumbs.gateway.worlds import (
    Executor,
    OutcomeUnknown,
    ToolFailure,
    World,
    WorldExecutor,
)
from breadcrumbs.messages import compact_json

logger = logging.getLogger(__name__)
MAX_HITS_ASKED = 30
MAX_DENIED_RETRIES = 2
"""Tries of a denied call that get its plain answer; later ones are told to stop."""
TOO_MANY_GUESSES = "too many unknown approval ids; wait a minute"


def _meta_tool(name: str, properties: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(required),
            },
        },
    }


META_TOOLS: tuple[dict[str, Any], ...] = (
    _meta_tool(
        "search_tool_catalog",
        {"query": {"type": "string"}},
        ["query"],
    ),
    _meta_tool(
        "get_tool_schema",
        {"tool_names": {"type": "array", "items": {"type": "string"}}},
        ["tool_names"],
    ),
    _meta_tool(
        "execute_tool",
        {"tool_name": {"type": "string"}, "arguments": {"type": "object"}},
        ["tool_name", "arguments"],
    ),
)
"""The definitions a model sees, in this order, kept short: they stand in every prompt.

Names say what each does, so there are no descriptions. A search's `limit` is taken where given, as
is a call's `approval_id`: no breadcrumb tells a model to poll, the loop brings it the decision.
"""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """Tier 1 and tier 4 as switches, and limits."""

    breadcrumbs: bool = True
    hold_writes: bool = True
    max_hits: int = 5
    unasked_hits: int = 5
    """How many hits a search shows at most that names no limit."""
    ttl_s: int = DEFAULT_TTL_S


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, and in which roles."""

    name: str = "user"
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One call and its answer, as they crossed the gateway."""

    name: str
    arguments: Mapping[str, Any]
    payload: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "name": self.name,
            "arguments": dict(self.arguments),
            "payload": dict(self.payload),
        }


class Gateway:
    """What all sessions share: catalog, index, executor and journal."""

    def __init__(
        self,
        catalog: Catalog,
        executor: Executor,
        journal: ApprovalJournal,
        *,
        clock: Clock,
        ids: Ids,
        settings: GatewaySettings = GatewaySettings(),
        keys: KeyRing | None = None,
        embed: Embed | None = None,
    ) -> None:
        self.executor = executor
        self.journal = journal
        self.clock = clock
        self.ids = ids
        self.settings = settings
        self.keys = keys
        """Mint and check the challenges of cards that leave this process; None in simulation."""
        self.writes = ApprovedWrites(journal, lambda name: self.catalog.tool(name), self.execute)
        self.guesses = GuessLimit(clock)
        self._embed = embed
        self.take_catalog(catalog)

    def prepare(self, catalog: Catalog) -> None:
        """Do what takes long before `take_catalog`: index the tools. Any thread may."""
        index_of(catalog, self._embed)

    def take_catalog(self, catalog: Catalog) -> None:
        """Serve these tools from now on; what is not as it was disclosed must be read again."""
        self.catalog = catalog
        self.index = index_of(catalog, self._embed)
        self._hidden = frozenset(catalog.whole.tools if catalog.whole else ()) - set(catalog.tools)

    def session(
        self,
        principal: Principal = Principal(),
        session_id: str | None = None,
    ) -> GatewaySession:
        """A new conversation of a principal."""
        return GatewaySession(self, principal, session_id or self.ids.new("sess"))

    def search(self, query: str, limit: int, principal: Principal) -> list[ToolSpec]:
        """The tools that fit and that the principal may use, best first."""
        return self.index.search(query, limit, principal.roles, self._hidden)

    async def decide(
        self, approval_id: str, *, approve: bool, by: str, reason: str = ""
    ) -> dict[str, Any]:
        """A person's decision. On approval the stored arguments run, once, now.

        Returns the layer-3 payload; a decision on a row that is gone, decided or expired
        changes nothing and returns how that row stands. A gateway that does not have the tool
        leaves what was approved to one on the journal that has it, and says so. A caller that goes
        away does not stop a write half-way: it runs to its end and is recorded. A channel that
        carries cards out of this process asks `challenge_fits` first.
        """
        self.journal.decide(approval_id, approve=approve, by=by, reason=reason)
        if approve:  # also an approved row that a crash kept from running; the claim is single-use
            await self.writes.run(approval_id)
        return self.standing(approval_id)

    def challenge(self, card: ApprovalCard) -> str | None:
        """What such a channel must bring back with a decision; never for a model."""
        return None if self.keys is None else mint(card, self.keys)

    def challenge_fits(self, approval_id: str, challenge: str) -> bool:
        """Whether a challenge was minted for the row of that id as it is stored."""
        card = self.journal.get(approval_id)
        return card is not None and self.keys is not None and fits(card, challenge, self.keys)

    def standing(self, approval_id: str) -> dict[str, Any]:
        """How a held write stands, as a layer-3 payload."""
        card = self.journal.get(approval_id)
        if card is None:
            return self.answer("", "not_found", reason=f"no approval {approval_id!r}")
        return self.held(card)

    def held(self, card: ApprovalCard, *, next_step: str | None = None) -> dict[str, Any]:
        """The layer-3 payload of a journal row."""
        if card.state in FINAL:
            details: dict[str, Any] = {"approval_id": card.id}
            if card.state == "done":
                details["result"] = card.result
            elif card.state == "denied":
                details["reason"] = card.reason or ""
            elif card.result:
                details["reason"] = card.result.get("reason", "")
            return self.answer(card.tool, card.state, next_step=next_step, **details)
        details = {"approval_id": card.id, "expires_at": card.expires_at}
        if card.state == "approved" and self.catalog.tool(card.tool) is None:
            details["reason"] = (
                f"approved, but {card.tool!r} is not here: a gateway that has it runs it"
            )
        return self.answer(
            card.tool,
            "approval_required",
            next_step=payloads.DECIDED.get(card.state),
            **details,
        )

    def answer(
        self, tool: str, status: str, *, next_step: str | None = None, **details: Any
    ) -> dict[str, Any]:
        """A layer-3 payload under this gateway's settings."""
        return payloads.execution_payload(
            tool, status, breadcrumb=self.settings.breadcrumbs, next_step=next_step, **details
        )

    async def execute(
        self, spec: ToolSpec, arguments: Mapping[str, Any]
    ) -> tuple[str, dict[str, Any]]:
        """Run a tool once: ("done", {result}), or ("failed" | "unknown", {reason}).

        A tool that says it could not has failed; one that breaks may have acted before, so
        the outcome of anything but a read is unknown then.
        """
        broken = "failed" if spec.risk is Risk.READ else "unknown"
        try:
            result = await self.executor.run(spec, copy.deepcopy(dict(arguments)))
            compact_json(result).encode("utf-8")
        except ToolFailure as failure:
            return "failed", {"reason": storable(str(failure))}
        except OutcomeUnknown as doubt:
            return broken, {"reason": storable(str(doubt))}
        except Exception as error:  # the tool boundary: a tool may throw anything
            logger.warning("tool %s broke", spec.name, exc_info=True)
            return broken, {"reason": f"the tool broke: {type(error).__name__}"}
        return "done", {"result": result}


@dataclass
class GatewaySession:
    """One conversation: what was disclosed in it, and the log of its calls."""

    gateway: Gateway
    principal: Principal
    id: str
    log: list[LogEntry] = field(default_factory=list)
    _versions: dict[str, str] = field(default_factory=dict)
    """What each disclosed tool meant when its schema was read."""
    _refusals: Counter[str] = field(default_factory=Counter)
    """How often each denial was run into."""

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The meta-tools, in OpenAI's function format."""
        return [dict(tool) for tool in META_TOOLS]

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one call; faults of the caller are payloads too."""
        unfit = find_unfit(arguments)
        if unfit is not None:
            arguments = {}  # what cannot be written down; the payload says where
            payload = self._misused(str(name)[:100], unfit.path or "arguments", unfit.message)
        elif name == "search_tool_catalog":
            payload = self._search(arguments)
        elif name == "get_tool_schema":
            payload = self._disclose(arguments)
        elif name == "execute_tool":
            payload = await self._execute(arguments)
        else:
            payload = self._misused(name, "name", "no such function")
        self.log.append(LogEntry(name, copy.deepcopy(dict(arguments)), payload))
        return payload

    def _search(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        query = arguments.get("query")
        limit = arguments.get("limit", self.gateway.settings.unasked_hits)
        if not isinstance(query, str) or not query.strip():
            return self._misused("search_tool_catalog", "query", "text is required")
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            return self._misused("search_tool_catalog", "limit", "a whole number from 1")
        shown = min(limit, self.gateway.settings.max_hits, MAX_HITS_ASKED)
        hits = self.gateway.search(query, shown, self.principal)
        return payloads.catalog_payload(hits, breadcrumb=self._breadcrumb)

    def _disclose(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        names = arguments.get("tool_names")
        if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
            return self._misused("get_tool_schema", "tool_names", "a list of tool names")
        shown: list[ToolSpec] = []
        unauthorized, not_found = [], []
        for name in dict.fromkeys(names):
            spec = self.gateway.catalog.tool(name)
            if spec is None:
                not_found.append(name)
            elif not spec.open_to(self.principal.roles):
                unauthorized.append(name)
            else:
                shown.append(spec)
        self._versions.update((spec.name, spec.content_hash) for spec in shown)
        return payloads.schema_payload(shown, unauthorized, not_found, breadcrumb=self._breadcrumb)

    async def _execute(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        name, given = arguments.get("tool_name"), arguments.get("arguments")
        approval_id = arguments.get("approval_id")
        if not isinstance(approval_id, str | None):
            return self._misused("execute_tool", "approval_id", "text is required")
        if approval_id:
            return await self._poll(approval_id)
        if not isinstance(name, str):
            return self._misused("execute_tool", "tool_name", "text is required")
        if not isinstance(given, Mapping):
            return self._misused("execute_tool", "arguments", "an object is required")
        spec = self.gateway.catalog.tool(name)
        if spec is None:
            return self.gateway.answer(name, "not_found", reason=f"no tool {name!r}")
        if not spec.open_to(self.principal.roles):
            return self.gateway.answer(name, "unauthorized")
        if self._versions.get(name) != spec.content_hash:  # unread, or changed since it was read
            return payloads.not_disclosed_payload(name, breadcrumb=self._breadcrumb)
        checked = check_arguments(spec, given)
        if checked.errors:
            return payloads.invalid_payload(spec, checked.errors, breadcrumb=self._breadcrumb)
        return await self._dispatch(spec, checked.values)

    async def _dispatch(self, spec: ToolSpec, values: dict[str, Any]) -> dict[str, Any]:
        if not (spec.requires_approval and self.gateway.settings.hold_writes):
            status, details = await self.gateway.execute(spec, values)
            return self.gateway.answer(spec.name, status, **details)
        try:
            card = self.gateway.journal.hold(
                spec, values, principal=self.principal.name, session=self.id
            )
        except DataError as error:  # fails closed: what cannot be held does not run
            return self.gateway.answer(spec.name, "failed", reason=f"not held, not run: {error}")
        if card.state == "approved":  # by a grant, or by a person elsewhere
            return await self._carried_out(card)
        if card.state != "denied":
            return self.gateway.held(card)
        self._refusals[card.id] += 1
        insisting = self._refusals[card.id] > MAX_DENIED_RETRIES
        return self.gateway.held(card, next_step=payloads.DENIED_AGAIN if insisting else None)

    async def _poll(self, approval_id: str) -> dict[str, Any]:
        """Says how a held write stands; another's id looks like no id at all.

        Where a person approved it in another process, that decision is carried out. Who names too
        many wrong ids is told to wait, and then no id is looked up, not even a right one.
        """
        guesses = self.gateway.guesses
        if guesses.is_spent(self.principal.name):
            return self.gateway.answer("", "not_found", reason=TOO_MANY_GUESSES)
        try:
            card = self.gateway.journal.get(approval_id)
            if card is None or (card.principal, card.session) != (self.principal.name, self.id):
                guesses.count(self.principal.name)
                return self.gateway.answer("", "not_found", reason=f"no approval {approval_id!r}")
        except DataError as error:
            return self.gateway.answer("", "unknown", reason=str(error))
        if card.state != "approved" or self.gateway.writes.tool_of(card) is None:
            return self.gateway.held(card)  # a gateway that has the tool as approved runs it
        return await self._carried_out(card)

    async def _carried_out(self, card: ApprovalCard) -> dict[str, Any]:
        """Run an approved write now. Where the journal fails, it may have run for all we know."""
        try:
            await self.gateway.writes.run(card.id)
            return self.gateway.standing(card.id)
        except DataError as error:
            return self.gateway.answer(card.tool, "unknown", approval_id=card.id, reason=str(error))

    @property
    def _breadcrumb(self) -> bool:
        return self.gateway.settings.breadcrumbs

    def _misused(self, name: str, argument: str, problem: str) -> dict[str, Any]:
        fault = FieldError(argument, problem)
        return payloads.usage_payload(name, [fault], breadcrumb=self._breadcrumb)


@dataclass(frozen=True, slots=True)
class SimulatedGateway:
    """A gateway over a simulated world, and that world."""

    gateway: Gateway
    world: World


def simulated_gateway(
    catalog: Catalog,
    *,
    seed: int,
    settings: GatewaySettings = GatewaySettings(),
) -> SimulatedGateway:
    """A fresh world behind a fresh gateway; (catalog, seed, settings) fix what happens.

    Gateways over one catalog, and over cuts of it, share its index.
    """
    clock, ids = SimulatedClock(), SeededIds(seed)
    world = World(catalog)
    journal = ApprovalJournal(":memory:", clock, ids, settings.ttl_s)
    gateway = Gateway(
        catalog,
        WorldExecutor(world),
        journal,
        clock=clock,
        ids=ids,
        settings=settings,
    )
    return SimulatedGateway(gateway, world)
