"""Listening to a model from outside: its attention calls, and where its forwards stand.

Everything is put back when the block ends; nothing the model computes is changed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from breadcrumbs.errors import ProbeError


@contextmanager
def wrapped_attention(base: Any, watch: Callable[..., Any]) -> Iterator[None]:
    """Have every attention function that the model's modules look up report to `watch`.

    It gets module, (query, key, value), mask, output and options; what it returns, if not None,
    takes the output's place.
    The look-up is wrapped rather than the functions, so that each modeling file keeps its own
    eager function and its own registry, and names that models test for stay what they are.
    """
    registries = {
        id(found): found
        for module in base.modules()
        if (found := getattr(sys.modules[type(module).__module__], "ALL_ATTENTION_FUNCTIONS", None))
    }
    before = {key: vars(found).get("get_interface") for key, found in registries.items()}
    for found in registries.values():
        found.get_interface = _reporting(found.get_interface, watch)
    try:
        yield
    finally:
        for key, found in registries.items():
            if before[key] is None:
                del found.get_interface  # the class's own shows again
            else:
                found.get_interface = before[key]


def _reporting(look_up: Callable[..., Any], watch: Callable[..., Any]) -> Callable[..., Any]:
    def get_interface(implementation: str, default: Any) -> Any:
        inner = look_up(implementation, default)

        def attend(
            module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, **kw: Any
        ) -> Any:
            result = inner(module, query, key, value, attention_mask, **kw)
            other = watch(module, (query, key, value), attention_mask, result[0], kw)
            return result if other is None else (other, *result[1:])

        return attend

    return get_interface


@contextmanager
def followed_positions(
    base: Any, enter: Callable[[int, int, int | None], None], leave: Callable[[], None]
) -> Iterator[None]:
    """Call `enter(tokens, cached before, the model's limit)` and `leave()` around each forward.

    Forwards raise ProbeError where their cache or positions do not say where tokens stand.
    """
    signature = inspect.signature(base.forward)
    limit = getattr(base.config.get_text_config(), "max_position_embeddings", None)

    def before(_: Any, args: Any, kwargs: Any) -> None:
        given = signature.bind_partial(*args, **kwargs).arguments
        given |= given.pop("kwargs", {})
        ids = given.get("input_ids")
        tokens = (given["inputs_embeds"] if ids is None else ids).shape[1]
        positions = given.get("position_ids")
        if given.get("attention_mask") is None and _has_jumps(positions):
            raise ProbeError(
                "position_ids without attention_mask: jumps in them are read as packed sequences;"
                " pass an attention_mask of ones"
            )
        cache = given.get("cache", given.get("past_key_values"))
        enter(tokens, 0 if cache is None else _cached_tokens(cache), limit)

    hooks = (
        base.register_forward_pre_hook(before, with_kwargs=True),
        base.register_forward_hook(lambda *_: leave(), always_call=True),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _has_jumps(positions: torch.Tensor | None) -> bool:
    return positions is not None and bool((positions.diff(dim=-1) != 1).any())


def _cached_tokens(cache: Any) -> int:
    from transformers.cache_utils import EncoderDecoderCache, StaticLayer

    if isinstance(cache, EncoderDecoderCache):
        raise ProbeError("an encoder-decoder model cannot be probed; use a causal one")
    if any(isinstance(layer, StaticLayer) for layer in cache.layers):
        raise ProbeError(
            "a static cache pads keys to its full length, so positions are not known; use a"
            " dynamic cache"
        )
    return int(cache.get_seq_length())
