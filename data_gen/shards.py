"""Shards: the unit of work, what comes back of it, and the folder where finished ones are kept.

A job names candidates; what is made of them follows from config, seed and job alone, whoever
does it. A finished shard is two files: the rows, and a record with their hash, written last.
One without a record that fits counts as none.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from breadcrumbs.data_gen.dataset import table_of
from breadcrumbs.errors import DataError

SHARD_ITEMS = 128
"""Candidates a job holds: some seconds of work."""
_INPUTS = "inputs.json"
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class Job:
    """Candidates to be made by one worker."""

    maker: str
    """Whose tools: a split, or the made-up ones."""
    task: str
    stage: int
    """How often the task was taken up before: what was lost is tried again in a further stage."""
    number: int
    """Which shard of the stage."""
    items: tuple[int, ...]

    @property
    def name(self) -> str:
        """Of its files."""
        return f"{self.maker}-{self.task}-{self.stage}-{self.number:06d}"


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one candidate."""

    item: int
    """The candidate that was made; the last one tried where none was."""
    keys: tuple[int, ...] = ()
    """64-bit, one for each row, equal for rows that teach the same; none: nothing came of it."""
    dropped: tuple[str, ...] = ()
    """Why earlier draws came to nothing."""


@dataclass(frozen=True, slots=True)
class Made:
    """A finished job."""

    tried: tuple[Tried, ...]
    rows: bytes
    """Of all that was made, in the order of `tried`: an Arrow stream."""


def packed(records: Sequence[dict[str, Any]]) -> bytes:
    """Rows as an Arrow stream, compressed."""
    import pyarrow

    table = table_of(records)
    sink = pyarrow.BufferOutputStream()
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


class Store:
    """Finished shards of one data set, in a folder beside it that is deleted when it is whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def holds(self, job: Job) -> bool:
        """Whether the shard is here, whole, and of these candidates."""
        try:
            record = self._record(job)
            rows = self._rows_path(job).read_bytes()
            return bool(record["items"] == list(job.items) and record["sha256"] == _sha256(rows))
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def tried(self, job: Job) -> tuple[Tried, ...]:
        """What came of the candidates of a shard that is here."""
        return tuple(
            Tried(item, tuple(keys), tuple(dropped))
            for item, keys, dropped in self._record(job)["tried"]
        )

    def table(self, job: Job) -> Any:
        """The rows of a shard that is here, as an Arrow table.

        Raises:
            DataError: they cannot be read any more.
        """
        import pyarrow

        path = self._rows_path(job)
        try:
            with pyarrow.OSFile(str(path), "rb") as file:
                return pyarrow.ipc.open_stream(file).read_all()
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(
                f"{path}: changed while it was used; run the same command again"
            ) from error

    def save(self, job: Job, made: Made) -> None:
        """Keep a finished shard: its rows, then the record that says so.

        Raises:
            DataError: the place cannot be written; shards kept before stay.
        """
        record = {
            "items": list(job.items),
            "sha256": _sha256(made.rows),
            "tried": [[t.item, list(t.keys), list(t.dropped)] for t in made.tried],
        }
        try:
            _write(self._rows_path(job), made.rows)
            _write(self._record_path(job), json.dumps(record).encode())
        except OSError as error:
            raise DataError(
                f"{self._rows_path(job)}: cannot write: {error.strerror or error}; make room and"
                " run the same command again, it goes on from this shard"
            ) from error

    def _record(self, job: Job) -> dict[str, Any]:
        record: dict[str, Any] = json.loads(self._record_path(job).read_bytes())
        return record

    def _rows_path(self, job: Job) -> Path:
        return self.folder / f"{job.name}.arrow"

    def _record_path(self, job: Job) -> Path:
        return self.folder / f"{job.name}.json"


@contextmanager
def open_store(folder: Path, inputs: str) -> Iterator[Store]:
    """The shards made from `inputs`, a digest; those made from others are thrown away.

    The folder is deleted when the block ends well and kept when it does not.

    Raises:
        DataError: the place cannot be written, or another run works there.
    """
    lock = _claimed(folder, inputs)
    try:
        yield Store(folder)
        discard(folder)
    finally:
        lock.close()


def discard(folder: Path) -> None:
    """Delete shards that are not wanted any more; what cannot be deleted does no harm."""
    shutil.rmtree(folder, ignore_errors=True)


def _claimed(folder: Path, inputs: str) -> IO[str]:
    """The lock of the folder, which then holds shards of these inputs or none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _made_from(folder, inputs):
                _empty(folder)
                _write(folder / _INPUTS, json.dumps(inputs).encode())
        except OSError:
            lock.close()
            raise
        return lock
    except BlockingIOError as error:
        raise DataError(
            f"{folder}: another run is making this data set; wait for it or choose another --out"
        ) from error
    except OSError as error:
        raise DataError(
            f"{folder}: cannot write: {error.strerror or error}; make room or choose another --out"
        ) from error


def _made_from(folder: Path, inputs: str) -> bool:
    try:
        return bool(json.loads((folder / _INPUTS).read_bytes()) == inputs)
    except (OSError, ValueError):
        return False


def _empty(folder: Path) -> None:
    """Everything but the lock, which is held."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()


def _write(path: Path, data: bytes) -> None:
    """In one move: half a file is never seen under the name."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
