"""The shorter LoRA pass says what PEFT's says, and leaves PEFT what it cannot do."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from breadcrumbs.lora import use_fused_lora


class Small(torch.nn.Module):
    """Two layers; PEFT wraps them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        self.second = torch.nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.second(torch.relu(self.first(x)))
        return hidden


def adapted(**settings: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    config = LoraConfig(
        r=2, lora_alpha=6, target_modules=["first", "second"], init_lora_weights=False, **settings
    )
    return get_peft_model(Small(), config).eval()


X = torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("settings", [{}, {"use_dora": True}, {"lora_bias": True}])
def test_it_says_what_peft_says(settings: dict[str, Any]) -> None:
    model = adapted(**settings)
    with torch.inference_mode():
        theirs = model(X)
        use_fused_lora(model)
        assert torch.allclose(model(X), theirs, atol=1e-6)
        with model.disable_adapter():
            base = model(X)
    assert not torch.allclose(base, theirs, atol=1e-2), "the adapter changes nothing"


def test_switched_off_it_is_the_base_model_to_the_bit() -> None:
    model = adapted()
    use_fused_lora(model)
    torch.manual_seed(0)
    plain = Small().eval()
    plain.load_state_dict(
        {
            name.removeprefix("base_model.model.").replace(".base_layer", ""): weight
            for name, weight in model.state_dict().items()
            if "lora_" not in name
        }
    )
    with torch.inference_mode():
        with model.disable_adapter():
            assert torch.equal(model(X), plain(X))
        assert not torch.equal(model(X), plain(X))


def test_gradients_and_merged_weights_stay_with_peft() -> None:
    model = adapted()
    use_fused_lora(model)
    model(X).sum().backward()
    learned = [w.grad for name, w in model.named_parameters() if "lora_" in name]
    assert learned
    assert all(grad is not None and grad.abs().sum() > 0 for grad in learned)
    with torch.inference_mode():
        before = model(X)
        model.merge_adapter()
        assert torch.allclose(model(X), before, atol=1e-5), "merged weights were added once more"


def test_the_short_pass_is_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    from peft.tuners.lora.layer import Linear

    model = adapted()
    use_fused_lora(model)
    monkeypatch.setattr(Linear, "forward", None)
    with torch.inference_mode():
        model(X)
    with pytest.raises(TypeError):
        model(X)  # with gradients it is PEFT's
