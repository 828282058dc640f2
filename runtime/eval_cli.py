"""`breadcrumbs eval episodes`, `eval outside` and `eval compare`.

Figures go to stdout, progress to stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from breadcrumbs.config_options import CONFIG, overrides
from breadcrumbs.visible import visible

FINDINGS = 1
FOLDER = click.Path(path_type=Path)


@click.command("episodes")
@click.option("--config", type=CONFIG, required=True, help="configs/eval/episodes.yaml")
@overrides
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def episodes(config: Path, changes: tuple[str, ...], as_json: bool) -> None:
    """Play whole episodes, with all tiers on or (`ablation: true`) in all sixteen combinations.

    Scored from the gateway's log and the world, without a judge. Finished cells are kept: the same
    command goes on where it ended, and scores kept cells again without a model.
    """
    from rich.console import Console

    from breadcrumbs import config as configs
    from breadcrumbs.eval.suite import run_suite
    from breadcrumbs.eval.suite_config import SuiteConfig
    from breadcrumbs.eval.suite_view import effects_table, grid_table, suite_table
    from breadcrumbs.progress import live

    settings = configs.load(config, SuiteConfig, changes)
    with live("episodes", Console(stderr=True, highlight=False)) as report:
        results = run_suite(settings, report)
    if as_json:
        click.echo(json.dumps(results, indent=2))
        return
    click.echo(suite_table(results))
    if "effects" in results:
        click.echo(grid_table(results))
        click.echo(effects_table(results))


@click.command("outside")
@click.option("--config", type=CONFIG, required=True, help="configs/eval/outside.yaml")
@overrides
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def outside(config: Path, changes: tuple[str, ...], as_json: bool) -> None:
    """Score one turn an item of BFCL v4 and When2Call, replayed through the gateway.

    Reads your own copies of the benchmarks. What was written is kept: the same command goes on
    where it ended, and scores kept turns again without a model.
    """
    from rich.console import Console

    from breadcrumbs import config as configs
    from breadcrumbs.eval.outside import run_outside
    from breadcrumbs.eval.outside_config import OutsideConfig
    from breadcrumbs.eval.outside_view import outside_table
    from breadcrumbs.progress import live

    settings = configs.load(config, OutsideConfig, changes)
    with live("outside", Console(stderr=True, highlight=False)) as report:
        results = run_outside(settings, report)
    click.echo(json.dumps(results, indent=2) if as_json else outside_table(results))


@click.command("compare")
@click.argument("left", type=FOLDER, metavar="A")
@click.argument("right", type=FOLDER, metavar="B")
@click.option(
    "--systems",
    metavar="A=B",
    help="Compare one system of A with one of B, such as base=adapter; else the same with itself.",
)
@click.option(
    "--require",
    "limits",
    multiple=True,
    metavar="FIGURE>=VALUE",
    help="Of B, or with a leading + or - of the difference: dad>=0.9, uar<=0.1, dad>=+0.02.",
)
@click.option("--no-worse", is_flag=True, help="Exit 1 where a figure is worse by more than noise.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    left: Path,
    right: Path,
    systems: str | None,
    limits: tuple[str, ...],
    no_worse: bool,
    as_json: bool,
) -> None:
    """Say what changed from A to B, scenario by scenario, and whether it is more than noise.

    A and B are folders that `breadcrumbs eval` or `eval episodes` wrote. Exit status 1 where a
    limit does not hold.
    """
    from breadcrumbs.eval.compare import compare_runs
    from breadcrumbs.eval.limits import broken, read_limits

    wanted = read_limits(limits)
    found = compare_runs(left, right, systems)
    faults = broken(found, wanted, no_worse=no_worse)
    if as_json:
        click.echo(json.dumps({**found.to_dict(), "broken": faults}, indent=2))
    else:
        for line in (*found.lines(), *faults):
            click.echo(visible(line))
    if faults:
        sys.exit(FINDINGS)
