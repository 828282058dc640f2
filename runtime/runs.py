"""Runs of the loop that live in the server: numbered events, watched by nobody or by many.

A run is a task of its own. Who watches reads its list of events from a number on, so a slow or a
lost watcher costs the run nothing, and one that comes back misses nothing. Finished runs are kept
up to a number, in memory: what must outlive the process is in the approval journal.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from breadcrumbs.errors import BreadcrumbsError, DataError
from breadcrumbs.events import Approval, Done, Event, ToolResult
from breadcrumbs.gateway.approvals import FINAL
from breadcrumbs.gateway.gateway import Gateway, GatewaySession, Principal
from breadcrumbs.gateway.identity import SystemIds
from breadcrumbs.loop import LoopSettings, stream
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.monitoring import Monitor, RunWatch
from breadcrumbs.prompts import system_prompt
from breadcrumbs.turns import Policy, Turn, Usage

logger = logging.getLogger(__name__)
BROKEN = "the server broke on this request; its log says why"
DECIDED = "The held write was decided. The gateway says:"
KEPT_RUNS = 500
MAX_LIVE_RUNS = 1000
MAX_EVENTS = 50_000
"""Of one run; one that says more is stopped."""
LOOK_S = 0.25
"""How often a run that waits for a person looks at the journal."""


class TooManyRuns(BreadcrumbsError):
    """No further run can begin now."""


@dataclass(slots=True)
class Run:
    """One run: its conversation, and what it has told so far. Events count from 1."""

    id: str
    caller: str
    session: GatewaySession
    conversation: list[Message]
    spoken: int
    """Messages of the conversation that were there before it."""
    previous: str | None = None
    created: int = field(default_factory=lambda: int(time.time()))
    events: list[Event] = field(default_factory=list)
    usage: Usage | None = None
    held: list[str] = field(default_factory=list)
    """Approvals that the conversation still knows as waiting."""
    waits: bool = False
    """Whether it waits for a person's decision this moment."""
    task: asyncio.Task[None] | None = None
    watch: RunWatch | None = None
    more: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def done(self) -> Done | None:
        """How it ended; None while it runs."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Done) else None

    @property
    def status(self) -> str:
        """`running`, `waiting` for a decision, or why it ended."""
        if (done := self.done) is not None:
            return done.reason
        return "waiting" if self.waits else "running"

    def tell(self, event: Event) -> None:
        """Add an event, and wake who watches."""
        self.events.append(event)
        if self.watch is not None:
            self.watch.tell(event)
        more, self.more = self.more, asyncio.Event()
        more.set()

    async def follow(self, after: int = 0) -> AsyncGenerator[tuple[int, Event], None]:
        """The events behind number `after`, each with its number, up to the last of the run."""
        while True:
            more = self.more
            while after < len(self.events):
                after += 1
                yield after, self.events[after - 1]
            if self.done is not None:
                return
            await more.wait()

    def end(self) -> None:
        """What its task is left with: a run that did not end by itself was cancelled."""
        if self.done is None:
            self.tell(Done("cancelled"))

    def cancel(self) -> None:
        """Stop the run; a write that runs goes to its end and into the journal all the same."""
        if self.task is not None:
            self.task.cancel()


class Runs:
    """The runs of one server; `roles` are those of its callers, by name."""

    def __init__(
        self,
        policy: Policy,
        gateway: Gateway,
        settings: LoopSettings,
        monitor: Monitor,
        roles: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.gateway = gateway
        self._roles = roles
        self._monitor = monitor
        self._policy = policy
        self._settings = settings
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def start(
        self,
        messages: Sequence[Message],
        caller: str,
        *,
        after: Run | None = None,
        known: Collection[str] = (),
        until_decided: bool = False,
    ) -> Run:
        """Begin a run over messages, which go on from where the run `after` ended.

        What was decided since then comes first, but for the `known` approvals, of which the
        messages tell already. With `until_decided` a held write is waited for, as long as it can be
        decided.

        Raises:
            TooManyRuns: as many as may be live are.
            DataError: the journal cannot be read.
        """
        if sum(run.done is None for run in self._runs.values()) >= MAX_LIVE_RUNS:
            raise TooManyRuns("too many runs are under way; try again in a moment")
        conversation = list(messages) if after is None else [*after.conversation]
        held: list[str] = []
        if after is not None:
            news, held = self._decisions(each for each in after.held if each not in known)
            conversation += [*told(news), *messages]
        elif not conversation or conversation[0].role != "system":
            now = self.gateway.clock.now().strftime("%Y-%m-%dT%H:%M")
            conversation.insert(0, Message("system", system_prompt(now).text))
        who = Principal(caller, self._roles.get(caller, ()))
        session = self.gateway.session(who) if after is None else after.session
        run = Run(
            SystemIds().new("run"),
            caller,
            session,
            conversation,
            spoken=len(conversation),
            previous=None if after is None else after.id,
            held=held,
        )
        self._keep(run)
        run.task = asyncio.create_task(self._drive(run, until_decided))
        run.task.add_done_callback(lambda _: run.end())  # one cancelled before it began
        return run

    def get(self, run_id: str, caller: str) -> Run | None:
        """A run of this caller; another's looks like none."""
        run = self._runs.get(run_id)
        return run if run is not None and run.caller == caller else None

    def of(self, caller: str) -> list[Run]:
        """The runs of a caller that are kept, oldest first."""
        return [run for run in self._runs.values() if run.caller == caller]

    def count(self) -> Mapping[str, int]:
        """How many runs are running and how many wait for a person."""
        live = [run.status for run in self._runs.values() if run.done is None]
        return {status: live.count(status) for status in ("running", "waiting")}

    def forget(self, run: Run) -> None:
        """Keep a run no longer."""
        self._runs.pop(run.id, None)

    def holding(self, approval_id: str, caller: str) -> Run | None:
        """The newest run of a caller that ended with this approval waiting."""
        found = [run for run in self.of(caller) if run.done is not None and approval_id in run.held]
        return found[-1] if found else None

    async def close(self) -> None:
        """Stop what runs, and wait until it has."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _keep(self, run: Run) -> None:
        ended = [kept.id for kept in self._runs.values() if kept.done is not None]
        for run_id in ended[: max(0, len(ended) - KEPT_RUNS + 1)]:
            del self._runs[run_id]
        self._runs[run.id] = run

    def _decisions(self, held: Iterable[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """How what was decided since stands now; and what waits still."""
        decided, waiting = [], []
        for approval_id in held:
            payload = self.gateway.standing(approval_id)
            if payload["status"] in FINAL:
                decided.append(payload)
            else:
                waiting.append(approval_id)
        return decided, waiting

    async def _drive(self, run: Run, until_decided: bool) -> None:
        with self._monitor.running(run.session.id) as watch:
            run.watch = watch
            try:
                await self._tell_all(run, until_decided)
            except BreadcrumbsError as error:
                run.tell(Done("model_error", str(error)))
            except Exception:  # what a model's library raises: a stream must not just end
                logger.exception("the model broke")
                run.tell(Done("model_error", BROKEN))
            finally:
                run.end()  # a run that did not end by itself was cancelled

    async def _tell_all(self, run: Run, until_decided: bool) -> None:
        settings = replace(self._settings, wait_s=None) if until_decided else self._settings
        events = stream(
            _Metered(self._policy, run),
            run.session,
            run.conversation,
            settings=settings,
            approver=_Journal(run, self.gateway) if until_decided else None,
        )
        async with aclosing(events):
            async for event in events:
                _note_held(run, event)
                run.tell(event)
                if len(run.events) >= MAX_EVENTS:
                    run.tell(Done("out_of_tokens"))
                    return


def told(payloads: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Late decisions as one synthetic user turn: the gateway's payloads, as data."""
    lines = "\n".join(compact_json(dict(payload)) for payload in payloads)
    return [Message("user", f"{DECIDED}\n{lines}", synthetic=True)] if lines else []


def saved(conversation: Sequence[Message]) -> list[Message]:
    """A conversation as it is kept: without synthetic turns and the stalls they answer."""
    kept: list[Message] = []
    for message in conversation:
        if not message.synthetic:
            kept.append(message)
        elif message.content.startswith(DECIDED):
            continue
        elif kept and kept[-1].role == "assistant" and not kept[-1].tool_calls:
            kept.pop()
    return kept


def _note_held(run: Run, event: Event) -> None:
    if isinstance(event, Approval):
        run.held.append(str(event.card["approval_id"]))
    elif isinstance(event, ToolResult) and event.payload.get("status") in FINAL:
        told = event.payload.get("approval_id")
        run.held = [approval for approval in run.held if approval != told]


@dataclass(frozen=True, slots=True)
class _Metered:
    """A policy whose tokens are counted into a run."""

    inner: Policy
    run: Run

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        async with aclosing(self.inner.stream(messages, tools)) as turn:
            async for item in turn:
                if isinstance(item, Turn) and item.usage is not None:
                    before = self.run.usage
                    self.run.usage = item.usage if before is None else before + item.usage
                yield item


@dataclass(frozen=True, slots=True)
class _Journal:
    """Waits until a card's row is past deciding, by whatever channel; decides nothing itself."""

    run: Run
    gateway: Gateway

    async def decide(self, card: Mapping[str, Any]) -> bool | None:
        self.run.waits = True
        try:
            while True:
                try:
                    payload = self.gateway.standing(str(card["approval_id"]))
                except DataError as error:  # a locked journal is not the end of the waiting
                    logger.warning("cannot see the approvals: %s", error)
                else:
                    if payload["status"] != "approval_required":
                        return None
                await asyncio.sleep(LOOK_S)
        finally:
            self.run.waits = False
