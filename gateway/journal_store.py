"""Where the approval journal lies: SQLite by default, Postgres for several gateways.

Both speak the same SQL (`?` placeholders, RETURNING, ON CONFLICT). They differ in two details: how
a writing transaction begins so that no other writer overlaps it, and the DDL of `Dialect`.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from breadcrumbs.errors import ConfigError, DataError

if TYPE_CHECKING:
    import psycopg

Row = tuple[Any, ...]
Sql = Callable[..., list[Row]]
"""`sql(text, values)` runs one statement and returns its rows."""

WAIT_S = 10
"""How long a writer waits for another one before it gives up."""
POSTGRES = ("postgresql://", "postgres://")
MARK = "approval_events"
"""The table by which a database is known for a journal."""
_NOT_HERE = "{}: no approval journal here; name the one in use by --journal"
_WRITER_LOCK = 0x62726561
"""Any constant: the key of Postgres's advisory lock that makes writers take turns."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What table definitions cannot say the same way in both databases."""

    key: str
    """A primary key of large whole numbers."""
    serial: str
    """The same, given out by the database."""
    append_only: tuple[str, ...]
    """Statements that make `{table}` refuse UPDATE and DELETE."""


class Store(Protocol):
    """A database that one journal writes to; every fault of it is a `DataError`."""

    dialect: Dialect

    def writing(self) -> AbstractContextManager[Sql]:
        """One transaction that no other writer overlaps; undone where anything is raised."""
        ...

    def read(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of one SELECT."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class SqliteStore:
    """One file, written through at every commit; or memory, for simulation."""

    dialect = Dialect(
        key="INTEGER PRIMARY KEY",  # of 64 bits, and the row itself: no index beside it
        serial="INTEGER PRIMARY KEY",
        append_only=tuple(
            f"CREATE TRIGGER IF NOT EXISTS {{table}}_no_{verb.lower()} BEFORE {verb} ON {{table}}"
            " BEGIN SELECT RAISE(ABORT, 'append-only'); END"
            for verb in ("UPDATE", "DELETE")
        ),
    )

    def __init__(self, path: str | Path, *, must_exist: bool = False) -> None:
        in_memory = str(path) == ":memory:"
        must_exist = must_exist and not in_memory
        if must_exist and not Path(path).is_file():
            raise DataError(_NOT_HERE.format(path))
        try:
            if not in_memory:  # who can write the file can approve: the owner alone
                _check_private(Path(path))
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600))
            # One connection for all threads; the lock makes them take turns.
            self._db = sqlite3.connect(
                path, isolation_level=None, check_same_thread=False, timeout=WAIT_S
            )
            if must_exist and not self._run("SELECT 1 FROM sqlite_master WHERE name=?", [MARK]):
                self._db.close()  # another's database, which is left as it is
                raise DataError(_NOT_HERE.format(path))
            if not in_memory:
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
        except (OSError, sqlite3.Error) as error:
            raise DataError(
                f"{path}: cannot open the approval journal: {error}; choose another --journal"
            ) from error
        self._lock = threading.RLock()

    @contextmanager
    def writing(self) -> Iterator[Sql]:
        """A transaction that holds the file's write lock from its start."""
        with self._lock, _told(sqlite3.Error):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._run
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise

    def read(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of one SELECT."""
        with self._lock, _told(sqlite3.Error):
            return self._run(text, values)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _run(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._db.execute(text, values).fetchall()


def _check_private(path: Path) -> None:
    """Refuse a journal that somebody else may write, or can put another in the place of."""
    is_shared = _check_folder(path)
    for end in ("", "-wal", "-shm", "-journal"):
        file = path.with_name(path.name + end)
        try:
            status = file.lstat()
        except FileNotFoundError:
            continue
        mode = status.st_mode
        if stat.S_ISLNK(mode):
            raise DataError(
                f"{file}: a link, which can be turned to another journal;"
                " give --journal the file itself"
            )
        if not stat.S_ISREG(mode):
            raise DataError(f"{file}: no file; choose another --journal")
        if mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise DataError(
                f"{file}: others may write it, and who can write the journal can approve;"
                f" check what is in it, then: chmod 600 {file}"
            )
        if is_shared and status.st_uid != os.geteuid():
            raise DataError(
                f"{file}: somebody else put it into a folder that all may write, and can approve;"
                " choose another --journal"
            )


def _check_folder(path: Path) -> bool:
    """Whether all may write the journal's folder, as they may `/tmp`: there each keeps its own."""
    try:
        mode = path.parent.stat().st_mode
    except OSError:
        return False  # opening the file says it better
    is_shared = bool(mode & stat.S_IWOTH)
    if is_shared and not mode & stat.S_ISVTX:
        raise DataError(
            f"{path}: all may write its folder, and can put a journal of theirs in its place;"
            f" choose another --journal, or: chmod o-w {path.parent}"
        )
    return is_shared


class PostgresStore:
    """A server that several gateways share; a lost connection is opened again for the next call."""

    dialect = Dialect(
        key="BIGINT PRIMARY KEY",
        serial="BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        append_only=(
            "CREATE OR REPLACE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'append-only'; END $$",
            "CREATE OR REPLACE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()",
        ),
    )

    def __init__(self, url: str, *, must_exist: bool = False) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise ConfigError(
                "a postgresql:// journal needs psycopg: pip install 'breadcrumbs[postgres]'"
            ) from error
        self._psycopg = psycopg
        self._url = url
        self._lock = threading.RLock()
        self._db = self._connect()
        if must_exist and self.read("SELECT to_regclass(?)", [MARK]) == [(None,)]:
            self.close()
            raise DataError(_NOT_HERE.format(without_password(url)))

    @contextmanager
    def writing(self) -> Iterator[Sql]:
        """A transaction behind an advisory lock that all gateways take."""
        with self._lock, _told(self._psycopg.Error):
            if self._db.closed:
                self._db = self._connect()
            try:
                with self._db.transaction():
                    self._run("SELECT pg_advisory_xact_lock(?)", (_WRITER_LOCK,))
                    yield self._run
            finally:
                if self._db.info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
                    self._db.close()  # the network went away in between: nothing to go on with

    def read(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        """The rows of one SELECT."""
        with self._lock, _told(self._psycopg.Error):
            if self._db.closed:
                self._db = self._connect()
            return self._run(text, values)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _connect(self) -> psycopg.Connection[Row]:
        # The server's own default may be to commit before the disk has it.
        options = f"-c synchronous_commit=on -c lock_timeout={WAIT_S}s"
        try:
            return self._psycopg.connect(
                self._url, autocommit=True, connect_timeout=WAIT_S, options=options
            )
        except self._psycopg.Error as error:
            raise DataError(
                f"{without_password(self._url)}: cannot open the approval journal: {error};"
                " check the server and the URL"
            ) from error

    def _run(self, text: str, values: Sequence[Any] = ()) -> list[Row]:
        cursor = self._db.execute(text.replace("?", "%s").encode(), values)
        return cursor.fetchall() if cursor.description else []


def open_store(place: str | Path, *, must_exist: bool = False) -> Store:
    """The store of a file path, `:memory:`, or a `postgresql://` URL.

    Raises:
        ConfigError: a URL, but psycopg is not installed.
        DataError: it cannot be opened, or `must_exist` and there is no journal in it.
    """
    if str(place).startswith(POSTGRES):
        return PostgresStore(str(place), must_exist=must_exist)
    if "://" in str(place):
        raise ConfigError(
            f"{without_password(str(place))}: not a journal; give a file or a postgresql:// URL"
        )
    return SqliteStore(place, must_exist=must_exist)


def without_password(url: str) -> str:
    """The URL as it may be shown."""
    shown = re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)
    return re.sub(r"(password=)[^&\s]+", r"\1***", shown)


@contextmanager
def _told(fault: type[Exception]) -> Iterator[None]:
    try:
        yield
    except fault as error:
        raise DataError(
            f"approval journal: {' '.join(str(error).split())};"
            " check that it can be reached and written"
        ) from error
