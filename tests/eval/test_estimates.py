"""Ratios, paired tests and pass^k against values worked out by hand."""

from __future__ import annotations

import random

import pytest

from breadcrumbs.eval.estimates import (
    Part,
    Unit,
    holm,
    mcnemar,
    mean_of_two,
    paired,
    pass_hat,
    ratio,
)


def units(outcomes: list[int], twins: int = 1) -> list[Unit]:
    return [Unit(str(i // twins), Part(o, 1)) for i, o in enumerate(outcomes)]


def test_a_ratio_is_sum_over_sum_so_that_what_failures_cost_counts() -> None:
    words = [Unit("a", Part(10, 1)), Unit("b", Part(20, 0)), Unit("c", Part(30, 1))]
    found = ratio(words, 0)
    assert (found.value, found.n) == (30.0, 3)  # (10 + 20 + 30) / 2
    assert ratio([Unit("a", Part(1, 0))], 0).value is None
    assert ratio([], 0).n == 0


def test_twins_are_drawn_together_so_that_copies_narrow_nothing() -> None:
    alone = ratio(units([1, 0] * 20), 0)
    copied = ratio([u for unit in units([1, 0] * 20) for u in [unit] * 9], 0)
    taken_apart = ratio(units([o for o in [1, 0] * 20 for _ in range(9)]), 0)

    def width(found: object) -> float:
        return found.high - found.low  # type: ignore[attr-defined, no-any-return]

    assert width(copied) == pytest.approx(width(alone), abs=1e-9)
    assert width(taken_apart) < width(alone) / 2  # the negative control: as if independent


def test_all_alike_still_has_an_interval_over_the_twins() -> None:
    found = ratio(units([1] * 20, twins=2), 0)
    assert (found.value, found.high, found.n) == (1.0, 1.0, 20)
    assert found.low == ratio(units([1] * 10), 0).low < 1


def test_no_order_of_scenarios_shows() -> None:
    rows = units([1, 0, 0, 1, 1, 0, 1, 1] * 5, twins=2)
    mixed = rows[:]
    random.Random(1).shuffle(mixed)
    assert mixed != rows
    assert ratio(mixed, 3) == ratio(rows, 3)
    assert ratio(rows, 3) != ratio(rows, 4)
    a = {str(i): unit for i, unit in enumerate(rows)}
    b = {str(i): Unit(u.cluster, Part(1, 1)) for i, u in enumerate(rows)}
    assert paired(dict(reversed(a.items())), b, 3) == paired(a, b, 3)


@pytest.mark.parametrize(
    ("lost", "won", "p"),
    [(0, 0, 1.0), (0, 6, 2 / 64), (6, 0, 2 / 64), (1, 9, 22 / 1024), (5, 5, 1.0)],
)
def test_mcnemar_is_the_exact_binomial(lost: int, won: int, p: float) -> None:
    assert mcnemar(lost, won) == pytest.approx(p)


def test_paired_looks_only_at_scenarios_that_both_have() -> None:
    a = {str(i): Unit(str(i), Part(0, 1)) for i in range(12)}
    b = {str(i): Unit(str(i), Part(int(i < 10), 1)) for i in range(2, 14)}
    found = paired(a, b, 0)
    assert found is not None
    assert (found.n, found.a, found.b, found.value) == (10, 0.0, 0.8, 0.8)
    assert found.test == "mcnemar"
    assert found.p == pytest.approx(mcnemar(0, 8)) == 2 / 256
    assert 0 < found.low < 0.8 <= found.high
    swapped = paired(b, a, 0)
    assert swapped is not None
    assert (swapped.value, swapped.p) == (-0.8, found.p)
    assert paired(a, {"z": a["0"]}, 0) is None


def test_counts_are_tested_by_resampling() -> None:
    a = {str(i): Unit(str(i), Part(2 + i % 3, 1)) for i in range(30)}
    more = {name: Unit(name, Part(unit.part.numerator + 2, 1)) for name, unit in a.items()}
    found, same = paired(a, more, 0), paired(a, a, 0)
    assert found is not None
    assert same is not None
    assert (found.value, found.test) == (2.0, "bootstrap")
    assert found.p < 0.01
    assert (same.value, same.p) == (0.0, 1.0)


def test_holm_takes_the_number_of_looks_into_account() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.04]) == [0.04]
    assert holm([]) == []


def test_pass_hat_is_the_share_of_draws_that_all_succeed() -> None:
    assert pass_hat(8, 8, 8) == 1.0
    assert pass_hat(7, 8, 8) == 0.0
    assert pass_hat(4, 8, 2) == pytest.approx(6 / 28)
    assert pass_hat(4, 8, 1) == 0.5
    assert pass_hat(3, 4, 8) is None


def test_the_mean_of_two_gives_a_constant_policy_a_half() -> None:
    calls, silences = units([1] * 30), [Unit(u.cluster, u.part) for u in units([0] * 10)]
    found = mean_of_two(calls, silences, 0)
    assert (found.value, found.n) == (0.5, 40)
    own = ratio(calls, 0), ratio(silences, 0)
    assert found.low == pytest.approx((own[0].low + own[1].low) / 2, abs=1e-4)  # type: ignore[operator]
    assert found.high == pytest.approx((own[0].high + own[1].high) / 2, abs=1e-4)  # type: ignore[operator]
    assert found.low < 0.5 < found.high  # type: ignore[operator]
    assert mean_of_two(calls, [], 0).value is None


def test_the_mean_of_two_weighs_both_alike_and_draws_clusters_with_both() -> None:
    a, b = units([1] * 9 + [0]), units([1] * 4 + [0] * 36)
    found = mean_of_two(a, b, 0)
    assert found.value == pytest.approx((0.9 + 0.1) / 2)  # not 13 of 50
    shuffled = random.Random(0).sample(b, len(b))
    assert mean_of_two(a[::-1], shuffled, 0) == found
    against = [Unit(u.cluster, Part(1 - u.part.numerator, 1)) for u in a]  # in one cluster with a
    apart = [Unit(f"other {u.cluster}", u.part) for u in against]
    together = mean_of_two(a, against, 0)
    assert together.low == together.high == 0.5  # what one loses the other wins, in every draw
    assert mean_of_two(a, apart, 0).low < 0.5  # type: ignore[operator]
