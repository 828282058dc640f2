"""Whole episodes of several policies under one or all combinations of tiers, resumable by cell.

Each cell's transcripts are one file, kept while policy, data and rules are the same; every figure
is computed anew from them, so that a report needs no model.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.config import to_dict
from breadcrumbs.data_gen.dataset import gateway_settings, load_scenarios, read_manifest
from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.errors import DataError
from breadcrumbs.eval.decision import pick, spec_of
from breadcrumbs.eval.effects import effects
from breadcrumbs.eval.intervals import plain
from breadcrumbs.eval.measures import (
    BY_NAME,
    Observed,
    breakdown,
    observe,
    summarise_runs,
    units_of,
)
from breadcrumbs.eval.players import SCRIPTED
from breadcrumbs.eval.playing import Meter, Stage, Tiers, every_combination, play_all
from breadcrumbs.eval.records import (
    CELLS,
    SCORES,
    SUITE,
    fingerprint,
    read_records,
    write_records,
)
from breadcrumbs.eval.suite_config import SuiteConfig
from breadcrumbs.eval.systems import MODELS, load_model, run_as
from breadcrumbs.eval.transcripts import Transcript, read_transcripts
from breadcrumbs.eval.versions import versions
from breadcrumbs.files import write_json_lines, write_text
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.messages import Message
from breadcrumbs.progress import Report
from breadcrumbs.turns import Policy

if TYPE_CHECKING:
    from breadcrumbs.local_model import LocalModel

ANSWERS = "answers"
"""Folder of what an endpoint answered."""
RULES = 1
"""Counts up when episodes are played in another way."""
Results = dict[str, Any]


def run_suite(config: SuiteConfig, report: Report) -> Results:
    """Play what is not played yet, score everything, write `episodes.json` and a file a cell.

    Raises:
        ConfigError: `out` cannot be written, or the adapter has no weights.
        DataError: no complete data set, or fewer scenarios than wanted.
        ModelError: the model cannot be loaded.
    """
    return Suite.prepare(config, report).run()


@dataclass(slots=True)
class Suite:
    """One suite under way."""

    config: SuiteConfig
    report: Report
    catalog: Catalog
    hints: Mapping[str, ToolHint]
    scenarios: Sequence[Scenario]
    there: int
    """Scenarios that the split has."""
    max_hits: int
    data_hash: str
    model: LocalModel | None = None
    done: int = 0
    made: list[str] = field(default_factory=list)
    """Cells that were played now and not read from disk."""

    @classmethod
    def prepare(cls, config: SuiteConfig, report: Report) -> Suite:
        """Read data, catalog and hints; nothing is played yet."""
        manifest = read_manifest(config.data)
        made = manifest["config"]
        stored = load_scenarios(config.data, config.split)
        return cls(
            config,
            report,
            load_catalog(made.get("catalogs") or None),
            load_hints(made.get("hints") or None),
            choose(stored, config),
            len(stored),
            gateway_settings(manifest).max_hits,
            fingerprint([manifest["files"]]),
        )

    def run(self) -> Results:
        """All cells, then what they say."""
        figures: dict[str, Any] = {}
        along: dict[str, Any] = {}
        found: dict[str, Any] = {}
        for policy in self.config.policies:
            cells = {tiers: self._observed(policy, tiers) for tiers in self._cells()}
            figures[policy] = {}
            for tiers, seen in cells.items():
                summary = summarise_runs(seen, self.config.seed)
                figures[policy][tiers.name] = {n: e.to_dict() for n, e in summary.items()}
                self._write_cell(policy, tiers, figures[policy][tiers.name], seen)
            along[policy] = plain(breakdown(cells[Tiers()], self.config.seed))
            if self.config.ablation:
                found[policy] = self._effects(cells)
        results = {
            "version": 1,
            "episodes": figures,
            "breakdown": along,
            **({"effects": found} if found else {}),
            "scenarios": {
                "played": len(self.scenarios),
                "of": self.there,
                "split": self.config.split,
                "runs": self.config.runs,
            },
            "config": to_dict(self.config),
            "models": {name: dict(self.config.identity(name)) for name in self._models},
            "data_sha256": self.data_hash,
            "versions": versions(),
        }
        write_text(self.config.out / SUITE, json.dumps(results, indent=1) + "\n")
        self.report(self.total, self.total, "done")
        return results

    def stage(self, tiers: Tiers) -> Stage:
        """What all episodes of a cell share."""
        rounds = self.config.max_rounds
        return Stage(self.catalog, self.hints, self.max_hits, tiers, max_rounds=rounds)

    @property
    def total(self) -> int:
        """Episodes in all."""
        cells = len(self.config.policies) * len(self._cells())
        return cells * len(self.scenarios) * self.config.runs

    def _cells(self) -> list[Tiers]:
        return list(every_combination()) if self.config.ablation else [Tiers()]

    @property
    def _models(self) -> list[str]:
        return [name for name in self.config.policies if name in (*MODELS, "endpoint")]

    def _effects(self, cells: Mapping[Tiers, Sequence[Observed]]) -> dict[str, Any]:
        return {
            name: [effect.to_dict() for effect in found]
            for name in BY_NAME
            if (
                found := effects(
                    {tiers: units_of(seen, name) for tiers, seen in cells.items()},
                    self.config.seed,
                )
            )
        }

    def _observed(self, policy: str, tiers: Tiers) -> list[Observed]:
        return [observe(transcript) for transcript in self._transcripts(policy, tiers)]

    def _transcripts(self, policy: str, tiers: Tiers) -> list[Transcript]:
        """A cell's transcripts, from disk where they are the same policy's on the same data."""
        path = self._path(policy, tiers, "jsonl")
        ids = [scenario.id for scenario in self.scenarios]
        mark = fingerprint(
            [RULES, self.config.identity(policy), tiers.name, self.data_hash, self.max_hits, ids]
            + [self.config.runs, self.config.max_rounds]
        )
        records = read_records(path, mark)
        if records is None:
            played = self._play(policy, tiers)
            write_records(path, mark, [transcript.to_record() for transcript in played])
            self.made.append(path.stem)
            return played
        self.done += len(records)
        self.report(self.done, self.total, f"{policy}, {tiers.name}, kept")
        return read_transcripts(records, self.catalog, self.hints)

    def _path(self, policy: str, tiers: Tiers, ending: str) -> Path:
        return self.config.out / CELLS / f"{policy}_{tiers.name}.{ending}"

    def _write_cell(
        self, policy: str, tiers: Tiers, figures: Mapping[str, Any], seen: Sequence[Observed]
    ) -> None:
        """The cell's figures, small enough to be committed, and what each run adds to them."""
        body = {"policy": policy, "tiers": tiers.name, "figures": figures}
        write_text(self._path(policy, tiers, "json"), json.dumps(body, indent=1) + "\n")
        write_json_lines(self._path(policy, tiers, SCORES), [one.to_dict() for one in seen])

    def _play(self, policy: str, tiers: Tiers) -> list[Transcript]:
        stage = self.stage(tiers)

        def step() -> None:
            self.done += 1
            self.report(self.done, self.total, f"{policy}, {tiers.name}")

        def play(policy_for: Callable[[Scenario, int], Policy], meter: Meter | None) -> Any:
            return asyncio.run(
                play_all(
                    policy_for,
                    self.scenarios,
                    stage,
                    runs=self.config.runs,
                    meter=meter,
                    step=step,
                )
            )

        played: list[Transcript]
        if policy == "endpoint":
            played = self._ask_endpoint(stage, step)
        elif policy in MODELS:
            played = self._with_model(policy, play)
        else:
            played = play(self._scripted(policy), None)
        return played

    def _ask_endpoint(self, stage: Stage, step: Callable[[], None]) -> list[Transcript]:
        from breadcrumbs.eval.remote_playing import play_remote

        assert self.config.endpoint is not None
        return asyncio.run(
            play_remote(
                self.config.endpoint,
                self.config.out / ANSWERS,
                self.scenarios,
                stage,
                runs=self.config.runs,
                step=step,
            )
        )

    def _scripted(self, policy: str) -> Callable[[Scenario, int], Policy]:
        def make(scenario: Scenario, number: int) -> Policy:
            spec = spec_of(scenario, self.catalog)
            return SCRIPTED[policy](scenario, spec, self.hints.get(scenario.tool), number)

        return make

    def _with_model(self, policy: str, play: Callable[..., Any]) -> Any:
        from breadcrumbs.local_model import BatchedPolicy

        if self.model is None:
            self.report(self.done, self.total, "loading the model")
            self.model = load_model(self.config)
        model = self.model
        shared = BatchedPolicy(
            model,
            max_new_tokens=self.config.max_new_tokens,
            text_budget=self.config.text_budget,
        )

        def meter(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> int:
            return len(model.renderer.prompt_ids(messages, tools))

        return run_as(policy, model, lambda _: play(lambda scenario, number: shared, meter))


def choose(scenarios: Sequence[Scenario], config: SuiteConfig) -> list[Scenario]:
    """The first plain scenarios of each behaviour, then the first pairs of each kind.

    Raises:
        DataError: the data set has fewer than are wanted, or they cannot be scored here.
    """
    where = f"{config.data}, {config.split}"
    chosen = pick([s for s in scenarios if not s.kind], config.plain, where)
    for kind, pairs in config.kinds.items():
        found = [s for s in scenarios if s.kind == kind]
        twins = list(dict.fromkeys(s.twin for s in found))[:pairs]
        if len(twins) < pairs:
            raise DataError(
                f"{where}: {pairs} {kind} pairs wanted, the data set has {len(twins)}; lower"
                f" kinds.{kind}, or generate with more under eval_kinds"
            )
        chosen += [s for s in found if s.twin in twins]
    if not chosen:
        raise DataError(f"{where}: no scenario is asked for; set plain or kinds")
    for scenario in chosen:
        # Conduct is read off English words, user turns and payloads as the gateway makes them.
        shape = scenario.shape
        if scenario.surface.language != "en" or shape.history or not shape.words().is_own:
            raise DataError(
                f"{where}: {scenario.id}: whole episodes are scored in English, in the gateway's"
                " own words, without earlier requests; generate with languages [en] and no namings"
                " or history under shapes"
            )
    return chosen
