"""Outside benchmarks replayed through this gateway, one scored turn an item, resumable by set.

What a system wrote is kept per set and used again while system, items and settings are the same;
figures are computed anew from it each time, by the same code for every system.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from breadcrumbs.config import to_dict
from breadcrumbs.errors import DataError
from breadcrumbs.eval.decision import texts_after
from breadcrumbs.eval.intervals import plain
from breadcrumbs.eval.outside_bfcl import load_bfcl
from breadcrumbs.eval.outside_config import OutsideConfig, OutsideSystem
from breadcrumbs.eval.outside_items import SIDES, Item, Loaded
from breadcrumbs.eval.outside_replay import OutsideCase, replay_all
from breadcrumbs.eval.outside_scores import (
    by_said,
    outside_figures,
    outside_turn,
    score_outside,
)
from breadcrumbs.eval.outside_when2call import load_when2call
from breadcrumbs.eval.records import (
    CELLS,
    OUTSIDE,
    Record,
    file_hash,
    fingerprint,
    read_records,
    write_records,
)
from breadcrumbs.eval.systems import MODELS, load_model, run_as
from breadcrumbs.eval.versions import versions
from breadcrumbs.files import write_text
from breadcrumbs.messages import ToolCall
from breadcrumbs.policies import whole_turn
from breadcrumbs.progress import Report
from breadcrumbs.turns import Turn

if TYPE_CHECKING:
    from breadcrumbs.local_model import LocalModel

ANSWERS = "answers"
RULES = 1
"""Counts up when items are replayed in another way."""
Results = dict[str, Any]


def run_outside(config: OutsideConfig, report: Report) -> Results:
    """Score every system on every set and write `outside.json`.

    Raises:
        ConfigError: `out` cannot be written, or the adapter has no weights.
        DataError: a benchmark's copy is missing or is not what it should be.
        ModelError: the model cannot be loaded, or the endpoint gives no answer.
    """
    return OutsideRun.prepare(config, report).run()


def load_items(config: OutsideConfig) -> Loaded:
    """The items of all benchmarks that the config names.

    Raises:
        DataError: a copy is missing or is not what it should be.
    """
    parts = []
    if config.bfcl is not None:
        parts.append(load_bfcl(config.bfcl))
    if config.when2call is not None:
        parts.append(load_when2call(config.when2call))
    return Loaded(
        tuple(item for part in parts for item in part.items),
        {group: reasons for part in parts for group, reasons in part.left_out.items()},
        tuple(path for part in parts for path in part.files),
    )


def spread(items: Sequence[Item], most: int | None) -> list[Item]:
    """At most so many items of each side, evenly spaced, in their order."""
    kept: set[int] = set()
    for side in SIDES:
        places = [place for place, item in enumerate(items) if item.side == side]
        count = len(places) if most is None else min(most, len(places))
        kept.update(places[i * len(places) // count] for i in range(count))
    return [items[place] for place in sorted(kept)]


@dataclass(slots=True)
class OutsideRun:
    """One run under way."""

    config: OutsideConfig
    report: Report
    loaded: Loaded
    groups: Mapping[str, Sequence[OutsideCase]]
    """The cases by set."""
    data_hash: str
    model: LocalModel | None = None
    done: int = 0
    made: list[str] = field(default_factory=list)
    """Cells that were written now and not read from disk."""

    @classmethod
    def prepare(cls, config: OutsideConfig, report: Report) -> OutsideRun:
        """Read the benchmarks and replay every item up to its turn; nothing is written yet."""
        loaded = load_items(config)
        sets: dict[str, list[Item]] = {}
        for item in loaded.items:
            sets.setdefault(item.group, []).append(item)
        if not sets:
            raise DataError(f"{loaded.files[0]}: no item in it; copy the whole file")
        groups = {
            group: replay_all(spread(items, config.per_side), breadcrumb=config.breadcrumb)
            for group, items in sets.items()
        }
        files = sorted((path.name, file_hash(path)) for path in loaded.files)
        return cls(config, report, loaded, groups, fingerprint(files))

    def run(self) -> Results:
        """All systems on all sets, then what they say."""
        figures: dict[str, Any] = {}
        along: dict[str, Any] = {}
        too_long: dict[str, Any] = {}
        for system in self.config.systems:
            figures[system], along[system] = {}, {}
            for group, cases in self.groups.items():
                records = self._cell(system, group, cases)
                scored = [record for record in records if record["score"] is not None]
                figures[system][group] = plain(outside_figures(scored, self.config.seed))
                if len(said := by_said(scored, self.config.seed)) > 1:
                    along[system][group] = plain(said)
                if len(scored) < len(records):
                    too_long.setdefault(system, {})[group] = len(records) - len(scored)
        results = {
            "version": 1,
            "outside": figures,
            "breakdown": along,
            "counts": self._counts(),
            "too_long": too_long,
            "config": to_dict(self.config),
            "models": {name: dict(self.config.identity(name)) for name in self.config.systems},
            "data_sha256": self.data_hash,
            "versions": versions(),
        }
        write_text(self.config.out / OUTSIDE, json.dumps(results, indent=1) + "\n")
        self.report(self.total, self.total, "done")
        return results

    @property
    def total(self) -> int:
        """Turns in all."""
        return len(self.config.systems) * sum(map(len, self.groups.values()))

    def _counts(self) -> dict[str, Any]:
        """By set: items scored and in the benchmark by side, and turns on no side."""
        there: Counter[tuple[str, str]] = Counter((i.group, i.side) for i in self.loaded.items)
        counts = {}
        for group, cases in self.groups.items():
            taken = Counter(case.item.side for case in cases)
            counts[group] = {
                "scored": {side: taken[side] for side in SIDES if taken[side]},
                "of": {side: there[group, side] for side in SIDES if there[group, side]},
                "left_out": dict(self.loaded.left_out.get(group, {})),
            }
        return counts

    def _cell(
        self, system: OutsideSystem, group: str, cases: Sequence[OutsideCase]
    ) -> list[Record]:
        """A system's turns in a set, scored and on disk."""
        path = self.config.out / CELLS / f"{system}_{group}.jsonl"
        ids = [case.item.id for case in cases]
        mark = fingerprint(
            [
                RULES,
                self.config.identity(system),
                self.data_hash,
                self.config.breadcrumb,
                group,
                ids,
            ]
        )
        kept = read_records(path, mark)
        turns = (
            self._turns(system, cases)
            if kept is None
            else [None if row["turn"] is None else _turn(row["turn"]) for row in kept]
        )
        if kept is None:
            self.made.append(path.stem)
        records = [outside_record(turn, case) for turn, case in zip(turns, cases, strict=True)]
        write_records(path, mark, records)
        self.done += len(cases)
        self.report(self.done, self.total, f"{system}, {group}")
        return records

    def _turns(self, system: OutsideSystem, cases: Sequence[OutsideCase]) -> list[Turn | None]:
        """One turn a case; None where a conversation is too long for the model."""
        if system == "endpoint":
            return list(asyncio.run(self._ask_endpoint(cases)))
        if system in MODELS:
            return self._write(system, cases)
        return [outside_turn(system, case) for case in cases]

    async def _ask_endpoint(self, cases: Sequence[OutsideCase]) -> list[Turn]:
        from breadcrumbs.endpoint import EndpointPolicy, open_endpoint

        assert self.config.endpoint is not None
        async with open_endpoint(self.config.endpoint, self.config.out / ANSWERS) as endpoint:
            policy = EndpointPolicy(endpoint, 0)
            turns = (whole_turn(policy, case.messages, case.tools) for case in cases)
            return list(await asyncio.gather(*turns))

    def _write(self, system: OutsideSystem, cases: Sequence[OutsideCase]) -> list[Turn | None]:
        if self.model is None:
            self.report(self.done, self.total, "loading the model")
            self.model = load_model(self.config)
        return run_as(system, self.model, lambda model: self._generate(model, system, cases))

    def _generate(
        self, model: LocalModel, system: str, cases: Sequence[OutsideCase]
    ) -> list[Turn | None]:
        prompts = [model.renderer.prompt_ids(case.messages, case.tools) for case in cases]
        room = model.model.config.max_position_embeddings - self.config.max_new_tokens
        fit = [place for place, prompt in enumerate(prompts) if len(prompt) <= room]
        before = self.done
        texts = texts_after(
            model,
            [prompts[place] for place in fit],
            max_new_tokens=self.config.max_new_tokens,
            text_budget=self.config.text_budget,
            batch_tokens=self.config.batch_tokens,
            step=lambda count: self.report(before + count, self.total, system),
        )
        turns: list[Turn | None] = [None] * len(cases)
        for place, text in zip(fit, texts, strict=True):
            form = model.renderer.call_format
            turns[place] = form.parse_turn(text, tools=cases[place].tools)
        return turns


def outside_record(turn: Turn | None, case: OutsideCase) -> Record:
    """A turn and its score as kept; None is a conversation too long for the model."""
    item = case.item
    return {
        "item": item.id,
        "twin": item.cluster,
        "side": item.side,
        "said": case.said,
        "request": item.request,
        "read": list(item.read),
        "turn": None if turn is None else _plain_turn(turn),
        "score": None if turn is None else score_outside(turn, case).to_dict(),
    }


def _plain_turn(turn: Turn) -> dict[str, Any]:
    return {
        "text": turn.text,
        "thinking": turn.thinking,
        "calls": [
            {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
            for call in turn.calls
        ],
        "problems": list(turn.problems),
    }


def _turn(plain_turn: Mapping[str, Any]) -> Turn:
    calls = tuple(
        ToolCall(call["id"], call["name"], call["arguments"]) for call in plain_turn["calls"]
    )
    return Turn(plain_turn["text"], calls, plain_turn["thinking"], tuple(plain_turn["problems"]))
