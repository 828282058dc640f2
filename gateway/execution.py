"""Runs approved writes: each once, with the stored arguments, to its end and into the journal.

The claim is written before the effect. A write that has begun is never begun again: what a crash
or a full disk leaves without a record is `unknown`, and a person looks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.approvals import TOOL_CHANGED, ApprovalCard, ApprovalJournal
from breadcrumbs.gateway.catalog import ToolSpec

logger = logging.getLogger(__name__)
Execute = Callable[[ToolSpec, Mapping[str, Any]], Awaitable[tuple[str, dict[str, Any]]]]

idempotency_key: ContextVar[str | None] = ContextVar("idempotency_key", default=None)
"""The approval's id while its write runs: what an executor may pass on to a tool that takes one."""

may_begin: ContextVar[Callable[[], bool] | None] = ContextVar("may_begin", default=None)
"""Whether the write that runs may still begin: asked right before its effect by an executor that
has to wait first, as its row may have been given up or run out meanwhile."""

CANNOT_FOLLOW = "cannot follow the approvals: %s"
MAX_AT_ONCE = 4
"""Writes of one caller on one server that `follow` lets run at a time."""


class ApprovedWrites:
    """The writes that one process runs."""

    def __init__(
        self,
        journal: ApprovalJournal,
        find: Callable[[str], ToolSpec | None],
        execute: Execute,
    ) -> None:
        self._journal = journal
        self._find = find
        self._execute = execute
        self._running: dict[asyncio.Task[None], str] = {}

    def tool_of(self, card: ApprovalCard) -> ToolSpec | None:
        """The tool as it was approved, if this process has it: another on the journal may."""
        spec = self._find(card.tool)
        return spec if spec is not None and spec.version == card.tool_version else None

    async def run(self, approval_id: str) -> None:
        """Run an approved row, if it still can be; a caller that goes away does not stop it.

        Raises:
            DataError: the journal cannot be read or written.
        """
        await asyncio.shield(self._start(approval_id))

    async def follow(self, every_s: float = 1.0) -> None:
        """Until cancelled: carry out what was approved elsewhere, from a terminal or a page.

        `MAX_AT_ONCE` of one caller on one server run at a time; slow ones hold up no others.
        """
        lanes: dict[asyncio.Task[None], tuple[str, str | None]] = {}
        while True:
            try:
                for card in self._journal.approved():
                    spec = self.tool_of(card)
                    if spec is None:
                        continue
                    lane = (card.principal, spec.upstream)
                    is_full = list(lanes.values()).count(lane) >= MAX_AT_ONCE
                    if is_full or card.id in self._running.values():
                        continue
                    task = self._start(card.id)
                    lanes[task] = lane
                    task.add_done_callback(lanes.pop)
                    task.add_done_callback(_tell)
            except DataError as error:
                logger.warning(CANNOT_FOLLOW, error)
            await asyncio.sleep(every_s)

    async def drain(self, timeout_s: float = 10.0) -> int:
        """Before the process ends: wait for what runs, then say of the rest that it is unknown.

        Returns how many were left.
        """
        if self._running:
            await asyncio.wait(self._running, timeout=timeout_s)
        left = dict(self._running)
        for task, approval_id in left.items():
            reason = "the gateway was stopped while it ran"
            self._journal.finish(approval_id, "unknown", {"reason": reason})
            task.cancel()
        return len(left)

    def _start(self, approval_id: str) -> asyncio.Task[None]:
        task = asyncio.create_task(self._run(approval_id))
        self._running[task] = approval_id
        task.add_done_callback(self._running.pop)
        return task

    async def _run(self, approval_id: str) -> None:
        card = self._journal.get(approval_id)
        if card is None or card.state != "approved" or self._find(card.tool) is None:
            return  # without the tool it is left to a gateway on the journal that has it
        spec = self.tool_of(card)
        if spec is None:
            self._journal.void(approval_id, TOOL_CHANGED)
            return
        claimed = self._journal.claim(approval_id, spec.version)
        if claimed is None:
            return
        idempotency_key.set(approval_id)  # both of this task's own context
        may_begin.set(lambda: self._stands(approval_id))
        status, details = await self._execute(spec, claimed.arguments)
        outcome = details["result"] if status == "done" else {"reason": details["reason"]}
        if not self._journal.finish(approval_id, status, outcome):
            logger.warning("%s ended as %s after it was given up", approval_id, status)

    def _stands(self, approval_id: str) -> bool:
        try:
            return self._journal.may_begin(approval_id)
        except DataError as error:  # fails closed
            logger.warning("%s is not begun: %s", approval_id, error)
            return False


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning(CANNOT_FOLLOW, error)
