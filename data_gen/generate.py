"""The whole generation: config in, verified data set on disk out.

The work is cut into shards of places. What is drawn for a place follows from config, seed and
place, so workers make shards in any order, on any machine. This process takes the finished ones
in order: it judges duplicates, keeps each shard as it comes, and has lost places drawn again, until
the rows asked for are there. Which rows come from corrected episodes and which requests are
declined is decided from what was taken, and made the same way. In the end rows are read from the
shards in batch order and written to Parquet.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import random
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadcrumbs import __version__
from breadcrumbs.data_gen.collecting import (
    Collected,
    Collector,
    Source,
    by_two,
    evenly,
    replaced,
    spread,
    tables,
)
from breadcrumbs.data_gen.config import (
    Amount,
    GenerateConfig,
    amounts,
    check_evaluation,
    check_surface,
    config_dict,
    inputs_hash,
    kinds_of,
    planned_rows,
    shards_hash,
    splits_of,
)
from breadcrumbs.data_gen.dataset import (
    already_complete,
    read_manifest,
    row_from_record,
    write_dataset,
    write_tables,
)
from breadcrumbs.data_gen.derive import derive
from breadcrumbs.data_gen.derived_files import derived_files
from breadcrumbs.data_gen.engines import Engine, EngineName, open_engine
from breadcrumbs.data_gen.hints import ToolHint, check_hints, load_hints
from breadcrumbs.data_gen.including import read_included
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.shards import Store, discard, open_store
from breadcrumbs.data_gen.splits import Split, choose_held_out
from breadcrumbs.data_gen.verify import Verifier
from breadcrumbs.data_gen.workshop import CORRECTED, Paths, Workshop, open_workshop
from breadcrumbs.endpoint_config import check_endpoint
from breadcrumbs.errors import CatalogError, ConfigError, DataError
from breadcrumbs.files import write_text
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.gateway.imports.importing import import_sources
from breadcrumbs.progress import Report


def generate(
    config: GenerateConfig,
    out: Path,
    progress: Report,
    *,
    workers: int = 1,
    engine: EngineName = "local",
) -> dict[str, Any]:
    """Make the data set in `out` unless it is there already; returns its manifest.

    Finished shards lie in a hidden folder beside `out` until it is whole. After an error, or the
    end of this process, the same call goes on from there, with any workers and engine.

    Raises:
        ConfigError: held-out lists do not fit the catalog, choices of words do not go together,
            or the endpoint cannot be asked.
        CatalogError: catalog and hints do not fit each other.
        DataError: `out` holds something else, cannot be written, or too few rows can be made.
        ModelError: the endpoint gives no usable answer; the same call goes on from there.
    """
    check_surface(config)
    check_evaluation(config)
    included = read_included(config)
    inputs = _inputs(included.config, out)
    config, catalog, hints = inputs.config, inputs.catalog, inputs.hints
    digest = inputs_hash(config, catalog, hints)
    work = out.with_name(f".{out.name}.shards")
    if already_complete(out, digest):
        discard(work)  # a run may have ended in between
        progress(1, 1, "already done")
        return read_manifest(out)
    faults = check_hints(hints, catalog)
    if faults:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise CatalogError(f"hints: {faults[0]}{more}")
    splits = splits_of(config, catalog)
    if config.endpoint is not None:
        check_endpoint(config.endpoint)  # before the work
    elif config.reworded_share:
        raise ConfigError("reworded_share: needs an endpoint; name one, or leave it at 0")
    shards = shards_hash(config, catalog, hints)
    with open_store(work, shards) as store:
        opener = functools.partial(open_workshop, *_worker_inputs(inputs, work), shards)
        shop = Workshop(config, splits, hints)
        with open_engine(engine, workers, shop.make, opener) as crew:
            made = _make_rows(shop, store, crew, progress)
        manifest = {
            "inputs_hash": digest,
            "version": __version__,
            "config": config_dict(config),
            "tools": {split: splits.tools(split) for split in amounts(config)},
            "dropped": made.dropped,
            **({"kinds": made.kinds["train"]} if config.kinds else {}),
            **({"eval_kinds": made.kinds["held_out_tools"]} if config.eval_kinds else {}),
            **({"missing_rows": dict(made.missing)} if made.missing else {}),
            **({"derived": inputs.derived} if inputs.derived else {}),
            **({"included": included.report} if config.include else {}),
        }
        if config.endpoint is not None:
            return _ask_endpoint(made, shop, manifest, inputs, out, progress)
        made.tables["train"] = included.placed(made.tables["train"], shop)
        return write_tables(out, made.tables, _sorted(manifest), inputs.files)


def _sorted(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {**manifest, "dropped": dict(sorted(manifest["dropped"].items()))}


def _worker_inputs(inputs: _Inputs, work: Path) -> tuple[GenerateConfig, Paths, Paths]:
    """Config, catalogs and hints for workers; derived ones lie beside the shards."""
    for name, text in inputs.files.items():
        write_text(work / name, text)
    where = work if inputs.files else Path()
    catalogs, hints = (
        tuple(str((where / name).resolve()) for name in names)
        for names in (
            _derived(inputs, "catalogs/") or inputs.config.catalogs,
            _derived(inputs, "hints/") or inputs.config.hints,
        )
    )
    return inputs.config, catalogs, hints


def _derived(inputs: _Inputs, kind: str) -> tuple[str, ...]:
    return tuple(name for name in inputs.files if name.startswith(kind))


@dataclass(frozen=True, slots=True)
class _Inputs:
    """What generation starts from, and the config that names all of it."""

    config: GenerateConfig
    catalog: Catalog
    hints: Mapping[str, ToolHint]
    files: Mapping[str, str] = field(default_factory=dict)
    """Derived files that are written with the data set, by their path in it."""
    derived: Mapping[str, Any] = field(default_factory=dict)
    """What came of the sources."""


def _inputs(config: GenerateConfig, out: Path) -> _Inputs:
    inputs = _derived_inputs(config, out) if config.sources else _given_inputs(config)
    config = inputs.config
    if config.held_out_share and not (config.held_out_tools or config.held_out_domain):
        tools, domain = choose_held_out(inputs.catalog, config.held_out_share, config.seed)
        config = dataclasses.replace(config, held_out_tools=tools, held_out_domain=domain)
    return dataclasses.replace(inputs, config=config)


def _given_inputs(config: GenerateConfig) -> _Inputs:
    return _Inputs(config, load_catalog(config.catalogs or None), load_hints(config.hints or None))


def _derived_inputs(config: GenerateConfig, out: Path) -> _Inputs:
    """Import the sources and derive the rest; the config then names the files in the data set."""
    if config.catalogs:
        raise ConfigError("catalogs and sources: name one of them; a source may be a catalog file")
    imported = import_sources(config.sources)
    given = load_hints(config.hints) if config.hints else {}
    derived = derive(imported.catalog(), given, config.max_hits)
    if not derived.hints:
        reasons = next(iter(derived.underivable.items()), ("no tool", "nothing was imported"))
        raise CatalogError(f"sources: no tool can be used; {reasons[0]}: {reasons[1]}")
    files = derived_files(derived)
    catalogs, hints = (
        tuple(str(out / name) for name in files if name.startswith(kind))
        for kind in ("catalogs/", "hints/")
    )
    report = {
        "sources": list(config.sources),
        "hints": list(config.hints),
        "imported": len(imported.tools),
        "refused": [refusal.to_dict() for refusal in imported.refused],
        **derived.to_dict(),
    }
    config = dataclasses.replace(config, sources=(), catalogs=catalogs, hints=hints)
    return _Inputs(config, derived.catalog, derived.hints, files, report)


@dataclass(slots=True)
class _Rows:
    """What came of a config, its rows still in their shards."""

    tables: dict[Split, Iterator[Any]]
    dropped: Counter[str]
    missing: dict[str, int]
    kinds: dict[str, dict[str, int]]
    """Places of each special kind that were filled, by split."""


def _make_rows(shop: Workshop, store: Store, crew: Engine, progress: Report) -> _Rows:
    total = planned_rows(shop.config)
    collector = Collector(store, crew, lambda rows, maker: progress(rows, total, maker))
    made = _Rows({}, collector.dropped, {}, {})
    for split, amount in amounts(shop.config).items():
        rows = _SplitRows(shop, split, collector, made.missing)
        plain = rows.tables(amount)
        wanted = "held_out_tools" if shop.config.evaluation else "train"
        if split == wanted and not collector.rows:
            raise DataError(f"{split}: no row can be made, dropped: {dict(collector.dropped)}")
        made.tables[split] = itertools.chain(plain, rows.special(made.kinds))
        if split == "train":
            made.tables[split] = itertools.chain(made.tables[split], rows.practice())
    return made


def _ask_endpoint(
    made: _Rows,
    shop: Workshop,
    manifest: Mapping[str, Any],
    inputs: _Inputs,
    out: Path,
    progress: Report,
) -> dict[str, Any]:
    """Put what an endpoint made into the rows' places, and write them. All rows are in memory."""
    from breadcrumbs.data_gen.teacher import Shares, teach

    config = shop.config
    assert config.endpoint is not None
    records = (record for split in made.tables.values() for t in split for record in t.to_pylist())
    rows = [row_from_record(record) for record in records]
    verifier = Verifier(shop.splits.catalog_for("train"), GatewaySettings(max_hits=config.max_hits))
    # Beside the data set, which appears whole or not at all.
    answers = out.with_name(f"{out.name}.answers")
    shares = Shares(config.corrected_share, config.reworded_share)
    taught = asyncio.run(
        teach(config.endpoint, rows, shares, verifier, shop.hints, config.nudged, answers, progress)
    )
    dropped = made.dropped + taught.dropped
    full = {**manifest, "dropped": dict(sorted(dropped.items())), "endpoint": taught.report}
    return write_dataset(out, taught.rows, full, inputs.files)


@dataclass(frozen=True, slots=True)
class _SplitRows:
    """Collects the rows of one split."""

    shop: Workshop
    split: Split
    collector: Collector
    missing: dict[str, int]

    def tables(self, amount: Amount) -> Iterator[Any]:
        """Twins next to each other; declines two by two and singles two by two among them."""
        pairs = self._places(self.split, "pair", amount.pairs)
        singles = self._places(self.split, "single", amount.singles)
        declines = self._declines(pairs, singles, amount.declines)
        rows = len(declines.items) + len(singles.items)
        pair_tables, single_tables = self._corrected(pairs, singles)
        extras = by_two(itertools.chain(tables(self.collector.store, declines), single_tables))
        return spread(pair_tables, len(pairs.items), extras, -(-rows // 2))

    def practice(self) -> Iterator[Any]:
        """Twins on made-up tools, each tool once."""
        (batches,) = self._corrected(
            self._places(PRACTICE, "practice", self.shop.config.practice_pairs)
        )
        return batches

    def special(self, counts: dict[str, dict[str, int]]) -> Iterator[Any]:
        """Twins of every kind the config asks for, kind after kind; `counts` is told how many."""
        parts = []
        made = counts[self.split] = dict[str, int]()
        for kind, count in kinds_of(self.shop.config, self.split).items():
            found = self._places(self.split, kind, count)
            made[kind] = len(found.items)
            parts.append(tables(self.collector.store, found, by_place=True))
        return itertools.chain(*parts)

    def _places(self, maker: str, task: str, count: int) -> Collected:
        possible = count if count and self.shop.maker(maker).specs(task) else 0
        found = self.collector.places(Source(maker, task), possible)
        if len(found.items) < count:
            special = task in kinds_of(self.shop.config, self.split)
            self._short(len(found.items), count, f"{task} pair" if special else task)
        return found

    def _declines(self, pairs: Collected, singles: Collected, count: int) -> Collected:
        """Requests from all over the split, their tools taken out of the catalog."""
        order = array("Q", [])
        if count:
            order.extend(2 * item for item in pairs.items)
            order.extend(2 * item + 1 for item in singles.items)
            random.Random(f"{self.shop.config.seed}/{self.split}/decline").shuffle(order)
        found = self.collector.first(Source(self.split, "decline"), order, count)
        if len(found.items) < count:
            self._short(len(found.items), count, "decline")
        return found

    def _corrected(self, *kinds: Collected) -> list[Iterator[Any]]:
        """The rows of places, with corrections spread evenly over the training dispatch rows."""
        config, store = self.shop.config, self.collector.store
        share = config.corrected_share if config.endpoint is None else 0.0
        if self.split != "train":
            share = 0.0
        batches: list[Iterator[Any]] = []
        before = 0
        for found in kinds:
            rows = tables(store, found, by_place=True)
            chosen = evenly(found.begun, found.items, share, before)
            source = Source(found.source.maker, CORRECTED + found.source.task)
            better = self.collector.every(source, chosen)
            batches.append(replaced(rows, tables(store, better)))
            before += len(found.begun)
        return batches

    def _short(self, made: int, count: int, kind: str) -> None:
        """Fewer rows than asked for: an error, or counted where the config says so."""
        if self.shop.config.shortfall == "error":
            raise DataError(
                f"{self.split}: only {made} of {count} {kind}s can be made, dropped:"
                f" {dict(self.collector.dropped)}; ask for fewer, add tools and hint values, or"
                " take what there is with shortfall=report, which goes on from here"
            )
        self.missing[f"{self.split} {kind}s"] = count - made
