"""A LoRA layer at inference in two products: no scaled copy, no sum of its own.

PEFT writes `base(x) + B(A(x)) * scale` as three more passes over a tensor of the output's size,
which cost a fifth of a prompt's reading on a CPU; here the second product adds to the output as
it goes, in float32 inside.
"""

from __future__ import annotations

from types import MethodType
from typing import Any

import torch


def use_fused_lora(model: Any) -> None:
    """Give every plain LoRA layer of a PEFT `model` the shorter forward pass.

    Whatever else PEFT can do (several adapters, variants, merged weights, gradients) stays its own.
    """
    from peft.tuners.lora.layer import Linear

    for layer in model.modules():
        if type(layer) is Linear and type(layer.get_base_layer()) is torch.nn.Linear:
            layer.forward = MethodType(_forward, layer)


def _forward(layer: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """[..., in] to [..., out]."""
    if args or kwargs or not _is_plain(layer, x):
        theirs: torch.Tensor = type(layer).forward(layer, x, *args, **kwargs)
        return theirs
    name = layer.active_adapters[0]
    result: torch.Tensor = layer.base_layer(x)
    small = torch.nn.functional.linear(x, layer.lora_A[name].weight)
    large = layer.lora_B[name].weight.mT
    flat = result.view(-1, result.shape[-1])
    flat.addmm_(small.view(-1, small.shape[-1]), large, alpha=layer.scaling[name])
    return result


def _is_plain(layer: Any, x: torch.Tensor) -> bool:
    """One adapter, switched on beside weights of its dtype, and nothing to learn."""
    if layer.disable_adapters or layer.merged or layer.training or torch.is_grad_enabled():
        return False
    names = layer.active_adapters
    if len(names) != 1 or names[0] not in layer.lora_A or names[0] in layer.lora_variant:
        return False
    first, second = layer.lora_A[names[0]], layer.lora_B[names[0]]
    return bool(second.bias is None and first.weight.dtype is x.dtype is second.weight.dtype)
