"""KTO from an adapter: each right turn made likelier and each wrong one less, one by one.

TRL's `KTOTrainer` with three changes: token ids made by the rendering that serves, an anchor, and
completions of other twins' conversations for its estimate of the drift. TRL shifts completions by
one within a batch; in a batch of twins that pairs a prompt with the very turn it is trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import DataError
from breadcrumbs.train.config import KtoConfig
from breadcrumbs.train.continuing import load_adapted
from breadcrumbs.train.fitting import UNCUT, shared_arguments
from breadcrumbs.train.preference import train_on_pairs

if TYPE_CHECKING:
    from breadcrumbs.progress import Report
    from breadcrumbs.rendering import Renderer
    from breadcrumbs.train.pairs import PairExample


def train_kto(config: KtoConfig, progress: Report | None = None) -> Path:
    """Train with TRL's `KTOTrainer`; see `train_on_pairs`."""
    return train_on_pairs(config, build_trainer, progress)


def rated_turns(examples: Sequence[PairExample]) -> list[dict[str, Any]]:
    """Each pair as two rows, the right turn and the wrong one, in KTO's columns.

    `KL_completion_ids` is a turn of the same label from the next group of twins: with it the
    trainer estimates how far the policy has drifted where nothing is asked of it.

    Raises:
        DataError: all pairs are of one group of twins.
    """
    rows: list[dict[str, Any]] = []
    for place, one in enumerate(examples):
        behind = [*examples[place + 1 :], *examples[:place]]
        other = next((example for example in behind if example.twin != one.twin), None)
        if other is None:
            raise DataError("pairs of one group of twins only; generate more twins for KTO")
        for label, turn, elsewhere in (
            (True, one.chosen_ids, other.chosen_ids),
            (False, one.rejected_ids, other.rejected_ids),
        ):
            rows.append(
                {
                    "prompt_ids": list(one.prompt_ids),
                    "completion_ids": list(turn),
                    "KL_completion_ids": list(elsewhere),
                    "label": label,
                }
            )
    return rows


def build_trainer(
    config: KtoConfig,
    folder: Path | str,
    renderer: Renderer,
    examples: Sequence[PairExample],
    metrics_path: Path,
    progress: Report | None = None,
) -> Any:
    """Model, adapter, its frozen copy and trainer; heavy libraries load here."""
    from datasets import Dataset
    from transformers import set_seed
    from trl import KTOTrainer

    from breadcrumbs.train.trainer import PairTraining

    class Anchored(KTOTrainer):  # type: ignore[misc]  # trl has no types
        """KTO's loss and, weighed, the right turns' own: the mean over their tokens."""

        def compute_loss(self, model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
            heard: list[Any] = []

            def listening(**keys: Any) -> Any:
                outputs = model(**keys)
                heard.append(outputs.log_probs)  # (B, T - 1), 0 outside the turn
                return outputs

            loss = super().compute_loss(listening, inputs, *rest, **more)
            right = inputs["label"].bool()
            tokens = inputs["completion_mask"][:, 1:][right].sum()
            if not config.anchor or not tokens:
                return loss
            own = -heard[-1][right].sum() / tokens  # behind the drift's, TRL asks for the turns
            self._metrics["train"]["anchor_loss"].append(own.item())
            return loss + config.anchor * own

    class TurnTrainer(PairTraining, Anchored):
        """KTO on ids that stay as they were checked."""

    rows = rated_turns(examples)
    set_seed(config.seed)
    arguments = trainer_arguments(config)  # before the model, as in supervised training
    return TurnTrainer(
        twins=[example.twin for example in examples for _ in range(2)],
        metrics_path=metrics_path,
        progress=progress,
        model=load_adapted(config, folder),
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=renderer.tokenizer,
    )


def trainer_arguments(config: KtoConfig) -> Any:
    """TRL's arguments; each pair is two rows."""
    from trl import KTOConfig

    return KTOConfig(
        **shared_arguments(config),
        **UNCUT,
        beta=config.beta,
        loss_type="kto",
        per_device_train_batch_size=2 * config.batch_pairs,
    )
