"""Every known way to measure attention wrongly: guarded, and shown to be a trap."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AttentionInterface, DynamicCache, StaticCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.capture import capturing
from breadcrumbs.eval.partitions import Rows, make_labels, partition
from breadcrumbs.eval.prompt_run import check_chunks, run_prompt

Build = Callable[..., Any]
TOKENS = 50
SEGMENTS = [(position // 7) % 4 for position in range(TOKENS)]
IDS = torch.randint(3, 97, (1, TOKENS), generator=torch.Generator().manual_seed(1))


def run(model: Any, mask: torch.Tensor | None = None, **kw: Any) -> Any:
    settings = {"use_cache": False} | kw
    mask = torch.ones_like(IDS) if mask is None else mask
    with torch.no_grad():
        return model(IDS, attention_mask=mask, **settings)


def eager_masses(model: Any, row: int, mask: torch.Tensor | None = None) -> torch.Tensor:
    found = torch.stack(run(model, mask, output_attentions=True).attentions)[:, 0, :, row]
    segments = torch.tensor(SEGMENTS)
    return torch.stack([found[..., :TOKENS][..., segments == s].sum(-1) for s in range(4)], -1)


def test_masks_stay_where_a_bare_new_name_loses_them(build_tiny: Build) -> None:
    model = build_tiny("llama")
    first, rest = IDS[:, :30], IDS[:, 30:]

    def chunked() -> torch.Tensor:
        cache = DynamicCache(config=model.config)
        with torch.no_grad():
            model(first, attention_mask=torch.ones_like(first), cache=cache)
            return model(rest, attention_mask=torch.ones_like(IDS), cache=cache).logits

    plain = chunked()
    with capturing(model, SEGMENTS, 4):
        assert torch.equal(chunked(), plain)
    AttentionInterface.register("bare_name", ALL_ATTENTION_FUNCTIONS["sdpa"])
    try:
        model.set_attn_implementation("bare_name")
        assert not torch.allclose(chunked(), plain, atol=1e-3), "the trap is gone"
        with pytest.raises(ProbeError, match="without a mask"), capturing(model, SEGMENTS, 4):
            chunked()
    finally:
        AttentionInterface._global_mapping.pop("bare_name")


def test_left_padding_is_no_key(build_tiny: Build) -> None:
    mask = torch.ones_like(IDS)
    mask[:, :8] = 0
    model = build_tiny("llama")
    plain = run(model, mask).logits
    with capturing(model, SEGMENTS, 4) as capture:
        assert torch.equal(run(model, mask).logits, plain)
    expected = eager_masses(build_tiny("llama", "eager"), TOKENS - 1, mask)
    assert torch.allclose(capture.stats().mass()[:, :, 0], expected, atol=1e-5)
    padded = int((torch.tensor(SEGMENTS[8:]) == 0).sum())
    assert capture.stats().visible[0, 0, 0, 0] == padded < SEGMENTS.count(0)


def test_a_row_that_is_padding_is_refused(build_tiny: Build) -> None:
    mask = torch.ones_like(IDS)
    mask[:, :8] = 0
    model = build_tiny("llama", "eager")
    with (
        pytest.raises(ProbeError, match="sees no key: it is padding"),
        capturing(model, SEGMENTS, 4, (3,)),
    ):
        run(model, mask)


def test_jumps_in_positions_without_a_mask_are_refused(build_tiny: Build) -> None:
    model = build_tiny("llama")
    jump = torch.cat([torch.arange(20), torch.arange(30, 60)])[None]
    with torch.no_grad():
        packed = model(IDS, position_ids=jump, use_cache=False).logits
    stretched = run(model, position_ids=jump).logits
    assert not torch.allclose(packed, stretched, atol=1e-3), "the trap is gone"
    with (
        pytest.raises(ProbeError, match="read as packed sequences; pass an attention_mask"),
        capturing(model, SEGMENTS, 4),
        torch.no_grad(),
    ):
        model(IDS, position_ids=jump, use_cache=False)
    with capturing(model, SEGMENTS, 4) as capture:
        assert torch.equal(run(model, position_ids=jump).logits, stretched)
    assert capture.stats().visible.sum() == 2 * 4 * TOKENS


def test_a_model_that_differs_in_chunks_is_refused_by_itself(build_tiny: Build) -> None:
    ids = IDS[0].tolist()
    check_chunks(build_tiny("llama"), ids, 20)
    check_chunks(build_tiny("jamba"), ids, 7)
    with pytest.raises(ProbeError, match="gives other logits .* run the prompt whole"):
        check_chunks(build_tiny("deepseek_v32"), ids, 7)
    model = build_tiny("llama")
    whole = run_prompt(model, ids)
    assert torch.allclose(whole, run(model).logits[0, -1], atol=1e-6)
    assert torch.allclose(run_prompt(model, ids, 20), whole, atol=1e-6)
    with pytest.raises(ProbeError, match="empty prompt"):
        run_prompt(model, [])


def test_a_static_cache_is_refused(build_tiny: Build) -> None:
    model = build_tiny("llama")
    cache = StaticCache(config=model.config, max_cache_len=80)
    with pytest.raises(ProbeError, match="a static cache"), capturing(model, SEGMENTS, 4):
        run(model, cache=cache, use_cache=True)
    # Were it not refused, keys would be taken to end where the prompt ends.
    with capturing(model, SEGMENTS, 4) as capture:
        capture.enter(TOKENS, 0, None)
        query, key = torch.zeros(1, 4, TOKENS, 8), torch.zeros(1, 2, 80, 8)
        module = model.model.layers[0].self_attn
        with pytest.raises(ProbeError, match="80 keys where 50 tokens are there"):
            capture.observe(module, (query, key, key), None, torch.zeros(1, TOKENS, 4, 8), {})


def test_a_segment_that_slid_out_of_the_window_is_unreachable(build_tiny: Build) -> None:
    segments = [0] * 10 + [1] * 25 + [2] * 15
    model = build_tiny("mistral")
    cache = DynamicCache(config=model.config)
    with capturing(model, segments, 3) as capture, torch.no_grad():
        model(IDS[:, :40], attention_mask=torch.ones(1, 40, dtype=torch.long), cache=cache)
        model(IDS[:, 40:], attention_mask=torch.ones_like(IDS), cache=cache)
    stats = capture.stats()
    assert not stats.reachable()[..., 0].any()
    assert torch.isnan(stats.mass()[..., 0]).all()
    assert torch.isnan(stats.log_odds(0, 1)).all()
    assert (stats.visible[:, :, 0].sum(-1) == 16).all()
    assert (stats.visible[..., 1] == 1).all()
    assert stats.visible[0, 0, 0].tolist() == [0, 1, 15]
    # The cache holds only what the window can see: counting keys from the front would be wrong.
    assert cache.layers[0].keys.shape[2] == 15


def test_bfloat16_weights_of_eager_are_no_truth(build_tiny: Build) -> None:
    """The model's own rounded weights do not even sum to one; ours are float32 of the same q, k."""
    model = build_tiny("llama", "eager").to(torch.bfloat16)
    for layer in model.model.layers:
        layer.self_attn.q_proj.weight.data *= 40  # uneven weights
    rounded = torch.stack(run(model, output_attentions=True).attentions)[:, 0, :, -1].float()
    with capturing(model, SEGMENTS, 4) as capture:
        run(model)
    assert (rounded.sum(-1) - 1).abs().max() > 1e-4, "the trap is gone"
    assert torch.allclose(capture.stats().mass().sum(-1), torch.ones(2, 4, 1), atol=1e-6)


def test_a_learned_sink_takes_its_share(build_tiny: Build) -> None:
    model = build_tiny("gpt_oss", "eager")
    for layer in model.model.layers:
        layer.self_attn.sinks.data.fill_(1.5)
    with capturing(model, SEGMENTS, 4) as capture:
        run(model)
    stats = capture.stats()
    sink = torch.exp(stats.virtual_sink[..., None] - stats.total())
    assert sink.min() > 0.05
    shares = torch.nan_to_num(stats.mass()).sum(-1)
    assert torch.allclose(shares + sink, torch.ones(2, 4, 1), atol=1e-6)
    free = torch.nan_to_num(stats.mass_without([])).sum(-1)
    assert torch.allclose(free, torch.ones(2, 4, 1), atol=1e-6)


def test_soft_caps_are_applied(build_tiny: Build) -> None:
    capped, plain = build_tiny("gemma2", "eager"), build_tiny("gemma2", "eager")
    plain.model.layers[0].self_attn.attn_logit_softcapping = None
    for model in (capped, plain):
        model.model.layers[0].self_attn.q_proj.weight.data *= 2000
    found = []
    for model in (capped, plain):
        with capturing(model, SEGMENTS, 4, layers={0}) as capture:
            run(model)
        found.append(capture.stats().peak[0, :, 0])
    assert found[0][torch.isfinite(found[0])].abs().max() <= 5.0
    assert found[1][torch.isfinite(found[1])].abs().max() > 5.0


def test_keys_chosen_inside_a_kernel_are_refused(build_tiny: Build) -> None:
    model = build_tiny("llama")
    tensors = (torch.zeros(1, 4, TOKENS, 8), *[torch.zeros(1, 2, TOKENS, 8)] * 2)
    out = torch.zeros(1, TOKENS, 4, 8)
    module = model.model.layers[0].self_attn
    odd = {
        "selects keys inside its kernel": {"indices": torch.zeros(1)},
        "packed sequences": {"cu_seq_lens_q": torch.zeros(1)},
        "not causal": {"is_causal": False},
    }
    for reason, options in odd.items():
        with capturing(model, SEGMENTS, 4) as capture:
            capture.enter(TOKENS, 0, None)
            with pytest.raises(ProbeError, match=reason):
                capture.observe(module, tensors, None, out, options)
    with capturing(model, SEGMENTS, 4) as capture:
        capture.enter(TOKENS, 0, None)
        with pytest.raises(ProbeError, match="mask of an unknown kind"):
            capture.observe(module, tensors, SimpleNamespace(shape=(1, 1, 1, 3)), out, {})
        with pytest.raises(ProbeError, match="does not say which layer"):
            capture.observe(torch.nn.Linear(1, 1), tensors, None, out, {})


def test_a_gradient_run_neither_leaks_nor_breaks(build_tiny: Build) -> None:
    model = build_tiny("llama")
    with capturing(model, SEGMENTS, 4, with_outputs=True) as capture:
        logits = model(IDS, attention_mask=torch.ones_like(IDS), use_cache=False).logits
    stats = capture.stats()
    assert not stats.lse.requires_grad
    assert not stats.outputs[0].requires_grad
    logits[0, -1, 5].backward()
    assert model.model.layers[0].self_attn.q_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mamba2", "no attention layer was seen"),
        ("bloom", "no attention layer was seen"),
        ("diffllama", "difference of two softmaxes"),
    ],
)
def test_what_has_no_share_is_refused(build_tiny: Build, name: str, reason: str) -> None:
    def measure() -> None:
        with capturing(model, SEGMENTS, 4) as capture:
            run(model)
        capture.stats()

    model = build_tiny(name, "eager")
    with pytest.raises(ProbeError, match=reason):
        measure()


def test_a_hybrid_says_how_much_of_it_was_measured(build_tiny: Build) -> None:
    model = build_tiny("qwen3_next")
    with capturing(model, SEGMENTS, 4) as capture:
        run(model)
    stats = capture.stats()
    assert stats.layers == (3,)
    assert stats.coverage is not None
    assert stats.coverage.text() == "attention in 1 of 4 layers"


def test_an_attention_that_is_not_known_is_refused(build_tiny: Build) -> None:
    """A function that drops half its weights gives another output than its weights say."""
    model = build_tiny("llama")
    honest = ALL_ATTENTION_FUNCTIONS["sdpa"]

    def odd(*args: Any, **kw: Any) -> Any:
        output, weights = honest(*args, **kw)
        return output * 0.5, weights

    ALL_ATTENTION_FUNCTIONS["sdpa"] = odd
    try:
        with (
            pytest.raises(ProbeError, match="do not give the model's own output"),
            capturing(model, SEGMENTS, 4),
        ):
            run(model)
    finally:
        del ALL_ATTENTION_FUNCTIONS["sdpa"]
    with capturing(model, SEGMENTS, 4):
        run(model)


def test_an_attention_bias_in_a_float_mask_counts(build_tiny: Build) -> None:
    model = build_tiny("llama", "eager")
    mask = torch.full((TOKENS, TOKENS), torch.finfo(torch.float32).min).triu(1)
    mask[:, torch.tensor(SEGMENTS) == 1] += 2.0
    mask = mask.clamp_min(torch.finfo(torch.float32).min)[None, None]
    with capturing(model, SEGMENTS, 4) as capture:
        run(model, mask)
    expected = eager_masses(model, TOKENS - 1, mask)
    assert torch.allclose(capture.stats().mass()[:, :, 0], expected, atol=1e-5)
    assert not torch.allclose(eager_masses(model, TOKENS - 1), expected, atol=1e-2)


def test_another_models_calls_are_not_measured(build_tiny: Build) -> None:
    ours, other = build_tiny("llama"), build_tiny("llama")
    with capturing(ours, SEGMENTS, 4) as capture:
        run(other)
    with pytest.raises(ProbeError, match="no attention layer"):
        capture.stats()


def test_a_registry_of_the_models_own_is_found(build_tiny: Build) -> None:
    from transformers.models.doge import modeling_doge

    assert modeling_doge.ALL_ATTENTION_FUNCTIONS is not ALL_ATTENTION_FUNCTIONS
    model = build_tiny("doge")
    with capturing(model, SEGMENTS, 4) as capture:
        run(model)
    assert capture.stats().layers == (0, 1)


def test_a_segment_far_below_the_others_keeps_its_digits() -> None:
    """Sums against the row's maximum would underflow to a partition of nothing."""
    keys = torch.tensor([[[300.0], [299.0], [0.0], [1.0]]])
    rows = Rows(query=torch.ones(1, 1, 1), keys=keys, scaling=1.0)
    found = partition(rows, make_labels(torch.tensor([0, 0, 1, 1]), 2))
    expected = torch.logsumexp(torch.tensor([0.0, 1.0]), 0)
    assert found.lse[0, 0, 1] == pytest.approx(expected.item(), abs=1e-6)
    assert torch.exp(keys[0, :, 0] - 300)[2:].sum() == 0, "the trap is gone"


def test_sink_free_masses_come_from_partitions() -> None:
    """With a sink that holds all but 1e-9, m / (1 - m_sink) has no digits left in float32."""
    keys = torch.tensor([[[25.0], [0.0], [1.0]]])
    rows = Rows(query=torch.ones(1, 1, 1), keys=keys, scaling=1.0)
    found = partition(rows, make_labels(torch.tensor([0, 1, 2]), 3))
    mass = torch.exp(found.lse - found.total()[..., None])[0, 0]
    naive = mass[1:] / (1 - mass[0])
    assert not torch.isclose(naive.sum(), torch.tensor(1.0), atol=0.1), "the trap is gone"
    rest = torch.exp(found.lse[0, 0, 1:] - torch.logsumexp(found.lse[0, 0, 1:], -1))
    assert torch.allclose(rest, torch.softmax(torch.tensor([0.0, 1.0]), 0), atol=1e-6)


def test_prompts_that_do_not_fit_are_refused(build_tiny: Build) -> None:
    model = build_tiny("llama", max_position_embeddings=40)
    with (
        pytest.raises(ProbeError, match="50 tokens are beyond the model's 40 positions"),
        capturing(model, SEGMENTS, 4),
    ):
        run(model)
    model = build_tiny("llama")
    with (
        pytest.raises(ProbeError, match="50 tokens run, but segments cover 49"),
        capturing(model, SEGMENTS[:-1], 4),
    ):
        run(model)
    with capturing(model, [*SEGMENTS, 0], 4, (3,)) as short:
        run(model)
    with pytest.raises(ProbeError, match="50 of 51 prompt tokens ran"):
        short.stats()


def test_calls_in_the_wrong_place_are_refused(build_tiny: Build) -> None:
    model = build_tiny("llama")
    pair = IDS.repeat(2, 1)
    with pytest.raises(ProbeError, match="a batch of 2 prompts"), capturing(model, SEGMENTS, 4):
        model(pair, attention_mask=torch.ones_like(pair), use_cache=False)
    with pytest.raises(ProbeError, match="call the model itself"), capturing(model, SEGMENTS, 4):
        model.model(IDS, attention_mask=torch.ones_like(IDS), use_cache=False)
    with capturing(model, SEGMENTS, 4):
        run(model)
        with pytest.raises(ProbeError, match="open a new capture"):
            run(model)
    with pytest.raises(ProbeError, match="flex attention hides its mask"):
        capturing(build_tiny("llama", "flex_attention"), SEGMENTS, 4).__enter__()
    with pytest.raises(ProbeError, match="probe it before compiling"):
        capturing(torch.compile(model, backend="eager"), SEGMENTS, 4).__enter__()


def test_a_call_with_dropout_is_refused(build_tiny: Build) -> None:
    model = build_tiny("llama", "eager", attention_dropout=0.5).train()
    with pytest.raises(ProbeError, match=r"call model.eval\(\)"), capturing(model, SEGMENTS, 4):
        run(model)
