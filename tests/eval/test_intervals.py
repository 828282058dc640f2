from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.eval.intervals import Estimate, Questions, ask_f1, rate


def test_wilson_matches_published_values() -> None:
    # Newcombe (1998), table I: 81 of 263 and 0 of 20, Wilson without continuity correction
    assert rate([True] * 81 + [False] * 182) == Estimate(0.308, 0.2553, 0.3662, 263)
    assert rate([False] * 20) == Estimate(0.0, 0.0, 0.1611, 20)
    assert rate([True] * 29 + [False]) == Estimate(0.9667, 0.8333, 0.9941, 30)


def test_nothing_measured_is_no_zero() -> None:
    assert rate([]) == Estimate(None, None, None, 0)
    assert ask_f1([], 0) == Estimate(None, None, None, 0)
    assert ask_f1([Questions(1, 0, 0)], 0) == Estimate(None, None, None, 0)


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_an_interval_holds_its_value(outcomes: list[bool]) -> None:
    found = rate(outcomes)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.high - found.low > 0


def test_f1_by_hand() -> None:
    # 3 questions, 1 hit, 2 missing: precision 1/3, recall 1/2
    found = ask_f1([Questions(2, 1, 1), Questions(0, 0, 1), Questions(1, 0, 0)], seed=0)
    assert found.value == pytest.approx(2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2), abs=1e-4)


def test_perfect_and_hopeless_askers() -> None:
    perfect = ask_f1([Questions(1, 1, 1)] * 10 + [Questions(0, 0, 0)] * 10, seed=0)
    assert (perfect.value, perfect.low, perfect.high) == (1.0, 1.0, 1.0)
    silent = ask_f1([Questions(0, 0, 1)] * 10, seed=0)
    assert (silent.value, silent.high) == (0.0, 0.0)


def test_asking_for_everything_does_not_win() -> None:
    spam = ask_f1([Questions(7, 1, 1)] * 10 + [Questions(7, 0, 0)] * 10, seed=0)
    assert spam.value is not None
    assert spam.value < 0.15


@given(st.permutations([Questions(1, 1, 1), Questions(2, 0, 1), Questions(0, 0, 0)] * 3))
def test_bootstrap_does_not_depend_on_order(shuffled: list[Questions]) -> None:
    assert ask_f1(shuffled, 3, draws=50) == ask_f1(sorted(shuffled), 3, draws=50)


def test_bootstrap_is_wide_where_there_is_little() -> None:
    few = ask_f1([Questions(1, 1, 1), Questions(1, 0, 1)], seed=0)
    many = ask_f1([Questions(1, 1, 1), Questions(1, 0, 1)] * 100, seed=0)
    assert few.value == many.value
    assert few.high is not None
    assert few.low is not None
    assert many.high is not None
    assert many.low is not None
    assert few.high - few.low > 3 * (many.high - many.low)
    assert not math.isnan(few.low)
