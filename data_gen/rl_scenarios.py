"""Scenarios for training by reward: rows without the assistant, rebuilt and run at the gateway.

What a trainer shows a model is `prompt`; `expected` and `scenario` are what a reward is computed
from and never shown. `world` is the config the data set was made with: it names catalogs, hints,
splits and made-up tools, so that a row alone opens the same gateway over the same world.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from breadcrumbs.config import parse
from breadcrumbs.data_gen.config import GenerateConfig, config_dict
from breadcrumbs.data_gen.dataset import (
    Row,
    read_manifest,
    read_records,
    training_rows,
    write_parquet,
)
from breadcrumbs.data_gen.episodes import open_gateway, opening
from breadcrumbs.data_gen.rebuilding import Rebuilt, config_of, rebuild
from breadcrumbs.data_gen.scenarios import Scenario, scenario_from_dict
from breadcrumbs.data_gen.splits import Split
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.gateway import GatewaySession, SimulatedGateway
from breadcrumbs.messages import compact_json
from breadcrumbs.openai_wire import message_out

TEXTS = ("id", "twin", "split", "behaviour", "domain", "tool", "system", "user", "stall")
JSONS = ("expected", "scenario", "world")


def scenario_record(row: Row, world: Mapping[str, Any]) -> dict[str, Any]:
    """A row as a scenario. `stall` is the kind that was nudged at its prefix, empty for none."""
    scenario = row.scenario
    return {
        "id": row.id,
        "twin": row.twin,
        "split": row.split,
        "behaviour": row.behaviour,
        "domain": scenario.domain,
        "tool": scenario.tool,
        "system": scenario.system_prompt,
        "user": scenario.request,
        "stall": str(row.meta.get("stall", "")),
        "seed": scenario.seed,
        "prompt": [message_out(message) for message in opening(scenario)],
        "expected": {
            "behaviour": row.behaviour,
            "tool": scenario.tool,
            "arguments": dict(scenario.gold_arguments),
            "missing": list(scenario.missing),
            "state_hash": row.meta["state_hash"],
            "queue": row.meta["queue"],
        },
        "scenario": scenario.to_dict(),
        "world": dict(world),
    }


def scenarios_of(folder: Path, split: Split | None = None) -> dict[str, dict[str, Any]]:
    """A data set's scenarios by the id of their row, in stored order.

    Raises:
        DataError: no generated data set there.
    """
    world = config_dict(config_of(folder, read_manifest(folder)))
    return {row.id: scenario_record(row, world) for row in training_rows(folder, split)}


def write_scenarios(folder: Path, out: Path, split: Split | None = None) -> list[dict[str, Any]]:
    """Write a data set's scenarios as one Parquet file; it appears whole or not at all.

    Raises:
        DataError: no generated data set there, no row in the split, or `out` cannot be written.
    """
    records = list(scenarios_of(folder, split).values())
    if not records:
        raise DataError(f"{folder}: no rows in the split; choose another one")
    fresh = out.with_name(f"{out.name}.new")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        write_parquet(fresh, table_of(records))
        fresh.replace(out)
    except OSError as error:
        raise DataError(
            f"{out}: cannot write: {error.strerror or error}; choose another --out or make room"
        ) from error
    return records


def table_of(records: Sequence[Mapping[str, Any]]) -> Any:
    """Scenarios as an Arrow table, with the features of the `datasets` library."""
    from datasets import Dataset, Features, Json, List, Value

    columns: dict[str, Any] = {name: Value("string") for name in TEXTS}
    columns |= {"seed": Value("int64"), "prompt": List(Json())}
    columns |= {name: Json() for name in JSONS}
    ordered = {name: [record[name] for record in records] for name in columns}
    return Dataset.from_dict(ordered, features=Features(columns)).data.table


def read_scenarios(path: Path) -> list[dict[str, Any]]:
    """The records of a file, JSON columns as values.

    Raises:
        DataError: the file is missing, or holds something else.
    """
    stored = read_records(path)
    try:
        return [_values(record) for record in stored]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(
            f"{path}: holds no scenarios; write them with: breadcrumbs data scenarios"
        ) from error


def _values(record: Mapping[str, Any]) -> dict[str, Any]:
    read = {name: json.loads(record[name]) for name in JSONS}
    prompt = [json.loads(message) for message in record["prompt"]]
    return {**record, **read, "prompt": prompt}


class Worlds:
    """Opens gateways for scenario records; what they share is read once."""

    def __init__(self) -> None:
        self._known: dict[str, Rebuilt] = {}

    def rebuilt(self, record: Mapping[str, Any]) -> tuple[Scenario, Rebuilt]:
        """The scenario, and the catalogs, hints and gateway settings around it.

        Raises:
            ConfigError, CatalogError: the record's world cannot be read here.
            DataError: its scenario cannot.
        """
        world = dict(record["world"])
        key = compact_json(world)
        if key not in self._known:
            where = f"scenario {record['id']}: world"
            self._known[key] = rebuild(parse(world, GenerateConfig, where))
        return scenario_from_dict(record["scenario"]), self._known[key]

    def open(self, record: Mapping[str, Any]) -> tuple[SimulatedGateway, GatewaySession]:
        """A fresh gateway over the scenario's own world, and the session a policy calls.

        Raises:
            ConfigError, CatalogError, DataError: as `rebuilt`.
        """
        scenario, rebuilt = self.rebuilt(record)
        return open_gateway(scenario, rebuilt.catalog_of(scenario), rebuilt.settings)
