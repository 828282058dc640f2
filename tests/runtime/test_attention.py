"""Block attention over branches against PyTorch's own, with the mask written out."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breadcrumbs import attention


def reference(query: Any, key: Any, value: Any, spans: tuple[Any, ...], prefix: int) -> Any:
    import torch

    total = query.shape[2]
    allowed = torch.zeros(total, total, dtype=torch.bool)
    for start, end in spans or ((0, total),):
        allowed[start:end, :prefix] = True
        allowed[start:end, start:end] = torch.ones(end - start, end - start).tril().bool()
    allowed[:prefix, :prefix] = torch.ones(prefix, prefix).tril().bool()
    groups = query.shape[1] // key.shape[1]
    keys, values = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    mixed = torch.nn.functional.scaled_dot_product_attention(query, keys, values, allowed)
    return mixed.transpose(1, 2)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 30),
    st.lists(st.integers(1, 30), max_size=3),
    st.sampled_from([4, 16, 256]),
)
def test_it_is_attention_under_the_branches_mask(prefix: int, rests: list[int], block: int) -> None:
    import torch

    if not rests:
        rests, prefix = [prefix + 1], 0
    spans, at = [], prefix
    for rest in rests:
        spans.append((at, at + rest))
        at += rest
    branches = tuple(spans) if len(rests) > 1 else ()
    generator = torch.Generator().manual_seed(prefix * 100 + at)
    query = torch.randn(1, 6, at, 8, generator=generator)
    key, value = (torch.randn(1, 2, at, 8, generator=generator) for _ in range(2))
    if not branches:
        prefix = 0
    whole, attention.BLOCK = attention.BLOCK, block
    try:
        ours, _ = attention.branches_attention(
            None, query, key, value, None, branches=branches, prefix=prefix
        )
    finally:
        attention.BLOCK = whole
    assert torch.allclose(ours, reference(query, key, value, branches, prefix), atol=1e-5)


@pytest.mark.parametrize("branches", [(), ((5, 12), (12, 29))])
def test_its_gradients_are_those_of_attention_under_the_mask(
    branches: tuple[tuple[int, int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(attention, "BLOCK", 8)
    prefix = 5 if branches else 0
    generator = torch.Generator().manual_seed(1)

    def drawn(heads: int) -> Any:
        return torch.randn(1, heads, 29, 8, generator=generator, dtype=torch.float64)

    whole = [drawn(6), drawn(2), drawn(2)]
    weights = drawn(6).transpose(1, 2)
    gradients = []
    for function in (attend, reference):
        parts = [part.clone().requires_grad_() for part in whole]
        (function(*parts, branches, prefix) * weights).sum().backward()
        gradients.append([part.grad for part in parts])
    for ours, theirs in zip(*gradients, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)  # keys and values are summed in float32


def attend(query: Any, key: Any, value: Any, branches: tuple[Any, ...], prefix: int) -> Any:
    return attention.branches_attention(
        None, query, key, value, None, branches=branches, prefix=prefix
    )[0]


@pytest.mark.parametrize("past", [0, 1, 13, 28])
def test_reading_behind_a_cache_is_reading_at_once(
    past: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(attention, "BLOCK", 8)
    generator = torch.Generator().manual_seed(past)
    query = torch.randn(1, 6, 29, 8, generator=generator)
    key, value = (torch.randn(1, 2, 29, 8, generator=generator) for _ in range(2))
    behind, _ = attention.reading_attention(
        None, query[:, :, past:], key, value, None, scaling=8**-0.5, alone=True
    )
    whole = reference(query, key, value, (), 0)
    assert torch.allclose(behind, whole[:, past:], atol=1e-5)
    assert not torch.allclose(behind[:, -1], whole[:, 0], atol=1e-3)


def test_one_token_of_several_rows_is_read_as_the_last_of_each() -> None:
    import torch

    generator = torch.Generator().manual_seed(3)
    query = torch.randn(2, 6, 1, 8, generator=generator)
    key, value = (torch.randn(2, 2, 29, 8, generator=generator) for _ in range(2))
    module = type("Module", (), {"num_key_value_groups": 3, "is_causal": True})()
    ours, _ = attention.reading_attention(module, query, key, value, None, scaling=8**-0.5)
    shared = [part.repeat_interleave(3, 1) for part in (key, value)]
    theirs = torch.softmax(query @ shared[0].mT * 8**-0.5, -1) @ shared[1]
    assert ours.shape == (2, 1, 6, 8)
    assert torch.allclose(ours, theirs.transpose(1, 2), atol=1e-5)
    swapped = query.view(2, 3, 2, 1, 8).transpose(1, 2).reshape(2, 6, 1, 8)
    wrong, _ = attention.reading_attention(module, swapped, key, value, None, scaling=8**-0.5)
    assert not torch.allclose(wrong, theirs.transpose(1, 2), atol=1e-3)


@pytest.mark.parametrize(
    ("config", "answer"),
    [
        ({"model_type": "llama"}, True),
        ({"model_type": "qwen3", "layer_types": ["full_attention"] * 2}, True),
        ({"model_type": "qwen3", "layer_types": ["sliding_attention"]}, False),
        ({"model_type": "gemma3_text"}, False),
    ],
)
def test_only_plain_causal_models_are_switched(config: dict[str, Any], answer: bool) -> None:
    assert attention.supports_branches(type("Config", (), config)()) is answer


@pytest.mark.parametrize("past", [0, 1, 13, 28])
def test_the_fused_kernel_reads_what_the_blocks_read(
    past: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(attention, "FUSED_BLOCK", 8)
    generator = torch.Generator().manual_seed(past)
    query = torch.randn(1, 6, 29, 8, generator=generator).bfloat16()
    key, value = (torch.randn(1, 2, 29, 8, generator=generator).bfloat16() for _ in range(2))
    read = {}
    for tiles in (True, False):
        monkeypatch.setattr(attention, "_has_tiles", lambda tiles=tiles: tiles)
        read[tiles], _ = attention.reading_attention(
            None, query[:, :, past:], key, value, None, scaling=8**-0.5, alone=True
        )
    whole = reference(query.float(), key.float(), value.float(), (), 0)
    assert torch.allclose(read[True].float(), whole[:, past:], atol=0.03)
    assert torch.allclose(read[True].float(), read[False].float(), atol=0.03)
    assert not torch.allclose(read[True].float()[:, -1], whole[:, 0], atol=0.1)
