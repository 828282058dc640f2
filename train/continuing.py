"""What runs share that go on from a trained adapter: its check, the start, the model with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ConfigError, ModelError, PreflightError
from breadcrumbs.train.adapter import folder_fault
from breadcrumbs.train.config import ContinueConfig
from breadcrumbs.train.fitting import check_devices, load_base, quiet_libraries
from breadcrumbs.train.run import SERVING, claim, run_identity

if TYPE_CHECKING:
    from collections.abc import Callable

    from breadcrumbs.rendering import Renderer


def begin(config: ContinueConfig) -> bool:
    """Take the run's folder; True where the run is finished there already.

    Raises:
        ConfigError: no adapter to go on from, one of another base, or `out` holds another run.
        DataError: the data is missing or has changed since `out` was begun.
        PreflightError: no server could load the adapter.
    """
    identity = run_identity(config)
    _check_adapter(config)
    check_devices()
    return claim(Path(config.out), identity)


def _check_adapter(config: ContinueConfig) -> None:
    from breadcrumbs.models import base_identity

    path = Path(config.adapter) / SERVING
    base = json.loads(path.read_text(encoding="utf-8")).get("base")
    if base != base_identity(config.model):
        raise ConfigError(f"{path}: trained on {base}, not on {config.model}; name its own model")
    if reason := folder_fault(Path(config.adapter)):
        raise PreflightError(f"preflight: {config.adapter}: {reason}; go on from another adapter")


def with_model(config: ContinueConfig, fit: Callable[[Path, Renderer], None]) -> None:
    """Call `fit` with the base's folder and its renderer, libraries kept quiet."""
    from breadcrumbs.memory import keep_freed_memory
    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer

    keep_freed_memory()
    folder = resolve_model(config.model)
    with quiet_libraries():
        fit(folder, load_renderer(folder))


def load_adapted(config: ContinueConfig, folder: Path | str) -> Any:
    """The base in `folder` with the adapter on it, to be trained on.

    Raises:
        ModelError: either cannot be loaded.
    """
    from peft import PeftModel

    base = load_base(folder, config)
    try:
        model = PeftModel.from_pretrained(base, config.adapter, is_trainable=True)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{config.adapter}: cannot load the adapter: {reason}") from error
    # A published adapter names its base by a hash; checkpoints look for the base's config there.
    model.peft_config["default"].base_model_name_or_path = str(folder)
    return model
