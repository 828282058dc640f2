"""The journal's log: every move of every row, append-only, each entry sealed onto the one before.

An entry holds the SHA-256 of the row as it then stood, and its own SHA-256 covers the entry before
it. An edited or deleted entry breaks the chain; an edited or deleted row no longer fits its last
entry. What no chain can show is a tail cut off together with its rows: note the head elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from breadcrumbs.gateway.journal_store import MARK, Dialect, Row, Sql

TABLE = MARK
START = "0" * 64
_DDL = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    number {{key}},
    at TEXT NOT NULL,
    subject TEXT NOT NULL,
    actor TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    digest TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL
)
"""
_COLUMNS = "number, at, subject, actor, before, after, digest, previous, hash"


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One move: which row, by whom, from which state to which."""

    number: int
    at: str
    subject: str
    actor: str
    before: str
    """Empty for the event that made the row."""
    after: str
    digest: str
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What checking the log found; the journal is whole where there are no faults."""

    events: int
    head: str
    faults: tuple[str, ...]


def definitions(dialect: Dialect) -> list[str]:
    """The statements that make the table, append-only."""
    return [
        _DDL.format(key=dialect.key),
        *(text.format(table=TABLE) for text in dialect.append_only),
    ]


def row_digest(row: Sequence[Any]) -> str:
    """SHA-256 of a row's columns, as a JSON list: no column can run into the next."""
    # Flat lists of text and small integers have one form in JSON: no need for RFC 8785.
    return hashlib.sha256(json.dumps(list(row)).encode()).hexdigest()


def append(
    sql: Sql, *, at: str, subject: str, actor: str, before: str, after: str, digest: str
) -> None:
    """Add an entry; to be called inside the transaction that moves the row."""
    head = sql(f"SELECT number, hash FROM {TABLE} ORDER BY number DESC LIMIT 1")
    number, previous = head[0] if head else (0, START)
    sealed = (number + 1, at, subject, actor, before, after, digest, previous)
    sql(
        f"INSERT INTO {TABLE} ({_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)",
        (*sealed, row_digest(sealed)),
    )


def events(rows: Sequence[Row]) -> list[LogEvent]:
    """Entries as read by `select`."""
    return [LogEvent(*row) for row in rows]


def select(where: str = "") -> str:
    """The SELECT for entries, oldest first."""
    return f"SELECT {_COLUMNS} FROM {TABLE} {where} ORDER BY number"


def verify(
    entries: Sequence[LogEvent], rows: Sequence[tuple[str, Row]], known_head: str | None = None
) -> Verified:
    """Check the chain, that each row's entries join, and that it stands as its last one says."""
    faults: list[str] = []
    previous, last = START, dict[str, LogEvent]()
    for place, entry in enumerate(entries, 1):
        if entry.number != place or entry.previous != previous:
            faults.append(f"event {entry.number}: an event before it was deleted or changed")
        if entry.hash != row_digest(astuple(entry)[:-1]):
            faults.append(f"event {entry.number} ({entry.subject}): it was changed")
        before = last[entry.subject].after if entry.subject in last else ""
        if entry.before != before:  # say, an executing row that was set back to run again
            faults.append(
                f"event {entry.number} ({entry.subject}): from {entry.before or 'nothing'}, where"
                f" the log left it {before or 'unmade'}"
            )
        previous, last[entry.subject] = entry.hash, entry
        if len(faults) >= 20:  # one hole shows; a flood of lines would hide it
            break
    present = dict(rows)
    for subject, entry in last.items():
        if subject not in present:
            faults.append(f"{subject}: its row was deleted")
        elif row_digest(present[subject]) != entry.digest:
            faults.append(f"{subject}: its row was changed behind the journal's back")
    faults += [f"{subject}: its events were deleted" for subject in present if subject not in last]
    if known_head not in (None, START, *(entry.hash for entry in entries)):
        faults.append("the head that was noted before is gone: the log was cut or written anew")
    return Verified(len(entries), previous, tuple(faults))
