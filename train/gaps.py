"""While training runs: how far the right decision is ahead of the wrong one, on tools held out.

Mean loss hides a coin flip at the decision. Here both turns of a fixed set of pairs are set
against each other where they part, teacher-forced, one forward pass a pair.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from breadcrumbs.data_gen.pairs import INVENTED, pairs_of
from breadcrumbs.errors import DataError
from breadcrumbs.train.golden import last_logits
from breadcrumbs.train.pairs import PairExample, build_pair

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer
    from breadcrumbs.train.config import RunConfig, Split

PAIRS = 8
"""Pairs in each direction; the first ones in stored order, so always the same."""
SPLIT: Split = "held_out_tools"


def held_out(config: RunConfig, renderer: Renderer) -> dict[str, list[PairExample]]:
    """The pairs by direction; empty where the data set holds no tools out."""
    from breadcrumbs.data_gen.dataset import load_rows

    try:
        pairs, _ = pairs_of(load_rows(config.data, SPLIT))
    except DataError:
        return {}
    sides = {
        "dispatch_over_stall": [pair for pair in pairs if pair.row.behaviour == "dispatch"],
        "ask_over_invention": [pair for pair in pairs if pair.fault == INVENTED],
    }
    return {
        name: [build_pair(pair, renderer) for pair in found[:PAIRS]]
        for name, found in sides.items()
        if found
    }


def gap(model: Any, pair: PairExample) -> float:
    """Nats by which the right turn is likelier than the wrong one where they first differ."""
    sides = zip(pair.chosen_ids, pair.rejected_ids, strict=False)
    shared = next(
        (place for place, (right, wrong) in enumerate(sides) if right != wrong),
        min(len(pair.chosen_ids), len(pair.rejected_ids)) - 1,
    )
    ids = [*pair.prompt_ids, *pair.chosen_ids[:shared]]
    logits = last_logits(model, ids, 1)[0].float()  # what they share cancels, and so does the norm
    return float(logits[pair.chosen_ids[shared]] - logits[pair.rejected_ids[shared]])


class GapCallback(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Appends the mean gap of each direction to a file: before the first step and at each save."""

    def __init__(self, path: Path, sides: dict[str, list[PairExample]]) -> None:
        self._path = path
        self._sides = sides

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Where it begins; a run that goes on has said so."""
        if state.global_step == 0:
            self._measure(state, more["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Every `save_every` steps, and at the end."""
        if state.global_step % args.save_steps == 0 or state.global_step >= state.max_steps:
            self._measure(state, more["model"])

    def _measure(self, state: Any, model: Any) -> None:
        training = model.training
        model.eval()
        means = {name: _mean([gap(model, pair) for pair in p]) for name, p in self._sides.items()}
        model.train(training)
        if state.is_world_process_zero:
            line = {"step": state.global_step, **means}
            with self._path.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
