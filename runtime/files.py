"""Files that are never seen half-written."""

from __future__ import annotations

import os
from pathlib import Path

from breadcrumbs.errors import ConfigError


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
