"""`breadcrumbs adapter`: prove that a trained adapter is whole and in use, merge it, export it."""

from __future__ import annotations

from pathlib import Path

import click

from breadcrumbs.visible import visible

FOLDER = click.Path(path_type=Path, file_okay=False)
model_option = click.option(
    "--model", help="Its base, where it was trained on a local folder. [default: the one it names]"
)


@click.group()
def adapter() -> None:
    """Check, merge, export or describe a trained adapter."""


@adapter.command("check")
@click.argument("folder", type=FOLDER)
@model_option
def check_command(folder: Path, model: str | None) -> None:
    """Prove that FOLDER is as published: hashes, golden prompts, and a canary for its weights."""
    from breadcrumbs.train.adapter_check import check_adapter

    for line in check_adapter(folder, model):
        click.echo(visible(line))


@adapter.command("card")
@click.argument("folder", type=FOLDER)
@click.option(
    "--eval",
    "results",
    type=click.Path(path_type=Path),
    required=True,
    help="results.json of an evaluation of this adapter, or its folder.",
)
def card_command(folder: Path, results: Path) -> None:
    """Put the figures of an evaluation into the adapter's card, README.md."""
    from breadcrumbs.eval.results import cells, read_results, show
    from breadcrumbs.train.card import Measured, write_evaluation

    found = read_results(results.parent if results.suffix == ".json" else results)
    measured = [
        Measured(
            one.system,
            f"{one.split}, {one.tier}".replace("_", " "),
            {name: show(estimate) for name, estimate in one.metrics.items()},
            {name: estimate["value"] for name, estimate in one.metrics.items()},
        )
        for one in cells(found)
    ]
    path = write_evaluation(folder, found.get("models", {}).get("adapter", {}), measured)
    click.echo(f"card: {visible(str(path))}")
