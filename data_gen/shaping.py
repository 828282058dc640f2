"""Draws the shapes of scenarios: a config's ranges in, one `Shape` for all twins out."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT
from breadcrumbs.data_gen.distractors import PER_TOOL, near_names
from breadcrumbs.data_gen.episodes import open_gateway
from breadcrumbs.data_gen.histories import Historian
from breadcrumbs.data_gen.lengthening import schema_length
from breadcrumbs.data_gen.scenarios import Dropped, Scenario
from breadcrumbs.data_gen.shape import NO_NAMING, Shape
from breadcrumbs.data_gen.splits import Split
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import MAX_HITS_ASKED, GatewaySettings
from breadcrumbs.gateway.namings import naming_of

MOST_EARLIER = 8
"""Requests before the scenario's own at most."""
MOST_READ = 4
"""Schemas that are read in one call at most."""
Range = tuple[int, int]
"""From, to; drawn so that half lies below the geometric mean, where nothing else is said."""


@checked(config=STRICT)
class Shapes:
    """Which shapes a data set has; as it stands, one alone."""

    namings: tuple[str, ...] = (NO_NAMING,)
    """Names and payload shapes of the meta-tools, drawn evenly."""
    held_out_namings: tuple[str, ...] = ()
    """Those of the held-out splits, and of no training row; none means they have the others."""
    hits: Range | None = None
    """Hits that a search shows at most; None leaves it to `max_hits`."""
    near_share: float = Field(default=0.0, ge=0, le=1)
    """Share of blueprints whose search is filled up to its hits with made-up near tools."""
    parallel_share: float = Field(default=0.0, ge=0, le=1)
    """Share of blueprints where several of the hits are read in one call."""
    schema_tokens: Range | None = None
    """How long the right tool's schema is made, four characters a token; None leaves it."""
    history: Range = (0, 0)
    """Requests that were made and done before, from, to, drawn evenly."""

    def __post_init__(self) -> None:
        for name in (*self.namings, *self.held_out_namings):
            try:
                naming_of(name)
            except ConfigError as error:
                raise ValueError(str(error)) from error
        if not self.namings:
            raise ValueError("namings: name one at least")
        if both := sorted(set(self.namings) & set(self.held_out_namings)):
            raise ValueError(f"held_out_namings: {both[0]} is in namings too; a row would show it")
        _check_range("hits", self.hits, 1, MAX_HITS_ASKED)
        _check_range("schema_tokens", self.schema_tokens, 100, 32_000)
        _check_range("history", self.history, 0, MOST_EARLIER)


def _check_range(name: str, given: Range | None, least: int, most: int) -> None:
    if given is not None and not least <= given[0] <= given[1] <= most:
        raise ValueError(f"{name}: give [from, to] within {least} and {most}, the lower one first")


def namings_for(split: Split, shapes: Shapes) -> tuple[str, ...]:
    """The namings that rows of a split may have."""
    return shapes.namings if split == "train" else shapes.held_out_namings or shapes.namings


@dataclass(frozen=True, slots=True)
class Shaper:
    """Draws shapes for the scenarios of one split; seed and blueprint fix each."""

    shapes: Shapes
    split: Split
    seed: int
    catalog: Catalog
    settings: GatewaySettings
    historian: Historian

    def hits(self, blueprint: str) -> int:
        """How many hits a search shows in the scenarios of a blueprint."""
        return self._drawn(blueprint).hits or self.settings.max_hits

    def shaped(self, twins: Sequence[Scenario]) -> list[Scenario] | Dropped:
        """The twins of one blueprint under one shape."""
        first = twins[0]
        rng = random.Random(f"{self.seed}/{first.blueprint}/fit")
        shape = self._drawn(first.blueprint)
        if 0 < shape.schema_tokens <= schema_length(self.catalog.tools[first.tool]):
            shape = dataclasses.replace(shape, schema_tokens=0)
        if rng.random() < self.shapes.near_share and shape.hits != 1:
            shape = dataclasses.replace(shape, near=self._near(first, shape, rng))
        if rng.random() < self.shapes.parallel_share and first.behaviour != "decline":
            shape = dataclasses.replace(shape, read=self._read(first, shape, rng))
        crowded = bool(shape.near) and first.behaviour != "decline"
        if crowded and first.tool not in self._found(first, shape):
            return Dropped("search misses the tool among made-up ones near it")
        if count := rng.randint(*self.shapes.history):
            history = self.historian.draw(twins, count, self.hits(first.blueprint), rng)
            shape = dataclasses.replace(shape, history=history)
        return [dataclasses.replace(twin, shape=shape) for twin in twins]

    def _drawn(self, blueprint: str) -> Shape:
        """What needs no look at the scenario."""
        rng = random.Random(f"{self.seed}/{blueprint}/shape")
        return Shape(
            naming=rng.choice(namings_for(self.split, self.shapes)),
            hits=_from(self.shapes.hits, rng),
            schema_tokens=_from(self.shapes.schema_tokens, rng),
        )

    def _near(self, scenario: Scenario, shape: Shape, rng: random.Random) -> tuple[str, ...]:
        """As many made-up tools as the search has room for; one at least."""
        hits = shape.hits or self.settings.max_hits
        made = near_names(self.catalog, scenario.tool)
        crowded = dataclasses.replace(shape, hits=MAX_HITS_ASKED + PER_TOOL, near=tuple(made))
        found = self._found(scenario, crowded)
        near = [name for name in found if name in set(made)]
        room = max(hits - (len(found) - len(near)), min(1, hits - 1))
        return tuple(sorted(rng.sample(near, min(room, len(near)))))

    def _read(self, scenario: Scenario, shape: Shape, rng: random.Random) -> tuple[str, ...]:
        """The right tool and some other hits, in any order; nothing where there is no other."""
        others = [name for name in self._found(scenario, shape) if name != scenario.tool]
        if not others:
            return ()
        names = rng.sample(others, min(len(others), rng.randrange(1, MOST_READ)))
        names.insert(rng.randrange(len(names) + 1), scenario.tool)
        return tuple(names)

    def _found(self, scenario: Scenario, shape: Shape) -> list[str]:
        """What the scenario's search shows under a shape, best first: the gateway is asked."""
        shown = dataclasses.replace(scenario, shape=shape)
        _, session = open_gateway(shown, self.catalog, self.settings)
        limit = shape.hits or self.settings.max_hits
        found = session.gateway.search(scenario.search_query, limit, session.principal)
        return [spec.name for spec in found]


def _from(given: Range | None, rng: random.Random) -> int:
    """A number of the range, as often below its geometric mean as above; 0 where there is none."""
    if given is None:
        return 0
    low, high = given
    return round(math.exp(rng.uniform(math.log(low), math.log(high))))
