"""`breadcrumbs radar`: what the radar finds in recorded turns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from breadcrumbs.visible import plain

if TYPE_CHECKING:
    from breadcrumbs.radar import Layer

# Written out, not imported: `--help` loads no radar. A test holds them equal.
_LAYERS = ("gate", "repair", "echo", "grounding", "permission", "announcement")


@click.group()
def radar() -> None:
    """Measure the hesitation radar on your own transcripts."""


@radar.command("score")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(_LAYERS),
    help="Switch a layer off (may be repeated).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def score_command(file: Path, without: tuple[Layer, ...], as_json: bool) -> None:
    """Score the radar on FILE, one labelled turn a line (docs/radar.md has the shape)."""
    from breadcrumbs.radar_score import read_cases, score, table

    result = score(read_cases(file), without)
    if as_json:
        click.echo(json.dumps(result, indent=2, ensure_ascii=False))
        return
    for line in table(result):
        click.echo(plain(line))
