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

from breadcrumbs.config import parse
from breadcrumbs.data_gen.config import GenerateConfig, inputs_hash
from breadcrumbs.data_gen.dataset import (
    AXES,
    MANIFEST,
    TEXT_COLUMNS,
    Row,
    counts_of_records,
    file_digest,
    gateway_settings,
    json_value,
    read_manifest,
    read_records,
    row_from_record,
    split_files,
)
from breadcrumbs.data_gen.episodes import Episode
from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.practice import Practice
from breadcrumbs.data_gen.shape import Facts, count_shapes, facts_of
from breadcrumbs.data_gen.shaping import Shapes, namings_for
from breadcrumbs.data_gen.splits import SPLITS, Split, Splits, make_splits
from breadcrumbs.data_gen.verify import Verifier, duplicate_key, effect_difference, replay
from breadcrumbs.data_gen.workshop import practice_for
from breadcrumbs.errors import BreadcrumbsError, DataError
from breadcrumbs.events import Done
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
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
    settings = gateway_settings(manifest)
    config = parse(manifest["config"], GenerateConfig, f"{folder / MANIFEST}: config")
    catalog, hints = load_catalog(config.catalogs or None), load_hints(config.hints or None)
    splits = make_splits(catalog, config.held_out_tools, config.held_out_domain)
    faults = list(_file_faults(folder, manifest))
    if manifest.get("inputs_hash") != inputs_hash(config, catalog, hints):
        reason = "inputs: made by another version, catalog or hints than those here"
        faults.append(Fault(reason, MANIFEST))
    practice = practice_for(config, splits)
    checker = _Checker(folder, manifest, settings, splits, hints, practice, config.shapes, progress)
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
    settings: GatewaySettings
    splits: Splits
    hints: Mapping[str, ToolHint]
    practice: Practice
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
        made_up = Verifier(self.practice.catalog, self.settings)
        for split in SPLITS:
            known = Verifier(self.splits.catalog_for(split), self.settings)
            for name in split_files(self.manifest, split):
                records = self._records(name)
                total = max(self.manifest["counts"]["trajectories"], done + len(records))
                for number, record in enumerate(records):
                    self.columns.append({axis: record.get(axis) for axis in AXES})
                    where = f"{name} row {number} ({record.get('id')})"
                    verifier = made_up if record.get("domain") == PRACTICE else known
                    await self._check_row(split, record, verifier, where)
                    done += 1
                    self.progress(done, total)

    def _records(self, name: str) -> list[dict[str, Any]]:
        try:
            return read_records(self.folder / name)
        except DataError:
            self.faults.append(Fault("files: no Parquet that can be read", name))
            return []

    async def _check_row(
        self, split: Split, record: dict[str, Any], verifier: Verifier, where: str
    ) -> None:
        try:
            row = row_from_record(record)
            self.rows += 1
            self.found[facts_of(row.scenario.shape)] += 1
            reason = self._place_fault(split, record, row) or await self._reason(row, verifier)
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
        if row.split != split or self.splits.split_of(row.scenario.tool) != split:
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

    async def _reason(self, row: Row, verifier: Verifier) -> str | None:
        made_up = row.scenario.domain == PRACTICE
        hint = (self.practice.hints if made_up else self.hints).get(row.scenario.tool)
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


def recorded(row: Row) -> Episode:
    """The episode as the row tells it, to be compared with one that is run."""
    return Episode(
        messages=row.messages,
        tools=row.tools,
        events=(Done(row.meta["outcome"]),),
        calls=tuple(call.name for message in row.messages for call in message.tool_calls),
        state_hash=row.meta["state_hash"],
        queue=tuple((tool, arguments, state) for tool, arguments, state in row.meta["queue"]),
    )
