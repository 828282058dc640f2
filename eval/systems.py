"""Whose turns are scored: a model's without or with its adapter, an endpoint's, a script's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import Field
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.eval.records import Loads, model_identity

if TYPE_CHECKING:
    from breadcrumbs.local_model import LocalModel

MODELS = ("base", "adapter")
T = TypeVar("T")


@dataclass(config=STRICT, kw_only=True)
class SystemsConfig:
    """What runs on whole episodes and on outside benchmarks say alike of who takes part."""

    model: str = "smollm2-135m"
    adapter: Path | None = None
    endpoint: EndpointConfig | None = None
    """The model of the system `endpoint`: any OpenAI-compatible server."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    max_new_tokens: int = Field(default=224, ge=8)
    text_budget: int = Field(default=64, ge=8)
    seed: int = Field(default=0, ge=0)
    """Of the bootstrap."""

    def check_systems(self, key: str, names: Sequence[str]) -> None:
        """Refuse names, from the config's `key`, that stand twice or say nothing here.

        Raises:
            ValueError: there is one.
        """
        if len(set(names)) != len(names):
            raise ValueError(f"{key}: one is named twice")
        if "adapter" in names and self.adapter is None:
            raise ValueError(f"{key}: adapter is named, but `adapter` has no folder")
        if "endpoint" in names and self.endpoint is None:
            raise ValueError(f"{key}: endpoint is named, but `endpoint` has no address")

    def identity(self, name: str) -> Mapping[str, str]:
        """What a system's turns depend on; kept turns of another one are not trusted.

        Raises:
            ConfigError: the adapter has no weights.
        """
        if name == "endpoint" and self.endpoint is not None:
            options = json.dumps(self.endpoint.options, sort_keys=True)
            return {"endpoint": self.endpoint.model, "options": options}
        if name not in MODELS:
            return {"scripted": name}
        limits = {"max_new_tokens": self.max_new_tokens, "text": self.text_budget}
        identity = model_identity(self, "base" if name == "base" else "adapter")
        return {**identity, **{limit: str(value) for limit, value in limits.items()}}


def load_model(config: Loads) -> LocalModel:
    """The weights that a config names, its adapter on them.

    Raises:
        ModelError: they cannot be loaded.
    """
    from breadcrumbs.local_model import LocalModel

    return LocalModel.load(config.model, adapter=config.adapter, dtype=config.dtype)


def run_as(name: str, model: LocalModel, work: Callable[[LocalModel], T]) -> T:
    """Run `work` with the model as `adapter`, or with its adapter switched off."""
    if name == "adapter":
        return work(model)
    with model.base():
        return work(model)
