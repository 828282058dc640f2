"""A small model is taught to stall, and what it then stalls on becomes rows.

Generation, training and the loop do the work, in a row; each knows what it has finished, so the
whole goes on where it was stopped. This module only orders them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from breadcrumbs import config as configs
from breadcrumbs.config import STRICT
from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.model_stalls import Staller, harvest, stall_rows
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.progress import Report
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.run import WEIGHTS
from breadcrumbs.train.sft import train_sft

DATA, STALLER_DATA, STALLER_ROWS, ADAPTER = "data", "staller-data", "staller-rows", "adapter"
"""Folders of a run: the set that is tried, what the staller learns from, and the staller."""


@checked(config=STRICT, kw_only=True)
class StallsConfig:
    """Which calls are tried, and by whom."""

    data: str
    """A config in configs/generate: the set whose training calls are tried."""
    staller_data: str
    """A config in configs/generate with `nudged: keep`: rows whose stall is learned."""
    staller_train: str
    """A config in configs/train; its data, model and folder are those of the run."""
    model: str = "smollm2-135m"
    episodes: int | None = Field(default=None, gt=0)
    """So many calls at most, plain ones first; all where it is not given."""
    width: int = Field(default=16, gt=0)
    """Episodes under way at a time: their turns are written in batches."""
    max_new_tokens: int = Field(default=256, gt=0)
    """Longest turn."""


def find_stalls(config: StallsConfig, out: Path, progress: Report) -> dict[str, Any]:
    """Every step in order; the yield of the last one.

    Raises:
        ConfigError, CatalogError, DataError, ModelError, PreflightError: as the steps do.
    """
    sets = {DATA: config.data, STALLER_DATA: config.staller_data}
    loaded = {name: configs.load(path, GenerateConfig) for name, path in sets.items()}
    training = configs.load(config.staller_train, TrainConfig)
    if loaded[STALLER_DATA].nudged != "keep":
        raise ConfigError(f"{config.staller_data}: a staller learns stalls; set nudged: keep")
    for name, settings in loaded.items():
        generate(settings, out / name, progress)
    stall_rows(out / STALLER_DATA, out / STALLER_ROWS)
    training = dataclasses.replace(
        training, data=str(out / STALLER_ROWS), out=str(out / ADAPTER), model=config.model
    )
    adapter = train_sft(training, progress)
    return harvest(out / DATA, local_staller(config, adapter), out, config.episodes, progress)


def local_staller(config: StallsConfig, adapter: Path) -> Staller:
    """The model with its adapter; it is loaded when its first turn is asked for.

    Raises:
        DataError: the adapter cannot be read.
    """
    try:
        weights = hashlib.sha256((adapter / WEIGHTS).read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(f"{adapter}: cannot read the adapter: {error.strerror}") from error
    identity = {
        "model": config.model,
        "adapter": weights,
        "max_new_tokens": config.max_new_tokens,
    }
    name = f"{Path(config.model).name} + adapter {weights[:8]}"
    shared = _Shared(config, adapter)
    return Staller(name, identity, lambda scenario: shared.policy(), config.width)


@dataclasses.dataclass(slots=True)
class _Shared:
    """One policy for all episodes, made when it is needed: a finished run loads no model."""

    config: StallsConfig
    adapter: Path
    loaded: Any = None

    def policy(self) -> Any:
        if self.loaded is None:
            from breadcrumbs.local_model import BatchedPolicy, LocalModel

            model = LocalModel.load(self.config.model, adapter=self.adapter)
            self.loaded = BatchedPolicy(
                model,
                max_batch=self.config.width,
                max_new_tokens=self.config.max_new_tokens,
            )
        return self.loaded
