"""Planted effects come out at the planted size, a placebo at none, and what is refused is said."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attribution import Openers
from breadcrumbs.eval.interventions import (
    KNOCKOUT,
    DecisionRun,
    Edit,
    Scope,
)

Build = Callable[..., Any]
STEERING, SCHEMA, OTHER, ASKS, CALL, PROSE, RELAY = 1, 2, 3, 4, 5, 6, 7
IDS = [OTHER, *[STEERING] * 4, *[SCHEMA] * 20, *[OTHER] * 4, ASKS]
STEERING_AT, SCHEMA_AT, OTHER_AT = tuple(range(1, 5)), tuple(range(5, 25)), tuple(range(25, 29))
OPENERS = Openers((CALL,), (PROSE,))
WIDTH = 8
VALUE = math.sqrt(WIDTH)  # a normed one-hot embedding
LOGIT, SHARP = 1.7, 14.0
SLOWEST = 3  # this width does not turn over so short a text


def direct(blank: Build, logit: float) -> Any:
    """The deciding row looks at steering by `logit` more than at the rest and moves it to the call;
    schema it moves to prose, twice as far."""
    model = blank(1)
    attention = model.model.layers[0].self_attn
    with torch.no_grad():
        attention.q_proj.weight[SLOWEST, ASKS] = logit / VALUE
        attention.k_proj.weight[SLOWEST, STEERING] = 1.0
        attention.v_proj.weight[0, STEERING] = 1.0
        attention.v_proj.weight[1, SCHEMA] = 2.0
        attention.o_proj.weight[CALL, 0] = 1.0
        attention.o_proj.weight[PROSE, 1] = 1.0
    return model


def relayed(blank: Build) -> Any:
    """A relay token copies the steering in layer 0, where the deciding row looks at other text; in
    layer 1 it reads the relay."""
    model = blank(2)
    looks = ((0, SLOWEST, RELAY, STEERING), (0, 2, ASKS, OTHER), (1, SLOWEST, ASKS, RELAY))
    moves = ((0, STEERING, 0), (1, 0, CALL))  # layer, read from, written to
    with torch.no_grad():
        for layer, width, row, key in looks:
            attention = model.model.layers[layer].self_attn
            attention.q_proj.weight[width, row] = SHARP
            attention.k_proj.weight[width, key] = SHARP
        for layer, read, made in moves:
            attention = model.model.layers[layer].self_attn
            attention.v_proj.weight[0, read] = 1.0
            attention.o_proj.weight[made, 0] = 1.0
    return model


def expected_gap(share: float, schema: float) -> float:
    """The planted gap where head 0 gives these shares to steering and schema."""
    call, prose = share * VALUE, schema * 2 * VALUE
    return (call - prose) / math.sqrt((1 + call**2 + prose**2) / WIDTH)


def shares(bias: float, keys: str = "steering") -> tuple[float, float]:
    weights = {"steering": 4 * math.exp(LOGIT), "schema": 20.0, "other": 6.0}
    weights[keys] *= math.exp(bias)
    total = sum(weights.values())
    return weights["steering"] / total, weights["schema"] / total


@pytest.fixture(scope="module")
def planted(blank: Build) -> DecisionRun:
    return DecisionRun(direct(blank, LOGIT), IDS, OPENERS, (CALL,))


def test_unchanged_it_is_the_model_itself(planted: DecisionRun) -> None:
    assert planted.plain.gap == pytest.approx(expected_gap(*shares(0)), abs=1e-5)
    assert planted.token_mass.sum() == pytest.approx(1, abs=1e-5)
    both_heads = (shares(0)[0] + 4 / 30) / 2
    assert planted.token_mass[list(STEERING_AT)].sum() == pytest.approx(both_heads, abs=1e-5)


@pytest.mark.parametrize("rows", ["decision", "later"])
@pytest.mark.parametrize("bias", [KNOCKOUT, -2.0, 0.0, 1.0, 4.0])
def test_a_bias_has_the_planted_effect_and_says_its_dose(
    planted: DecisionRun, bias: float, rows: Scope
) -> None:
    found = planted.decide(Edit(STEERING_AT, bias, rows))
    share, schema = shares(bias)
    assert found.gap == pytest.approx(expected_gap(share, schema), abs=1e-5)
    other_head = 4 * math.exp(bias) / (4 * math.exp(bias) + 26)
    assert found.mass == pytest.approx((share + other_head) / 2, abs=1e-5)


def test_knocking_out_the_schema_frees_the_call(planted: DecisionRun) -> None:
    found = planted.decide(Edit(SCHEMA_AT, KNOCKOUT))
    assert found.gap == pytest.approx(expected_gap(*shares(KNOCKOUT, "schema")), abs=1e-5)
    assert planted.plain.gap < 0 < found.gap


def test_a_placebo_shows_nothing(blank: Build) -> None:
    run = DecisionRun(direct(blank, SHARP), IDS, OPENERS, (CALL,))
    assert run.plain.acts
    target = run.decide(Edit(STEERING_AT, KNOCKOUT))
    placebo = run.decide(Edit(OTHER_AT, KNOCKOUT))
    assert run.plain.gap - target.gap > 1
    assert not target.acts
    assert placebo.gap == pytest.approx(run.plain.gap, abs=1e-3)
    assert placebo.acts


def test_what_is_relayed_is_only_cut_at_later_rows(blank: Build) -> None:
    ids = [OTHER, *[STEERING] * 4, RELAY, *[OTHER] * 6, ASKS]
    run = DecisionRun(relayed(blank), ids, OPENERS, (CALL,))
    assert run.plain.gap > 1
    assert run.plain.acts
    at_row = run.decide(Edit(STEERING_AT, KNOCKOUT))
    assert at_row.gap == pytest.approx(run.plain.gap, abs=1e-4)
    everywhere = run.decide(Edit(STEERING_AT, KNOCKOUT, "later"))
    assert everywhere.gap == pytest.approx(0, abs=1e-4)
    assert not everywhere.acts
    placebo = run.decide(Edit(tuple(range(6, 10)), KNOCKOUT, "later"))
    assert placebo.gap == pytest.approx(run.plain.gap, abs=1e-4)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.9])
def test_a_clamp_sets_the_mass(planted: DecisionRun, share: float) -> None:
    target = {0: torch.tensor([share, 0.5])}
    found = planted.decide(Edit(STEERING_AT, masses=target))
    assert found.masses[0].tolist() == pytest.approx([share, 0.5], abs=1e-5)
    assert found.gap == pytest.approx(expected_gap(share, (1 - share) * 20 / 26), abs=1e-5)


def test_a_clamp_to_its_own_mass_changes_nothing(planted: DecisionRun) -> None:
    own = planted.decide(Edit(SCHEMA_AT)).masses
    found = planted.decide(Edit(SCHEMA_AT, masses=own))
    assert found.gap == pytest.approx(planted.plain.gap, abs=1e-5)


def test_trials_do_not_see_one_another(planted: DecisionRun) -> None:
    before = planted.plain
    planted.decide(Edit(STEERING_AT, KNOCKOUT, "later"))
    planted.instead([OTHER, ASKS])
    assert planted.decide() == before
    twice = [planted.decide(Edit(STEERING_AT, 1.0)).gap for _ in range(2)]
    assert twice[0] == twice[1]


def test_other_tokens_are_as_a_prompt_of_their_own(planted: DecisionRun) -> None:
    shorter = [*IDS[:10], *IDS[20:]]
    alone = DecisionRun(planted.model, shorter, OPENERS, (CALL,))
    assert planted.instead(shorter).gap == pytest.approx(alone.plain.gap, abs=1e-5)


ARCHITECTURES = ["llama", "qwen3", "mistral", "gemma2", "gpt_oss", "deepseek_v3", "lfm2"]
PROMPT = torch.randint(3, 97, (40,), generator=torch.Generator().manual_seed(1)).tolist()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_hidden_keys_are_as_never_seen_on_many_architectures(build_tiny: Build, name: str) -> None:
    """A bias of zero is no change at all; masses add up; a knockout leaves no mass."""
    eager = name in ("gpt_oss", "gemma2")
    model = build_tiny(name, "eager" if eager else "sdpa")
    run = DecisionRun(model, PROMPT, Openers((5, 6), (7, 8, 9)), (96, 96))
    keys = tuple(range(30, 36))  # within every window
    scopes: tuple[Scope, ...] = ("decision", "later")
    for rows in scopes:
        same = run.decide(Edit(keys, 0.0, rows))
        assert same.gap == pytest.approx(run.plain.gap, abs=1e-4)
        assert same.mass == pytest.approx(float(run.token_mass[list(keys)].sum()), abs=1e-4)
        gone = run.decide(Edit(keys, KNOCKOUT, rows))
        assert gone.mass == 0
        assert abs(gone.gap - run.plain.gap) > 1e-7


def test_hidden_keys_equal_a_mask_over_them(build_tiny: Build) -> None:
    """At all later rows, against the library's own mask."""
    model = build_tiny("llama")
    keys = range(10, 15)
    run = DecisionRun(model, PROMPT, Openers((5,), (7,)), (96, 96))
    found = run.decide(Edit(tuple(keys), KNOCKOUT, "later")).gap
    size = len(PROMPT)
    seen = torch.ones(size, size, dtype=torch.bool).tril()
    seen[15:, 10:15] = False
    mask = torch.zeros(1, 1, size, size).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT]), attention_mask=mask, use_cache=False).logits[0, -1]
    assert found == pytest.approx(float(logits[5] - logits[7]), abs=1e-5)


def test_stretching_moves_positions_alone(build_tiny: Build) -> None:
    model = build_tiny("llama")
    run = DecisionRun(model, PROMPT, Openers((5,), (7,)), (96, 96))
    positions = torch.tensor([[*range(20), *range(70, 90)]])
    with torch.no_grad():
        logits = model(
            torch.tensor([PROMPT]),
            attention_mask=torch.ones(1, 40, dtype=torch.long),
            position_ids=positions,
            use_cache=False,
        ).logits[0, -1]
    expected = float(logits[5] - logits[7])
    assert run.stretched(20, 50).gap == pytest.approx(expected, abs=1e-5)
    assert abs(expected - run.plain.gap) > 1e-6
    assert run.stretched(20, 0).gap == pytest.approx(run.plain.gap, abs=1e-5)


def test_shared_beginnings_are_not_computed_again(build_tiny: Build) -> None:
    run = DecisionRun(build_tiny("llama"), PROMPT, Openers((5,), (7,)), (96, 96))
    assert run.tokens_run == 39 + 1 + 1
    for work, tokens in (
        (lambda: run.decide(Edit((3, 4))), 1),
        (lambda: run.decide(Edit((3, 4), 1.0, "later")), 35),
        (lambda: run.instead([*PROMPT[:30], 9, 9]), 2),
        (lambda: run.stretched(10, 5), 30),
    ):
        before = run.tokens_run
        work()
        assert run.tokens_run - before == tokens


def test_a_call_is_seen_by_its_whole_opener(build_tiny: Build) -> None:
    model = build_tiny("llama")
    openers = Openers((5,), (7,))
    run = DecisionRun(model, PROMPT, openers, (96,))
    begins = run.written(lambda tokens: len(tokens) == 3)
    with torch.no_grad():
        ids = model.generate(
            torch.tensor([PROMPT]), max_new_tokens=3, do_sample=False, eos_token_id=None
        )
    assert ids[0, -3:].tolist() == begins
    for call, acts in (
        (begins[:1], True),
        (begins, True),
        ([*begins[:2], begins[2] - 1], False),
        ([begins[0] - 1, *begins[1:]], False),
    ):
        found = DecisionRun(model, PROMPT, openers, call)
        assert found.plain.acts is acts
        assert found.decide(Edit((3, 4))).acts is acts


def test_what_cannot_be_changed_is_refused(build_tiny: Build, planted: DecisionRun) -> None:
    with pytest.raises(ProbeError, match="nothing to look back at"):
        DecisionRun(planted.model, [3], OPENERS, (CALL,))
    for keys in ((), (29,), (-1,)):
        with pytest.raises(ProbeError, match="before the decision row 29"):
            planted.decide(Edit(keys))
    with pytest.raises(ProbeError, match="stretched by 60 are beyond the model's 64"):
        planted.stretched(5, 60)
    with pytest.raises(ProbeError, match="difference of two softmaxes"):
        DecisionRun(build_tiny("diffllama"), PROMPT, OPENERS, (CALL,))
