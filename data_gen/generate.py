"""The whole generation: config in, verified data set on disk out.

One asyncio loop runs every episode. The order of work is fixed by the config, so the same
config gives the same bytes.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass as checked

from breadcrumbs import __version__
from breadcrumbs.config import STRICT, to_dict
from breadcrumbs.data_gen import kinds, scenarios
from breadcrumbs.data_gen.correction import Correction, correct
from breadcrumbs.data_gen.dataset import Row, already_complete, read_manifest, write_dataset
from breadcrumbs.data_gen.dataset import Source as RowSource
from breadcrumbs.data_gen.derive import derive
from breadcrumbs.data_gen.derived_files import derived_files
from breadcrumbs.data_gen.episodes import Episode, OraclePolicy, row_meta, run_episode
from breadcrumbs.data_gen.hints import ToolHint, check_hints, load_hints
from breadcrumbs.data_gen.lookups import Setting
from breadcrumbs.data_gen.practice import Practice, practice_tools
from breadcrumbs.data_gen.requests import Phrasing
from breadcrumbs.data_gen.scenarios import Blueprint, Dropped, Recipe, Scenario, droppable
from breadcrumbs.data_gen.script import Kind
from breadcrumbs.data_gen.splits import Split, Splits, choose_held_out, make_splits
from breadcrumbs.data_gen.stats import kind_counts
from breadcrumbs.data_gen.verify import Verifier, duplicate_key
from breadcrumbs.endpoint_config import EndpointConfig, check_endpoint
from breadcrumbs.errors import CatalogError, ConfigError, DataError
from breadcrumbs.gateway.catalog import Catalog, ToolSpec, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.gateway.imports.importing import import_sources
from breadcrumbs.gateway.search import ToolIndex
from breadcrumbs.progress import Report

ATTEMPTS = 8
"""Draws per place before the place is given up."""


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
    kinds: dict[Kind, NonNegativeInt] = field(default_factory=dict)
    """Training pairs beside those of `train`, by special kind: what the twins turn on."""
    practice_pairs: int = Field(default=0, ge=0)
    """Training pairs beside those of `train`, each on a made-up tool of its own."""
    max_hits: int = Field(default=2, ge=1, le=20)
    """Search hits the gateway shows."""
    endpoint: EndpointConfig | None = None
    """A model that takes the scripted staller's place: `corrected_share` is asked of it."""
    reworded_share: float = Field(default=0.0, ge=0, le=1)
    """Share of training twins whose requests the endpoint puts into other words."""


def generate(config: GenerateConfig, out: Path, progress: Report) -> dict[str, Any]:
    """Make the data set in `out` unless it is there already; returns its manifest.

    Raises:
        ConfigError: held-out lists do not fit the catalog, or the endpoint cannot be asked.
        CatalogError: catalog and hints do not fit each other.
        DataError: `out` holds something else, cannot be written, or too few rows can be made.
        ModelError: the endpoint gives no usable answer; the same call goes on from there.
    """
    inputs = _inputs(config, out)
    config, catalog, hints = inputs.config, inputs.catalog, inputs.hints
    digest = inputs_hash(config, catalog, hints)
    if already_complete(out, digest):
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
    made = asyncio.run(_make_rows(config, splits, hints, progress))
    asked = _ask_endpoint(config, made, splits, hints, out, progress)
    manifest = {
        "inputs_hash": digest,
        "version": __version__,
        "config": config_dict(config),
        "tools": {split: splits.tools(split) for split in _amounts(config)},
        "dropped": dict(sorted(made.dropped.items())),
        **({"kinds": kind_counts(made.rows)} if config.kinds else {}),
        **({"missing_rows": dict(made.missing)} if made.missing else {}),
        **({"derived": inputs.derived} if inputs.derived else {}),
        **({"endpoint": asked} if asked else {}),
    }
    return write_dataset(out, made.rows, manifest, inputs.files)


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
    """The config as a manifest holds it; sets made without endpoint or kinds keep their bytes."""
    body = to_dict(config)
    if not config.kinds:
        del body["kinds"]
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
    return asked + 2 * (config.practice_pairs + sum(config.kinds.values()))


def practice_for(config: GenerateConfig, splits: Splits) -> Practice:
    """The made-up tools of a config, worded from the texts of the training tools.

    A tenth more than pairs: a tool whose drawn values cannot be told apart is passed over.
    """
    count = config.practice_pairs + config.practice_pairs // 10 + bool(config.practice_pairs)
    return practice_tools(count, config.seed, splits.catalog_for("train"))


async def _make_rows(
    config: GenerateConfig, splits: Splits, hints: Mapping[str, ToolHint], progress: Report
) -> _Made:
    dropped: Counter[str] = Counter()
    missing: Counter[str] = Counter()
    rows: list[Row] = []
    seen: set[str] = set()
    total = planned_rows(config)
    for split, amount in _amounts(config).items():

        def step(done: int, split: Split = split, before: int = len(rows)) -> None:
            progress(before + done, total, split)

        catalog = splits.catalog_for(split)
        maker = _Maker(config, split, catalog, hints, dropped, missing, seen, step)
        rows.extend(await maker.rows(splits.tools(split), amount))
        if split == "train":
            if not rows:
                raise DataError(f"train: no row can be made, dropped: {dict(dropped)}")
            rows.extend(await maker.special(splits.tools(split)))
            made = practice_for(config, splits)
            maker = _Maker(
                config, split, made.catalog, made.hints, dropped, missing, seen, step, maker.made
            )
            rows.extend(await maker.practice())
    return _Made(rows, dropped, missing)


@dataclass(frozen=True, slots=True)
class _Made:
    """What came of a config: rows, what was dropped by reason, what is missing by split."""

    rows: list[Row]
    dropped: Counter[str]
    missing: Counter[str]


def _ask_endpoint(
    config: GenerateConfig,
    made: _Made,
    splits: Splits,
    hints: Mapping[str, ToolHint],
    out: Path,
    progress: Report,
) -> dict[str, Any]:
    """Put what an endpoint made into the rows' places; says how many got how far."""
    if config.endpoint is None:
        return {}
    from breadcrumbs.data_gen.teacher import Shares, teach

    verifier = Verifier(splits.catalog_for("train"), GatewaySettings(max_hits=config.max_hits))
    # Beside the data set, which appears whole or not at all.
    answers = out.with_name(f"{out.name}.answers")
    shares = Shares(config.corrected_share, config.reworded_share)
    taught = asyncio.run(
        teach(config.endpoint, made.rows, shares, verifier, hints, answers, progress)
    )
    made.rows[:] = taught.rows
    made.dropped.update(taught.dropped)
    return taught.report


@dataclass(slots=True)
class _Maker:
    """Makes the rows of one split, in batch order."""

    config: GenerateConfig
    split: Split
    catalog: Catalog
    hints: Mapping[str, ToolHint]
    dropped: Counter[str]
    missing: Counter[str]
    seen: set[str]
    step: Callable[[int], None]
    index: ToolIndex = field(init=False)
    verifier: Verifier = field(init=False)
    recipe: Recipe = field(init=False)
    setting: Setting = field(init=False)
    made: int = 0
    """Rows made so far."""
    corrections: int = 0
    """Dispatch rows counted for the share of corrected ones."""

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
        self.setting = Setting(self.catalog, self.index, self.hints, self.recipe, self.config.seed)

    async def rows(self, tools: Sequence[str], amount: Amount) -> list[Row]:
        """Twins next to each other; declines two by two and singles two by two among them."""
        specs = [self._spec(name) for name in tools]
        askable = [s for s in specs if droppable(s, self.hints[s.name])]
        silent = [s for s in specs if s not in askable] or specs
        blueprints: list[Blueprint] = []
        pairs = await self._collect(askable, amount.pairs, "pair", blueprints)
        singles = await self._collect(silent, amount.singles, "single", blueprints)
        declines = await self._declines(blueprints, amount.declines)
        extras = _by_two([*declines, *(row for batch in singles for row in batch)])
        return [row for batch in spread(pairs, extras) for row in batch]

    async def practice(self) -> list[Row]:
        """Twins on made-up tools, each tool once."""
        specs = [self._spec(name) for name in self.catalog.names()]
        pairs = await self._collect(specs, self.config.practice_pairs, "practice", [])
        return [row for batch in pairs for row in batch]

    async def special(self, tools: Sequence[str]) -> list[Row]:
        """Twins of every kind the config asks for, kind after kind."""
        rows: list[Row] = []
        specs = [self._spec(name) for name in tools]
        for kind, count in self.config.kinds.items():
            fit = kinds.tools_for(kind, specs, self.setting, self.config.seed)
            rows += [row for batch in await self._collect(fit, count, kind, []) for row in batch]
        return rows

    async def _collect(
        self, specs: Sequence[ToolSpec], count: int, kind: str, blueprints: list[Blueprint]
    ) -> list[list[Row]]:
        """`count` places, tools in turn, so that every tool and argument has its share."""
        batches: list[list[Row]] = []
        place = 0
        while len(batches) < count:
            if not specs or place >= ATTEMPTS * count:
                self._short(len(batches), count, kind + " pair" * (kind in self.config.kinds))
                break
            spec, rounds = self._in_turn(specs, place)
            drop = None if kind == "single" else self._drop(spec, rounds, kind)
            batch = await self._place(spec, drop, kind, place, blueprints)
            if batch:
                batches.append(batch)
            place += 1
        return batches

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

    def _drop(self, spec: ToolSpec, rounds: int, kind: str) -> str:
        """Required arguments in turn, each tool starting at another one."""
        names = kinds.askable(kind, spec, self.setting)
        start = random.Random(f"{self.config.seed}/{spec.name}").randrange(len(names))
        return names[(start + rounds) % len(names)]

    async def _place(
        self, spec: ToolSpec, drop: str | None, kind: str, place: int, blueprints: list[Blueprint]
    ) -> list[Row]:
        key = f"{self.split}-{kind}-{place:04d}"
        for attempt in range(ATTEMPTS):
            drawn = self._draw(spec, drop, f"{key}-{attempt}" if attempt else key)
            twins = drawn if isinstance(drawn, Dropped) else self._twins(kind, drawn)
            if isinstance(twins, Dropped):
                self.dropped[twins.reason] += 1
                continue
            batch = await self._verified(twins)
            if batch and isinstance(drawn, Blueprint):
                blueprints.append(drawn)
                return batch
        return []

    def _twins(self, kind: str, drawn: Blueprint) -> list[Scenario] | Dropped:
        if kind in self.config.kinds:
            return kinds.twins_of(kind, drawn, self.setting)
        twins = [scenarios.dispatch(drawn)]
        return twins if drawn.drop is None else [*twins, scenarios.clarify(drawn)]

    def _draw(self, spec: ToolSpec, drop: str | None, key: str) -> Blueprint | Dropped:
        hint = self.hints[spec.name]
        return scenarios.make_blueprint(
            key,
            self.split,
            spec,
            hint,
            self.catalog,
            self.index,
            self.recipe,
            seed=self.config.seed,
            drop=drop,
        )

    async def _declines(self, blueprints: Sequence[Blueprint], count: int) -> list[Row]:
        """Requests from all over the split, their tools taken out of the catalog."""
        rows: list[Row] = []
        order = list(range(len(blueprints)))
        random.Random(f"{self.config.seed}/{self.split}/decline").shuffle(order)
        for position in order:
            if len(rows) == count:
                break
            twin = scenarios.decline(
                blueprints[position], self.catalog, self.index, self.config.max_hits
            )
            rows.extend(await self._verified([twin]))
        if len(rows) < count:
            self._short(len(rows), count, "decline")
        return rows

    def _short(self, made: int, count: int, kind: str) -> None:
        """Fewer rows than asked for: an error, or counted where the config says so."""
        if self.config.shortfall == "error":
            raise DataError(
                f"{self.split}: only {made} of {count} {kind}s can be made, dropped:"
                f" {dict(self.dropped)}; ask for fewer or add tools and hint values"
            )
        self.missing[f"{self.split} {kind}s"] = count - made

    async def _verified(self, twins: Sequence[Scenario]) -> list[Row]:
        """Rows for all twins, or none: one bad twin drops its partner as well."""
        batch: list[Row] = []
        for scenario in twins:
            key = duplicate_key(scenario)
            if key in self.seen:
                self.dropped["duplicate"] += 1
                return []
            row = await self._row(scenario)
            if row is None:
                return []
            batch.append(row)
        self.seen.update(duplicate_key(scenario) for scenario in twins)
        self.made += len(batch)
        self.step(self.made)
        return batch

    async def _row(self, scenario: Scenario) -> Row | None:
        episode, source, meta = await self._episode(scenario)
        reason = await self.verifier.reason(scenario, episode, self.hints[scenario.tool])
        if reason is not None:
            self.dropped[reason] += 1
            return None
        meta |= row_meta(episode, scenario)
        return Row(scenario.id, scenario, source, episode.messages, episode.tools, meta)

    async def _episode(self, scenario: Scenario) -> tuple[Episode, RowSource, dict[str, Any]]:
        """Oracle or corrected; a stall the radar misses is counted and replaced by the oracle."""
        spec, hint = self._spec(scenario.tool), self.hints[scenario.tool]
        settings = self.verifier.settings
        if self._correct_next(scenario):
            result = await correct(scenario, spec, hint, self.catalog, settings)
            if isinstance(result, Correction):
                return result.episode, "corrected", {"stall": result.kind}
            self.dropped[result] += 1
        policy = OraclePolicy(scenario, spec)
        return await run_episode(scenario, self.catalog, settings, policy), "oracle", {}

    def _correct_next(self, scenario: Scenario) -> bool:
        """Spread corrections evenly over the training dispatch rows."""
        if self.split != "train" or scenario.behaviour != "dispatch" or scenario.script:
            return False
        share = self.config.corrected_share if self.config.endpoint is None else 0.0
        self.corrections += 1
        return int(self.corrections * share) > int((self.corrections - 1) * share)

    def _spec(self, name: str) -> ToolSpec:
        spec = self.catalog.tool(name)
        assert spec is not None
        return spec


def spread(batches: Sequence[list[Row]], extras: Sequence[list[Row]]) -> list[list[Row]]:
    """All batches in order, with the extra ones at even distances among them."""
    placed = [((i + 0.5) / len(batches), 0, batch) for i, batch in enumerate(batches)]
    placed += [((i + 0.5) / len(extras), 1, batch) for i, batch in enumerate(extras)]
    return [batch for _, _, batch in sorted(placed, key=lambda item: item[:2])]


def _by_two(rows: Sequence[Row]) -> list[list[Row]]:
    return [list(rows[i : i + 2]) for i in range(0, len(rows), 2)]
