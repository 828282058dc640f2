"""The rows of a data set that one run trains on."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.train.config import TrainConfig


def read_rows(config: TrainConfig) -> list[dict[str, Any]]:
    """The split's rows as plain records, in stored order.

    Raises:
        DataError: no complete data set there, or no row in the split.
    """
    from breadcrumbs.data_gen.dataset import load_rows

    rows = [row.to_record() for row in load_rows(config.data, config.split)]
    if not rows:
        raise DataError(f"{config.data}: split {config.split!r} is empty; generate more rows")
    return rows


def data_hash(config: TrainConfig) -> str:
    """Hex SHA-256 of the split's file as it lies on disk now.

    Raises:
        DataError: no complete data set there.
    """
    from breadcrumbs.data_gen.dataset import read_manifest

    read_manifest(config.data)
    path = Path(config.data) / f"{config.split}.parquet"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(
            f"{path}: cannot read: {error.strerror}; generate the data again"
        ) from error
