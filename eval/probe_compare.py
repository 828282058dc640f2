"""What training changed: base and adapter on the same token ids, at the same decision row.

Where attention went by segment, which heads moved between steering and schema, and what becomes
of the decision when one gets the other's masses. Heads are chosen on one half of the prompts and
judged on the other.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT, to_dict
from breadcrumbs.eval.causal_effects import mean_of, shown
from breadcrumbs.eval.config import HeldOut, System
from breadcrumbs.eval.intervals import Estimate
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
from breadcrumbs.progress import Report
from breadcrumbs.segments import Segment

if TYPE_CHECKING:
    from breadcrumbs.data_gen.pairs import Pair
    from breadcrumbs.eval.decision_points import DecisionPoint
    from breadcrumbs.eval.interventions import DecisionRun
    from breadcrumbs.local_model import LocalModel

RESULT = "compare.json"
FORMAT = 1
MODELS: tuple[System, System] = ("base", "adapter")
CONTROLS = (Segment.BREADCRUMB, Segment.USER, Segment.TEMPLATE)
"""Segments whose masses are swapped as placebos."""
Head = tuple[int, int]
"""Layer and head."""
Odds = Sequence[Sequence[float | None]]
"""[L][H]; None where a head cannot reach both segments."""


@checked(config=STRICT)
class CompareConfig:
    """What `probe compare` reads."""

    model: str
    adapter: Path
    data: Path
    out: Path
    dtype: Literal["bfloat16", "float32"] = "float32"
    split: HeldOut = "held_out_tools"
    prompts: int = Field(default=50, ge=4)
    thought: bool = True
    """Force the row's reasoning in front of the decision, as models trained here write it."""
    heads: int = Field(default=10, ge=1)
    """Heads that moved most on one half of the prompts, to be judged on the other."""
    seed: int = Field(default=0, ge=0)


@dataclass(frozen=True, slots=True)
class Compared:
    """One prompt under both; pairs are (base, adapter)."""

    scenario: str
    gap: tuple[float, float]
    acts: tuple[bool, bool]
    mass: Mapping[str, tuple[float, float]]
    """Segment -> mean over layers and heads."""
    log_odds: tuple[Odds, Odds]
    """Steering less schema, nats."""
    layers: Sequence[int]
    swaps: Mapping[str, tuple[float, float]]
    """Segment -> change of the gap of (base, adapter) when given the other's masses of it."""


def probe_compare(config: CompareConfig, report: Report) -> str:
    """Compare on every prompt; returns a short table. Finished prompts are kept.

    Writes `compare.json` and `cells/compare-*.jsonl`.

    Raises:
        ProbeError: fewer prompts than wanted, or attention that cannot be measured or changed.
        ModelError, DataError, ConfigError: model, adapter, data set or folder cannot be used.
    """
    from breadcrumbs.eval.decision_points import dispatch_pairs

    pairs = dispatch_pairs(config.data, config.split, config.prompts)
    data = file_hash(config.data / "manifest.json")
    identity = model_identity(config, "adapter")
    mark = fingerprint([FORMAT, identity, data, config.split, config.thought, config.seed])
    model: LocalModel | None = None
    found: list[Compared] = []
    for pair in pairs:
        path = config.out / CELLS / f"compare-{fingerprint([pair.row.id])[:12]}.jsonl"
        kept = read_records(path, mark)
        if kept is None:
            model = model or load_model(config)
            one = _compared(model, pair, config)
            write_records(path, mark, [asdict(one)])
            kept = read_records(path, mark) or []
        found.append(Compared(**kept[0]))
        report(len(found), len(pairs), "base and adapter")
    result = summary_of(found, config.heads, config.seed)
    write_text(
        config.out / RESULT,
        json.dumps({"config": to_dict(config), **result.to_dict()}, indent=1) + "\n",
    )
    return result.text()


def _compared(model: LocalModel, pair: Pair, config: CompareConfig) -> Compared:
    from breadcrumbs.eval.decision_points import point_of, random_span
    from breadcrumbs.eval.interventions import DecisionRun, Edit

    point = point_of(pair, model.renderer, thought=config.thought)
    order = list(Segment)
    labels = [order.index(one) for one in point.segments]
    labels[-1] = len(order)  # the deciding token is of no segment that could be changed

    def prefilled() -> DecisionRun:
        return DecisionRun(model.model, point.ids, point.openers, point.call, labels)

    with model.base():
        base = prefilled()
    adapter = prefilled()
    rng = random.Random(f"{config.seed}/{pair.row.id}")
    steering = point.positions(Segment.STEERING)
    spans = {"steering": steering}
    spans |= {str(one): point.positions(one) for one in CONTROLS}
    spans["same length"] = random_span(point.others(), len(steering), rng)
    swaps = {}
    for name, keys in spans.items():
        if keys:
            with model.base():
                own = base.decide(Edit(keys)).masses
            given = adapter.decide(Edit(keys)).masses
            changed = adapter.decide(Edit(keys, masses=own)).gap - adapter.plain.gap
            with model.base():
                back = base.decide(Edit(keys, masses=given)).gap - base.plain.gap
            swaps[name] = (round(back, 6), round(changed, 6))
    return Compared(
        pair.row.id,
        (base.plain.gap, adapter.plain.gap),
        (base.plain.acts, adapter.plain.acts),
        _masses(point, base, adapter),
        (_log_odds(base), _log_odds(adapter)),
        list(base.stats.layers),
        swaps,
    )


def _masses(
    point: DecisionPoint, base: DecisionRun, adapter: DecisionRun
) -> dict[str, tuple[float, float]]:
    found = {}
    for segment in dict.fromkeys(point.segments[:-1]):
        keys = list(point.positions(segment))
        before, after = (float(run.token_mass[keys].sum()) for run in (base, adapter))
        found[str(segment)] = (round(before, 6), round(after, 6))
    return found


def _log_odds(run: DecisionRun) -> list[list[float | None]]:
    order = list(Segment)
    odds = run.stats.log_odds(order.index(Segment.STEERING), order.index(Segment.SCHEMA))
    return [
        [None if head != head else round(head, 5) for head in layer]  # NaN is not itself
        for layer in odds[:, :, 0].tolist()
    ]


@dataclass(frozen=True, slots=True)
class Moved:
    """A head that was chosen on one half of the prompts, as the other half sees it."""

    layer: int
    head: int
    chosen_by: float
    """Mean change of its log-odds on the first half."""
    change: Estimate
    """The same on the second half."""

    @property
    def confirmed(self) -> bool:
        """Same direction, and the interval is off zero."""
        low, high = self.change.low, self.change.high
        assert low is not None
        assert high is not None
        return low > 0 if self.chosen_by > 0 else high < 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Adapter less base over all prompts."""

    prompts: int
    acts: tuple[float, float]
    """Share of prompts whose greedy turn opens a call, base and adapter."""
    gap: Estimate
    mass: Mapping[str, Estimate]
    log_odds: Estimate
    """Of the mean over layers and heads."""
    moved: Sequence[Moved]
    others: Estimate
    """Mean absolute change of as many random other heads, second half."""
    swaps: Mapping[str, Mapping[str, Estimate]]
    """Model -> segment -> change of its gap with the other's masses."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)

    def text(self) -> str:
        """For a terminal."""
        lines = [
            f"{self.prompts} prompts; act: base {self.acts[0]:.2f}, adapter {self.acts[1]:.2f};"
            f" gap, adapter less base: {shown(self.gap)} logits",
            f"log-odds steering : schema, adapter less base: {shown(self.log_odds)} nats",
            *(
                f"mass on {name}, adapter less base: {shown(change, 4)}"
                for name, change in self.mass.items()
            ),
            f"heads that moved most on one half of the prompts, on the other (random heads"
            f" {shown(self.others)}):",
            *(
                f"  layer {one.layer} head {one.head}: {shown(one.change)}"
                f"{'' if one.confirmed else ' (not confirmed)'}"
                for one in self.moved
            ),
        ]
        for model, segments in self.swaps.items():
            given = "base" if model == "adapter" else "adapter"
            lines.append(f"gap of the {model} with the {given}'s masses on")
            lines += [f"  {name}: {shown(change)}" for name, change in segments.items()]
        lines.append(self.verdict())
        lines.append(
            "value [95 % interval over prompts]; gap in logits, above zero is towards a call"
        )
        return "\n".join(lines)

    def verdict(self) -> str:
        """Does the adapter restore steering mass, or go round it?"""
        change = self.mass["steering"]
        assert change.low is not None
        assert change.high is not None
        if change.low > 0:
            seen = "the adapter looks at the steering more than the base does"
        elif change.high < 0:
            seen = "the adapter looks at the steering less than the base does"
        else:
            seen = "no change of steering mass is shown"
        swapped = self.swaps["adapter"]["steering"]
        placebos = [one for name, one in self.swaps["adapter"].items() if name != "steering"]
        lowest = min((one.low for one in placebos if one.low is not None), default=0.0)
        assert swapped.high is not None
        if swapped.high < min(lowest, 0.0):
            does = "and with the base's masses it loses more of its gap than placebos take"
        else:
            does = "and with the base's masses it decides as before, as far as placebos tell"
        return f"{seen}, {does}"


def summary_of(found: Sequence[Compared], heads: int, seed: int) -> Comparison:
    """Adapter less base, with intervals that draw prompts."""

    def change(value: Callable[[Compared], float | None]) -> Estimate:
        return mean_of(
            {one.scenario: known for one in found if (known := value(one)) is not None}, seed
        )

    def mass(segment: str) -> Callable[[Compared], float | None]:
        def value(one: Compared) -> float | None:
            pair = one.mass.get(segment)
            return None if pair is None else pair[1] - pair[0]

        return value

    def swap(place: int, segment: str) -> Callable[[Compared], float | None]:
        return lambda one: one.swaps[segment][place] if segment in one.swaps else None

    segments = dict.fromkeys(name for one in found for name in one.mass)
    swapped = dict.fromkeys(name for one in found for name in one.swaps)
    moved, others = _moved(found, heads, seed)
    return Comparison(
        len(found),
        (fmean(one.acts[0] for one in found), fmean(one.acts[1] for one in found)),
        change(lambda one: one.gap[1] - one.gap[0]),
        {name: change(mass(name)) for name in segments},
        change(_mean_change),
        moved,
        others,
        {
            model: {name: change(swap(place, name)) for name in swapped}
            for place, model in enumerate(MODELS)
        },
    )


def _head_changes(one: Compared) -> Iterator[tuple[Head, float]]:
    """Change of the log-odds by head; heads that cannot reach both segments are left out."""
    for layer, before, after in zip(one.layers, *one.log_odds, strict=True):
        for head, (old, new) in enumerate(zip(before, after, strict=True)):
            if old is not None and new is not None:
                yield (layer, head), new - old


def _mean_change(one: Compared) -> float | None:
    changes = [change for _, change in _head_changes(one)]
    return fmean(changes) if changes else None


def _moved(found: Sequence[Compared], heads: int, seed: int) -> tuple[list[Moved], Estimate]:
    """The heads that moved most on even prompts, judged on odd ones, and random others."""
    changes = [(one.scenario, dict(_head_changes(one))) for one in found]
    first, second = changes[::2], changes[1::2]
    every = sorted({head for _, by_head in first for head in by_head})
    means = {head: fmean(by[head] for _, by in first if head in by) for head in every}
    ranked = sorted(every, key=lambda head: (-abs(means[head]), head))
    chosen, rest = ranked[:heads], sorted(ranked[heads:])

    def judged(head: Head) -> dict[str, float]:
        return {name: by[head] for name, by in second if head in by}

    moved = [Moved(*head, round(means[head], 5), mean_of(judged(head), seed)) for head in chosen]
    random_heads = random.Random(seed).sample(rest, min(heads, len(rest)))
    by_prompt: dict[str, list[float]] = {}
    for head in random_heads:
        for name, value in judged(head).items():
            by_prompt.setdefault(name, []).append(abs(value))
    return moved, mean_of({name: fmean(values) for name, values in by_prompt.items()}, seed)
