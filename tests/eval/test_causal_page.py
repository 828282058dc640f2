"""The study's page: the verdict, every effect beside its placebo, nothing from elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest

from breadcrumbs.eval.causal_effects import CausalEffect, Trial, effects_of, verdict_of
from breadcrumbs.eval.causal_page import causal_page
from breadcrumbs.eval.charts import Interval, interval_chart


class Cell:
    def __init__(self, scenario: str, model: str, trials: tuple[Trial, ...]) -> None:
        self.scenario, self.model, self.trials = scenario, model, trials


def result(doses: tuple[float, ...] = (-1.0, 2.0), name: str = "some model") -> dict[str, Any]:
    cells = [
        Cell(
            f"s{at}",
            model,
            (
                Trial("knockout steering", "later", "target", -1.5, True, False, 9, 0.1, 0.0),
                Trial("knockout steering", "later", "same length", 0.25, True, True, 9, 0.1, 0.0),
                *(
                    Trial("bias", "decision", span, dose, False, False, 9, 0.1, 0.2, dose)
                    for dose in doses
                    for span in ("target", "same length", "same mass")
                ),
            ),
        )
        for at in range(6)
        for model in ("base", "adapter")
    ]
    found: list[CausalEffect] = effects_of(cells, 0)
    return {
        "config": {"model": name, "prompts": 6, "split": "held_out_tools"},
        "effects": [one.to_dict() for one in found],
        "verdicts": {m: verdict_of(m, cells, 0).to_dict() for m in ("base", "adapter")},
    }


def test_the_page_says_the_verdict_and_shows_every_effect() -> None:
    text = causal_page(result())
    assert text.count("the data do not decide whether dilution causes the stall") == 2
    assert "knockout steering, later: -1.5 [-1.5, -1.5]" in text
    assert "knockout steering, later: 0.25 [0.25, 0.25]" in text
    assert text.count("Dose and response") == 2
    assert "Mass achieved by dose: -1: 0.200, +2: 0.200." in text
    assert "steering: 2, 2" in text
    assert not re.search(r"https?://", text.replace("http://www.w3.org", ""))
    assert text == causal_page(result())


def test_without_doses_there_is_no_curve() -> None:
    assert "Dose and response" not in causal_page(result(()))


def test_a_hostile_name_stays_text() -> None:
    text = causal_page(result(name="<script>alert(1)</script>"))
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_an_interval_lies_where_its_values_do() -> None:
    chart = interval_chart(
        [Interval("one", (1.0, 0.5, 1.5)), Interval("two", (0.0, -0.5, 0.5), (1.0, 0.5, 1.5))],
        title="change",
        x_label="logits",
        style="base",
        against="placebo",
    )
    dots = [float(x) for x in re.findall(r'<circle class="mark [a-z]+" cx="([\d.]+)"', chart)]
    one, placebo, two = dots
    assert one == placebo > two
    (zero,) = re.findall(r'<line class="line uniform" x1="([\d.]+)" x2="\1"', chart)
    assert float(zero) == pytest.approx(two)
    assert interval_chart([], title="t", x_label="x", style="base", against="p") == ""
