"""Figures made of decision turns' records: equal to the table's, paired by scenario, by axis."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.eval.compare import compare_runs
from breadcrumbs.eval.decision import constant_turn
from breadcrumbs.eval.estimates import ratio
from breadcrumbs.eval.metrics import Case, Scored, score_turn, summarise
from breadcrumbs.eval.turn_figures import turn_breakdown, turn_units

MakeCase = Callable[..., Case]


def record(case: Case, system: Any, number: int, risk: str = "write") -> dict[str, Any]:
    score = score_turn(constant_turn(system, case), case)
    return {
        "scenario": f"{case.scenario.id}-{number}",
        "twin": f"twin {number}",
        "behaviour": case.scenario.behaviour,
        "missing": list(case.scenario.missing),
        "axes": {"risk": risk, "kind": "plain"},
        "score": score.to_dict(),
    }


@pytest.fixture
def records(make_case: MakeCase) -> Callable[[Any], list[dict[str, Any]]]:
    cases = [make_case("dispatch"), make_case("clarify")]

    def make(system: Any) -> list[dict[str, Any]]:
        return [
            record(case, system, i, "read" if i < 2 else "write")
            for i in range(8)
            for case in cases
        ]

    return make


@pytest.mark.parametrize("system", ["oracle", "always_dispatch", "always_ask", "do_nothing"])
def test_the_figures_are_those_of_the_table(
    make_case: MakeCase, records: Callable[[Any], list[dict[str, Any]]], system: Any
) -> None:
    cases = [make_case(kind) for kind in ("dispatch", "clarify") for _ in range(8)]
    scored = [
        Scored(c.scenario.behaviour, c.scenario.missing, score_turn(constant_turn(system, c), c))
        for c in cases
    ]
    table = summarise(scored, seed=0)
    for name, units in turn_units(records(system)).items():
        if name in table and units:
            assert ratio(units.values(), 0).value == table[name].value, name


def test_stalls_are_told_apart_and_add_up(
    records: Callable[[Any], list[dict[str, Any]]],
) -> None:
    units = turn_units(records("do_nothing"))
    kinds = {n: ratio(u.values(), 0).value for n, u in units.items() if n.startswith("oar_")}
    assert kinds["oar_other_text"] == 1
    assert sum(value or 0 for value in kinds.values()) == ratio(units["oar"].values(), 0).value


def test_an_axis_that_tells_nothing_apart_is_left_out(
    records: Callable[[Any], list[dict[str, Any]]],
) -> None:
    along = turn_breakdown(records("oracle"), 0)
    assert list(along) == ["risk"]
    assert (along["risk"]["read"]["dad"].n, along["risk"]["write"]["dad"].n) == (2, 6)


def _folder(path: Path, systems: dict[str, list[dict[str, Any]]]) -> Path:
    (path / "cells").mkdir(parents=True)
    cell = {"breadcrumb_on": {"held_out_tools": {}}}
    (path / "results.json").write_text(json.dumps({"eval": dict.fromkeys(systems, cell)}))
    for system, rows in systems.items():
        lines = [{"fingerprint": "", "rows": len(rows)}, *rows]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (path / f"cells/{system}-breadcrumb_on-held_out_tools.jsonl").write_text(text)
    return path


def test_two_evaluations_of_turns_are_compared_scenario_by_scenario(
    records: Callable[[Any], list[dict[str, Any]]], tmp_path: Path
) -> None:
    bad, good = records("always_ask"), records("oracle")
    a = _folder(tmp_path / "a", {"base": bad})
    b = _folder(tmp_path / "b", {"base": good[:-2], "adapter": good})
    rows = {row.figure: row for row in compare_runs(a, b).rows}
    dad = rows["dad"]
    assert (dad.difference.a, dad.difference.b, dad.difference.n) == (0, 1, 7)
    assert dad.difference.p == pytest.approx(2 / 2**7)
    assert (rows["uar"].difference.value, rows["uar"].verdict) == (0, "noise")
    found = compare_runs(a, b, "base=adapter")
    assert {row.where for row in found.rows} == {"base=adapter breadcrumb_on held_out_tools"}
    assert any("dad" in line and "0.000 -> 1.000" in line for line in found.lines())
