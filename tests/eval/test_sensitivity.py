"""Slopes of the gap by head, against finite differences, with a placebo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attribution import Openers
from breadcrumbs.eval.sensitivity import gap_under_bias, head_sensitivities

Build = Callable[..., Any]
PROMPT = torch.randint(3, 97, (30,), generator=torch.Generator().manual_seed(1)).tolist()
SEGMENTS = [0] * 3 + [1] * 12 + [2] * 15
OPENERS = Openers((5, 6), (7, 8, 9))


def uneven(model: Any) -> Any:
    """Weights large enough that heads differ; the tiny models' own are nearly uniform."""
    for name, weight in model.named_parameters():
        if "norm" not in name and weight.ndim > 1:
            weight.data *= 6
    return model


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt_oss", "deepseek_v3", "qwen3_next"])
def test_slopes_equal_finite_differences(build_tiny: Build, name: str) -> None:
    model = uneven(build_tiny(name, "eager" if name == "gpt_oss" else "sdpa"))
    slopes = head_sensitivities(model, PROMPT, SEGMENTS, 1, OPENERS)
    step = 0.02
    for layer, found in slopes.items():
        assert found.shape == (4,)
        for head in range(4):
            bias = {at: torch.zeros(4) for at in slopes}
            gaps = []
            for sign in (1, -1):
                bias[layer][head] = sign * step
                gaps.append(gap_under_bias(model, PROMPT, SEGMENTS, 1, OPENERS, bias))
            expected = (gaps[0] - gaps[1]) / (2 * step)
            assert found[head] == pytest.approx(expected, abs=2e-3, rel=2e-2)
    assert max(found.abs().max() for found in slopes.values()) > 1e-3, "nothing to tell apart"


def test_a_bias_of_zero_changes_nothing(build_tiny: Build) -> None:
    model = uneven(build_tiny("llama"))
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT]), use_cache=False).logits[0, -1]
    plain = torch.logsumexp(logits[[5, 6]], 0) - torch.logsumexp(logits[[7, 8, 9]], 0)
    found = gap_under_bias(model, PROMPT, SEGMENTS, 1, OPENERS, {})
    assert found == pytest.approx(plain.item(), abs=1e-4)


def test_a_segment_that_is_all_or_out_of_reach_has_no_slope(build_tiny: Build) -> None:
    """The placebos: a bias on everything shifts no weight, one on unseen keys reaches none."""
    model = uneven(build_tiny("llama"))
    everything = head_sensitivities(model, PROMPT, [1] * 30, 1, OPENERS)
    assert max(found.abs().max() for found in everything.values()) < 1e-5
    window = uneven(build_tiny("mistral"))
    unseen = head_sensitivities(window, PROMPT, SEGMENTS, 0, OPENERS)
    assert max(found.abs().max() for found in unseen.values()) == 0


def test_what_cannot_be_measured_cannot_be_biased(build_tiny: Build) -> None:
    with pytest.raises(ProbeError, match="nothing to look back at"):
        head_sensitivities(build_tiny("llama"), [3], [1], 1, OPENERS)
    with pytest.raises(ProbeError, match="difference of two softmaxes"):
        head_sensitivities(build_tiny("diffllama"), PROMPT, SEGMENTS, 1, OPENERS)
