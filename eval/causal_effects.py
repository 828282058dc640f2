"""Effects of the causal study with their intervals, and what they say about dilution, in words.

An effect is a mean over prompts; its interval draws prompts. What a target does is shown beside
what placebos do, and as the excess over their mean, prompt by prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any, Literal, Protocol

from breadcrumbs.eval.estimates import Part, Unit, ratio
from breadcrumbs.eval.intervals import NOT_MEASURED, Estimate

TARGET = "target"
RELEVANT_FLIPS = 0.15
"""A share of flipped decisions under this would not explain why a model stalls."""
RELEVANT_SHARE = 0.25
"""Of the total effect: dilution that mediates less than this is not its cause."""
FEWEST = 5
"""Prompts under which no share is judged."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run with one thing changed, against the same run without it."""

    name: str
    """What was changed."""
    rows: str
    """`decision`, `later` rows too, or the `prompt` itself."""
    span: str
    """`target`, or which placebo."""
    change: float
    """Of the gap, logits; above zero is towards the call."""
    acted: bool
    """Whether the greedy turn opened a call before the change."""
    acts: bool
    tokens: int
    """How many were changed."""
    mass: float | None = None
    """The decision row's attention on them before, mean over layers and heads."""
    achieved: float | None = None
    """The same in the changed run: the dose that was given."""
    dose: float | None = None
    """Nats of bias."""


class Cell(Protocol):
    """Trials of one prompt under one model."""

    @property
    def model(self) -> str:
        """Which weights."""

    @property
    def scenario(self) -> str:
        """Which prompt."""

    @property
    def trials(self) -> Sequence[Trial]:
        """What was run."""


@dataclass(frozen=True, slots=True)
class CausalEffect:
    """What one change does under one model, beside what its placebos do."""

    model: str
    name: str
    rows: str
    dose: float | None
    tokens: float
    """Median over prompts, of the target."""
    mass: float | None
    achieved: float | None
    change: Estimate
    """Of the gap, logits."""
    placebos: Mapping[str, Estimate]
    excess: Estimate
    """Over the mean of the placebos; not measured without any."""
    to_call: Estimate
    """Share of prompts that stalled before and act under the change."""
    to_stall: Estimate
    """Share of prompts that acted before and stall under it."""
    placebo_to_call: Estimate
    placebo_to_stall: Estimate

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Interaction:
    """How much more a change does under the adapter than under the base, prompt by prompt."""

    name: str
    rows: str
    dose: float | None
    difference: Estimate
    """Of the change of the gap, logits."""
    placebo: Estimate
    """The same of the mean of the placebos."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


Key = tuple[str, str, float | None]
Prompts = Mapping[str, Mapping[str, list[Trial]]]
"""Prompt -> span -> its draws."""


def effects_of(cells: Iterable[Cell], seed: int) -> list[CausalEffect]:
    """Every change under every model, in the order in which they were run."""
    return [
        _effect(model, key, prompts, seed)
        for model, found in _by_model(cells).items()
        for key, prompts in found.items()
    ]


def interactions_of(cells: Iterable[Cell], seed: int) -> list[Interaction]:
    """Adapter less base for every change that was run under both; none with one model."""
    found = _by_model(cells)
    base, adapter = found.get("base", {}), found.get("adapter", {})
    return [
        Interaction(
            *key,
            _difference(base[key], prompts, (TARGET,), seed),
            _difference(base[key], prompts, _placebos(prompts), seed),
        )
        for key, prompts in adapter.items()
        if key in base
    ]


def _difference(before: Prompts, after: Prompts, spans: Sequence[str], seed: int) -> Estimate:
    first, second = (_values(prompts, _change, spans) for prompts in (before, after))
    both = {prompt: second[prompt] - first[prompt] for prompt in second if prompt in first}
    return mean_of(both, seed)


def _placebos(prompts: Prompts) -> list[str]:
    return sorted({span for spans in prompts.values() for span in spans} - {TARGET})


def _by_model(cells: Iterable[Cell]) -> dict[str, dict[Key, dict[str, dict[str, list[Trial]]]]]:
    """Model -> change -> prompt -> span -> draws."""
    found: dict[str, dict[Key, dict[str, dict[str, list[Trial]]]]] = {}
    for cell in cells:
        changes = found.setdefault(cell.model, {})
        for trial in cell.trials:
            prompts = changes.setdefault((trial.name, trial.rows, trial.dose), {})
            prompts.setdefault(cell.scenario, {}).setdefault(trial.span, []).append(trial)
    return found


def _effect(model: str, key: Key, prompts: Prompts, seed: int) -> CausalEffect:
    targets = [trial for spans in prompts.values() for trial in spans.get(TARGET, ())]
    kinds = _placebos(prompts)

    def middle(values: Iterable[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return round(median(known), 6) if known else None

    return CausalEffect(
        model,
        *key,
        tokens=float(median(trial.tokens for trial in targets)),
        mass=middle(trial.mass for trial in targets),
        achieved=middle(trial.achieved for trial in targets),
        change=mean_of(_values(prompts, _change, (TARGET,)), seed),
        placebos={kind: mean_of(_values(prompts, _change, (kind,)), seed) for kind in kinds},
        excess=mean_of(_excess(prompts, _change, kinds), seed),
        to_call=share_of(_values(prompts, _to_call, (TARGET,)), seed),
        to_stall=share_of(_values(prompts, _to_stall, (TARGET,)), seed),
        placebo_to_call=share_of(_values(prompts, _to_call, kinds), seed),
        placebo_to_stall=share_of(_values(prompts, _to_stall, kinds), seed),
    )


def _change(trial: Trial) -> float | None:
    return trial.change


def _to_call(trial: Trial) -> float | None:
    return None if trial.acted else float(trial.acts)


def _to_stall(trial: Trial) -> float | None:
    return float(not trial.acts) if trial.acted else None


Outcome = Callable[[Trial], float | None]


def _values(prompts: Prompts, outcome: Outcome, spans: Sequence[str]) -> dict[str, float]:
    """By prompt: the mean over draws of the outcome, for prompts that have one."""
    found = {}
    for prompt, by_span in prompts.items():
        draws = [outcome(trial) for span in spans for trial in by_span.get(span, ())]
        known = [value for value in draws if value is not None]
        if known:
            found[prompt] = fmean(known)
    return found


def _excess(prompts: Prompts, outcome: Outcome, kinds: Sequence[str]) -> dict[str, float]:
    target = _values(prompts, outcome, (TARGET,))
    placebo = _values(prompts, outcome, kinds)
    return {name: target[name] - placebo[name] for name in target if name in placebo}


def mean_of(values: Mapping[str, float], seed: int) -> Estimate:
    """A mean over prompts of logits or nats, with a bootstrap interval that draws prompts."""
    # In halves, since parts of zero over one would be taken for a no.
    return ratio([Unit(name, Part(2 * value, 2)) for name, value in values.items()], seed)


def share_of(values: Mapping[str, float], seed: int) -> Estimate:
    """The same of outcomes that are yes or no, or of differences of such."""
    return ratio([Unit(name, Part(value, 1)) for name, value in values.items()], seed)


State = Literal["holds", "fails", "open"]


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the three conditions for calling dilution the cause."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the data say about dilution under one model."""

    text: str
    conditions: tuple[Condition, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


def verdict_of(model: str, cells: Iterable[Cell], seed: int) -> Verdict:
    """Judge the three conditions: mediation, boosting, knockout.

    Dilution is called the cause only where all three hold. One that fails says that it is not;
    else the data do not decide.
    """
    changes: Mapping[Key, Prompts] = _by_model(cells).get(model, {})
    conditions = (
        _mediation(changes, seed),
        _boosting(changes, seed),
        _knockout(changes, seed),
    )
    reasons = "; ".join(f"{one.name}: {one.text}" for one in conditions)
    states = {one.state for one in conditions}
    if "fails" in states:
        lead = "dilution is not the cause here"
    elif states == {"holds"}:
        lead = "dilution causes the stall here"
    else:
        lead = "the data do not decide whether dilution causes the stall"
    return Verdict(f"{lead}. {reasons}.", conditions)


def _mediation(changes: Mapping[Key, Prompts], seed: int) -> Condition:
    name = "mediation"
    lengthened = changes.get(("schema lengthened", "prompt", None), {})
    clamped = changes.get(("clamp long to short", "decision", None), {})
    loss = {at: -one for at, one in _values(lengthened, _change, (TARGET,)).items()}
    if len(loss) < FEWEST or not clamped:
        return Condition(name, "open", "not measured")
    total = mean_of(loss, seed)
    kinds = _placebos(clamped)
    back = mean_of(_values(clamped, _change, (TARGET,)), seed)
    placebos = [mean_of(_values(clamped, _change, (kind,)), seed) for kind in kinds]
    excess = mean_of(_excess(clamped, _change, kinds), seed)
    highest = max((_number(one.high) for one in placebos), default=0.0)
    text = (
        f"a longer schema takes {shown(total)} logits from the gap; the short prompt's steering"
        f" mass gives {shown(back)} back, placebos up to {highest:.2f}"
    )
    if _number(total.high) <= 0:
        return Condition(name, "fails", f"{text}: there is no loss to mediate")
    if _number(total.low) <= 0:
        return Condition(name, "open", f"{text}: no loss is shown")
    if _number(back.low) > max(highest, 0.0):
        return Condition(name, "holds", text)
    if _number(excess.high) < RELEVANT_SHARE * _number(total.value):
        share = f"less than {RELEVANT_SHARE:.0%} of the loss beyond placebos"
        return Condition(name, "fails", f"{text}: {share}")
    return Condition(name, "open", text)


def _boosting(changes: Mapping[Key, Prompts], seed: int) -> Condition:
    """Does a bias flip stalls to calls? The dose is chosen on one half, judged on the other."""
    name = "boosting"
    doses = {
        key: prompts
        for key, prompts in changes.items()
        if key[0].startswith("bias") and key[2] is not None and key[2] > 0
    }
    if not doses:
        return Condition(name, "open", "not measured")
    order = sorted({prompt for prompts in doses.values() for prompt in prompts})
    first, second = set(order[::2]), set(order[1::2])

    def flips(key: Key, half: set[str]) -> dict[str, float]:
        prompts = {at: spans for at, spans in doses[key].items() if at in half}
        return _excess(prompts, _to_call, _placebos(prompts))

    means = {key: fmean(found.values()) for key in doses if (found := flips(key, first))}
    if not means:
        return Condition(name, "open", "no prompt stalls, so nothing can be flipped")
    best = max(means, key=lambda key: (means[key], -_number(key[2])))
    tested = flips(best, second)
    where = f"{best[0].replace('bias', f'a bias of {best[2]:g}', 1)} at {best[1]} rows"
    if len(tested) < FEWEST:
        return Condition(name, "open", f"{where}: {len(tested)} stalls to judge by, too few")
    share = share_of(tested, seed)
    text = f"{where} flips {shown(share)} more stalls to calls than placebos do"
    if _number(share.low) > 0 and not _rises(changes, best):
        return Condition(name, "open", f"{text}, but more bias does not do more throughout")
    return Condition(name, _state(share), text)


def _rises(changes: Mapping[Key, Prompts], chosen: Key) -> bool:
    """Whether the mean change of the gap grows with the dose."""
    curve = sorted(
        (_number(dose), fmean(_values(prompts, _change, (TARGET,)).values()))
        for (name, rows, dose), prompts in changes.items()
        if (name, rows) == chosen[:2]
    )
    return all(a[1] <= b[1] for a, b in zip(curve, curve[1:], strict=False))


def _knockout(changes: Mapping[Key, Prompts], seed: int) -> Condition:
    name = "knockout"
    prompts = changes.get(("knockout steering", "later", None), {})
    if not prompts:
        return Condition(name, "open", "not measured")
    found = _excess(prompts, _to_stall, _placebos(prompts))
    if len(found) < FEWEST:
        return Condition(name, "open", f"{len(found)} calls to judge by, too few")
    share = share_of(found, seed)
    text = f"hiding the steering turns {shown(share)} more calls to stalls than placebos do"
    return Condition(name, _state(share), text)


def _state(share: Estimate) -> State:
    if _number(share.low) > 0:
        return "holds"
    return "fails" if _number(share.high) < RELEVANT_FLIPS else "open"


def _number(value: float | None) -> float:
    assert value is not None
    return value


def shown(estimate: Estimate, digits: int = 2) -> str:
    """`0.95 [0.89, 0.98]`, or a dash where nothing was measured."""
    if estimate.value is None:
        return "-"
    low, high = (f"{_number(end):.{digits}f}" for end in (estimate.low, estimate.high))
    return f"{estimate.value:.{digits}f} [{low}, {high}]"


def table_of(effects: Sequence[CausalEffect], interactions: Sequence[Interaction] = ()) -> str:
    """One line an effect: change of the gap with interval, placebos, excess, flips.

    Then, for two models, one line for each change that they answer to differently.
    """
    wide = max([len(_label(effect)) for effect in effects] + [6])
    head = ("change of gap", "same length", "same mass", "excess", "stall to call", "call to stall")
    lines = [f"{'model':<8}{'change':<{wide}}" + "".join(f"{name:>23}" for name in head)]
    for effect in effects:
        figures = (
            effect.change,
            effect.placebos.get("same length", NOT_MEASURED),
            effect.placebos.get("same mass", NOT_MEASURED),
            effect.excess,
            effect.to_call,
            effect.to_stall,
        )
        columns = "".join(f"{shown(figure):>23}" for figure in figures)
        lines.append(f"{effect.model:<8}{_label(effect):<{wide}}{columns}")
    for one in interactions:
        if _number(one.difference.low) > 0 or _number(one.difference.high) < 0:
            dose = "" if one.dose is None else f" {one.dose:+g}"
            change = f"{shown(one.difference)}, placebos {shown(one.placebo)}"
            lines.append(f"adapter less base, {one.name}{dose}, {one.rows}: {change}")
    lines.append(
        "value [95 % interval over prompts]; gap in logits, above zero is towards the call"
    )
    return "\n".join(lines)


def _label(effect: CausalEffect) -> str:
    dose = "" if effect.dose is None else f" {effect.dose:+g}"
    dose += f" (mass {effect.achieved:.4f})" if effect.dose is not None and effect.achieved else ""
    rows = "" if effect.rows == "prompt" else f", {effect.rows} rows"
    return f"{effect.name}{dose}{rows}  "
