"""The rows of a data set that one run trains on."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.train.batches import decision_message, mended, own_messages
from breadcrumbs.train.config import RunConfig, TrainConfig


def read_rows(config: TrainConfig) -> list[dict[str, Any]]:
    """The split's rows as plain records, in stored order.

    Raises:
        DataError: no complete data set there, or no row in the split.
    """
    from breadcrumbs.data_gen.dataset import training_rows

    rows = [row.to_record() for row in training_rows(config.data, config.split)]
    if not rows:
        raise DataError(f"{config.data}: split {config.split!r} is empty; generate more rows")
    groups = {twin: place for place, twin in enumerate(dict.fromkeys(r["twin"] for r in rows))}
    return [
        row
        if groups[row["twin"]] % config.whole_every == 0 or teaches_after(row)
        else up_to_decision(row)
        for row in rows
    ]


def teaches_after(row: dict[str, Any]) -> bool:
    """Whether a row's lesson goes on behind its decision.

    How a write that did not run is told of, or what follows the user's yes or no.
    """
    from breadcrumbs.data_gen.script import AFTER

    script = row["scenario"].get("script") or {}
    reports = row["behaviour"] == "dispatch" and script.get("kind") in AFTER
    return reports or bool(script.get("replies"))


def up_to_decision(row: dict[str, Any]) -> dict[str, Any]:
    """The row without what follows its decision turn: result, report."""
    decided = decision_message(
        own_messages(row),
        str(row["behaviour"]),
        str(row["tool"]),
        mended(row),
    )
    return {**row, "messages": row["messages"][: decided + 1]}


def data_hash(config: RunConfig) -> str:
    """Hex SHA-256 of the split's files, one after the other, as they lie on disk now.

    Raises:
        DataError: no complete data set there.
    """
    from breadcrumbs.data_gen.dataset import read_manifest, split_files

    digest = hashlib.sha256()
    for name in split_files(read_manifest(config.data), config.split):
        path = Path(config.data) / name
        try:
            digest.update(path.read_bytes())
        except OSError as error:
            raise DataError(
                f"{path}: cannot read: {error.strerror}; generate the data again"
            ) from error
    return digest.hexdigest()
