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
import hashlib
import itertools
import json
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from breadcrumbs import __version__
from breadcrumbs.config import STRICT, to_dict
from breadcrumbs.data_gen import scenarios
from breadcrumbs.data_gen.collecting import (
    ATTEMPTS,
    Collected,
    Collector,
    Source,
    by_two,
    evenly,
    place_of,
    replaced,
    spread,
    tables,
)
from breadcrumbs.data_gen.correction import Correction, correct
from breadcrumbs.data_gen.dataset import (
    Row,
    already_complete,
    read_manifest,
    row_from_record,
    write_dataset,
    write_tables,
)
from breadcrumbs.data_gen.dataset import Source as RowSource
from breadcrumbs.data_gen.derive import derive
from breadcrumbs.data_gen.derived_files import derived_files
from breadcrumbs.data_gen.engines import Engine, EngineName, open_engine
from breadcrumbs.data_gen.episodes import Episode, OraclePolicy, row_meta, run_episode
from breadcrumbs.data_gen.hints import ToolHint, check_hints, load_hints
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.practice import Practice, practice_tools
from breadcrumbs.data_gen.requests import Phrasing
from breadcrumbs.data_gen.scenarios import Blueprint, Dropped, Recipe, Scenario, droppable
from breadcrumbs.data_gen.shards import Job, Made, Store, Tried, discard, open_store, packed
from breadcrumbs.data_gen.splits import SPLITS, Split, Splits, choose_held_out, make_splits
from breadcrumbs.data_gen.verify import Verifier, duplicate_key
from breadcrumbs.endpoint_config import EndpointConfig, check_endpoint
from breadcrumbs.errors import CatalogError, ConfigError, DataError
from breadcrumbs.files import write_text
from breadcrumbs.gateway.catalog import Catalog, ToolSpec, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.gateway.imports.importing import import_sources
from breadcrumbs.gateway.search import ToolIndex
from breadcrumbs.progress import Report


@checked(config=STRICT)
class Amount:
    """How many scenarios a split gets."""

    pairs: int = Field(ge=0)
    """Dispatch and clarify twins."""
    declines: int = Field(default=0, ge=0)
    singles: int = Field(default=0, ge=0)
    """Dispatch scenarios of tools that cannot lack a required argument."""


@checked(config=STRICT)
class GenerateConfig:
    """What to generate. Same values, same catalog and hints: same bytes."""

    train: Amount
    eval_tools: Amount
    """Scenarios on held-out tools."""
    eval_domain: Amount
    """Scenarios on the held-out domain."""
    held_out_tools: tuple[str, ...] = ()
    held_out_domain: str = ""
    """None where it is empty."""
    held_out_share: float = Field(default=0.0, ge=0, le=0.5)
    """Where neither tools nor domain are named: the share of tools to choose, for each."""
    seed: int = 1
    catalogs: tuple[str, ...] = ()
    """Catalog files; none means those that ship."""
    hints: tuple[str, ...] = ()
    """Hint files; none means those that ship, or with `sources`, derived ones alone."""
    sources: tuple[str, ...] = ()
    """Instead of catalogs: anything `catalog import` reads. World and hints are derived."""
    shortfall: Literal["error", "report"] = "error"
    """What fewer rows than asked for are: an error, or a count in the manifest."""
    phrasing: Phrasing = "varied"
    """`plain` says every argument by its own name, in a list; small models learn it soonest."""
    optional_share: float = Field(default=0.4, ge=0, le=1)
    """Chance that an optional argument is said."""
    corrected_share: float = Field(default=0.15, ge=0, le=1)
    """Share of training dispatch rows that come from a nudged, corrected episode."""
    worded_share: float = Field(default=0.0, ge=0, le=1)
    """Share of training pairs kept for tools with arguments in the assistant's own words."""
    waiting_share: float = Field(default=0.0, ge=0, le=0.5)
    """Share of training writes whose approval does not come in time."""
    denied_share: float = Field(default=0.0, ge=0, le=0.5)
    """Share of training writes that are denied."""
    practice_pairs: int = Field(default=0, ge=0)
    """Training pairs beside those of `train`, each on a made-up tool of its own."""
    max_hits: int = Field(default=2, ge=1, le=20)
    """Search hits the gateway shows."""
    endpoint: EndpointConfig | None = None
    """A model that takes the scripted staller's place: `corrected_share` is asked of it."""
    reworded_share: float = Field(default=0.0, ge=0, le=1)
    """Share of training twins whose requests the endpoint puts into other words."""


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
        ConfigError: held-out lists do not fit the catalog, or the endpoint cannot be asked.
        CatalogError: catalog and hints do not fit each other.
        DataError: `out` holds something else, cannot be written, or too few rows can be made.
        ModelError: the endpoint gives no usable answer; the same call goes on from there.
    """
    inputs = _inputs(config, out)
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
    splits = make_splits(catalog, config.held_out_tools, config.held_out_domain)
    if config.endpoint is not None:
        check_endpoint(config.endpoint)  # before the work
    elif config.reworded_share:
        raise ConfigError("reworded_share: needs an endpoint; name one, or leave it at 0")
    # With another `shortfall` the same shards are made.
    shards = inputs_hash(dataclasses.replace(config, shortfall="error"), catalog, hints)
    with open_store(work, shards) as store:
        opener = functools.partial(open_workshop, *_worker_inputs(inputs, work), shards)
        shop = Workshop(config, splits, hints)
        with open_engine(engine, workers, shop.make, opener) as crew:
            made = _make_rows(shop, store, crew, progress)
        manifest = {
            "inputs_hash": digest,
            "version": __version__,
            "config": config_dict(config),
            "tools": {split: splits.tools(split) for split in _amounts(config)},
            "dropped": made.dropped,
            **({"missing_rows": dict(made.missing)} if made.missing else {}),
            **({"derived": inputs.derived} if inputs.derived else {}),
        }
        if config.endpoint is not None:
            return _ask_endpoint(made, shop, manifest, inputs, out, progress)
        return write_tables(out, made.tables, _sorted(manifest), inputs.files)


def _sorted(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {**manifest, "dropped": dict(sorted(manifest["dropped"].items()))}


def _worker_inputs(inputs: _Inputs, work: Path) -> tuple[GenerateConfig, _Paths, _Paths]:
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


def config_dict(config: GenerateConfig) -> dict[str, Any]:
    """The config as a manifest holds it; sets made without an endpoint keep their bytes."""
    body = to_dict(config)
    if config.endpoint is None:
        del body["endpoint"], body["reworded_share"]
    return body


def inputs_hash(config: GenerateConfig, catalog: Catalog, hints: Mapping[str, ToolHint]) -> str:
    """SHA-256 of everything that decides the bytes of a data set."""
    parts = [
        __version__,
        json.dumps(config_dict(config), sort_keys=True),
        repr(sorted(hints.items())),
    ]
    parts += [repr(catalog.tool(name)) for name in catalog.names()]
    parts.append(repr(sorted((d, sorted(c.items())) for d, c in catalog.collections.items())))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _amounts(config: GenerateConfig) -> dict[Split, Amount]:
    return {
        "train": config.train,
        "held_out_tools": config.eval_tools,
        "held_out_domain": config.eval_domain,
    }


def planned_rows(config: GenerateConfig) -> int:
    """How many rows a config asks for."""
    amounts = _amounts(config).values()
    asked = sum(2 * amount.pairs + amount.declines + amount.singles for amount in amounts)
    return asked + 2 * config.practice_pairs


def practice_for(config: GenerateConfig, splits: Splits) -> Practice:
    """The made-up tools of a config, worded from the texts of the training tools.

    A tenth more than pairs: a tool whose drawn values cannot be told apart is passed over.
    """
    count = config.practice_pairs + config.practice_pairs // 10 + bool(config.practice_pairs)
    return practice_tools(count, config.seed, splits.catalog_for("train"))


@dataclass(slots=True)
class _Rows:
    """What came of a config, its rows still in their shards."""

    tables: dict[Split, Iterator[Any]]
    dropped: Counter[str]
    missing: dict[str, int]


def _make_rows(shop: Workshop, store: Store, crew: Engine, progress: Report) -> _Rows:
    total = planned_rows(shop.config)
    collector = Collector(store, crew, lambda rows, maker: progress(rows, total, maker))
    made = _Rows({}, collector.dropped, {})
    for split, amount in _amounts(shop.config).items():
        rows = _SplitRows(shop, split, collector, made.missing)
        made.tables[split] = rows.tables(amount)
        if split == "train":
            if not collector.rows:
                raise DataError(f"train: no row can be made, dropped: {dict(collector.dropped)}")
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
        teach(config.endpoint, rows, shares, verifier, shop.hints, answers, progress)
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

    def _places(self, maker: str, task: str, count: int) -> Collected:
        possible = count if count and self.shop.maker(maker).specs(task) else 0
        found = self.collector.places(Source(maker, task), possible)
        if len(found.items) < count:
            self._short(len(found.items), count, task)
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


CORRECTED = "corrected-"
"""Before the name of a task: its dispatch rows from nudged episodes."""
_Paths = tuple[str, ...]


def open_workshop(
    config: GenerateConfig, catalogs: _Paths, hints: _Paths, digest: str
) -> Callable[[Job], Made]:
    """A workshop in another process, from the same files.

    Raises:
        DataError: the files are not what they were.
    """
    catalog, known = load_catalog(catalogs or None), load_hints(hints or None)
    if inputs_hash(dataclasses.replace(config, shortfall="error"), catalog, known) != digest:
        raise DataError(
            "a worker reads other catalogs or hints than this process did; leave them alone while"
            " data is made and run the same command again"
        )
    splits = make_splits(catalog, config.held_out_tools, config.held_out_domain)
    return Workshop(config, splits, known).make


class Workshop:
    """Everything that decides what comes of a job."""

    def __init__(
        self, config: GenerateConfig, splits: Splits, hints: Mapping[str, ToolHint]
    ) -> None:
        self.config = config
        self.splits = splits
        self.hints = hints
        self._makers: dict[str, _Maker] = {}

    def make(self, job: Job) -> Made:
        """Do a job; the same job gives the same bytes."""
        return asyncio.run(self.maker(job.maker).make(job))

    def maker(self, name: str) -> _Maker:
        """The one of a split, or of the made-up tools."""
        if name not in self._makers:
            self._makers[name] = self._new_maker(name)
        return self._makers[name]

    def _new_maker(self, name: str) -> _Maker:
        if name == PRACTICE:
            made = practice_for(self.config, self.splits)
            return _Maker(self.config, "train", made.catalog, made.hints, made.catalog.names())
        split = next(split for split in SPLITS if split == name)
        catalog = self.splits.catalog_for(split)
        return _Maker(self.config, split, catalog, self.hints, self.splits.tools(split))


@dataclass(slots=True)
class _Maker:
    """Makes the rows of one split. Nothing is remembered from one candidate to the next."""

    config: GenerateConfig
    split: Split
    catalog: Catalog
    hints: Mapping[str, ToolHint]
    tools: Sequence[str]
    index: ToolIndex = field(init=False)
    verifier: Verifier = field(init=False)
    recipe: Recipe = field(init=False)
    by_kind: dict[str, list[ToolSpec]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        training = self.split == "train"
        self.index = ToolIndex(self.catalog)
        self.verifier = Verifier(self.catalog, GatewaySettings(max_hits=self.config.max_hits))
        self.recipe = Recipe(
            phrasing=self.config.phrasing,
            optional_share=self.config.optional_share,
            max_hits=self.config.max_hits,
            waiting_share=self.config.waiting_share if training else 0.0,
            denied_share=self.config.denied_share if training else 0.0,
        )

    def specs(self, kind: str) -> list[ToolSpec]:
        """The tools whose turn it is, in places of a kind."""
        if kind not in self.by_kind:
            self.by_kind[kind] = self._specs(kind)
        return self.by_kind[kind]

    def _specs(self, kind: str) -> list[ToolSpec]:
        specs = [self._spec(name) for name in self.tools]
        if kind == "practice":
            return specs
        askable = {s.name: bool(droppable(s, self.hints[s.name])) for s in specs}
        if kind == "pair":
            return [s for s in specs if askable[s.name]]
        return [s for s in specs if not askable[s.name]] or specs

    async def make(self, job: Job) -> Made:
        """Rows for the candidates of a job."""
        tried: list[Tried] = []
        rows: list[Row] = []
        kind = job.task.removeprefix(CORRECTED)
        for item in job.items:
            if kind == "decline":
                found, more = await self._declined(item)
            elif kind != job.task:
                found, more = await self._corrected(kind, item)
            else:
                found, more = await self._place(kind, item)
            tried.append(found)
            rows += more
        return Made(tuple(tried), packed([row.to_record() for row in rows]))

    async def _place(self, kind: str, item: int) -> tuple[Tried, list[Row]]:
        """Twins, or one scenario, for a place: the first draw from `item` on that passes."""
        place, first = place_of(item)
        dropped: list[str] = []
        for attempt in range(first, ATTEMPTS):
            drawn = self._draw(kind, place, attempt)
            if isinstance(drawn, Dropped):
                dropped.append(drawn.reason)
                continue
            rows = await self._verified(self._twins(drawn), dropped)
            if rows:
                return self._tried(item + attempt - first, rows, dropped), rows
        return Tried(item, (), tuple(dropped)), []

    def _twins(self, drawn: Blueprint) -> list[Scenario]:
        twins = [scenarios.dispatch(drawn)]
        return twins if drawn.drop is None else [*twins, scenarios.clarify(drawn)]

    async def _declined(self, item: int) -> tuple[Tried, list[Row]]:
        """The request of a candidate that was taken, its tool taken out of the catalog."""
        taken, single = divmod(item, 2)
        drawn = self._drawn("single" if single else "pair", taken)
        twin = scenarios.decline(drawn, self.catalog, self.index, self.config.max_hits)
        dropped: list[str] = []
        rows = await self._verified([twin], dropped)
        return self._tried(item, rows, dropped), rows

    async def _corrected(self, kind: str, item: int) -> tuple[Tried, list[Row]]:
        """The dispatch row of a candidate that was taken, from a nudged episode."""
        scenario = scenarios.dispatch(self._drawn(kind, item))
        spec, hint = self._spec(scenario.tool), self.hints[scenario.tool]
        result = await correct(scenario, spec, hint, self.catalog, self.verifier.settings)
        if not isinstance(result, Correction):
            return Tried(item, (), (result,)), []
        dropped: list[str] = []
        row = await self._row(
            scenario, result.episode, "corrected", {"stall": result.kind}, dropped
        )
        rows = [row] if row else []
        return self._tried(item, rows, dropped), rows

    def _tried(self, item: int, rows: Sequence[Row], dropped: Sequence[str]) -> Tried:
        return Tried(item, tuple(key_of(row.scenario) for row in rows), tuple(dropped))

    def _in_turn(self, specs: Sequence[ToolSpec], place: int) -> tuple[ToolSpec, int]:
        """The tool of a place and how often it had its turn before.

        Every tool once a round, each round in another order; with a `worded_share`, that share
        of the training places goes round the tools with worded arguments alone.
        """
        share = self.config.worded_share if self.split == "train" else 0.0
        worded = [spec for spec in specs if self.hints[spec.name].composed]
        before = int(place * share)
        if worded and int((place + 1) * share) > before:
            specs, place = worded, before
        elif worded:
            place -= before
        rounds, position = divmod(place, len(specs))
        order = list(range(len(specs)))
        random.Random(f"{self.config.seed}/{self.split}/{rounds}").shuffle(order)
        return specs[order[position]], rounds

    def _drop(self, spec: ToolSpec, rounds: int) -> str:
        """Required arguments in turn, each tool starting at another one."""
        names = droppable(spec, self.hints[spec.name])
        start = random.Random(f"{self.config.seed}/{spec.name}").randrange(len(names))
        return names[(start + rounds) % len(names)]

    def _draw(self, kind: str, place: int, attempt: int) -> Blueprint | Dropped:
        spec, rounds = self._in_turn(self.specs(kind), place)
        key = f"{self.split}-{kind}-{place:04d}"
        return scenarios.make_blueprint(
            f"{key}-{attempt}" if attempt else key,
            self.split,
            spec,
            self.hints[spec.name],
            self.catalog,
            self.index,
            self.recipe,
            seed=self.config.seed,
            drop=None if kind == "single" else self._drop(spec, rounds),
        )

    def _drawn(self, kind: str, item: int) -> Blueprint:
        """A candidate that was taken, drawn again."""
        drawn = self._draw(kind, *place_of(item))
        assert isinstance(drawn, Blueprint)
        return drawn

    async def _verified(self, twins: Sequence[Scenario], dropped: list[str]) -> list[Row]:
        """Rows for all twins, or none: one bad twin drops its partner as well."""
        rows: list[Row] = []
        for scenario in twins:
            policy = OraclePolicy(scenario, self._spec(scenario.tool))
            settings = self.verifier.settings
            episode = await run_episode(scenario, self.catalog, settings, policy)
            row = await self._row(scenario, episode, "oracle", {}, dropped)
            if row is None:
                return []
            rows.append(row)
        return rows

    async def _row(
        self,
        scenario: Scenario,
        episode: Episode,
        source: RowSource,
        meta: Mapping[str, Any],
        dropped: list[str],
    ) -> Row | None:
        reason = await self.verifier.reason(scenario, episode, self.hints[scenario.tool])
        if reason is not None:
            dropped.append(reason)
            return None
        meta = {**meta, **row_meta(episode, scenario)}
        return Row(scenario.id, scenario, source, episode.messages, episode.tools, meta)

    def _spec(self, name: str) -> ToolSpec:
        spec = self.catalog.tool(name)
        assert spec is not None
        return spec


def key_of(scenario: Scenario) -> int:
    """64 bits of what makes two rows duplicates."""
    digest = hashlib.blake2b(duplicate_key(scenario).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")
