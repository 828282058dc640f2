"""A data set from disk, checked anew: files, every row read back, every row run again.

The checks are those that each row passed before it was written (`breadcrumbs.data_gen.verify`);
what they compare with is what the manifest and the row say of themselves.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadcrumbs.data_gen.config import inputs_hash
from breadcrumbs.data_gen.dataset import (
    AXES,
    MANIFEST,
    TEXT_COLUMNS,
    Row,
    counts_of_records,
    file_digest,
    json_value,
    read_manifest,
    read_records,
    row_from_record,
    split_files,
)
from breadcrumbs.data_gen.episodes import Episode
from breadcrumbs.data_gen.rebuilding import Rebuilt, config_of, rebuild, recorded
from breadcrumbs.data_gen.shape import Facts, count_shapes, facts_of
from breadcrumbs.data_gen.shaping import Shapes, namings_for
from breadcrumbs.data_gen.splits import SPLITS, Split
from breadcrumbs.data_gen.verify import duplicate_key, effect_difference, replay
from breadcrumbs.errors import BreadcrumbsError, DataError
from breadcrumbs.messages import messages_from_dicts
from breadcrumbs.progress import Report

_BROKEN = (BreadcrumbsError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What the checks raise on a row whose parts are not where they look for them."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong."""

    reason: str
    """Begins with its kind: files, inputs, row, counts, format, protocol, grounding, thinking,
    replay."""
    where: str
    """The file; for a row also its number in the file, from 0, and its id."""


@dataclass(frozen=True, slots=True)
class Validation:
    """What was read, and what is wrong."""

    rows: int
    """Rows that could be read."""
    faults: tuple[Fault, ...]

    def by_reason(self) -> dict[str, list[str]]:
        """Places by reason, in the order they were found."""
        found: dict[str, list[str]] = {}
        for fault in self.faults:
            found.setdefault(fault.reason, []).append(fault.where)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"rows": self.rows, "faults": len(self.faults), "by_reason": self.by_reason()}


def validate(folder: Path, progress: Report) -> Validation:
    """Check a complete data set; reads it all and runs every row once.

    Raises:
        DataError: there is no complete data set, or it was imported and cannot be run.
        ConfigError: the manifest's config cannot be read.
        CatalogError: the catalog or the hints it was made from cannot be read.
    """
    manifest = read_manifest(folder)
    config = config_of(folder, manifest)
    rebuilt = rebuild(config)
    faults = list(_file_faults(folder, manifest))
    if manifest.get("inputs_hash") != inputs_hash(config, rebuilt.catalog, rebuilt.hints):
        reason = "inputs: made by another version, catalog or hints than those here"
        faults.append(Fault(reason, MANIFEST))
    checker = _Checker(folder, manifest, rebuilt, config.shapes, progress)
    asyncio.run(checker.check())
    faults += checker.faults
    shapes = manifest.get("shapes", {}), count_shapes(checker.found.elements())
    if manifest["counts"] != counts_of_records(checker.columns) or shapes[0] != shapes[1]:
        faults.append(Fault("counts: the manifest says other numbers than the rows", MANIFEST))
    return Validation(checker.rows, tuple(faults))


def _file_faults(folder: Path, manifest: Mapping[str, Any]) -> Iterator[Fault]:
    wanted = manifest["files"]
    unnamed = {f"{split}.parquet" for split in SPLITS if not split_files(manifest, split)}
    for name in sorted({*wanted, *unnamed}):
        try:
            found = file_digest(folder / name)
        except OSError:
            yield Fault("files: missing or unreadable", name)
            continue
        if wanted.get(name) != found:
            yield Fault("files: not the bytes the manifest names", name)


@dataclass(slots=True)
class _Checker:
    """Goes through the rows of every split, in their order."""

    folder: Path
    manifest: Mapping[str, Any]
    rebuilt: Rebuilt
    shapes: Shapes
    progress: Report
    rows: int = 0
    """Rows that could be read back."""
    columns: list[dict[str, Any]] = field(default_factory=list)
    """What the rows' columns say, for the counts."""
    found: Counter[Facts] = field(default_factory=Counter)
    """The rows' shapes, for the counts."""
    faults: list[Fault] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)

    async def check(self) -> None:
        done = 0
        for split in SPLITS:
            for name in split_files(self.manifest, split):
                records = self._records(name)
                total = max(self.manifest["counts"]["trajectories"], done + len(records))
                for number, record in enumerate(records):
                    self.columns.append({axis: record.get(axis) for axis in AXES})
                    where = f"{name} row {number} ({record.get('id')})"
                    await self._check_row(split, record, where)
                    done += 1
                    self.progress(done, total)

    def _records(self, name: str) -> list[dict[str, Any]]:
        try:
            return read_records(self.folder / name)
        except DataError:
            self.faults.append(Fault("files: no Parquet that can be read", name))
            return []

    async def _check_row(self, split: Split, record: dict[str, Any], where: str) -> None:
        try:
            row = row_from_record(record)
            self.rows += 1
            self.found[facts_of(row.scenario.shape)] += 1
            reason = self._place_fault(split, record, row) or await self._reason(row)
        except _BROKEN as error:
            detail = " ".join(f"{type(error).__name__}: {error}".split())
            self.faults.append(Fault("row: not shaped as a trajectory", f"{where}: {detail}"))
            return
        if reason is not None:
            self.faults.append(Fault(reason, where))

    def _place_fault(self, split: Split, record: Mapping[str, Any], row: Row) -> str | None:
        """Why the row does not belong where it stands, or not beside the others."""
        said = row.to_record()
        if row.id != row.scenario.id or any(record[n] != said[n] for n in TEXT_COLUMNS):
            return "row: a column says other than the scenario"
        if row.split != split or self.rebuilt.splits.split_of(row.scenario.tool) != split:
            return "row: belongs to another split"
        if row.scenario.shape.naming not in namings_for(split, self.shapes):
            return "row: its naming is not one of its split"
        shown = messages_from_dicts([json_value(message) for message in record["messages"]])
        if shown != row.shown_messages:
            return "format: not as its naming shows it"
        if row.id in self.ids:
            return "row: the id stands twice"
        self.ids.add(row.id)
        key = duplicate_key(row.scenario)
        if key in self.keys:
            return "row: asks what another row asks"
        self.keys.add(key)
        return None

    async def _reason(self, row: Row) -> str | None:
        hint, verifier = self.rebuilt.hint_of(row.scenario), self.rebuilt.verifier_of(row.scenario)
        if hint is None:
            return "inputs: the row's tool has no hints"
        episode = recorded(row)
        fault = verifier.reading_fault(row.scenario, episode, hint)
        if fault is not None:
            return fault
        again = await replay(row.scenario, row.messages, verifier.catalog, verifier.settings)
        return effect_difference(episode, again) or _form_difference(row, again)


def _form_difference(row: Row, again: Episode) -> str | None:
    """What equal effects leave open: marks and ids of messages, and the tools on offer."""
    if [m.to_dict() for m in again.messages] != [m.to_dict() for m in row.messages]:
        return "replay: a message has other marks or call ids"
    if [dict(tool) for tool in again.tools] != [dict(tool) for tool in row.tools]:
        return "replay: other tools were offered"
    return None
