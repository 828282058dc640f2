"""The tools, worlds and gateway of a data set that is there already, from its config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadcrumbs.config import parse
from breadcrumbs.data_gen.config import GenerateConfig, splits_of
from breadcrumbs.data_gen.dataset import MANIFEST, Row, gateway_settings
from breadcrumbs.data_gen.episodes import Episode
from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.practice import Practice
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.splits import Splits
from breadcrumbs.data_gen.verify import Verifier
from breadcrumbs.data_gen.workshop import practice_for
from breadcrumbs.events import Done
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What a data set was made with."""

    catalog: Catalog
    """All tools but the made-up ones."""
    hints: Mapping[str, ToolHint]
    splits: Splits
    practice: Practice
    settings: GatewaySettings

    def catalog_of(self, scenario: Scenario) -> Catalog:
        """The tools a scenario is run among."""
        if scenario.domain == PRACTICE:
            return self.practice.catalog
        return self.splits.catalog_for(scenario.split)

    def hint_of(self, scenario: Scenario) -> ToolHint | None:
        """The hint of a scenario's tool; None where nobody has one."""
        known = self.practice.hints if scenario.domain == PRACTICE else self.hints
        return known.get(scenario.tool)

    def verifier_of(self, scenario: Scenario) -> Verifier:
        """The checks for its rows."""
        return Verifier(self.catalog_of(scenario), self.settings)


def rebuild(config: GenerateConfig) -> Rebuilt:
    """Read again what a resolved config names.

    Raises:
        CatalogError: catalogs or hints cannot be read.
        ConfigError: held-out lists do not fit the catalog.
    """
    catalog, hints = load_catalog(config.catalogs or None), load_hints(config.hints or None)
    splits = splits_of(config, catalog)
    settings = GatewaySettings(max_hits=config.max_hits)
    return Rebuilt(catalog, hints, splits, practice_for(config, splits), settings)


def config_of(folder: Path, manifest: Mapping[str, Any]) -> GenerateConfig:
    """The resolved config of a generated data set.

    Raises:
        DataError: it was imported, so no config of ours made it.
        ConfigError: the manifest's config cannot be read.
    """
    gateway_settings(manifest)
    return parse(manifest["config"], GenerateConfig, f"{folder / MANIFEST}: config")


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
