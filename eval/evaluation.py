"""One evaluation under way: every system in every cell, resumable.

What a model wrote is kept per cell and used again while model, data and generation settings are
the same; scores and intervals are computed anew each time, for every system by the same code.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from breadcrumbs.config import to_dict
from breadcrumbs.data_gen.dataset import gateway_settings, load_scenarios, read_manifest
from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.eval.config import SYSTEMS, Cell, EvalConfig, HeldOut, System
from breadcrumbs.eval.decision import (
    SEARCH_TOKENS,
    constant_turn,
    decision_cases,
    generate_texts,
    pick,
    renamed,
    search_cases,
    turn_of,
)
from breadcrumbs.eval.episodes import run_episodes
from breadcrumbs.eval.intervals import plain
from breadcrumbs.eval.measures import scenario_axes
from breadcrumbs.eval.metrics import Case, Scored, calls_search, score_turn, summarise
from breadcrumbs.eval.records import (
    CELLS,
    RESULTS,
    Record,
    fingerprint,
    model_identity,
    read_records,
    write_records,
)
from breadcrumbs.eval.systems import load_model, run_as
from breadcrumbs.eval.turn_figures import turn_breakdown
from breadcrumbs.eval.versions import versions
from breadcrumbs.files import write_text
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.messages import json_object
from breadcrumbs.progress import Report
from breadcrumbs.turns import Turn

if TYPE_CHECKING:
    from breadcrumbs.call_format import CallFormat
    from breadcrumbs.local_model import LocalModel

EPISODE_RULES = 1
"""Counts up when episodes are run or judged in another way."""
Results = dict[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class Evaluation:
    """One evaluation under way."""

    config: EvalConfig
    report: Report
    catalog: Catalog
    hints: Mapping[str, ToolHint]
    scenarios: Mapping[HeldOut, list[Scenario]]
    max_hits: int
    data_hash: str
    identities: Mapping[System, Mapping[str, str]]
    model: LocalModel | None = None
    form: CallFormat | None = None
    done: int = 0
    cases: dict[str, list[Case]] = field(default_factory=dict)

    @classmethod
    def prepare(cls, config: EvalConfig, report: Report) -> Evaluation:
        """Read data, catalog and hints; nothing is generated yet."""
        manifest = read_manifest(config.data)
        max_hits = gateway_settings(manifest).max_hits
        made = manifest["config"]
        splits: list[HeldOut] = list(config.splits)
        if config.episodes.count and "held_out_tools" not in splits:
            splits.append("held_out_tools")
        return cls(
            config,
            report,
            load_catalog(made.get("catalogs") or None),
            load_hints(made.get("hints") or None),
            {split: load_scenarios(config.data, split) for split in splits},
            max_hits,
            fingerprint([manifest["files"]]),
            {system: model_identity(config, system) for system in config.models},
        )

    def run(self) -> Results:
        """Do what is not done yet and write `results.json`."""
        self._check_counts()
        body: dict[str, Any] = {}
        details: dict[str, Any] = {}
        along: dict[str, Any] = {}
        for system in SYSTEMS:
            if system == "adapter" and system not in self.config.models:
                continue
            searches = self._searches(system)
            ends = self._episodes(system)
            for cell in self.config.cells:
                records, scored = self._cell(system, cell)
                first = cell.breadcrumb and cell.place == "held_out_tools"
                summary = summarise(
                    scored,
                    seed=self.config.seed,
                    searches=searches.get(cell.split, ()),
                    ends=[bool(record["success"]) for record in ends] if first else (),
                )
                _put(body, system, cell, {name: e.to_dict() for name, e in summary.items()})
                _put(details, system, cell, _details(scored, records))
                _put(along, system, cell, plain(turn_breakdown(records, self.config.seed)))
            self._put_faults(details, system, ends)
        return self._finish(body, details, along)

    def _check_counts(self) -> None:
        for cell in self.config.cells:
            pick(self.scenarios[cell.split], cell, f"{self.config.data}, {cell.split}")
        if self.config.episodes.count:
            pick(self.scenarios["held_out_tools"], self.config.episodes, str(self.config.data))

    @property
    def total(self) -> int:
        """Model turns, episodes counted as one each."""
        turns = sum(cell.turns for cell in self.config.cells)
        searches = sum(len(self._search_scenarios(split)) for split in self.config.splits)
        return len(self.config.models) * (turns + searches + self.config.episodes.count)

    def gateway_settings(self, breadcrumbs: bool) -> GatewaySettings:
        """The gateway that the data set knows, with or without tier 1."""
        return GatewaySettings(breadcrumbs=breadcrumbs, max_hits=self.max_hits)

    def chosen(self, cell: Cell) -> list[Scenario]:
        """The scenarios of a cell, as it shows them."""
        picked = pick(self.scenarios[cell.split], cell, f"{self.config.data}, {cell.split}")
        return [renamed(scenario, cell.naming) for scenario in picked]

    def _cell(self, system: System, cell: Cell) -> tuple[list[Record], list[Scored]]:
        """The cell's records, scored and on disk."""
        key = f"{cell.tier}-{cell.place}".replace(" ", "-")
        if key not in self.cases:
            chosen, settings = self.chosen(cell), self.gateway_settings(cell.breadcrumb)
            self.cases[key] = decision_cases(chosen, self.catalog, self.hints, settings)
        cases = self.cases[key]
        path = self.config.out / CELLS / f"{system}-{key}.jsonl"
        if system in self.config.models:
            texts = self._texts(system, cases, path, self.config.max_new_tokens, f"{system}, {key}")
            form = self._call_format()
            turns = [turn_of(text, case, form) for text, case in zip(texts, cases, strict=True)]
        else:
            turns = [constant_turn(system, case) for case in cases]
            texts = [turn.text for turn in turns]
        scored = [_scored(turn, case) for turn, case in zip(turns, cases, strict=True)]
        rows = zip(cases, texts, turns, scored, strict=True)
        records = [_record(case, text, turn, s) for case, text, turn, s in rows]
        write_records(path, self._mark(system, key), records)
        return records, scored

    def _texts(
        self, system: System, cases: Sequence[Case], path: Path, tokens: int, label: str
    ) -> list[str]:
        """What the model wrote for each case: kept text where there is any, else new."""
        kept = self._kept(path, system, cases)
        if kept is None:
            before = self.done
            kept = self._with_model(
                system, lambda model: self._generate(model, cases, tokens, before, label)
            )
        else:
            self.done += len(cases)
            self.report(self.done, self.total, f"{label}, kept")
        return kept

    def _kept(self, path: Path, system: System, cases: Sequence[Case]) -> list[str] | None:
        records = read_records(path, self._mark(system, path.stem.removeprefix(f"{system}-")))
        if records is None or [r["scenario"] for r in records] != [c.scenario.id for c in cases]:
            return None
        return [str(record["text"]) for record in records]

    def _generate(
        self, model: LocalModel, cases: Sequence[Case], tokens: int, before: int, label: str
    ) -> list[str]:
        def step(count: int) -> None:
            self.done = before + count
            self.report(self.done, self.total, label)

        return generate_texts(
            model,
            cases,
            max_new_tokens=tokens,
            text_budget=self.config.text_budget,
            batch_tokens=self.config.batch_tokens,
            step=step,
        )

    def _mark(self, system: System, what: str) -> str:
        """The fingerprint of one file: what decides the text in it."""
        config = self.config
        return fingerprint(
            [what, self.identities.get(system, system), self.data_hash, config.max_new_tokens]
            + [config.text_budget, self.max_hits]
        )

    def _with_model(self, system: System, work: Callable[[LocalModel], T]) -> T:
        """Run `work` with the model as `system`; it is loaded once, when first needed."""
        if self.model is None:
            self.report(self.done, self.total, "loading the model")
            self.model = load_model(self.config)
        return run_as(system, self.model, work)

    def _call_format(self) -> CallFormat:
        """How the model writes calls; for kept texts the tokenizer alone is read."""
        if self.form is None:
            from breadcrumbs.models import resolve_model
            from breadcrumbs.rendering import load_renderer

            renderer = (
                load_renderer(resolve_model(self.config.model))
                if self.model is None
                else self.model.renderer
            )
            self.form = renderer.call_format
        return self.form

    def _search_scenarios(self, split: HeldOut) -> list[Scenario]:
        return self.scenarios[split][: self.config.search_turns]

    def _searches(self, system: System) -> dict[HeldOut, list[bool]]:
        """By split: did the first turn hold a readable search? Constant policies take none."""
        found: dict[HeldOut, list[bool]] = {}
        if system not in self.config.models or not self.config.search_turns:
            return found
        for split in self.config.splits:
            cases = search_cases(self._search_scenarios(split), self.catalog, self.hints)
            path = self.config.out / CELLS / f"{system}-search-{split}.jsonl"
            texts = self._texts(system, cases, path, SEARCH_TOKENS, f"{system}, search, {split}")
            form = self._call_format()
            found[split] = [
                calls_search(turn_of(text, case, form))
                for text, case in zip(texts, cases, strict=True)
            ]
            records = [
                {"scenario": case.scenario.id, "text": text, "search_call": good}
                for case, text, good in zip(cases, texts, found[split], strict=True)
            ]
            write_records(path, self._mark(system, f"search-{split}"), records)
        return found

    def _episodes(self, system: System) -> list[Record]:
        """Records of whole episodes, run or kept."""
        episodes = self.config.episodes
        if system not in self.config.models or not episodes.count:
            return []
        path = self.config.out / CELLS / f"{system}-episodes.jsonl"
        rules = [EPISODE_RULES, episodes.dispatch, episodes.clarify, episodes.decline]
        mark = fingerprint([self._mark(system, "episodes"), *rules, episodes.max_rounds])
        records = read_records(path, mark)
        if records is None:
            chosen = pick(self.scenarios["held_out_tools"], episodes, str(self.config.data))
            records = self._with_model(system, lambda m: self._run_episodes(m, system, chosen))
            write_records(path, mark, records)
        else:
            self.done += episodes.count
        self.report(self.done, self.total, f"{system}, episodes")
        return records

    def _run_episodes(
        self, model: LocalModel, system: System, chosen: Sequence[Scenario]
    ) -> list[Record]:
        from breadcrumbs.local_model import BatchedPolicy

        def step() -> None:
            self.done += 1
            self.report(self.done, self.total, f"{system}, episodes")

        policy = BatchedPolicy(
            model,
            max_new_tokens=self.config.max_new_tokens,
            text_budget=self.config.text_budget,
        )
        return asyncio.run(
            run_episodes(
                policy,
                chosen,
                self.catalog,
                self.hints,
                self.gateway_settings(True),
                max_rounds=self.config.episodes.max_rounds,
                step=step,
            )
        )

    def _put_faults(self, details: dict[str, Any], system: System, ends: Sequence[Record]) -> None:
        if ends:
            faults = Counter(record["fault"] for record in ends if record["fault"])
            details[system]["episode_faults"] = dict(faults.most_common())

    def _finish(
        self, body: dict[str, Any], details: dict[str, Any], along: dict[str, Any]
    ) -> Results:
        results: Results = {
            "version": 1,
            "eval": body,
            "details": details,
            "breakdown": along,
            "config": to_dict(self.config),
            "models": {system: dict(identity) for system, identity in self.identities.items()},
            "data_sha256": self.data_hash,
            "versions": versions(),
        }
        write_text(self.config.out / RESULTS, json.dumps(results, indent=1) + "\n")
        self.report(self.total, self.total, "done")
        return results


def _scored(turn: Turn, case: Case) -> Scored:
    return Scored(case.scenario.behaviour, case.scenario.missing, score_turn(turn, case))


def _record(case: Case, text: str, turn: Turn, scored: Scored) -> Record:
    return {
        "scenario": case.scenario.id,
        "tool": case.scenario.tool,
        "twin": case.scenario.twin,
        "behaviour": scored.behaviour,
        "missing": list(scored.missing),
        "request": case.scenario.request,
        "text": text,
        "calls": [{"name": c.name, "arguments": dict(c.arguments)} for c in turn.calls],
        "problems": list(turn.problems),
        "axes": scenario_axes(case.scenario, case.spec, _others(case)),
        "score": scored.score.to_dict(),
    }


def _others(case: Case) -> int:
    """Tools that the search showed beside the right one."""
    payloads = [json_object(m.content) for m in case.messages if m.role == "tool"]
    found = [p["matches"] for p in payloads if "matches" in p]
    return sum(match["name"] != case.scenario.tool for match in found[-1]) if found else 0


def _put(tree: dict[str, Any], system: System, cell: Cell, value: Any) -> None:
    tree.setdefault(system, {}).setdefault(cell.tier, {})[cell.place] = value


def _details(scored: Sequence[Scored], records: Sequence[Record]) -> dict[str, Any]:
    """What lies behind a cell's figures, over dispatch: stalls, faults of calls, by tool."""
    stalls = Counter(s.score.stall for s in scored if s.score.stall)
    act = [s.score for s in scored if s.behaviour == "dispatch"]
    faults = Counter(fault for score in act for fault in score.faults)
    by_tool: dict[str, dict[str, int]] = {}
    for record in records:
        if record["behaviour"] == "dispatch":
            row = by_tool.setdefault(record["tool"], {"n": 0, "dad": 0, "exact": 0})
            row["n"] += 1
            row["dad"] += record["score"]["dispatched"]
            row["exact"] += record["score"]["exact"]
    return {
        "stalls": dict(stalls.most_common()),
        "faults": dict(faults.most_common(12)),
        "by_tool": by_tool,
    }
