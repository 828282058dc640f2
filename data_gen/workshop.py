"""What comes of a candidate: a blueprint drawn, its twins run and verified.

(config, seed, place, attempt) fixes a draw, and nothing is remembered from one to the next, so a
job comes out the same in any process.
"""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breadcrumbs.data_gen import kinds, scenarios
from breadcrumbs.data_gen.collecting import (
    ATTEMPTS,
    place_of,
)
from breadcrumbs.data_gen.config import GenerateConfig, kinds_of, shards_hash, splits_of
from breadcrumbs.data_gen.correction import Correction, correct
from breadcrumbs.data_gen.dataset import (
    Row,
)
from breadcrumbs.data_gen.dataset import Source as RowSource
from breadcrumbs.data_gen.episodes import Episode, OraclePolicy, row_meta, run_episode
from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.histories import Historian
from breadcrumbs.data_gen.lookups import Setting
from breadcrumbs.data_gen.nudged import nudged_meta, source_of
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.practice import Practice, practice_tools
from breadcrumbs.data_gen.scenarios import Blueprint, Dropped, Recipe, Scenario, droppable
from breadcrumbs.data_gen.script import Kind
from breadcrumbs.data_gen.shaping import Shaper
from breadcrumbs.data_gen.shards import Job, Made, Tried, packed
from breadcrumbs.data_gen.splits import SPLITS, Split, Splits
from breadcrumbs.data_gen.verify import Verifier, duplicate_key
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import Catalog, ToolSpec, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.gateway.search import ToolIndex

CORRECTED = "corrected-"
"""Before the name of a task: its dispatch rows from nudged episodes."""
Paths = tuple[str, ...]


def practice_for(config: GenerateConfig, splits: Splits) -> Practice:
    """The made-up tools of a config, worded from the texts of the training tools.

    A tenth more than pairs: a tool whose drawn values cannot be told apart is passed over.
    """
    count = config.practice_pairs + config.practice_pairs // 10 + bool(config.practice_pairs)
    return practice_tools(count, config.seed, splits.catalog_for("train"))


def open_workshop(
    config: GenerateConfig, catalogs: Paths, hints: Paths, digest: str
) -> Callable[[Job], Made]:
    """A workshop in another process, from the same files.

    Raises:
        DataError: the files are not what they were.
    """
    catalog, known = load_catalog(catalogs or None), load_hints(hints or None)
    if shards_hash(config, catalog, known) != digest:
        raise DataError(
            "a worker reads other catalogs or hints than this process did; leave them alone while"
            " data is made and run the same command again"
        )
    splits = splits_of(config, catalog)
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
    setting: Setting = field(init=False)
    shaper: Shaper = field(init=False)
    by_kind: dict[str, list[ToolSpec]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        training = self.split == "train"
        self.index = ToolIndex(self.catalog)
        self.verifier = Verifier(self.catalog, GatewaySettings(max_hits=self.config.max_hits))
        self.recipe = Recipe(
            phrasing=self.config.phrasing,
            prompts=self.config.prompts,
            languages=self.config.languages,
            typo_share=self.config.typo_share,
            optional_share=self.config.optional_share,
            max_hits=self.config.max_hits,
            waiting_share=self.config.waiting_share if training else 0.0,
            denied_share=self.config.denied_share if training else 0.0,
        )
        self.shaper = self._new_shaper()
        self.setting = Setting(self.catalog, self.index, self.hints, self.recipe, self.config.seed)

    def _new_shaper(self) -> Shaper:
        config, settings = self.config, self.verifier.settings
        historian = Historian(
            self.split,
            self.catalog,
            self.index,
            self.hints,
            self.tools,
            self.recipe,
            config.seed,
        )
        return Shaper(config.shapes, self.split, config.seed, self.catalog, settings, historian)

    def specs(self, kind: str) -> list[ToolSpec]:
        """The tools whose turn it is, in places of a kind."""
        if kind not in self.by_kind:
            self.by_kind[kind] = self._specs(kind)
        return self.by_kind[kind]

    def _specs(self, kind: str) -> list[ToolSpec]:
        specs = [self._spec(name) for name in self.tools]
        if kind == "practice":
            return specs
        special = self._special(kind)
        if special is not None:
            return kinds.tools_for(special, specs, self.setting, self.config.seed)
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
            twins = drawn if isinstance(drawn, Dropped) else self._twins(kind, drawn)
            if isinstance(twins, Dropped):
                dropped.append(twins.reason)
                continue
            shaped = self.shaper.shaped(twins)
            if isinstance(shaped, Dropped):
                dropped.append(shaped.reason)
                continue
            rows = await self._verified(shaped, dropped)
            if rows:
                return self._tried(item + attempt - first, rows, dropped), rows
        return Tried(item, (), tuple(dropped)), []

    def _special(self, kind: str) -> Kind | None:
        return next((one for one in kinds_of(self.config, self.split) if one == kind), None)

    def _twins(self, kind: str, drawn: Blueprint) -> list[Scenario] | Dropped:
        special = self._special(kind)
        if special is not None:
            recipe = self._recipe(drawn.id)
            return kinds.twins_of(special, drawn, dataclasses.replace(self.setting, recipe=recipe))
        twins = [scenarios.dispatch(drawn)]
        return twins if drawn.drop is None else [*twins, scenarios.clarify(drawn)]

    async def _declined(self, item: int) -> tuple[Tried, list[Row]]:
        """The request of a candidate that was taken, its tool taken out of the catalog."""
        taken, single = divmod(item, 2)
        drawn = self._drawn("single" if single else "pair", taken)
        hits = self.shaper.hits(drawn.id)
        shaped = self.shaper.shaped([scenarios.decline(drawn, self.catalog, self.index, hits)])
        assert not isinstance(shaped, Dropped)  # no search for it has to find anything
        dropped: list[str] = []
        rows = await self._verified(shaped, dropped)
        return self._tried(item, rows, dropped), rows

    async def _corrected(self, kind: str, item: int) -> tuple[Tried, list[Row]]:
        """The dispatch row of a candidate that was taken, from a nudged episode."""
        twins = self._twins(kind, self._drawn(kind, item))
        shaped = twins if isinstance(twins, Dropped) else self.shaper.shaped(twins)
        assert not isinstance(shaped, Dropped)  # it was taken
        scenario = shaped[0]
        spec, hint = self._spec(scenario.tool), self.hints[scenario.tool]
        result = await correct(scenario, spec, hint, self.catalog, self.verifier.settings)
        if not isinstance(result, Correction):
            return Tried(item, (), (result,)), []
        dropped: list[str] = []
        mode = self.config.nudged
        episode = result.episode if mode == "remove" else result.nudged
        meta = {"stall": result.kind, **nudged_meta(mode, episode.messages)}
        row = await self._row(scenario, episode, source_of(mode), meta, dropped)
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

    def _drop(self, spec: ToolSpec, rounds: int, kind: str) -> str:
        """Required arguments in turn, each tool starting at another one."""
        names = kinds.askable(kind, spec, self.setting)
        start = random.Random(f"{self.config.seed}/{spec.name}").randrange(len(names))
        return names[(start + rounds) % len(names)]

    def _draw(self, kind: str, place: int, attempt: int) -> Blueprint | Dropped:
        spec, rounds = self._in_turn(self.specs(kind), place)
        key = f"{self.split}-{kind}-{place:04d}" + (f"-{attempt}" if attempt else "")
        drawn = scenarios.make_blueprint(
            key,
            self.split,
            spec,
            self.hints[spec.name],
            self.catalog,
            self.index,
            self._recipe(key),
            seed=self.config.seed,
            drop=None if kind == "single" else self._drop(spec, rounds, kind),
            language="en" if kind == "derived" else None,  # other words are English ones
        )
        if not isinstance(drawn, Blueprint) or self._special(kind) is not None:
            return drawn
        return scenarios.with_leave_asked(drawn) if self.config.prompts == "varied" else drawn

    def _recipe(self, blueprint: str) -> Recipe:
        """The recipe of a blueprint, whose search shows as many hits as its shape says."""
        return dataclasses.replace(self.recipe, max_hits=self.shaper.hits(blueprint))

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
