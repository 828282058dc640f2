"""Effects of planted trials come out at their size; each verdict can be reached."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from breadcrumbs.eval.causal_effects import Trial, effects_of, table_of, verdict_of

PROMPTS = 50


@dataclass(frozen=True)
class Cell:
    scenario: str
    trials: tuple[Trial, ...]
    model: str = "base"


def made(
    make: Callable[[random.Random, int], Iterator[Trial]], prompts: int = PROMPTS
) -> list[Cell]:
    rng = random.Random(0)
    return [Cell(f"s{at}", tuple(make(rng, at))) for at in range(prompts)]


def trial(name: str, change: float, span: str = "target", **more: object) -> Trial:
    facts = {"rows": "decision", "acted": False, "acts": False, "tokens": 4} | more
    return Trial(name=name, span=span, change=change, **facts)  # type: ignore[arg-type]


def test_a_planted_effect_and_its_placebo() -> None:
    def make(rng: random.Random, at: int) -> Iterator[Trial]:
        yield trial("knockout steering", -2 + rng.gauss(0, 0.5), mass=0.1, achieved=0.0)
        for _ in range(2):
            yield trial("knockout steering", rng.gauss(0, 0.5), "same length")
        yield trial("knockout steering", 0.0, "same mass")

    (effect,) = effects_of(made(make), 0)
    assert effect.change.value == pytest.approx(-2, abs=0.3)
    assert effect.change.high is not None
    assert effect.change.high < -1.5
    placebo = effect.placebos["same length"]
    assert placebo.low is not None
    assert placebo.high is not None
    assert placebo.low < 0 < placebo.high
    assert effect.placebos["same mass"].value == 0
    assert effect.excess.value == pytest.approx(effect.change.value, abs=0.2)
    assert (effect.tokens, effect.mass, effect.achieved) == (4, 0.1, 0.0)
    assert effect.change.n == PROMPTS
    assert effect.to_stall.value is None, "no prompt acted before"


def test_flips_are_counted_among_those_that_can_flip() -> None:
    def make(rng: random.Random, at: int) -> Iterator[Trial]:
        yield trial("k", 0.0, acted=at < 10, acts=at >= 40)

    (effect,) = effects_of(made(make), 0)
    assert effect.to_call.value == pytest.approx(10 / 40)
    assert effect.to_stall.value == 1.0
    assert (effect.to_call.n, effect.to_stall.n) == (40, 10)


def test_models_changes_and_doses_are_kept_apart() -> None:
    cells = [
        Cell("a", (trial("bias", 1.0, dose=1.0), trial("bias", 2.0, dose=2.0))),
        Cell("a", (trial("bias", 5.0, dose=1.0),), model="adapter"),
    ]
    found = [(e.model, e.dose, e.change.value) for e in effects_of(cells, 0)]
    assert found == [("base", 1.0, 1.0), ("base", 2.0, 2.0), ("adapter", 1.0, 5.0)]
    lines = table_of(effects_of(cells, 0)).splitlines()
    assert len(lines) == 5
    assert "bias +2, decision rows" in lines[2]


def study(*, mediated: float, boosted: bool, hidden: bool, falls: bool = False) -> list[Cell]:
    """Prompts whose longer schema costs two logits, of which the steering mass gives back a part."""

    def make(rng: random.Random, at: int) -> Iterator[Trial]:
        stalls = at % 4 < 2
        yield trial("schema lengthened", -2 + rng.gauss(0, 0.3), rows="prompt")
        yield trial("clamp long to short", mediated + rng.gauss(0, 0.2))
        for span in ("breadcrumb", "user", "same length"):
            yield trial("clamp long to short", rng.gauss(0, 0.2), span)
        for dose in (-2.0, 2.0):
            change = -1.0 if falls else dose
            acts = boosted and dose > 0
            yield trial("bias", change, dose=dose, acted=not stalls, acts=acts or not stalls)
            yield trial("bias", 0.0, "same length", dose=dose, acted=not stalls, acts=not stalls)
        gone = trial("knockout steering", -3, rows="later", acted=not stalls)
        yield (
            gone
            if hidden
            else trial("knockout steering", 0, rows="later", acted=not stalls, acts=not stalls)
        )
        yield trial(
            "knockout steering", 0, "same length", rows="later", acted=not stalls, acts=not stalls
        )

    return made(make, 120)


def states(cells: list[Cell]) -> list[str]:
    return [condition.state for condition in verdict_of("base", cells, 0).conditions]


def test_dilution_is_the_cause_only_where_all_three_conditions_hold() -> None:
    cells = study(mediated=1.5, boosted=True, hidden=True)
    assert states(cells) == ["holds", "holds", "holds"]
    assert verdict_of("base", cells, 0).text.startswith("dilution causes the stall here.")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"mediated": 0.0}, ["fails", "holds", "holds"]),
        ({"boosted": False}, ["holds", "fails", "holds"]),
        ({"hidden": False}, ["holds", "holds", "fails"]),
    ],
)
def test_where_one_fails_it_is_not_the_cause(
    changed: dict[str, object], expected: list[str]
) -> None:
    facts = {"mediated": 1.5, "boosted": True, "hidden": True} | changed
    cells = study(**facts)  # type: ignore[arg-type]
    assert states(cells) == expected
    assert verdict_of("base", cells, 0).text.startswith("dilution is not the cause here.")


def test_a_dose_response_that_falls_holds_nothing() -> None:
    cells = study(mediated=1.5, boosted=True, hidden=True, falls=True)
    assert states(cells)[1] == "holds", "a flat curve does not fall"
    falling = [
        Cell(
            cell.scenario,
            tuple(
                trial(
                    one.name,
                    -one.dose,
                    one.span,
                    dose=one.dose,
                    acted=one.acted,
                    acts=one.acts,
                )
                if one.dose is not None and one.span == "target"
                else one
                for one in cell.trials
            ),
        )
        for cell in cells
    ]
    assert states(falling)[1] == "open"
    assert "does not do more" in verdict_of("base", falling, 0).text


def test_a_schema_that_costs_nothing_leaves_nothing_to_mediate() -> None:
    cells = [
        Cell(
            cell.scenario,
            tuple(
                trial(one.name, 0.5, rows="prompt") if one.name == "schema lengthened" else one
                for one in cell.trials
            ),
        )
        for cell in study(mediated=1.5, boosted=True, hidden=True)
    ]
    assert states(cells)[0] == "fails"
    assert "there is no loss to mediate" in verdict_of("base", cells, 0).text


def test_too_little_decides_nothing() -> None:
    few = study(mediated=1.5, boosted=True, hidden=True)[:4]
    assert states(few) == ["open", "open", "open"]
    assert verdict_of("base", few, 0).text.startswith("the data do not decide")
    assert verdict_of("base", [], 0).text.count("not measured") == 3
    acting = [
        Cell(c.scenario, tuple(t for t in c.trials if not (t.dose and not t.acted)))
        for c in study(mediated=1.5, boosted=True, hidden=True)
    ]
    assert "no prompt stalls" in verdict_of("base", acting, 0).text
