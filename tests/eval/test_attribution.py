"""Planted effects come out at their size, placebos at none, and what has no meaning is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attribution import Measured, Openers, measure_prompt, openers_of

Build = Callable[..., Any]
STEERING, SCHEMA, OTHER = 0, 1, 2
SEGMENTS = [OTHER, *[STEERING] * 4, *[SCHEMA] * 20, *[OTHER] * 5]
IDS = [3, *[1] * 4, *[2] * 20, *[3] * 4, 4]
"""Token 1 is steering, 2 schema, 3 other text, 4 asks; 5 opens a call, 6 prose."""
CALL_OR_PROSE = Openers((5,), (6,))
LOGIT = 1.7
"""What steering keys get over all others in head 0; head 1 is the placebo."""
WIDTH = 8
VALUE = math.sqrt(WIDTH)  # a normed one-hot embedding


@pytest.fixture(scope="module")
def planted(blank: Callable[[int], Any]) -> Any:
    """Head 0 looks at steering more than at the rest, moves it towards the call and schema
    towards prose, twice as far; head 1 looks at all alike and writes nothing."""
    model = blank(1)
    with torch.no_grad():
        attention = model.model.layers[0].self_attn
        slowest = 3  # this width does not turn over so short a text
        attention.q_proj.weight[slowest, 4] = LOGIT / VALUE
        attention.k_proj.weight[slowest, 1] = 1.0
        attention.v_proj.weight[0, 1] = 1.0
        attention.v_proj.weight[1, 2] = 2.0
        attention.o_proj.weight[5, 0] = 1.0
        attention.o_proj.weight[6, 1] = 1.0
    return model


@pytest.fixture(scope="module")
def found(planted: Any) -> Measured:
    return measure_prompt(planted, IDS, SEGMENTS, 3, CALL_OR_PROSE)[0]


def test_planted_log_odds_come_out_at_their_size(
    found: Measured,
) -> None:
    stats = found.stats
    odds = stats.log_odds(STEERING, SCHEMA)[0, :, 0]
    tokens = math.log(4 / 20)
    assert odds.tolist() == pytest.approx([LOGIT + tokens, tokens], abs=1e-5)
    per_token = stats.log_odds_per_token(STEERING, SCHEMA)[0, :, 0]
    assert per_token.tolist() == pytest.approx([LOGIT, 0.0], abs=1e-5)
    assert stats.effective_tokens()[0, 1, 0] == pytest.approx(30, abs=1e-3)
    density = stats.log2_density()[0, :, 0]
    assert density[1].abs().max() < 1e-5, "the placebo head is uniform"
    raised = math.exp(LOGIT) * 30 / (4 * math.exp(LOGIT) + 26)
    assert density[0, STEERING] == pytest.approx(math.log2(raised), abs=1e-5)


def test_planted_writing_comes_out_at_its_size(found: Measured) -> None:
    attribution = found.attribution
    share = 4 * math.exp(LOGIT) / (4 * math.exp(LOGIT) + 26)
    schema_share = 20 / (4 * math.exp(LOGIT) + 26)
    steering, schema = share * VALUE, schema_share * 2 * VALUE
    assert attribution.norms is not None
    assert attribution.norms[0, 0].tolist() == pytest.approx([steering, schema, 0.0], abs=1e-5)
    assert attribution.norms[0, 1].abs().max() < 1e-6, "the placebo head writes nothing"
    value_share = attribution.value_share()
    assert value_share is not None
    assert value_share[0, 0].tolist() == pytest.approx(
        [steering / (steering + schema), schema / (steering + schema), 0.0], abs=1e-5
    )
    scale = math.sqrt((1 + steering**2 + schema**2) / WIDTH)
    assert attribution.logits is not None
    expected = [steering / scale, -schema / scale, 0.0]
    assert attribution.logits[0, 0].tolist() == pytest.approx(expected, abs=1e-5)
    assert attribution.logits[0, 1].abs().max() < 1e-6
    assert attribution.logits.sum().item() == pytest.approx(attribution.gap, abs=1e-5)
    assert attribution.refusals == ()


def test_joined_segments_have_the_length_of_their_sum(planted: Any, found: Measured) -> None:
    """Steering and schema write at right angles here."""
    norms = found.attribution.norms
    groups = [[STEERING, SCHEMA], [OTHER]]
    by_group = measure_prompt(planted, IDS, SEGMENTS, 3, CALL_OR_PROSE, groups)[1]
    joined = by_group.attribution.norms
    assert norms is not None
    assert joined is not None
    expected = math.hypot(norms[0, 0, STEERING], norms[0, 0, SCHEMA])
    assert joined[0, 0].tolist() == pytest.approx([expected, 0.0], abs=1e-5)


def test_without_what_was_planted_nothing_is_found(planted: Any) -> None:
    weight = planted.model.layers[0].self_attn.q_proj.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.zero_()
    try:
        stats = measure_prompt(planted, IDS, SEGMENTS, 3, CALL_OR_PROSE)[0].stats
    finally:
        with torch.no_grad():
            weight.copy_(kept)
    per_token = stats.log_odds_per_token(STEERING, SCHEMA)
    assert per_token.abs().max() < 1e-5


PROMPT = torch.randint(3, 97, (50,), generator=torch.Generator().manual_seed(1)).tolist()
PARTS = [(position // 7) % 4 for position in range(50)]


@pytest.mark.parametrize(
    "name",
    ["llama", "qwen3", "mistral", "deepseek_v3", "glm4_moe", "smollm3", "phi3", "qwen3_next"],
)
def test_attributions_of_plain_streams_are_there(build_tiny: Build, name: str) -> None:
    """Gates behind the attention (qwen3_next) included: their sum is checked while measuring."""
    found = measure_prompt(build_tiny(name), PROMPT, PARTS, 4, CALL_OR_PROSE)[0].attribution
    assert found.refusals == ()
    assert found.norms is not None
    assert found.logits is not None
    assert (found.norms.nan_to_num(1.0) > 0).all()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("olmo3", "does more than add attention and MLP"),
        ("granite", "does more than add attention and MLP"),
        ("gpt_neox", "does more than add attention and MLP|one RMS norm"),
        ("gemma2", "does more than add attention and MLP"),
    ],
)
def test_attributions_without_meaning_are_refused(
    build_tiny: Build, name: str, reason: str
) -> None:
    model = build_tiny(name, "eager")
    found = measure_prompt(model, PROMPT, PARTS, 4, CALL_OR_PROSE)[0].attribution
    assert found.logits is None
    (refusal,) = found.refusals
    assert refusal.startswith("direct logit attribution: ")
    assert re.search(reason, refusal), refusal
    assert found.norms is not None, "what the heads write can be measured all the same"


def test_norms_equal_those_of_the_whole_matrices(build_tiny: Build) -> None:
    model, eager = build_tiny("llama"), build_tiny("llama", "eager")
    found = measure_prompt(model, PROMPT, PARTS, 4, CALL_OR_PROSE)[0].attribution
    assert found.norms is not None
    ids = torch.tensor([PROMPT])
    layer = eager.model.layers[0]
    with torch.no_grad():
        weights = eager(ids, output_attentions=True, use_cache=False).attentions[0][0, :, -1]
        normed = layer.input_layernorm(eager.model.embed_tokens(ids))
        values = layer.self_attn.v_proj(normed)[0].view(50, 2, 8)
        out = layer.self_attn.o_proj.weight.view(32, 4, 8)
        for head in range(4):
            for segment in range(4):
                keep = torch.tensor(PARTS) == segment
                part = weights[head, keep] @ values[keep, head // 2]
                expected = (out[:, head] @ part).norm()
                assert found.norms[0, head, segment] == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_an_adapter_on_the_output_projection_counts(build_tiny: Build) -> None:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(r=4, target_modules=["o_proj"], init_lora_weights=False)
    model = get_peft_model(build_tiny("llama"), settings).eval()
    adapted = measure_prompt(model, PROMPT, PARTS, 4, CALL_OR_PROSE)[0].attribution
    with model.disable_adapter():
        base = measure_prompt(model, PROMPT, PARTS, 4, CALL_OR_PROSE)[0].attribution
    assert adapted.norms is not None
    assert base.norms is not None
    assert not torch.allclose(adapted.norms[0], base.norms[0], atol=1e-3)


def test_openers_are_the_models_own(chatml_tokenizer: Any) -> None:
    from breadcrumbs.rendering import load_renderer

    renderer = load_renderer(chatml_tokenizer)
    openers = openers_of(renderer)
    assert renderer.tokenizer.decode(list(openers.call)) in "<tool_call>"
    assert not set(openers.call) & set(openers.prose)
    assert len(openers.prose) > 5


def test_openers_that_cannot_be_told_apart_are_refused() -> None:
    class OneToken:
        call_format = type("Form", (), {"opener": "<call>"})()

        def tokenizer(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
            return {"input_ids": [7]}

    with pytest.raises(ProbeError, match="begin with a token that prose begins with"):
        openers_of(OneToken())  # type: ignore[arg-type]
