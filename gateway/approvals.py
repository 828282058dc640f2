"""The approval journal: the only authority on whether a held write may run.

One SQLite row per held write. Every move between states is one compare-and-set UPDATE, the
stored arguments are what runs, `executing` is written before the effect and never retried, and a
denial sticks to the same arguments for the session. Text, tokens and ids alone run nothing.

States: pending -> approved | denied | expired; approved -> executing -> done | failed | unknown.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import rfc8785

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.gateway.identity import Clock, Ids

DEFAULT_TTL_S = 300
FINAL = frozenset({"done", "denied", "expired", "failed", "unknown"})
_SCHEMA = """
CREATE TABLE IF NOT EXISTS approvals (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    risk TEXT NOT NULL,
    arguments TEXT NOT NULL,
    arguments_sha TEXT NOT NULL,
    state TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT NOT NULL,
    decided_by TEXT,
    reason TEXT,
    result TEXT
)
"""
_ONE_WAITS = """
CREATE UNIQUE INDEX IF NOT EXISTS one_waits ON approvals (session, tool, arguments_sha)
    WHERE state = 'pending'
"""
_COLUMNS = (
    "id, principal, session, tool, tool_version, risk, arguments, state, expires, decided_by,"
    " reason, result"
)


@dataclass(frozen=True, slots=True)
class ApprovalCard:
    """One held write as stored: what a person is shown, and what will run."""

    id: str
    principal: str
    session: str
    tool: str
    tool_version: str
    risk: str
    arguments: dict[str, Any]
    state: str
    expires_at: str
    decided_by: str | None = None
    reason: str | None = None
    result: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """What a card shows, as plain JSON values."""
        return {
            "approval_id": self.id,
            "tool": self.tool,
            "risk": self.risk,
            "arguments": self.arguments,
            "principal": self.principal,
            "state": self.state,
            "expires_at": self.expires_at,
        }


def arguments_sha(arguments: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON (RFC 8785): key order and 10 against 10.0 do not matter."""
    return hashlib.sha256(rfc8785.dumps(dict(arguments))).hexdigest()


class ApprovalJournal:
    """Held writes in one SQLite file, or in memory for simulation."""

    def __init__(
        self, path: str | Path, clock: Clock, ids: Ids, ttl_s: int = DEFAULT_TTL_S
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._ttl = timedelta(seconds=ttl_s)
        try:
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=10.0
            )
            if str(path) != ":memory:":
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute(_SCHEMA)
            self._db.execute(_ONE_WAITS)
        except sqlite3.Error as error:
            raise DataError(
                f"{path}: cannot open the approval journal: {error}; choose another --journal"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def hold(
        self, spec: ToolSpec, arguments: Mapping[str, Any], *, principal: str, session: str
    ) -> ApprovalCard:
        """Store a write that waits; an equal one already waiting in the session is returned."""
        digest = arguments_sha(arguments)
        now = self._clock.now()
        self._expire(now)
        row = (
            self._ids.new("appr"),
            principal,
            session,
            spec.name,
            spec.content_hash,
            str(spec.risk),
            json.dumps(dict(arguments), ensure_ascii=False),
            digest,
            _stamp(now),
            _stamp(now + self._ttl),
        )
        self._sql(
            "INSERT INTO approvals (id, principal, session, tool, tool_version, risk, arguments,"
            " arguments_sha, created, expires, state) VALUES (?,?,?,?,?,?,?,?,?,?,'pending')"
            " ON CONFLICT DO NOTHING",
            row,
        )
        card = self._one(
            f"SELECT {_COLUMNS} FROM approvals WHERE session=? AND tool=? AND arguments_sha=?"
            " ORDER BY number DESC LIMIT 1",
            (session, spec.name, digest),
        )
        assert card is not None
        return card

    def get(self, approval_id: str) -> ApprovalCard | None:
        """The row of that id; one that has not run when its time is up is `expired`."""
        self._expire(self._clock.now())
        return self._one(f"SELECT {_COLUMNS} FROM approvals WHERE id=?", (approval_id,))

    def pending(self) -> list[ApprovalCard]:
        """Everything that waits for a person, oldest first."""
        self._expire(self._clock.now())
        return self._many(
            f"SELECT {_COLUMNS} FROM approvals WHERE state='pending' ORDER BY number", ()
        )

    def rows(self) -> list[ApprovalCard]:
        """Every row, oldest first."""
        return self._many(f"SELECT {_COLUMNS} FROM approvals ORDER BY number", ())

    def decide(self, approval_id: str, *, approve: bool, by: str, reason: str = "") -> bool:
        """Approve or deny a pending row before it expires; False where somebody was first."""
        moved = self._sql(
            "UPDATE approvals SET state=?, decided_by=?, reason=? WHERE id=? AND state='pending'"
            " AND expires>? RETURNING id",
            (
                "approved" if approve else "denied",
                by,
                reason,
                approval_id,
                _stamp(self._clock.now()),
            ),
        )
        return bool(moved)

    def claim(self, approval_id: str, tool_version: str) -> ApprovalCard | None:
        """Take an approved row to run it, once; None where it is not to be run (again).

        The tool must still be the one that was approved, and the time not up.
        """
        return self._one(
            "UPDATE approvals SET state='executing' WHERE id=? AND state='approved'"
            f" AND tool_version=? AND expires>? RETURNING {_COLUMNS}",
            (approval_id, tool_version, _stamp(self._clock.now())),
        )

    def finish(self, approval_id: str, state: str, result: Mapping[str, Any]) -> None:
        """Record how a claimed row ended: done, failed or unknown."""
        self._sql(
            "UPDATE approvals SET state=?, result=? WHERE id=? AND state='executing'",
            (state, json.dumps(dict(result), ensure_ascii=False), approval_id),
        )

    def denied(self, session: str, tool: str, arguments: Mapping[str, Any]) -> ApprovalCard | None:
        """The denial that covers this very call, if the session has one."""
        return self._one(
            f"SELECT {_COLUMNS} FROM approvals WHERE session=? AND tool=? AND arguments_sha=?"
            " AND state='denied' ORDER BY number DESC LIMIT 1",
            (session, tool, arguments_sha(arguments)),
        )

    def recover(self) -> int:
        """After a crash: rows left `executing` become `unknown`, never run again.

        For the start of the one process that runs writes from this file; returns their number.
        """
        return len(
            self._sql("UPDATE approvals SET state='unknown' WHERE state='executing' RETURNING id")
        )

    def _expire(self, now: datetime) -> None:
        """Half-open: a row lives up to, not at, its `expires`. An approval not begun dies too."""
        self._sql(
            "UPDATE approvals SET state='expired' WHERE state IN ('pending', 'approved')"
            " AND expires<=?",
            (_stamp(now),),
        )

    def _sql(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """One statement, read to its end so that it is committed.

        Raises:
            DataError: the file cannot be read or written.
        """
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise DataError(
                f"approval journal: {error}; check that its file can be written"
            ) from error

    def _one(self, sql: str, values: tuple[Any, ...]) -> ApprovalCard | None:
        rows = self._sql(sql, values)
        return _card(rows[0]) if rows else None

    def _many(self, sql: str, values: tuple[Any, ...]) -> list[ApprovalCard]:
        return [_card(row) for row in self._sql(sql, values)]


_FIELDS = tuple(field.name for field in dataclasses.fields(ApprovalCard))


def _card(row: tuple[Any, ...]) -> ApprovalCard:
    named: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    named["arguments"] = json.loads(named["arguments"])
    named["result"] = None if named["result"] is None else json.loads(named["result"])
    return ApprovalCard(**named)


def _stamp(moment: datetime) -> str:
    """Fixed-width UTC, so that text order is time order."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
