"""The causal study: what the decision owes to steering, breadcrumb, nudge and schema.

Each prompt is the decision point of a generated pair. A cell is one prompt under one model in one
group of trials; it lies in a file of its own, so that a stopped run goes on. Every trial changes
one thing and is compared with the same run without it, and with placebos.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT, to_dict
from breadcrumbs.data_gen.dataset import read_manifest
from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.causal_effects import (
    Trial,
    effects_of,
    interactions_of,
    table_of,
    verdict_of,
)
from breadcrumbs.eval.causal_page import causal_page
from breadcrumbs.eval.config import HeldOut, System
from breadcrumbs.eval.records import (
    CELLS,
    file_hash,
    fingerprint,
    model_identity,
    read_records,
    write_records,
)
from breadcrumbs.eval.systems import load_model
from breadcrumbs.files import write_text
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.progress import Report
from breadcrumbs.segments import Segment

if TYPE_CHECKING:
    from breadcrumbs.data_gen.pairs import Pair
    from breadcrumbs.eval.decision_points import DecisionPoint
    from breadcrumbs.eval.interventions import Decided, DecisionRun, Edit, Scope
    from breadcrumbs.gateway.catalog import Catalog
    from breadcrumbs.local_model import LocalModel

RESULT, PAGE = "causal.json", "causal.html"
CELL_FORMAT = 1
"""Cells on disk of another format are run anew."""
Group = Literal["knockout", "position", "content", "dose", "clamp"]
GROUPS: tuple[Group, ...] = get_args(Group)
SCOPES: tuple[Scope, ...] = ("decision", "later")
CONTROLS = (Segment.BREADCRUMB, Segment.USER, Segment.TEMPLATE)
"""Segments whose masses are clamped as placebos."""


@checked(config=STRICT)
class CausalConfig:
    """What `probe causal` reads."""

    model: str
    data: Path
    out: Path
    adapter: Path | None = None
    dtype: Literal["bfloat16", "float32"] = "float32"
    split: HeldOut = "held_out_tools"
    prompts: int = Field(default=50, ge=2)
    groups: tuple[Group, ...] = GROUPS
    thought: bool = True
    """Force the row's reasoning in front of the decision, as models trained here write it."""
    schema_tokens: int = Field(default=1200, ge=1)
    """Length of the long schema."""
    doses: tuple[float, ...] = (-2.0, -1.0, 1.0, 2.0, 4.0)
    """Nats on the steering keys."""
    placebos: int = Field(default=1, ge=1)
    """Random spans of each kind, for each target."""
    seed: int = Field(default=0, ge=0)

    @property
    def models(self) -> tuple[System, ...]:
        """The weights that are studied."""
        return ("base",) if self.adapter is None else ("base", "adapter")


class Key(NamedTuple):
    """Names a cell."""

    model: System
    scenario: str
    group: Group


@dataclass(frozen=True, slots=True)
class CausalCell:
    """The trials of one prompt under one model in one group."""

    model: System
    scenario: str
    group: Group
    trials: tuple[Trial, ...]


def probe_causal(config: CausalConfig, report: Report) -> str:
    """Run what is not on disk yet; returns the table of effects and the verdict in words.

    Writes `causal.json` (config, effects, verdicts), `causal.html` and `cells/*.jsonl`.

    Raises:
        ProbeError: fewer prompts than wanted, one beyond the model's length, or attention that
            cannot be measured or changed.
        ModelError, DataError, ConfigError: model, adapter, data set or folder cannot be used.
    """
    from breadcrumbs.eval.decision_points import dispatch_pairs

    pairs = dispatch_pairs(config.data, config.split, config.prompts)
    store = CellStore(config)
    wanted = [
        (Key(name, pair.row.id, group), pair)
        for pair in pairs
        for name in config.models
        for group in config.groups
    ]
    found = {key: cell for key, _ in wanted if (cell := store.read(key)) is not None}
    missing = [(key, pair) for key, pair in wanted if key not in found]
    if missing:
        model = load_model(config)
        catalog = load_catalog(read_manifest(config.data)["config"].get("catalogs") or None)
        study: PromptStudy | None = None
        for key, pair in missing:
            with model.base() if key.model == "base" else nullcontext():
                if study is None or study.key != key[:2]:
                    study = PromptStudy(model, key.model, pair, catalog, config)
                found[key] = study.cell(key.group)
            store.write(found[key])
            report(len(found), len(wanted), f"{key.model}, {key.group}")
    cells = [found[key] for key, _ in wanted]
    effects = effects_of(cells, config.seed)
    interactions = interactions_of(cells, config.seed)
    verdicts = {name: verdict_of(name, cells, config.seed) for name in config.models}
    result = {
        "config": to_dict(config),
        "effects": [effect.to_dict() for effect in effects],
        "interactions": [one.to_dict() for one in interactions],
        "verdicts": {name: verdict.to_dict() for name, verdict in verdicts.items()},
    }
    write_text(config.out / RESULT, json.dumps(result, indent=1) + "\n")
    write_text(config.out / PAGE, causal_page(result))
    words = [f"{name}: {verdict.text}" for name, verdict in verdicts.items()]
    return "\n".join((table_of(effects, interactions), "", *words))


class CellStore:
    """Finished cells on disk; those of another model, data set or setting are not trusted."""

    def __init__(self, config: CausalConfig) -> None:
        self._folder = config.out / CELLS
        settings = to_dict(config)
        # Where things lie and how many cells there are does not decide what is in one.
        for key in ("prompts", "groups", "out", "data", "model", "adapter"):
            del settings[key]
        data = file_hash(config.data / "manifest.json")
        self._marks = {
            name: fingerprint([CELL_FORMAT, settings, model_identity(config, name), data])
            for name in config.models
        }

    def read(self, key: Key) -> CausalCell | None:
        """A finished cell, or None."""
        records = read_records(self._path(key), self._marks[key.model])
        return None if records is None else CausalCell(*key, tuple(Trial(**r) for r in records))

    def write(self, cell: CausalCell) -> None:
        """Keep a finished cell."""
        key = Key(cell.model, cell.scenario, cell.group)
        write_records(self._path(key), self._marks[key.model], [asdict(t) for t in cell.trials])

    def _path(self, key: Key) -> Path:
        name = fingerprint([key.scenario])[:12]  # names of scenarios may hold anything
        return self._folder / f"{key.model}-{name}-{key.group}.jsonl"


@dataclass(frozen=True, slots=True)
class Prefilled:
    """A decision point and its run."""

    point: DecisionPoint
    run: DecisionRun


class PromptStudy:
    """One prompt under the weights that are switched on; what groups share is computed once."""

    def __init__(
        self, model: LocalModel, name: System, pair: Pair, catalog: Catalog, config: CausalConfig
    ) -> None:
        self.key = (name, pair.row.id)
        self._model = model
        self._pair = pair
        self._catalog = catalog
        self._config = config

    def cell(self, group: Group) -> CausalCell:
        """Run a group of trials."""
        groups: Mapping[Group, Callable[[], Iterator[Trial]]] = {
            "knockout": self._knockouts,
            "position": self._positions,
            "content": self._contents,
            "dose": self._doses,
            "clamp": self._clamps,
        }
        return CausalCell(*self.key, group, tuple(groups[group]()))

    @cached_property
    def short(self) -> Prefilled:
        """The prompt as it is."""
        return self._prefilled(None)

    @cached_property
    def long(self) -> Prefilled:
        """The same with its schema lengthened."""
        from breadcrumbs.eval.probe import lengthen

        renderer = self._model.renderer
        prompt = self._pair.prompt
        return self._prefilled(
            lengthen(prompt, self._catalog, renderer, self._config.schema_tokens)
        )

    @cached_property
    def nudged(self) -> Prefilled | None:
        """The prompt behind a stall and a nudge."""
        from breadcrumbs.eval.decision_points import nudged

        messages = nudged(self._pair)
        return None if messages is None else self._prefilled(messages)

    def _prefilled(self, messages: Any) -> Prefilled:
        from breadcrumbs.eval.decision_points import point_of
        from breadcrumbs.eval.interventions import DecisionRun

        renderer = self._model.renderer
        point = point_of(self._pair, renderer, thought=self._config.thought, messages=messages)
        limit = self._model.model.config.max_position_embeddings
        if len(point.ids) + 16 > limit:
            raise ProbeError(
                f"prompt of {len(point.ids)} tokens is beyond the model's {limit};"
                " lower schema_tokens"
            )
        run = DecisionRun(self._model.model, point.ids, point.openers, point.call)
        return Prefilled(point, run)

    def _rng(self, *what: object) -> random.Random:
        return random.Random("/".join(map(str, (self._config.seed, self._pair.row.id, *what))))

    def _spans(
        self, on: Prefilled, name: str, keys: Sequence[int]
    ) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The target, and random spans of its length and of its share of attention."""
        from breadcrumbs.eval.decision_points import random_span, span_of_mass

        mass = float(on.run.token_mass[list(keys)].sum())
        pool = on.point.others()
        yield "target", tuple(keys)
        for draw in range(self._config.placebos):
            rng = self._rng(name, draw)
            yield "same length", random_span(pool, len(keys), rng)
            yield "same mass", span_of_mass(pool, mass, on.run.token_mass, rng)

    def _edit(self, on: Prefilled, name: str, span: str, edit: Edit) -> Trial:
        before = float(on.run.token_mass[list(edit.keys)].sum())
        found = on.run.decide(edit)
        trial = _trial(name, edit.rows, span, on.run.plain, found, len(edit.keys))
        return dataclasses.replace(trial, mass=round(before, 6), achieved=_rounded(found.mass))

    def _knockouts(self) -> Iterator[Trial]:
        from breadcrumbs.eval.interventions import KNOCKOUT, Edit

        for on, segment in (
            (self.short, Segment.STEERING),
            (self.short, Segment.BREADCRUMB),
            (self.short, Segment.SCHEMA),
            (self.nudged, Segment.NUDGE),
        ):
            keys = () if on is None else on.point.last_run(segment)
            if on is None or not keys:
                continue
            name = f"knockout {segment}"
            for span, chosen in self._spans(on, name, keys):
                for rows in SCOPES:
                    yield self._edit(on, name, span, Edit(chosen, KNOCKOUT, rows))

    def _positions(self) -> Iterator[Trial]:
        """The breadcrumb elsewhere or nowhere, a piece of schema as placebo."""
        from breadcrumbs.eval.decision_points import moved, random_span, without

        point, run = self.short.point, self.short.run
        # The token that closes the payload stays.
        crumb = point.last_run(Segment.BREADCRUMB)[:-1]
        schema = point.last_run(Segment.SCHEMA)
        if crumb:
            chosen = {"target": crumb, "same length": random_span(schema, len(crumb), self._rng())}
            places = {"head": schema[0], "middle": schema[len(schema) // 2]}
            for span, keys in chosen.items():
                for place, at in places.items():
                    found = run.instead(moved(point.ids, keys, at))
                    name = f"breadcrumb at {place}"
                    yield _trial(name, "prompt", span, run.plain, found, len(keys))
                found = run.instead(without(point.ids, keys))
                yield _trial("breadcrumb absent", "prompt", span, run.plain, found, len(keys))

    def _contents(self) -> Iterator[Trial]:
        """A long schema, and other texts of its length in its place; risk flags taken out."""
        from breadcrumbs.eval.decision_points import (
            inserted,
            neutral_prose,
            random_span,
            replaced,
            without,
        )

        short, long = self.short, self.long
        filler = inserted(short.point.ids, long.point.ids).long
        count = len(filler)
        yield _trial(
            "schema lengthened", "prompt", "target", short.run.plain, long.run.plain, count
        )
        own = [short.point.ids[at] for at in short.point.last_run(Segment.SCHEMA)]
        fields = [long.point.ids[at] for at in filler]
        mixed = self._rng("shuffled").sample(fields, count)
        texts = {
            "filler prose": neutral_prose(count, self._model.renderer, self._rng("prose")),
            "filler shuffled": mixed,
            "filler repeated": (own * (count // len(own) + 1))[:count],
        }
        for name, text in texts.items():
            found = long.run.instead(replaced(long.point.ids, filler, text))
            yield _trial(name, "prompt", "target", long.run.plain, found, count)
        yield from self._factors(fields)
        flags = short.point.risk
        if flags:
            schema = [at for at in short.point.last_run(Segment.SCHEMA) if at not in flags]
            spans = {"target": flags, "same length": random_span(schema, len(flags), self._rng())}
            for span, keys in spans.items():
                found = short.run.instead(without(short.point.ids, keys))
                yield _trial(
                    "risk flags removed", "prompt", span, short.run.plain, found, len(keys)
                )

    def _factors(self, fields: Sequence[int]) -> Iterator[Trial]:
        """A longer schema in its two parts: more keys compete, and the steering is farther away."""
        point, run = self.short.point, self.short.run
        steering = point.last_run(Segment.STEERING)
        front = [*point.ids[: steering[0]], *fields, *point.ids[steering[0] :]]
        count = len(fields)
        found = run.instead(front)
        yield _trial("competitors alone", "prompt", "target", run.plain, found, count)
        # Placebo: as far a stretch in front of the steering.
        for span, at in (("target", steering[-1] + 1), ("same length", 1)):
            found = run.stretched(at, count)
            yield _trial("distance alone", "prompt", span, run.plain, found, count)

    def _doses(self) -> Iterator[Trial]:
        from breadcrumbs.eval.interventions import Edit

        for on, length, scopes in (
            (self.short, "", SCOPES),
            (self.long, ", long schema", SCOPES[:1]),
        ):
            keys = on.point.positions(Segment.STEERING)
            for span, chosen in self._spans(on, f"dose{length}", keys):
                for rows in scopes:
                    for dose in self._config.doses:
                        trial = self._edit(on, f"bias{length}", span, Edit(chosen, dose, rows))
                        yield dataclasses.replace(trial, dose=dose)

    def _clamps(self) -> Iterator[Trial]:
        """Masses of the short prompt set in the long one, and back; other segments as placebos."""
        from breadcrumbs.eval.decision_points import inserted, random_span
        from breadcrumbs.eval.interventions import Edit

        short, long = self.short, self.long
        filler = inserted(short.point.ids, long.point.ids)
        plain = short.run.plain, long.run.plain
        yield _trial("schema lengthened", "prompt", "target", *plain, len(filler.long))
        steering = short.point.positions(Segment.STEERING)
        spans: dict[str, tuple[int, ...]] = {"target": steering}
        spans |= {str(one): short.point.positions(one) for one in CONTROLS}
        pool = short.point.others()
        spans["same length"] = random_span(pool, len(steering), self._rng("clamp"))
        for span, keys in spans.items():
            if not keys:
                continue
            there = filler.there(keys)
            in_short, in_long = short.run.decide(Edit(keys)), long.run.decide(Edit(there))
            set_short = Edit(there, masses=in_short.masses)
            set_long = Edit(keys, masses=in_long.masses)
            yield self._edit(long, "clamp long to short", span, set_short)
            yield self._edit(short, "clamp short to long", span, set_long)


def _trial(name: str, rows: str, span: str, before: Decided, after: Decided, tokens: int) -> Trial:
    change = round(after.gap - before.gap, 6)
    return Trial(name, rows, span, change, before.acts, after.acts, tokens)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
