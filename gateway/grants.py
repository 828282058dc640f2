"""Grants: "the next few calls of this tool, with these fields fixed, need no new card".

A grant is made by a person from a card, counts down with every use, ends by itself, and is written
to the log like every other move. There is none for a destructive tool, and no bare "always".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import rfc8785

from breadcrumbs.errors import DataError
from breadcrumbs.gateway import journal_log
from breadcrumbs.gateway.journal_store import Dialect, Row, Sql

MAX_USES = 100
MAX_TTL_S = 24 * 3600
COLUMNS = "id, principal, tool, tool_version, fixed, uses_left, created, expires, granted_by"
_TABLE = """
CREATE TABLE IF NOT EXISTS approval_grants (
    number {serial},
    id TEXT NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    fixed TEXT NOT NULL,
    uses_left BIGINT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT NOT NULL,
    granted_by TEXT NOT NULL
)
"""


@dataclass(frozen=True, slots=True)
class Grant:
    """What may run without a new card, how often, and until when."""

    id: str
    principal: str
    tool: str
    tool_version: str
    fixed: dict[str, Any]
    """Arguments that must be given with exactly these values."""
    uses_left: int
    created_at: str
    expires_at: str
    granted_by: str

    def covers(self, arguments: Mapping[str, Any]) -> bool:
        """Whether every fixed argument has its value."""
        return all(
            name in arguments and rfc8785.dumps(arguments[name]) == rfc8785.dumps(value)
            for name, value in self.fixed.items()
        )


def definitions(dialect: Dialect) -> list[str]:
    """The statement that makes the table."""
    return [_TABLE.format(serial=dialect.serial)]


def check_bounds(risk: str, uses: int, ttl_s: int) -> None:
    """Refuse a grant that is none.

    Raises:
        DataError: a destructive tool, or a count or time out of bounds.
    """
    if risk == "destructive":
        raise DataError("a destructive tool cannot be granted: each call needs its own approval")
    if not 1 <= uses <= MAX_USES:
        raise DataError(f"a grant is for 1 to {MAX_USES} calls, not {uses}")
    if not 1 <= ttl_s <= MAX_TTL_S:
        raise DataError(f"a grant lasts 1 to {MAX_TTL_S} seconds, not {ttl_s}")


def add(sql: Sql, grant: Grant, at: str) -> None:
    """Write a new grant and its log entry."""
    values = (
        grant.id,
        grant.principal,
        grant.tool,
        grant.tool_version,
        json.dumps(grant.fixed, ensure_ascii=False),
        grant.uses_left,
        grant.created_at,
        grant.expires_at,
        grant.granted_by,
    )
    rows = sql(
        f"INSERT INTO approval_grants ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?) RETURNING {COLUMNS}",
        values,
    )
    _log(sql, rows[0], at, grant.granted_by, "")


def use(
    sql: Sql,
    *,
    principal: str,
    tool: str,
    tool_version: str,
    arguments: Mapping[str, Any],
    now: str,
) -> str | None:
    """Count one use of the oldest grant that covers the call: its id, or None."""
    live = sql(
        f"SELECT {COLUMNS} FROM approval_grants WHERE principal=? AND tool=? AND tool_version=?"
        " AND uses_left>0 AND expires>? ORDER BY number",
        (principal, tool, tool_version, now),
    )
    for row in live:
        grant = grant_from(row)
        if grant.covers(arguments):
            used = sql(
                "UPDATE approval_grants SET uses_left=uses_left-1 WHERE id=? AND uses_left>0"
                f" RETURNING {COLUMNS}",
                (grant.id,),
            )
            _log(sql, used[0], now, principal, f"{grant.uses_left} left")
            return grant.id
    return None


def revoke(sql: Sql, grant_id: str, by: str, at: str) -> bool:
    """Take a grant back; False where it has no use left."""
    left = sql("SELECT uses_left FROM approval_grants WHERE id=? AND uses_left>0", (grant_id,))
    if not left:
        return False
    rows = sql(
        f"UPDATE approval_grants SET uses_left=0 WHERE id=? RETURNING {COLUMNS}", (grant_id,)
    )
    _log(sql, rows[0], at, by, f"{left[0][0]} left")
    return True


def grant_from(row: Row) -> Grant:
    """The grant of a row read as `COLUMNS`."""
    named = list(row)
    named[4] = json.loads(named[4])
    return Grant(*named)


def _log(sql: Sql, row: Row, at: str, actor: str, before: str) -> None:
    journal_log.append(
        sql,
        at=at,
        subject=row[0],
        actor=actor,
        before=before,
        after=f"{row[5]} left",
        digest=journal_log.row_digest(row),
    )
