"""The approval journal: the only authority on whether a held write may run.

One row per held write. Every move between states is one compare-and-set UPDATE, written to a
hash-chained log in the same transaction; the stored arguments are what runs, `executing` is
written before the effect and never retried, and a denial sticks to the same arguments for the
session. Text, tokens and ids alone run nothing.

States: pending -> approved | denied | expired; approved -> executing -> done | failed | unknown;
a row that cannot run any more, as its time is up or its tool another one, is expired or failed
without having begun.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.gateway import approval_card, grants, journal_log
from breadcrumbs.gateway.approval_card import (
    COLUMNS,
    ApprovalCard,
    arguments_sha,
    card_from,
    stamp,
    storable,
)
from breadcrumbs.gateway.catalog import Risk, ToolSpec
from breadcrumbs.gateway.grants import Grant
from breadcrumbs.gateway.identity import Clock, Ids
from breadcrumbs.gateway.journal_log import LogEvent, Verified
from breadcrumbs.gateway.journal_store import Sql, open_store

__all__ = [
    "DEFAULT_TTL_S",
    "FINAL",
    "TOOL_CHANGED",
    "ApprovalCard",
    "ApprovalJournal",
    "Grant",
    "arguments_sha",
]

DEFAULT_TTL_S = 300
MIN_TTL_S, MAX_TTL_S = 30, 24 * 3600
MAX_PENDING = 20
"""Writes of one principal that may wait at a time: more than a person would read."""
FINAL = frozenset({"done", "denied", "expired", "failed", "unknown"})
TOOL_CHANGED = "the tool changed since this was held; nothing was run"
_CALL = "principal=? AND session=? AND tool=? AND arguments_sha=?"


class ApprovalJournal:
    """Held writes in a SQLite file, a Postgres database, or in memory for simulation."""

    def __init__(
        self,
        path: str | Path,
        clock: Clock,
        ids: Ids,
        ttl_s: int = DEFAULT_TTL_S,
        *,
        max_pending: int = MAX_PENDING,
        must_exist: bool = False,
    ) -> None:
        if not MIN_TTL_S <= ttl_s <= MAX_TTL_S:
            raise ConfigError(f"ttl_s: {ttl_s} is not from {MIN_TTL_S} to {MAX_TTL_S} seconds")
        self._clock = clock
        self._ids = ids
        self._ttl = timedelta(seconds=ttl_s)
        self._max_pending = max_pending
        self._store = open_store(path, must_exist=must_exist)
        with self._store.writing() as sql:
            for part in (approval_card, grants, journal_log):
                for statement in part.definitions(self._store.dialect):
                    sql(statement)
        self.rows()  # a file of another version is refused now, not at the first write

    def close(self) -> None:
        """Let go of the database."""
        self._store.close()

    def hold(
        self, spec: ToolSpec, arguments: Mapping[str, Any], *, principal: str, session: str
    ) -> ApprovalCard:
        """Store a write that waits, or say how this very call stands already.

        A call that was denied in this session is answered by its denial; one that waits or runs,
        by its row, unless that was held for the tool as it was before: then it fails, and a new
        row waits. Where a grant covers it, the new row is approved at once.

        Raises:
            DataError: too many writes of the principal wait, or the journal cannot be written.
        """
        call = (principal, session, spec.name, arguments_sha(arguments))
        with self._store.writing() as sql:
            if denied := self._latest(sql, call, "('denied')"):
                return denied
            # Drawn before it is known to be needed: ids of a simulation hang on the calls alone.
            now, fresh = self._clock.now(), self._ids.new("appr")
            self._expire(sql, now)
            if live := self._latest(sql, call, "('pending', 'approved', 'executing')"):
                if live.state == "executing" or live.tool_version == spec.version:
                    return live
                self._end(sql, live.id, live.state, "failed", {"reason": TOOL_CHANGED})
            granted = None
            if spec.risk is not Risk.DESTRUCTIVE:
                granted = grants.use(
                    sql,
                    principal=principal,
                    tool=spec.name,
                    tool_version=spec.version,
                    arguments=arguments,
                    now=stamp(now),
                )
            if granted is None:
                self._check_room(sql, principal)
            card = self._insert(sql, fresh, spec, arguments, call, now)
            if granted is None:
                return card
            moved = self._move(sql, fresh, "pending", "approved", granted, decided_by=granted)
            assert moved is not None
            return moved

    def get(self, approval_id: str) -> ApprovalCard | None:
        """The row of that id; one that has not run when its time is up is `expired`."""
        found = self._read("WHERE id=?", (approval_id,), self._clock.now())
        return found[0] if found else None

    def pending(self) -> list[ApprovalCard]:
        """Everything that waits for a person, oldest first."""
        return self._read("WHERE state='pending'", (), self._clock.now())

    def approved(self) -> list[ApprovalCard]:
        """What a person approved and no gateway has begun, oldest first."""
        return self._cards("WHERE state='approved'")

    def rows(self) -> list[ApprovalCard]:
        """Every row, oldest first."""
        return self._cards()

    def decide(self, approval_id: str, *, approve: bool, by: str, reason: str = "") -> bool:
        """Approve or deny a pending row before it expires; False where somebody was first."""
        after = "approved" if approve else "denied"
        now = stamp(self._clock.now())
        by, reason = storable(by), storable(reason)
        with self._store.writing() as sql:
            moved = self._move(
                sql, approval_id, "pending", after, by, alive=now, decided_by=by, reason=reason
            )
        return moved is not None

    def claim(self, approval_id: str, tool_version: str) -> ApprovalCard | None:
        """Take an approved row to run it, once; None where it is not to be run (again).

        The tool must still be the one that was approved, the time not up, and the stored
        arguments those whose hash was approved.
        """
        now = stamp(self._clock.now())
        with self._store.writing() as sql:
            card = self._move(
                sql,
                approval_id,
                "approved",
                "executing",
                "gateway",
                alive=now,
                tool_version=tool_version,
                claimed=now,
            )
            if card is not None and arguments_sha(card.arguments) != card.arguments_sha:
                reason = "the stored arguments are not those that were approved; nothing was run"
                self._end(sql, approval_id, "executing", "failed", {"reason": reason})
                return None
        return card

    def may_begin(self, approval_id: str) -> bool:
        """Whether a claimed row is neither given up nor out of time, right before its effect."""
        now = stamp(self._clock.peek())
        return bool(
            self._cards("WHERE id=? AND state='executing' AND expires>?", (approval_id, now))
        )

    def finish(self, approval_id: str, state: str, result: Mapping[str, Any]) -> bool:
        """Record how a claimed row ended: done, failed or unknown; False where that stood."""
        with self._store.writing() as sql:
            return self._end(sql, approval_id, "executing", state, result)

    def void(self, approval_id: str, reason: str) -> bool:
        """An approved row that cannot run as it was approved has failed, without having begun."""
        with self._store.writing() as sql:
            return self._end(sql, approval_id, "approved", "failed", {"reason": reason})

    def recover(self, *, older_than_s: float = 0) -> int:
        """After a crash: rows left `executing` become `unknown`, never run again.

        For the start of the one process that runs writes from this file. Where several gateways
        share a journal, give the time after which a write that still runs counts as lost.
        Returns their number.
        """
        limit = stamp(self._clock.now() - timedelta(seconds=older_than_s))
        lost = {"reason": "the gateway stopped while it ran"}
        with self._store.writing() as sql:
            rows = sql("SELECT id FROM approvals WHERE state='executing' AND claimed<=?", (limit,))
            return sum(self._end(sql, row[0], "executing", "unknown", lost) for row in rows)

    def grant(
        self, card: ApprovalCard, *, fixed: Sequence[str], uses: int, ttl_s: int, by: str
    ) -> Grant:
        """Let the card's principal call its tool again without a card, `uses` times at most.

        The arguments named in `fixed` must be given with the card's values.

        Raises:
            DataError: the tool is destructive, a field is none of the card's, or a bound is broken.
        """
        grants.check_bounds(card.risk, uses, ttl_s)
        if unknown := [name for name in fixed if name not in card.arguments]:
            raise DataError(f"{card.id} has no argument {unknown[0]!r} to fix")
        now = self._clock.now()
        made = Grant(
            self._ids.new("grnt"),
            card.principal,
            card.tool,
            card.tool_version,
            {name: card.arguments[name] for name in fixed},
            uses,
            stamp(now),
            stamp(now + timedelta(seconds=ttl_s)),
            storable(by),
        )
        with self._store.writing() as sql:
            grants.add(sql, made, self._at())
        return made

    def grants(self) -> list[Grant]:
        """Every grant, used up ones too, oldest first."""
        text = f"SELECT {grants.COLUMNS} FROM approval_grants ORDER BY number"
        return [grants.grant_from(row) for row in self._store.read(text)]

    def revoke(self, grant_id: str, by: str) -> bool:
        """Take a grant back; False where there is none with a use left."""
        with self._store.writing() as sql:
            return grants.revoke(sql, grant_id, storable(by), self._at())

    def events(self, approval_id: str) -> list[LogEvent]:
        """What happened to one row, oldest first."""
        rows = self._store.read(journal_log.select("WHERE subject=?"), (approval_id,))
        return journal_log.events(rows)

    def verify(self, known_head: str | None = None) -> Verified:
        """Check the whole log and every row against it; finds what was edited or deleted.

        `known_head` is a head seen before: with it, a tail that was cut off is found too.
        """
        with self._store.writing() as sql:  # a snapshot: nothing moves meanwhile
            entries = journal_log.events(sql(journal_log.select()))
            rows = sql(f"SELECT {COLUMNS} FROM approvals")
            rows += sql(f"SELECT {grants.COLUMNS} FROM approval_grants")
        return journal_log.verify(entries, [(row[0], row) for row in rows], known_head)

    def _insert(
        self,
        sql: Sql,
        fresh: str,
        spec: ToolSpec,
        arguments: Mapping[str, Any],
        call: tuple[str, str, str, str],
        now: datetime,
    ) -> ApprovalCard:
        values = (
            fresh,
            *call,
            spec.version,
            str(spec.risk),
            json.dumps(dict(arguments), ensure_ascii=False),
            secrets.token_hex(16),
            stamp(now),
            stamp(now + self._ttl),
        )
        rows = sql(
            "INSERT INTO approvals (id, principal, session, tool, arguments_sha, tool_version,"
            " risk, arguments, nonce, created, expires, state)"
            f" VALUES (?,?,?,?,?,?,?,?,?,?,?,'pending') RETURNING {COLUMNS}",
            values,
        )
        self._log(sql, rows[0], "", "pending", call[0])
        return card_from(rows[0])

    def _check_room(self, sql: Sql, principal: str) -> None:
        waiting = sql(
            "SELECT COUNT(*) FROM approvals WHERE principal=? AND state='pending'", (principal,)
        )
        if waiting[0][0] >= self._max_pending:
            raise DataError(
                f"{self._max_pending} writes wait for approval already; a person must decide"
                " some of them first"
            )

    def _latest(self, sql: Sql, call: tuple[str, ...], states: str) -> ApprovalCard | None:
        rows = sql(
            f"SELECT {COLUMNS} FROM approvals WHERE {_CALL} AND state IN {states}"
            " ORDER BY number DESC LIMIT 1",
            call,
        )
        return card_from(rows[0]) if rows else None

    def _move(
        self,
        sql: Sql,
        approval_id: str,
        before: str,
        after: str,
        actor: str,
        *,
        alive: str = "",
        tool_version: str = "",
        **changes: str,
    ) -> ApprovalCard | None:
        """The compare-and-set of every transition; None where the row is not as it must be."""
        sets = "".join(f", {name}=?" for name in changes)
        where, values = "id=? AND state=?", [after, *changes.values(), approval_id, before]
        if alive:  # half-open: a row lives up to, not at, its `expires`
            where, values = f"{where} AND expires>?", [*values, alive]
        if tool_version:
            where, values = f"{where} AND tool_version=?", [*values, tool_version]
        rows = sql(f"UPDATE approvals SET state=?{sets} WHERE {where} RETURNING {COLUMNS}", values)
        if not rows:
            return None
        self._log(sql, rows[0], before, after, actor)
        return card_from(rows[0])

    def _end(
        self, sql: Sql, approval_id: str, before: str, state: str, result: Mapping[str, Any]
    ) -> bool:
        text = json.dumps(dict(result), ensure_ascii=False)
        return self._move(sql, approval_id, before, state, "gateway", result=text) is not None

    def _expire(self, sql: Sql, now: datetime) -> None:
        """An approval that nobody began in time dies too."""
        over = sql(
            "SELECT id, state FROM approvals WHERE state IN ('pending', 'approved')"
            " AND expires<=? ORDER BY number",
            (stamp(now),),
        )
        for approval_id, state in over:
            self._move(sql, approval_id, state, "expired", "clock")

    def _read(self, where: str, values: tuple[Any, ...], now: datetime) -> list[ApprovalCard]:
        """Rows as they stand now; writes only where one of them has just run out."""
        cards = self._cards(where, values)
        due = [c for c in cards if c.state not in FINAL and c.state != "executing"]
        if any(card.expires_at <= stamp(now) for card in due):
            with self._store.writing() as sql:
                self._expire(sql, now)
            cards = self._cards(where, values)
        return cards

    def _cards(self, where: str = "", values: tuple[Any, ...] = ()) -> list[ApprovalCard]:
        text = f"SELECT {COLUMNS} FROM approvals {where} ORDER BY number"
        return [card_from(row) for row in self._store.read(text, values)]

    def _log(self, sql: Sql, row: tuple[Any, ...], before: str, after: str, actor: str) -> None:
        journal_log.append(
            sql,
            at=self._at(),
            subject=row[0],
            actor=actor,
            before=before,
            after=after,
            digest=journal_log.row_digest(row),
        )

    def _at(self) -> str:
        return stamp(self._clock.peek())
