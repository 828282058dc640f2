"""`breadcrumbs probe` and `steer`: where a model looks when it decides, and what that does.

Figures go to stdout, progress to stderr.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from breadcrumbs.config_options import CONFIG, overrides
from breadcrumbs.visible import plain

if TYPE_CHECKING:
    from breadcrumbs.progress import Report

T = TypeVar("T")
config_option = click.option(
    "--config", type=CONFIG, required=True, help="A file of configs/probe."
)


@click.group()
def probe() -> None:
    """Measure where the model looks at the decision point, and test what that does."""


@probe.command("attention")
@config_option
@overrides
def attention(config: Path, changes: tuple[str, ...]) -> None:
    """Attention mass on steering and schema over schema length, base against adapter."""
    from breadcrumbs.eval.probe import ProbeConfig, probe_attention

    _run("probe", config, changes, ProbeConfig, probe_attention)


@probe.command("causal")
@config_option
@overrides
def causal(config: Path, changes: tuple[str, ...]) -> None:
    """What the decision owes to steering, breadcrumb, nudge and schema, and whether dilution is it.

    Knockouts, moves, other texts of the same length, bias doses and clamped masses, each beside
    its placebos. Finished cells are kept: the same command goes on where it ended.
    """
    from breadcrumbs.eval.causal import CausalConfig, probe_causal

    _run("causal", config, changes, CausalConfig, probe_causal)


@probe.command("compare")
@config_option
@overrides
def compare(config: Path, changes: tuple[str, ...]) -> None:
    """What training changed: base and adapter on the same tokens, segment by segment, head by head.

    Finished prompts are kept: the same command goes on where it ended.
    """
    from breadcrumbs.eval.probe_compare import CompareConfig, probe_compare

    _run("compare", config, changes, CompareConfig, probe_compare)


@click.group()
def steer() -> None:
    """Cures without training, as baselines for an adapter: a bias on steering keys, a vector."""


@steer.command("fit")
@config_option
@overrides
def steer_fit(config: Path, changes: tuple[str, ...]) -> None:
    """Make both and choose their doses on one split."""
    from breadcrumbs.eval.steer import SteerConfig, fit_steer

    _run("steer", config, changes, SteerConfig, fit_steer)


@steer.command("eval")
@config_option
@overrides
def steer_eval(config: Path, changes: tuple[str, ...]) -> None:
    """Score the model with and without them on another split, where to act and where to ask.

    Finished scenarios are kept: the same command goes on where it ended.
    """
    from breadcrumbs.eval.steer import SteerConfig, evaluate_steer

    _run("steer", config, changes, SteerConfig, evaluate_steer)


def _run(
    title: str,
    config: Path,
    changes: tuple[str, ...],
    schema: type[T],
    work: Callable[[T, Report], str],
) -> None:
    from rich.console import Console

    from breadcrumbs import config as configs
    from breadcrumbs.progress import live

    settings = configs.load(config, schema, changes)
    with live(title, Console(stderr=True, highlight=False)) as report:
        summary = work(settings, report)
    click.echo(plain(summary))
