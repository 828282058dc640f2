"""`steer fit` and `steer eval`: cures without training, as baselines for an adapter.

Doses are chosen on one split by who opens a call; figures come from another, on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT, to_dict
from breadcrumbs.data_gen.dataset import gateway_settings, load_scenarios, read_manifest
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.config import Cell, HeldOut
from breadcrumbs.eval.decision import decision_cases, pick, renamed, turn_of
from breadcrumbs.eval.metrics import Case, Scored, score_turn, summarise
from breadcrumbs.eval.records import (
    CELLS,
    file_hash,
    fingerprint,
    model_identity,
    read_records,
    write_records,
)
from breadcrumbs.eval.results import show
from breadcrumbs.files import write_text
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.gateway.namings import OWN
from breadcrumbs.progress import Report
from breadcrumbs.segments import Segment

if TYPE_CHECKING:
    import torch

    from breadcrumbs.eval.cures import Kind, Steer
    from breadcrumbs.eval.interventions import DecisionRun
    from breadcrumbs.local_model import LocalModel

RESULT = "steer_eval.json"
FIGURES = ("dad", "oar", "uar", "ask_f1", "malformed_call")


@checked(config=STRICT)
class SteerConfig:
    """What `steer fit` and `steer eval` read."""

    model: str
    data: Path
    out: Path
    dtype: Literal["bfloat16", "float32"] = "float32"
    fit_pairs: int = Field(default=32, ge=2)
    """Pairs of the training split that the vector is the mean of."""
    layers: tuple[int, ...] = ()
    """Where the vector may be added; none: at a third, half and two thirds of the depth."""
    bias_doses: tuple[float, ...] = (1.0, 2.0, 4.0)
    """Nats on the logits of steering keys, all layers and heads."""
    vector_doses: tuple[float, ...] = (0.5, 1.0, 2.0)
    """Multiples of the mean difference."""
    choose_on: HeldOut = "held_out_tools"
    choose: int = Field(default=12, ge=1)
    """Scenarios of each side that doses are chosen by."""
    report_on: HeldOut = "held_out_domain"
    report: int = Field(default=40, ge=1)
    """Scenarios of each side that figures come from."""
    choose_tokens: int = Field(default=24, ge=4)
    """Greedy tokens within which a turn must open a call to count as acting, when choosing."""
    max_new_tokens: int = Field(default=224, ge=8)
    text_budget: int = Field(default=48, ge=8)
    seed: int = Field(default=0, ge=0)

    def __post_init__(self) -> None:
        if self.choose_on == self.report_on:
            raise ValueError("report_on: must be another split than choose_on")
        if min((*self.bias_doses, *self.vector_doses), default=1) <= 0:
            raise ValueError("doses: must be above zero; none is always tried as well")

    @property
    def adapter(self) -> Path | None:
        """None: these are cures without training."""
        return None


@dataclass(frozen=True, slots=True)
class Chosen:
    """How a dose did on the split it was chosen by."""

    kind: Kind
    dose: float
    layer: int | None
    acts_dispatch: float
    """Share of scenarios where dispatch is right whose greedy turn opens a call."""
    acts_clarify: float
    """The same where asking is right."""

    @property
    def score(self) -> float:
        """Acting where it should less acting where it should ask."""
        return self.acts_dispatch - self.acts_clarify


def fit_steer(config: SteerConfig, report: Report) -> str:
    """Make both cures and choose their doses; returns what was tried, one line each.

    Writes KIND.safetensors and KIND.json into `out`.

    Raises:
        ProbeError: fewer pairs than wanted, or attention that cannot be measured or changed.
        ModelError, DataError, ConfigError: model, data set or folder cannot be used.
    """
    from breadcrumbs.eval.cures import KINDS, mean_difference, save_steer, written
    from breadcrumbs.eval.decision_points import dispatch_pairs
    from breadcrumbs.local_model import LocalModel

    pairs = dispatch_pairs(config.data, "train", config.fit_pairs)
    cases = _cases(config, config.choose_on, config.choose)
    identity = model_identity(config, "base")
    model = LocalModel.load(config.model, dtype=config.dtype)
    report(0, len(cases), f"mean difference of {len(pairs)} pairs")
    steers = candidates(config, mean_difference(model, pairs))
    acted: dict[str, list[bool]] = {}
    for done, case in enumerate(cases, 1):
        run, keys = _run(model, case)
        for steer in steers:
            turn = written(run, keys, steer, partial(_opened, model, config.choose_tokens))
            acted.setdefault(steer.label, []).append(_opens(model, turn))
        report(done, len(cases), f"choosing on {config.choose_on}")
    tried = [_tried(steer, acted[steer.label], cases) for steer in steers]
    lines = [
        f"{one.label}: acts in {found.acts_dispatch:.2f} of dispatch,"
        f" {found.acts_clarify:.2f} of clarify"
        for one, found in zip(steers, tried, strict=True)
    ]
    for kind in KINDS:
        place = best_of(tried, kind)
        facts = {
            "model": identity,
            "tried": [asdict(found) for found in tried if found.kind == kind],
            "config": to_dict(config),
        }
        lines.append(f"{steers[place].label}: {save_steer(config.out, steers[place], facts)}")
    return "\n".join(lines)


def candidates(config: SteerConfig, difference: torch.Tensor) -> list[Steer]:
    """Every kind, place and dose to try, none of each kind first; `difference` [L, E]."""
    import torch

    from breadcrumbs.eval.cures import Steer

    depth = len(difference)
    layers = config.layers or tuple(sorted({depth // 3, depth // 2, 2 * depth // 3}))
    beyond = [layer for layer in layers if not 0 <= layer < depth]
    if beyond:
        raise ProbeError(f"layers: {beyond[0]} is not one of the model's {depth}, counted from 0")
    biases = [Steer("bias", dose, None, torch.ones(1)) for dose in (0.0, *config.bias_doses)]
    vectors = [Steer("vector", 0.0, layers[0], difference[layers[0]])]
    vectors += [
        Steer("vector", dose, layer, difference[layer])
        for layer in layers
        for dose in config.vector_doses
    ]
    return [*biases, *vectors]


def best_of(tried: Sequence[Chosen], kind: Kind) -> int:
    """Place of a kind's best score, the smallest dose of those that share it."""
    places = [place for place, one in enumerate(tried) if one.kind == kind]
    return max(places, key=lambda place: (tried[place].score, -tried[place].dose))


def _tried(steer: Steer, acted: Sequence[bool], cases: Sequence[Case]) -> Chosen:
    def share(behaviour: str) -> float:
        sides = zip(acted, cases, strict=True)
        chosen = [acts for acts, case in sides if case.scenario.behaviour == behaviour]
        return sum(chosen) / len(chosen)

    return Chosen(steer.kind, steer.dose, steer.layer, share("dispatch"), share("clarify"))


def evaluate_steer(config: SteerConfig, report: Report) -> str:
    """Score the model as it is and under each cure on the split that no dose was chosen by.

    Writes `steer_eval.json` and `cells/steer-*.jsonl`; finished scenarios are kept.

    Raises:
        ModelError: a steer file is missing, broken or another model's.
        ProbeError, DataError, ConfigError: as `fit_steer`.
    """
    from breadcrumbs.eval.cures import FORMAT, KINDS, load_steer
    from breadcrumbs.local_model import LocalModel
    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer

    identity = model_identity(config, "base")
    steers = {kind: load_steer(config.out / f"{kind}.json", identity) for kind in KINDS}
    cases = _cases(config, config.report_on, config.report)
    hashes = [
        file_hash(config.out / f"{kind}.{end}") for kind in KINDS for end in ("json", "safetensors")
    ]
    budget = [config.max_new_tokens, config.text_budget]
    mark = fingerprint([FORMAT, identity, hashes, file_hash(config.data / "manifest.json"), budget])
    model: LocalModel | None = None
    texts: list[dict[str, str]] = []
    for case in cases:
        path = config.out / CELLS / f"steer-{fingerprint([case.scenario.id])[:12]}.jsonl"
        kept = read_records(path, mark)
        if kept is None:
            model = model or LocalModel.load(config.model, dtype=config.dtype)
            kept = [_texts(model, case, steers, config)]
            write_records(path, mark, kept)
        texts.append(kept[0])
        report(len(texts), len(cases), f"turns on {config.report_on}")
    form = load_renderer(resolve_model(config.model)).call_format
    figures = {}
    for system in ("none", *KINDS):
        turns = [turn_of(text[system], case, form) for text, case in zip(texts, cases, strict=True)]
        scored = [
            Scored(case.scenario.behaviour, case.scenario.missing, score_turn(turn, case))
            for turn, case in zip(turns, cases, strict=True)
        ]
        found = summarise(scored, seed=config.seed)
        figures[system] = {name: found[name].to_dict() for name in FIGURES}
    result = {"config": to_dict(config), "figures": figures}
    write_text(config.out / RESULT, json.dumps(result, indent=1) + "\n")
    return _table(figures, {kind: steer.label for kind, steer in steers.items()})


def _table(figures: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]) -> str:
    head = ("DAD", "OAR", "UAR", "Ask-F1", "unreadable")
    lines = [f"{'cure':<28}" + "".join(f"{name:>17}" for name in head)]
    for system, found in figures.items():
        shown = "".join(f"{show(found[name]):>17}" for name in FIGURES)
        lines.append(f"{labels.get(system, 'none'):<28}{shown}")
    lines.append("value [95 % interval]; DAD, Ask-F1: higher is better; OAR, UAR: lower is better")
    return "\n".join(lines)


def _cases(config: SteerConfig, split: HeldOut, count: int) -> list[Case]:
    manifest = read_manifest(config.data)
    made = manifest["config"]
    wanted = Cell(True, split, dispatch=count, clarify=count)
    found = pick(load_scenarios(config.data, split), wanted, f"{config.data}, {split}")
    settings = GatewaySettings(max_hits=gateway_settings(manifest).max_hits)
    return decision_cases(
        [renamed(scenario, OWN.name) for scenario in found],
        load_catalog(made.get("catalogs") or None),
        load_hints(made.get("hints") or None),
        settings,
    )


def _run(model: LocalModel, case: Case) -> tuple[DecisionRun, tuple[int, ...]]:
    """The scenario's decision point, and where its steering stands."""
    from breadcrumbs.eval.attribution import openers_of
    from breadcrumbs.eval.interventions import DecisionRun

    renderer = model.renderer
    steering = case.messages[0].content.partition("\n")[0]
    rendered = renderer.render(case.messages, case.tools, steering=steering)
    model.check_room([rendered.ids])
    openers = openers_of(renderer)
    run = DecisionRun(model.model, rendered.ids, openers, openers.call)
    keys = [at for at, one in enumerate(rendered.segments) if one == Segment.STEERING]
    return run, tuple(keys)


def _texts(
    model: LocalModel, case: Case, steers: Mapping[Kind, Steer], config: SteerConfig
) -> dict[str, str]:
    from breadcrumbs.eval.cures import written

    run, keys = _run(model, case)

    def is_finished(tokens: list[int]) -> bool:
        return (
            tokens[-1] in model.renderer.stop_ids
            or len(tokens) >= config.max_new_tokens
            or model.is_prose(tokens, config.text_budget)
        )

    found = {}
    for system, steer in (("none", None), *steers.items()):
        tokens = written(run, keys, steer, is_finished)
        found[system] = model.decode([t for t in tokens if t not in model.renderer.stop_ids])
    return found


def _opened(model: LocalModel, most: int, tokens: list[int]) -> bool:
    ended = tokens[-1] in model.renderer.stop_ids or len(tokens) >= most
    return ended or _opens(model, tokens)


def _opens(model: LocalModel, tokens: Sequence[int]) -> bool:
    return model.renderer.call_format.opener in model.decode(tokens)
