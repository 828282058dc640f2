"""Training on pairs, in both directions, on from an adapter: what DPO and KTO do alike.

TRL's trainers with one change: they are given token ids, made by the rendering that serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from breadcrumbs.train.config import PairsConfig
from breadcrumbs.train.continuing import begin, with_model
from breadcrumbs.train.fitting import train_and_publish
from breadcrumbs.train.run import METRICS

if TYPE_CHECKING:
    from breadcrumbs.data_gen.pairs import Pair
    from breadcrumbs.progress import Report
    from breadcrumbs.rendering import Renderer
    from breadcrumbs.train.pairs import PairExample


class BuildTrainer(Protocol):
    """Model, adapter, its frozen copy and trainer; heavy libraries load there."""

    def __call__(
        self,
        config: Any,
        folder: Path | str,
        renderer: Renderer,
        examples: Sequence[PairExample],
        metrics_path: Path,
        progress: Report | None = None,
    ) -> Any:
        """Build them, seeded."""
        ...


def train_on_pairs(
    config: PairsConfig, build: BuildTrainer, progress: Report | None = None
) -> Path:
    """Preflight every pair, train on from the adapter, publish; returns the new one's folder.

    A finished run is left alone; an interrupted one goes on from its last whole checkpoint.

    Raises:
        ConfigError: no adapter to go on from, one of another base, or `out` holds another run.
        DataError: the data is missing, gives no pairs, or has changed since `out` was begun.
        PreflightError: a pair would not train what it says.
        ModelError: the model cannot be loaded, or the loss is not finite.
    """
    from breadcrumbs.train.pairs import read_pairs

    if not begin(config):
        pairs = read_pairs(config)
        with_model(
            config,
            lambda folder, renderer: fit_pairs(config, pairs, folder, renderer, build, progress),
        )
    return Path(config.out)


def fit_pairs(
    config: PairsConfig,
    pairs: Sequence[Pair],
    folder: Path | str,
    renderer: Renderer,
    build: BuildTrainer,
    progress: Report | None = None,
) -> None:
    """Train the model in `folder` with the adapter on `pairs`; publish into `config.out`."""
    from breadcrumbs.train.pairs import preflight_pairs

    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    examples = preflight_pairs(pairs, renderer, config)
    trainer = build(config, folder, renderer, examples, out / METRICS, progress)
    train_and_publish(trainer, renderer, config, [pair.row.to_record() for pair in pairs])
