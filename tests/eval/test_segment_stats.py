"""Every measure against the same number computed from whole rows of weights."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.partitions import Rows, make_labels, partition
from breadcrumbs.eval.segment_stats import Coverage, Piece, SegmentStats, layer_profile, spread

HEADS, TOKENS, SEGMENTS = 3, 40, 5
IDS = torch.tensor([(place // 6) % 4 for place in range(TOKENS)])
"""Segment 4 has no token."""


def rows(**changes: Any) -> Rows:
    random = torch.Generator().manual_seed(0)
    settings = {
        "query": torch.randn(HEADS, 2, 8, generator=random),
        "keys": torch.randn(1, TOKENS, 8, generator=random),
        "scaling": 0.7,
    }
    return Rows(**settings | changes)


def stats(given: Rows) -> SegmentStats:
    found = partition(given, make_labels(IDS, SEGMENTS))
    return SegmentStats.joined((0,), (38, 39), [[Piece([38, 39], found)]], None)


def test_measures_equal_those_of_the_weights() -> None:
    measured, logits = stats(rows()), rows().logits(slice(0, TOKENS))
    weights = torch.softmax(logits, -1)
    member = torch.nn.functional.one_hot(IDS, SEGMENTS).float()
    mass = weights @ member
    close = {"rtol": 1e-5, "atol": 1e-6}
    assert torch.allclose(measured.mass()[0, ..., :4], mass[..., :4], **close)
    assert torch.isnan(measured.mass()[..., 4]).all()
    entropy = -(weights * weights.log()).sum(-1)
    assert torch.allclose(measured.entropy()[0], entropy, **close)
    assert torch.allclose(measured.effective_tokens()[0], entropy.exp(), rtol=1e-5)
    assert torch.allclose(measured.participation()[0], 1 / (weights**2).sum(-1), rtol=1e-5)
    odds = (mass[..., 1] / mass[..., 2]).log()
    assert torch.allclose(measured.log_odds(1, 2)[0], odds, rtol=1e-4, atol=1e-5)
    counts = member.sum(0)
    assert torch.allclose(
        measured.log_odds_per_token(1, 2)[0], odds - math.log(counts[1] / counts[2]), atol=1e-4
    )
    density = (mass / counts / (1 / TOKENS)).log2()[..., :4]
    assert torch.allclose(measured.log2_density()[0, ..., :4], density, atol=1e-4)
    free = mass[..., 1:4] / mass[..., 1:4].sum(-1, keepdim=True)
    assert torch.allclose(measured.mass_without([0])[0, ..., 1:4], free, **close)
    assert torch.isnan(measured.mass_without([0])[..., 0]).all()
    assert torch.allclose(measured.log_rest([0])[0].exp(), 1 - mass[..., 0], **close)
    best = torch.stack([logits[..., s == IDS].amax(-1) for s in range(4)], -1)
    assert torch.allclose(measured.peak[0, ..., :4], best)


@pytest.mark.parametrize("block", [7, 40])
@pytest.mark.parametrize("depth", [0.0, 100.0, 3000.0])
def test_partitions_equal_float64_however_far_apart_segments_lie(
    monkeypatch: pytest.MonkeyPatch, block: int, depth: float
) -> None:
    offsets = torch.tensor([0.0, -1.0, 0.5, -0.3])[IDS] * depth
    bias = offsets.expand(1, 1, TOKENS)
    exact = (rows().logits(slice(0, TOKENS)) + offsets).double()
    monkeypatch.setattr(Rows, "block", property(lambda self: block))
    found = partition(rows(bias=bias), make_labels(IDS, SEGMENTS))
    for segment in range(4):
        expected = torch.logsumexp(exact[..., segment == IDS], -1)
        assert torch.allclose(found.lse[..., segment].double(), expected, rtol=1e-6, atol=1e-5)
    assert torch.isneginf(found.lse[..., 4]).all()
    weights = torch.softmax(exact, -1)
    mean_logit, squares = found.moments()
    assert torch.allclose(mean_logit.sum(-1).double(), (weights * exact).sum(-1), rtol=1e-3)
    assert torch.allclose(squares.sum(-1).double(), (weights**2).sum(-1), rtol=1e-3)


def test_uniform_attention_has_no_density_and_all_its_tokens() -> None:
    measured = stats(rows(query=torch.zeros(HEADS, 2, 8)))
    assert measured.log2_density()[..., :4].abs().max() < 1e-5
    assert torch.allclose(measured.effective_tokens(), torch.tensor(40.0), rtol=1e-5)
    assert measured.log_odds_per_token(0, 1).abs().max() < 1e-5


def test_merging_segments_is_measuring_them_as_one() -> None:
    split = stats(rows()).merged([[0, 2], [1], [3], [4], []])
    joined = partition(rows(), make_labels(torch.tensor([0, 1, 0, 2])[IDS], SEGMENTS))
    whole = SegmentStats.joined((0,), (38, 39), [[Piece([38, 39], joined)]], None)
    for name in ("lse", "peak", "mean_logit", "squares"):
        one, other = getattr(split, name), getattr(whole, name)
        assert torch.allclose(one[..., :3], other[..., :3], atol=1e-5), name
    assert torch.equal(split.visible, whole.visible)
    assert torch.isnan(split.mass()[..., 3:]).all()


def test_a_segment_out_of_reach_counts_in_no_summary() -> None:
    seen = torch.ones(1, 2, TOKENS, dtype=torch.bool)
    seen[:, 0] = IDS != 1
    measured = stats(rows(visible=seen))
    assert torch.isnan(measured.log_odds(0, 1)[0, :, 0]).all()
    assert torch.isnan(measured.log_odds(1, 0)[0, :, 0]).all()
    assert measured.visible[0, :, 0, 1].eq(0).all()
    summary = spread(measured.mass()[..., 1])
    assert summary is not None
    assert summary.n == HEADS
    assert summary.lower > 0
    assert spread(measured.mass()[..., 4]) is None
    assert torch.allclose(torch.nan_to_num(measured.mass()).sum(-1), torch.tensor(1.0))


def test_a_learned_sink_is_in_masses_and_not_in_the_keys_own_measures() -> None:
    plain, sunk = stats(rows()), stats(rows(sink=torch.tensor([0.0, 3.0, 6.0])))
    share = torch.exp(sunk.virtual_sink[..., None] - sunk.total())
    assert torch.allclose(torch.nan_to_num(sunk.mass()).sum(-1), 1 - share, atol=1e-6)
    assert share[0, 2].min() > share[0, 0].max()
    for name in ("entropy", "participation", "log2_density"):
        one, other = getattr(plain, name)(), getattr(sunk, name)()
        assert torch.allclose(one, other, equal_nan=True), name


def test_quartiles_are_over_heads_and_layers() -> None:
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, torch.nan]])
    assert spread(values) == pytest.approx((2.0, 3.0, 4.0, 3.0, 5))
    profile = layer_profile(values)
    assert profile[0] is not None
    assert profile[0].median == 2.0
    assert profile[1] is not None
    assert profile[1].n == 2
    assert layer_profile(torch.full((1, 2), torch.nan)) == [None]


def test_rows_that_see_nothing_and_layers_unlike_are_refused() -> None:
    nothing = torch.zeros(1, 2, TOKENS, dtype=torch.bool)
    with pytest.raises(ProbeError, match="sees no key"):
        stats(rows(visible=nothing))
    found = partition(rows(), make_labels(IDS, SEGMENTS))
    fewer = partition(rows(query=torch.randn(2, 2, 8)), make_labels(IDS, SEGMENTS))
    with pytest.raises(ProbeError, match="differ in their number of heads"):
        SegmentStats.joined((0, 1), (0,), [[Piece([0], found)], [Piece([0], fewer)]], None)


def test_coverage_names_what_was_not_measured() -> None:
    assert Coverage(4, 4, {}).text() == "attention in 4 of 4 layers"
    line = Coverage(1, 4, {"LightningAttention": 3}).text()
    assert line == "attention in 1 of 4 layers; not measured: LightningAttention (3)"
