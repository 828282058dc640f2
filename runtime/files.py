"""Files read within bounds, and written so that half of one is never seen."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from breadcrumbs.errors import BreadcrumbsError, ConfigError


def write_text(path: Path, text: str) -> None:
    """Write text in one move; half a file is never seen under the name.

    Raises:
        ConfigError: the place cannot be written.
    """
    fresh = path.with_name(f"{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot write here: {error.strerror or error}; choose another out or make room"
        ) from error


def sync(path: Path) -> None:
    """Put a file, or a folder's list of names, on disk before going on."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_json_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write one line a record; the file appears whole or not at all.

    Raises:
        ConfigError: the place cannot be written.
    """
    lines = (json.dumps(record, ensure_ascii=False) for record in records)
    write_text(path, "".join(f"{line}\n" for line in lines))


def read_text(path: Path, max_bytes: int, fault: type[BreadcrumbsError]) -> str:
    """The text of a file somebody else made, without a byte order mark.

    Raises:
        fault: it cannot be read, is over `max_bytes`, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise fault(f"{path}: cannot read: {error.strerror or error}") from error
    if len(data) > max_bytes:
        raise fault(f"{path}: over {max_bytes} bytes; split it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fault(f"{path}: not UTF-8 text; save it as UTF-8") from error
