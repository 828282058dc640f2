"""The rows of a data set that one run trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.train.config import TrainConfig


def read_rows(config: TrainConfig) -> list[dict[str, Any]]:
    """The data set's rows of the config's split.

    Raises:
        DataError: no complete data set there, or no such row.
    """
    from breadcrumbs.data_gen.dataset import load_rows

    rows = [dict(row) for row in load_rows(Path(config.data)) if row["split"] == config.split]
    if not rows:
        raise DataError(f"{config.data}: no rows in split {config.split!r}; set split, or generate")
    return rows
