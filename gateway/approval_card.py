"""One held write as the journal stores it, and the table it lies in."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import rfc8785

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.journal_store import Dialect, Row
from breadcrumbs.gateway.lookalikes import lookalike_notes

COLUMNS = (
    "id, principal, session, tool, tool_version, risk, arguments, state, expires, decided_by,"
    " reason, result, arguments_sha, nonce, created, claimed"
)
"""In the order of `ApprovalCard`'s fields."""
_TABLE = """
CREATE TABLE IF NOT EXISTS approvals (
    number {serial},
    id TEXT NOT NULL UNIQUE,
    principal TEXT NOT NULL,
    session TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_version TEXT NOT NULL,
    risk TEXT NOT NULL,
    arguments TEXT NOT NULL,
    arguments_sha TEXT NOT NULL,
    nonce TEXT NOT NULL,
    state TEXT NOT NULL,
    created TEXT NOT NULL,
    expires TEXT NOT NULL,
    claimed TEXT,
    decided_by TEXT,
    reason TEXT,
    result TEXT
)
"""
_INDEXES = (
    "CREATE INDEX IF NOT EXISTS approvals_alive ON approvals (state, expires)"
    " WHERE state IN ('pending', 'approved', 'executing')",
    "CREATE INDEX IF NOT EXISTS approvals_by_call ON approvals"
    " (principal, session, tool, arguments_sha)",
    "CREATE UNIQUE INDEX IF NOT EXISTS one_waits ON approvals"
    " (principal, session, tool, arguments_sha) WHERE state = 'pending'",
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
    arguments_sha: str = ""
    nonce: str = field(default="", repr=False, compare=False)
    created_at: str = ""
    claimed_at: str | None = None

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
            "notes": list(lookalike_notes(self.arguments)),
        }


def definitions(dialect: Dialect) -> list[str]:
    """The statements that make the table."""
    return [_TABLE.format(serial=dialect.serial), *_INDEXES]


def arguments_sha(arguments: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON (RFC 8785): key order and 10 against 10.0 do not matter."""
    return hashlib.sha256(rfc8785.dumps(dict(arguments))).hexdigest()


def card_from(row: Row) -> ApprovalCard:
    """The card of a row read as `COLUMNS`.

    Raises:
        DataError: somebody wrote something else into the row.
    """
    named: dict[str, Any] = dict(zip(_FIELDS, row, strict=True))
    try:
        named["arguments"] = json.loads(named["arguments"])
        named["result"] = None if named["result"] is None else json.loads(named["result"])
    except (ValueError, RecursionError) as error:
        raise DataError(f"approval journal: row {named['id']} is damaged: {error}") from error
    return ApprovalCard(**named)


def stamp(moment: datetime) -> str:
    """Fixed-width UTC, so that text order is time order."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def storable(text: str) -> str:
    """Text that every database takes: halves of surrogate pairs and NUL become `?`."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


_FIELDS = tuple(field.name for field in dataclasses.fields(ApprovalCard))
