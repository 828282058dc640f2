"""Training by reward, on from an adapter: TRL's `GRPOTrainer` with the gateway as environment.

Three changes. The meta-tools are shown as the gateway declares them, not as TRL reads them off
methods (other order, other words than in service). Scenarios come by a curriculum instead of in
turn. And the outcomes are kept in a file, from which a run that was stopped goes on.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import DataError, PreflightError
from breadcrumbs.train.config import GrpoConfig
from breadcrumbs.train.continuing import begin, load_adapted, with_model
from breadcrumbs.train.curriculum import Curriculum, recall
from breadcrumbs.train.fitting import shared_arguments, train_and_publish
from breadcrumbs.train.rewards import RIGHT, unscored
from breadcrumbs.train.run import METRICS, ROLLOUTS

if TYPE_CHECKING:
    from breadcrumbs.data_gen.dataset import Row
    from breadcrumbs.progress import Report
    from breadcrumbs.rendering import Renderer

Tried = tuple["Row", dict[str, Any]]
"""A row, for what is published, and its scenario, for what is tried."""


def train_grpo(config: GrpoConfig, progress: Report | None = None) -> Path:
    """Let the model try scenarios at the gateway, train on the rewards, publish; its folder.

    A finished run is left alone; an interrupted one goes on from its last whole checkpoint.

    Raises:
        ConfigError: no adapter to go on from, one of another base, or `out` holds another run.
        DataError: the data is missing, has nothing of one behaviour, or has changed.
        PreflightError: TRL could not read the model's calls.
        ModelError: the model cannot be loaded, or the loss is not finite.
    """
    if not begin(config):
        tried = read_tried(config)
        with_model(
            config,
            lambda folder, renderer: fit_rollouts(config, tried, folder, renderer, progress),
        )
    return Path(config.out)


def read_tried(config: GrpoConfig) -> list[Tried]:
    """The scenarios of the split that can be scored.

    Raises:
        DataError: none where acting is right, or none where asking is.
    """
    from breadcrumbs.data_gen.dataset import training_rows
    from breadcrumbs.data_gen.rl_scenarios import scenarios_of

    records = scenarios_of(Path(config.data), config.split)
    rows = training_rows(config.data, config.split)
    tried = [(row, records[row.id]) for row in rows if unscored(row.scenario) is None]
    for behaviour in ("dispatch", "clarify"):
        if behaviour not in {row.behaviour for row, _ in tried}:
            why = sorted({reason for row in rows if (reason := unscored(row.scenario))})
            raise DataError(
                f"{config.data}: split {config.split!r} has no {behaviour} scenario to try, and "
                "one direction teaches one answer for all; generate twins"
                + (f" (left out: {'; '.join(why)})" if why else "")
            )
    return tried


def fit_rollouts(
    config: GrpoConfig,
    tried: Sequence[Tried],
    folder: Path | str,
    renderer: Renderer,
    progress: Report | None = None,
) -> None:
    """Train the model in `folder` with the adapter by trying; publish into `config.out`."""
    out = Path(config.out)
    out.mkdir(parents=True, exist_ok=True)
    trainer = build_trainer(config, folder, renderer, tried, out, progress)
    records = [row.to_record() for row, _ in tried]
    train_and_publish(trainer, renderer, config, records, generates=True)


def readable(renderer: Renderer) -> Any:
    """A copy of the tokenizer from which TRL can read the model's calls.

    Raises:
        PreflightError: TRL has no parser for this model's calls.
    """
    from trl.chat_template_utils import add_response_schema, qwen3_template

    tokenizer = copy.copy(renderer.tokenizer)
    tokenizer.chat_template = renderer.template
    if getattr(tokenizer, "response_template", None) is not None:
        return tokenizer
    try:
        return add_response_schema(tokenizer)
    except ValueError:
        # TRL knows templates by their exact text; Hermes calls in ChatML are Qwen3's.
        if renderer.call_format.kind != "hermes" or "<|im_start|>" not in renderer.template:
            raise PreflightError(
                "preflight: TRL does not know this chat template and cannot read its calls; "
                "set the tokenizer's response_template"
            ) from None
        tokenizer.response_template = qwen3_template
        return tokenizer


def build_trainer(
    config: GrpoConfig,
    folder: Path | str,
    renderer: Renderer,
    tried: Sequence[Tried],
    out: Path,
    progress: Report | None = None,
) -> Any:
    """Model, adapter and trainer; heavy libraries load here."""
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback, set_seed
    from trl import GRPOTrainer

    from breadcrumbs.data_gen.rl_scenarios import Worlds
    from breadcrumbs.gateway.gateway import META_TOOLS
    from breadcrumbs.train.checkpoints import WholeCheckpoints
    from breadcrumbs.train.environment import GatewayEnvironment, rewards
    from breadcrumbs.train.trainer import not_finite, plain_callbacks

    records = [record for _, record in tried]
    ids = [str(record["id"]) for record in records]

    class RolloutTrainer(WholeCheckpoints, GRPOTrainer):  # type: ignore[misc]  # trl has no types
        """Tools as they are served, scenarios by curriculum, outcomes kept."""

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return _Draws(self)

        def _calculate_rewards(self, inputs: Any, *rest: Any) -> Any:
            found = super()._calculate_rewards(inputs, *rest)  # (tries of all processes, 1)
            if self.model.training:
                step = self.state.global_step
                drawn = self.curriculum.draw(step)
                shares = _shares(drawn, found.sum(-1).tolist(), config.generations)
                self.curriculum.record(step, shares)
                if self.is_world_process_zero():
                    _keep(out / ROLLOUTS, step, {ids[place]: s for place, s in shares.items()})
            return found

        def compute_loss(self, model: Any, inputs: Any, *rest: Any, **more: Any) -> Any:
            loss = super().compute_loss(model, inputs, *rest, **more)
            if not torch.isfinite(loss):
                batch = {"completion_ids": inputs["completion_ids"].tolist()}
                raise not_finite(self, out / METRICS, batch, f"{len(inputs['prompt_ids'])} tries")
            return loss

    # TRL warns that environments are an experiment of its own.
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    set_seed(config.seed)
    arguments = trainer_arguments(config)  # before the model, as in supervised training
    worlds = Worlds()
    trainer = RolloutTrainer(
        model=load_adapted(config, folder),
        args=arguments,
        reward_funcs=[rewards],
        environment_factory=lambda: GatewayEnvironment(records, worlds),
        train_dataset=Dataset.from_list(
            [
                {"prompt": record["prompt"], "scenario": place}
                for place, record in enumerate(records)
            ]
        ),
        processing_class=readable(renderer),
        callbacks=plain_callbacks(out / METRICS, progress),
    )
    trainer.remove_callback(PrinterCallback)
    trainer._env_tools = {None: [dict(tool) for tool in META_TOOLS]}
    drawn = arguments.generation_batch_size // config.generations
    trainer.curriculum = Curriculum([row.twin for row, _ in tried], drawn, config.seed)
    trainer.outcomes = lambda: recall(out / ROLLOUTS, trainer.curriculum, ids)
    return trainer


class _Draws:
    """TRL's order of tries: each scenario of a step several times, once for each micro-batch."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def __iter__(self) -> Iterator[int]:
        trainer, arguments = self._trainer, self._trainer.args
        trainer.outcomes()
        for step in range(trainer.state.global_step, trainer.state.max_steps + 1):
            drawn = trainer.curriculum.draw(step)
            for _ in range(arguments.steps_per_generation):
                yield from (place for place in drawn for _ in range(arguments.num_generations))

    def __len__(self) -> int:
        arguments = self._trainer.args
        steps: int = arguments.max_steps * arguments.steps_per_generation
        return steps * int(arguments.generation_batch_size)


def _shares(drawn: Sequence[int], worth: Sequence[float], tries: int) -> dict[int, float]:
    """What share of the tries at each scenario was wholly right."""
    right: dict[int, list[bool]] = {}
    for place, index in enumerate(drawn):
        part = worth[place * tries : (place + 1) * tries]
        right.setdefault(index, []).extend(value >= RIGHT for value in part)
    return {index: sum(found) / len(found) for index, found in right.items()}


def _keep(path: Path, step: int, shares: dict[str, float]) -> None:
    """One line a step, counted as in `metrics.jsonl`, whose lines a resumed run drops alike."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"step": step + 1, "right": shares}) + "\n")


def trainer_arguments(config: GrpoConfig) -> Any:
    """TRL's arguments; one round of tries is one optimiser step."""
    from trl import GRPOConfig

    return GRPOConfig(
        **shared_arguments(config),
        ignore_data_skip=True,  # the sampler itself goes on where the run was stopped
        per_device_train_batch_size=config.batch_scenarios * config.generations,
        num_generations=config.generations,
        max_completion_length=config.max_new_tokens,
        max_tool_calling_iterations=config.max_calls,
        temperature=config.temperature,
        beta=config.beta,
        log_completions=False,
    )
