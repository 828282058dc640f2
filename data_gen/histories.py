"""What was asked for and done in a conversation before the request that a scenario is about."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breadcrumbs.data_gen.grounding import ground
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.scenarios import Dropped, Recipe, Scenario, dispatch, make_blueprint
from breadcrumbs.data_gen.shape import Past
from breadcrumbs.data_gen.splits import Split
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.search import ToolIndex
from breadcrumbs.messages import Message


@dataclass(frozen=True, slots=True)
class Historian:
    """Draws earlier requests from the tools of one split."""

    split: Split
    catalog: Catalog
    index: ToolIndex
    hints: Mapping[str, ToolHint]
    tools: Sequence[str]
    recipe: Recipe
    seed: int

    def draw(
        self, twins: Sequence[Scenario], count: int, hits: int, rng: random.Random
    ) -> tuple[Past, ...]:
        """At most `count` requests for other tools than the twins use; fewer where there are none.

        None of them says an argument that a twin lacks.
        """
        pool = self._pool(twins)
        recipe = dataclasses.replace(self.recipe, max_hits=hits)
        chosen = rng.sample(pool, min(count, len(pool)))
        keys = (f"{twins[0].blueprint}-before-{number}" for number in range(len(chosen)))
        drawn = (self._past(key, spec, recipe) for key, spec in zip(keys, chosen, strict=True))
        return tuple(past for past in drawn if past is not None)

    def _pool(self, twins: Sequence[Scenario]) -> list[ToolSpec]:
        used = {name for twin in twins for name in (twin.tool, *twin.hidden_tools)}
        used |= {step.tool for twin in twins for step in twin.steps}
        missing = {name for twin in twins for name in twin.missing}
        roles = self.catalog.tools[twins[0].tool].allow[:1]
        specs = (self.catalog.tools[name] for name in self.tools if name not in used)
        return [
            spec
            for spec in specs
            if spec.open_to(roles)
            and not (self.hints[spec.name].topics or self.hints[spec.name].composed)
            and not missing & set(spec.input_schema["properties"])
        ]

    def _past(self, key: str, spec: ToolSpec, recipe: Recipe) -> Past | None:
        """A request that says every value; None where none can be drawn."""
        hint = self.hints[spec.name]
        drawn = make_blueprint(
            key,
            self.split,
            spec,
            hint,
            self.catalog,
            self.index,
            recipe,
            seed=self.seed,
            drop=None,
        )
        if isinstance(drawn, Dropped):
            return None
        acts = dispatch(drawn)
        said = [Message("user", acts.request)]
        if None in ground(spec, acts.gold_arguments, said).values():
            return None
        return Past(acts.request, acts.search_query, acts.tool, acts.gold_arguments)
