"""Effects of tiers on grids whose effects are known."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from breadcrumbs.eval.effects import Effect, effects
from breadcrumbs.eval.estimates import Part, Unit
from breadcrumbs.eval.playing import Tiers, every_combination

Grid = dict[Tiers, dict[str, Unit]]


def grid(chance: Callable[[Tiers], float], scenarios: int = 40) -> Grid:
    """Scenario i succeeds in a cell where i / scenarios is under the cell's chance."""
    return {
        tiers: {
            str(i): Unit(f"twin {i}", Part(float((i + 0.5) / scenarios < chance(tiers)), 1))
            for i in range(scenarios)
        }
        for tiers in every_combination()
    }


def found(cells: Grid) -> dict[str, Effect]:
    return {effect.name: effect for effect in effects(cells, 0)}


def test_there_are_sixteen_cells_of_four_tiers() -> None:
    names = [tiers.name for tiers in every_combination()]
    assert len(set(names)) == 16
    assert (names[0], names[-1]) == ("----", "1234")
    assert Tiers(decoupled=False).name == "1-34"


def test_a_tier_that_alone_does_something_has_that_effect_and_no_interaction() -> None:
    effects_ = found(grid(lambda tiers: 0.7 if tiers.breadcrumb else 0.3))
    assert effects_["tier 1"].value == pytest.approx(0.4)
    assert effects_["tier 1"].low > 0
    others = [effect for name, effect in effects_.items() if name != "tier 1"]
    assert len(others) == 14
    assert all(effect.value == pytest.approx(0) for effect in others)


def test_tiers_that_help_only_together_interact() -> None:
    effects_ = found(grid(lambda t: 0.9 if t.breadcrumb and t.nudge else 0.1))
    assert effects_["tier 1"].value == effects_["tier 3"].value == pytest.approx(0.4)
    assert effects_["tier 1 x tier 3"].value == pytest.approx(0.8)
    assert effects_["tier 1 x tier 3"].low > 0
    assert effects_["tier 1 x tier 2"].value == pytest.approx(0)
    added = found(grid(lambda t: 0.1 + 0.4 * t.breadcrumb + 0.4 * t.nudge))
    assert added["tier 1 x tier 3"].value == pytest.approx(0)


def test_three_or_four_that_help_only_together_interact_as_such() -> None:
    three = found(grid(lambda t: 0.9 if t.breadcrumb and t.decoupled and t.nudge else 0.1))
    assert three["tier 1 x tier 2 x tier 3"].value == pytest.approx(0.8)
    assert three["tier 1 x tier 2 x tier 3"].low > 0
    assert three["tier 1 x tier 2"].value == pytest.approx(0.4)
    assert three["tier 1 x tier 2 x tier 4"].value == pytest.approx(0)
    assert three["tier 1 x tier 2 x tier 3 x tier 4"].value == pytest.approx(0)
    four = found(grid(lambda t: 0.9 if all(t.flags) else 0.1))
    assert four["tier 1 x tier 2 x tier 3 x tier 4"].value == pytest.approx(0.8)
    two = found(grid(lambda t: 0.9 if t.breadcrumb and t.nudge else 0.1))
    assert two["tier 1 x tier 2 x tier 3"].value == pytest.approx(0)


def test_a_tier_that_harms_has_a_negative_effect() -> None:
    effects_ = found(grid(lambda tiers: 0.2 if tiers.approval else 0.6))
    assert effects_["tier 4"].value == pytest.approx(-0.4)
    assert effects_["tier 4"].high < 0


def test_chance_alone_is_no_effect() -> None:
    rng = random.Random(5)
    cells = {
        tiers: {str(i): Unit(str(i), Part(rng.randrange(2), 1)) for i in range(40)}
        for tiers in every_combination()
    }
    assert all(abs(e.value) < 0.1 * 2 ** len(e.tiers) for e in effects(cells, 0))
    assert sum(e.low > 0 or e.high < 0 for e in effects(cells, 0)) <= 2


def test_no_order_shows_and_a_gap_gives_no_effect() -> None:
    cells = grid(lambda tiers: 0.7 if tiers.breadcrumb else 0.3)
    mixed = {tiers: dict(reversed(cells[tiers].items())) for tiers in reversed(cells)}
    assert effects(mixed, 3) == effects(cells, 3)
    assert effects({t: units for t, units in cells.items() if t.nudge}, 0) == []
    assert effects({**cells, Tiers(): {}}, 0) == []
