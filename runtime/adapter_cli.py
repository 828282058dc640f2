"""`breadcrumbs adapter`: prove that a trained adapter is whole and in use, merge it, export it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from breadcrumbs.visible import visible

if TYPE_CHECKING:
    from breadcrumbs.train.merge import Dtype

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


@adapter.command("merge")
@click.argument("folder", type=FOLDER)
@click.option("--out", type=FOLDER, required=True, help="Folder for the merged model.")
@model_option
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16"]),
    default="float32",
    show_default=True,
    help="bfloat16 is half as large, and rounds.",
)
def merge_command(folder: Path, out: Path, model: str | None, dtype: Dtype) -> None:
    """Add the adapter into its base: a plain model folder, its logits compared before it counts."""
    from breadcrumbs.train.merge import merge

    gap = merge(folder, out, model, dtype)
    click.echo(
        f"merged into {visible(str(out))} ({dtype}); largest difference of a logit {gap:.2g}"
    )


@adapter.command("export")
@click.argument("folder", type=FOLDER)
@click.option(
    "--gguf",
    "out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="File for llama.cpp: llama-server --lora FILE.",
)
@model_option
def export_command(folder: Path, out: Path, model: str | None) -> None:
    """Write the adapter in llama.cpp's format and read every tensor back."""
    from breadcrumbs.train.gguf_lora import export_gguf

    count = export_gguf(folder, out, model)
    click.echo(f"{visible(str(out))}: {count} tensors written and read back, equal to the bit")


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
