"""The capture against eager attention, its traps, and controls that must fail."""

from __future__ import annotations

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen3Config,
)

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval import capture as capture_module
from breadcrumbs.eval.capture import capturing

SMALL = {
    "vocab_size": 97,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
}
CONFIGS: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**SMALL),
    "qwen3": Qwen3Config(**SMALL),
    "mistral_sliding": MistralConfig(**SMALL, sliding_window=16),
    "gemma2_softcap": Gemma2Config(
        **SMALL, sliding_window=16, attn_logit_softcapping=5.0, query_pre_attn_scalar=8
    ),
    "gpt_oss_sink": GptOssConfig(
        **SMALL, num_local_experts=2, num_experts_per_tok=1, sliding_window=16
    ),
}
TOKENS = 50
ROWS = (0, 20, 49)
SEGMENTS = [(position // 7) % 4 for position in range(TOKENS)]


def build(name: str, implementation: str) -> torch.nn.Module:
    torch.manual_seed(0)
    config = CONFIGS[name]
    model = AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
    return model.eval()


def ids() -> torch.Tensor:
    return torch.randint(0, 97, (1, TOKENS), generator=torch.Generator().manual_seed(1))


def run(model: torch.nn.Module, **kw: object) -> object:
    with torch.no_grad():
        return model(ids(), attention_mask=torch.ones(1, TOKENS, dtype=torch.long), **kw)


def eager_masses(name: str) -> torch.Tensor:
    """[L, H, R, S] from the full matrices."""
    model = build(name, "eager")
    attentions = torch.stack(run(model, output_attentions=True, use_cache=False).attentions)[:, 0]
    segments = torch.tensor(SEGMENTS)
    picked = attentions[:, :, list(ROWS), :TOKENS]
    return torch.stack([picked[..., segments == s].sum(-1) for s in range(4)], -1)


@pytest.mark.parametrize("name", CONFIGS)
def test_masses_equal_eager(name: str) -> None:
    implementation = "eager" if name in ("gemma2_softcap", "gpt_oss_sink") else "sdpa"
    model = build(name, implementation)
    with capturing(model, SEGMENTS, 4, ROWS) as capture:
        run(model, use_cache=False)
    assert torch.allclose(capture.stats().mass(), eager_masses(name), atol=1e-5)


def test_streaming_over_keys_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("llama", "sdpa")
    with capturing(model, SEGMENTS, 4, ROWS) as whole:
        run(model, use_cache=False)
    monkeypatch.setattr(capture_module, "STREAM_BLOCK", 13)
    with capturing(model, SEGMENTS, 4, ROWS) as streamed:
        run(model, use_cache=False)
    assert torch.allclose(whole.stats().mass(), streamed.stats().mass(), atol=1e-6)
    assert torch.allclose(whole.stats().entropy, streamed.stats().entropy, atol=1e-5)


def test_logits_are_bit_identical_and_the_wrapper_is_gone() -> None:
    model = build("llama", "sdpa")
    plain = run(model, use_cache=False).logits
    with capturing(model, SEGMENTS, 4, ROWS):
        probed = run(model, use_cache=False).logits
    assert torch.equal(plain, probed)
    with capturing(model, SEGMENTS, 4, ROWS) as idle:
        pass
    run(model, use_cache=False)
    with pytest.raises(ProbeError, match="no attention layer"):
        idle.stats()


def test_masses_sum_to_one_and_the_first_row_sees_only_itself() -> None:
    model = build("llama", "sdpa")
    with capturing(model, SEGMENTS, 4, ROWS) as capture:
        run(model, use_cache=False)
    stats = capture.stats()
    assert torch.allclose(stats.mass().sum(-1), torch.ones(2, 4, 3), atol=1e-6)
    assert torch.isneginf(stats.lse[:, :, 0, 1:]).all()
    assert torch.allclose(stats.mass_without([0])[:, :, 1:].sum(-1), torch.ones(2, 4, 2))


def test_a_planted_effect_comes_out_at_its_size() -> None:
    """All logits zero: attention is uniform, so log-odds are the log ratio of token counts."""
    model = build("llama", "sdpa")
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.q_proj.weight)
    with capturing(model, SEGMENTS, 4, (TOKENS - 1,)) as capture:
        run(model, use_cache=False)
    counts = torch.bincount(torch.tensor(SEGMENTS), minlength=4).float()
    expected = torch.log(counts[0] / counts[1])
    assert torch.allclose(capture.stats().log_odds(0, 1), expected.expand(2, 4, 1), atol=1e-5)
    assert torch.allclose(capture.stats().entropy.exp(), torch.full((2, 4, 1), 50.0), atol=1e-3)


def test_another_models_calls_are_not_measured() -> None:
    ours, other = build("llama", "sdpa"), build("llama", "sdpa")
    with capturing(ours, SEGMENTS, 4, ROWS) as capture:
        run(other, use_cache=False)
    with pytest.raises(ProbeError, match="no attention layer"):
        capture.stats()


@pytest.mark.parametrize("rows", [(), (50,), (-1,)])
def test_rows_out_of_range_are_refused(rows: tuple[int, ...]) -> None:
    with (
        pytest.raises(ProbeError, match="do not lie in"),
        capturing(build("llama", "sdpa"), SEGMENTS, 4, rows),
    ):
        pass


def test_a_prompt_of_another_length_is_refused() -> None:
    model = build("llama", "sdpa")
    with (
        pytest.raises(ProbeError, match="expected one prompt of 49 tokens"),
        capturing(model, SEGMENTS[:-1], 4, (48,)),
    ):
        run(model, use_cache=False)
