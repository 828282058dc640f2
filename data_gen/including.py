"""Rows made elsewhere for scenarios of this set, taken in where they fit: what a model said.

A row is taken in the place of the one with its id, where both are of the same scenario and it
passes all checks of this set's own rows, run again included. What becomes of its stalls is what
this set's config says (`nudged`), whatever it was when the row was made.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.dataset import (
    Row,
    file_digest,
    load_rows,
    read_manifest,
    row_from_record,
    table_of,
)
from breadcrumbs.data_gen.mending import in_mode
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.rebuilding import recorded
from breadcrumbs.data_gen.workshop import Workshop
from breadcrumbs.errors import ConfigError, DataError


@dataclass(frozen=True, slots=True)
class Included:
    """The rows to be taken in, and what came of them."""

    config: GenerateConfig
    """With the digests of the folders."""
    rows: Mapping[str, Row] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    """For the manifest; complete when the last table of `placed` was taken."""

    def placed(self, tables: Iterator[Any], shop: Workshop) -> Iterator[Any]:
        """Training tables with the rows in their places; few rows are held at a time."""
        import pyarrow

        dropped: Counter[str] = Counter()
        left = dict(self.rows)
        taken = 0
        for table in tables:
            for at, row_id in enumerate(table["id"].to_pylist()):
                row = left.pop(row_id, None)
                if row is None:
                    continue
                own = row_from_record(table.slice(at, 1).to_pylist()[0])
                reason = _fault(row, own, shop)
                if reason is not None:
                    dropped[reason] += 1
                    continue
                new = table_of([row.to_record()])
                table = pyarrow.concat_tables([table.slice(0, at), new, table.slice(at + 1)])
                taken += 1
            yield table
        if left:
            dropped["no such row in this set"] += len(left)
        self.report.update(rows=len(self.rows), taken=taken, dropped=dict(sorted(dropped.items())))


def read_included(config: GenerateConfig) -> Included:
    """The rows of the folders that a config takes in, their stalls as it wants them.

    Raises:
        DataError: a folder holds no such rows, others than its digest says, or one twice.
        ConfigError: an endpoint shall reword what the rows answer, or digests are too few.
    """
    if not config.include:
        return Included(config)
    if config.endpoint is not None:
        raise ConfigError("include: its rows answer requests as they are; leave the endpoint out")
    wanted = config.include_sha256
    if wanted and len(wanted) != len(config.include):
        raise ConfigError("include_sha256: name one for each folder of include, or none")
    digests = tuple(_digest(Path(folder)) for folder in config.include)
    for folder, digest, known in zip(config.include, digests, wanted or digests, strict=True):
        if digest != known:
            raise DataError(f"{folder}: holds other rows than include_sha256 says; make them again")
    rows: dict[str, Row] = {}
    for folder in config.include:
        for row in load_rows(folder, "train"):
            if row.source != "nudged":
                raise DataError(
                    f"{folder}: {row.id} holds no stall; take in what data stalls has made"
                )
            if row.id in rows:
                raise DataError(f"{folder}: {row.id} is in another folder of include as well")
            rows[row.id] = in_mode(row, config.nudged)
    return Included(dataclasses.replace(config, include_sha256=digests), rows)


def _digest(folder: Path) -> str:
    """SHA-256 over the hashes of a set's files, as they are now."""
    names = sorted(read_manifest(folder)["files"])
    try:
        found = {name: file_digest(folder / name) for name in names}
    except OSError as error:
        raise DataError(f"{folder}: cannot read its files; make them again") from error
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _fault(row: Row, own: Row, shop: Workshop) -> str | None:
    """Why a row cannot stand where the set's own does."""
    if row.scenario != own.scenario:
        return "made for another scenario"
    maker = shop.maker(PRACTICE if row.scenario.domain == PRACTICE else "train")
    hint = maker.hints[row.scenario.tool]
    try:
        return asyncio.run(maker.verifier.reason(row.scenario, recorded(row), hint))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return "not shaped as a trajectory"
