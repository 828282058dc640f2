"""The capture against eager attention, on many architectures, whole and in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval import partitions
from breadcrumbs.eval.capture import Capture, capturing

Build = Callable[..., Any]
TOKENS = 50
ROWS = (0, 20, 49)
SEGMENTS = [(position // 7) % 4 for position in range(TOKENS)]
MEASURED = (
    *("llama", "qwen2", "qwen3", "mistral", "gemma2", "gemma3_text", "gpt_oss", "deepseek_v3"),
    *("deepseek_v32", "qwen3_next", "qwen3_5_text", "lfm2", "phi3", "olmo3", "smollm3", "granite"),
    *("glm4_moe", "ministral3", "granitemoehybrid", "jamba", "gpt_neox", "cohere2", "doge"),
    *("llama4_text", "mixtral", "bitnet"),
)
EAGER_ONLY = ("gemma2", "gpt_oss")  # sdpa has neither soft caps nor learned sinks
ATTENTION = {"qwen3_next": 1, "qwen3_5_text": 1} | dict.fromkeys(
    ("lfm2", "granitemoehybrid", "jamba"), 2
)


def ids() -> torch.Tensor:
    return torch.randint(3, 97, (1, TOKENS), generator=torch.Generator().manual_seed(1))


def run(model: Any, **kw: Any) -> Any:
    settings = {"use_cache": False} | kw
    with torch.no_grad():
        return model(ids(), attention_mask=torch.ones_like(ids()), **settings)


def run_chunked(model: Any, tokens: torch.Tensor, ends: Sequence[int]) -> torch.Tensor:
    """Logits of the last chunk; the cache is the one the model makes."""
    cache, first = {}, 0
    for end in ends:
        with torch.no_grad():
            output = model(
                tokens[:, first:end],
                attention_mask=torch.ones(1, end, dtype=torch.long),
                use_cache=True,
                **cache,
            )
        found = getattr(output, "cache", None)
        cache = {"cache": output.past_key_values if found is None else found}
        first = end
    return output.logits


def eager_masses(model: Any, rows: Sequence[int] = ROWS) -> torch.Tensor:
    """[L, H, R, S] from the full matrices."""
    found = [a for a in run(model, output_attentions=True).attentions if a is not None]
    picked = torch.stack(found)[:, 0][:, :, list(rows), :TOKENS]
    segments = torch.tensor(SEGMENTS)
    return torch.stack([picked[..., segments == s].sum(-1) for s in range(4)], -1)


def masses(capture: Capture) -> torch.Tensor:
    """Unreachable segments as the zeros that eager attention has there."""
    stats = capture.stats()
    assert torch.equal(torch.isnan(stats.mass()), ~stats.reachable())
    return torch.nan_to_num(stats.mass())


@pytest.mark.parametrize("name", MEASURED)
def test_masses_equal_eager_and_logits_stay_the_same(build_tiny: Build, name: str) -> None:
    expected = eager_masses(build_tiny(name, "eager"))
    model = build_tiny(name, "eager" if name in EAGER_ONLY else "sdpa")
    plain = run(model).logits
    with capturing(model, SEGMENTS, 4, ROWS) as whole:
        probed = run(model).logits
    assert torch.equal(plain, probed)
    assert torch.allclose(masses(whole), expected, rtol=0, atol=1e-5)
    coverage = whole.stats().coverage
    assert coverage is not None
    assert coverage.attention_layers == ATTENTION.get(name, 2) == len(whole.stats().layers)
    with capturing(model, SEGMENTS, 4, ROWS) as chunked:
        run_chunked(model, ids(), (17, 34, TOKENS))
    assert torch.allclose(masses(chunked), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_wrong_segments_do_not_pass_for_the_right_ones(build_tiny: Build, name: str) -> None:
    """The control: one token's label moved is seen."""
    model = build_tiny(name)
    moved = [1, *SEGMENTS[1:]]
    with capturing(model, moved, 4, ROWS) as capture:
        run(model)
    expected = eager_masses(build_tiny(name, "eager"))
    assert not torch.allclose(masses(capture), expected, rtol=0, atol=1e-3)


def test_the_decision_position_is_the_default(build_tiny: Build) -> None:
    model = build_tiny("llama")
    with capturing(model, SEGMENTS, 4) as default:
        run(model)
    with capturing(model, SEGMENTS, 4, ROWS) as chosen:
        run(model)
    assert default.stats().rows == (TOKENS - 1,)
    assert torch.equal(default.stats().lse, chosen.stats().lse[:, :, -1:])


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3_next"])
@pytest.mark.parametrize("options", [{}, {"prefill_chunk_size": 16}])
def test_every_generated_token_is_measured(
    build_tiny: Build, name: str, options: dict[str, Any]
) -> None:
    """Against one forward over the finished text, in which the same rows are chosen."""
    model = build_tiny(name)
    prompt = ids()[:, :30]
    ones = torch.ones_like(prompt)
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False} | options
    plain = model.generate(prompt, attention_mask=ones, **settings)
    with capturing(model, SEGMENTS[:30], 5, generated=4) as live:
        written = model.generate(prompt, attention_mask=ones, **settings)
    assert torch.equal(plain, written)
    rows = tuple(range(29, 35))  # the last token written is never read
    assert live.stats().rows == rows
    with capturing(model, [*SEGMENTS[:30], *[4] * 5], 5, rows) as after, torch.no_grad():
        model(written[:, :35], attention_mask=torch.ones(1, 35, dtype=torch.long), use_cache=False)
    assert torch.allclose(live.stats().lse, after.stats().lse, atol=1e-4)
    assert torch.equal(live.stats().visible, after.stats().visible)


def test_a_prefix_is_computed_once_for_many_prompts(build_tiny: Build) -> None:
    model = build_tiny("llama")
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids()[:, :20], attention_mask=torch.ones(1, 20, dtype=torch.long), cache=cache)
    with capturing(model, SEGMENTS, 4) as behind, torch.no_grad():
        model(ids()[:, 20:], attention_mask=torch.ones_like(ids()), cache=cache)
    with capturing(model, SEGMENTS, 4) as whole:
        run(model)
    assert torch.allclose(behind.stats().lse, whole.stats().lse, atol=1e-5)
    with capturing(model, SEGMENTS, 4, (5, 49)) as early, torch.no_grad():
        cache.crop(-30)
        model(ids()[:, 20:], attention_mask=torch.ones_like(ids()), cache=cache)
    with pytest.raises(ProbeError, match=r"rows \[5\] never ran; they lie in a prefix"):
        early.stats()


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_an_adapter_is_switched_with_the_same_weights(build_tiny: Build) -> None:
    from peft import LoraConfig, get_peft_model

    plain = build_tiny("llama")
    with capturing(plain, SEGMENTS, 4) as alone:
        run(plain)
    settings = LoraConfig(r=4, target_modules=["q_proj", "o_proj"], init_lora_weights=False)
    model = get_peft_model(build_tiny("llama"), settings).eval()
    with capturing(model, SEGMENTS, 4) as adapted:
        run(model)
    with model.disable_adapter(), capturing(model, SEGMENTS, 4) as base:
        run(model)
    assert torch.equal(base.stats().lse, alone.stats().lse)
    assert not torch.allclose(adapted.stats().lse, alone.stats().lse, atol=1e-3)


def test_some_layers_can_be_chosen(build_tiny: Build) -> None:
    model = build_tiny("llama")
    with capturing(model, SEGMENTS, 4, layers={1}) as second:
        run(model)
    with capturing(model, SEGMENTS, 4) as both:
        run(model)
    assert second.stats().layers == (1,)
    assert torch.equal(second.stats().lse[0], both.stats().lse[1])


def test_keys_read_in_blocks_give_the_same(
    build_tiny: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build_tiny("gemma3_text", num_hidden_layers=2)
    long = torch.randint(3, 97, (1, 250), generator=torch.Generator().manual_seed(2))
    segments = [place * 4 // 250 for place in range(250)]

    def measure() -> Any:
        with torch.no_grad(), capturing(model, segments, 4, (100, 249), with_outputs=True) as got:
            model(long, attention_mask=torch.ones_like(long), use_cache=False)
        return got.stats()

    whole = measure()
    monkeypatch.setattr(partitions.Rows, "block", property(lambda self: 13))
    streamed = measure()
    for name in ("lse", "peak", "mean_logit", "squares"):
        assert torch.allclose(getattr(whole, name), getattr(streamed, name), atol=1e-5), name
    assert torch.equal(whole.visible, streamed.visible)
    for one, other in zip(whole.outputs, streamed.outputs, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_the_same_run_gives_the_same_bytes(build_tiny: Build) -> None:
    def measure() -> bytes:
        model = build_tiny("llama")
        with capturing(model, SEGMENTS, 4, ROWS) as capture:
            run(model)
        return capture.stats().lse.numpy().tobytes()

    assert measure() == measure()


def test_the_wrapper_is_gone_afterwards_and_may_be_nested(build_tiny: Build) -> None:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    model = build_tiny("llama")
    with capturing(model, SEGMENTS, 4) as outer:
        with capturing(model, SEGMENTS, 4) as inner:
            run(model)
        assert "get_interface" in vars(ALL_ATTENTION_FUNCTIONS)
    assert "get_interface" not in vars(ALL_ATTENTION_FUNCTIONS)
    assert torch.equal(outer.stats().lse, inner.stats().lse)
    with capturing(model, SEGMENTS, 4) as idle:
        pass
    run(model)
    with pytest.raises(ProbeError, match="no attention layer was seen"):
        idle.stats()


@pytest.mark.parametrize("rows", [(), (50,), (-1,)])
def test_rows_out_of_range_are_refused(build_tiny: Build, rows: tuple[int, ...]) -> None:
    with (
        pytest.raises(ProbeError, match="do not lie in"),
        capturing(build_tiny("llama"), SEGMENTS, 4, rows),
    ):
        pass


def test_segments_out_of_range_are_refused(build_tiny: Build) -> None:
    model = build_tiny("llama")
    for segments in ([], [0, 4], [-1, 0]):
        with (
            pytest.raises(ProbeError, match="a segment from 0 to 3"),
            capturing(model, segments, 4),
        ):
            pass
    with pytest.raises(ProbeError, match="generated segment 4"):
        capturing(model, SEGMENTS, 4, generated=4).__enter__()
