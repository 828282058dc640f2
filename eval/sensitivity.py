"""Which heads move the decision: d gap / d b for every head at once, b a bias on a segment's keys.

All tokens but the last run without gradients; the last runs with attention computed here, at the
decision position alone, so that one backward pass reaches the bias of every layer and head. A
slope at b = 0, direct and through later layers of the same position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attribution import Openers, gap_of
from breadcrumbs.eval.capture import capturing, rows_of
from breadcrumbs.eval.model_hooks import wrapped_attention
from breadcrumbs.eval.partitions import attended


def head_sensitivities(
    model: Any, ids: Sequence[int], segments: Sequence[int], segment: int, openers: Openers
) -> dict[int, torch.Tensor]:
    """Layer -> float32 [H], logits of gap per unit of bias on the keys of `segment`.

    Raises:
        ProbeError: the prompt has fewer than two tokens, or attention cannot be measured.
    """
    return Decision.after_prefill(model, ids, segments, segment, openers).slopes()


def gap_under_bias(
    model: Any,
    ids: Sequence[int],
    segments: Sequence[int],
    segment: int,
    openers: Openers,
    bias: Mapping[int, torch.Tensor],
) -> float:
    """The gap with `bias` (layer -> [H]) on the keys of `segment`, at the decision position only.

    Raises:
        ProbeError: as `head_sensitivities`.
    """
    decision = Decision.after_prefill(model, ids, segments, segment, openers)
    with torch.no_grad():
        return float(decision.gap(dict(bias)))


@dataclass(slots=True)
class Decision:
    """A prompt all but the last token of which has run; that token may run once."""

    model: Any
    ids: torch.Tensor
    """int64 [1, T]."""
    segments: Sequence[int]
    segment: int
    openers: Openers
    cache: Any

    @classmethod
    def after_prefill(
        cls,
        model: Any,
        ids: Sequence[int],
        segments: Sequence[int],
        segment: int,
        openers: Openers,
    ) -> Decision:
        """Run all but the last token, without gradients.

        Raises:
            ProbeError: there is no token before the last.
        """
        from transformers import DynamicCache

        if len(ids) < 2:
            raise ProbeError("a prompt of one token has nothing to look back at")
        tokens = torch.tensor([list(ids)], device=model.device)
        cache = DynamicCache(config=model.config)
        before = tokens[:, :-1]
        with torch.no_grad():
            model(before, attention_mask=torch.ones_like(before), cache=cache, logits_to_keep=1)
        return cls(model, tokens, segments, segment, openers, cache)

    def slopes(self) -> dict[int, torch.Tensor]:
        """Layer -> float32 [H], as `head_sensitivities`.

        Raises:
            ProbeError: attention cannot be measured.
        """
        bias: dict[int, torch.Tensor] = {}
        with torch.enable_grad():
            slopes = torch.autograd.grad(self.gap(bias), list(bias.values()))
        return {layer: slope.cpu() for layer, slope in zip(bias, slopes, strict=True)}

    def gap(self, bias: dict[int, torch.Tensor]) -> torch.Tensor:
        """The gap under `bias`; layers that it lacks get a bias of zero there.

        Raises:
            ProbeError: attention cannot be measured.
        """
        model, last = self.model, self.ids.shape[1] - 1
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        own = {id(module) for module in base.modules()}
        inside = torch.tensor(self.segments, device=model.device) == self.segment

        def decide_anew(module: Any, tensors: Any, mask: Any, output: Any, options: Any) -> Any:
            if id(module) not in own:
                return None
            query, key, value = tensors
            if module.layer_idx not in bias:
                zero = torch.zeros(query.shape[1], device=query.device, requires_grad=True)
                bias[module.layer_idx] = zero
            rows = rows_of([last], last, (query, key), mask, options)
            raised = bias[module.layer_idx][:, None, None] * inside[-key.shape[2] :]
            logits = rows.logits(slice(0, key.shape[2])) + raised
            return attended(logits, rows.sink, value[0])[0][None].to(output.dtype)

        # The capture refuses what cannot be measured, and checks weights against the output.
        with (
            capturing(model, self.segments, max(self.segments) + 1) as capture,
            wrapped_attention(base, decide_anew),
        ):
            output = model(
                self.ids[:, last:], attention_mask=torch.ones_like(self.ids), cache=self.cache
            )
        capture.stats()
        return gap_of(output.logits[0, -1], self.openers)
