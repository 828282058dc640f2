"""`breadcrumbs data stalls`: what was tried, what was kept, and why the rest was not."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from breadcrumbs.data_cli import FILE, FINDINGS, FOLDER, as_json_option
from breadcrumbs.visible import visible


@click.command("stalls")
@click.option("--config", type=FILE, required=True, help="configs/generate/stalls.yaml")
@click.option("--out", type=FOLDER, required=True, help="Folder for all of it.")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change one value.")
@as_json_option
def stalls(config: Path, out: Path, changes: tuple[str, ...], as_json: bool) -> None:
    """Teach a model to stall, nudge it, and make rows of what it then does right.

    Generates a data set, trains an adapter that stalls and calls when nudged, runs the set's
    training calls with it, and keeps the rows that `generate` takes in with `include`. Says how
    many got how far. Exit 1 where no row is left. A command that was stopped goes on.
    """
    from rich.console import Console

    from breadcrumbs import config as configs
    from breadcrumbs.progress import live
    from breadcrumbs.stalls_run import StallsConfig, find_stalls

    settings = configs.load(config, StallsConfig, changes)
    with live("stalls", Console(stderr=True, highlight=False)) as report:
        found = find_stalls(settings, out, report)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for line in stall_lines(found, settings.data, out):
            click.echo(visible(line))
    if not found["steps"]["kept"]:
        sys.exit(FINDINGS)


def stall_lines(found: Mapping[str, Any], config: str, out: Path) -> Iterator[str]:
    """The yield at each step, for a person."""
    from breadcrumbs.data_gen.model_stalls import ROWS

    yield f"{found['staller']}, {out}"
    for step, number in found["steps"].items():
        yield f"  {step}: {number}"
        if step == "stalled":
            for kind, count in found["kinds"].items():
                yield f"  stalled, {kind}: {count}"
    for reason, number in found["dropped"].items():
        yield f"  dropped, {reason}: {number}"
    kept = found["steps"]["kept"]
    if not kept:
        yield "no row is left; nothing was written"
        return
    kinds = ", ".join(f"{kind} {number}" for kind, number in found["kept_kinds"].items())
    yield f"{kept} rows in {out / ROWS}: {kinds}"
    same = found["cut_equals_the_oracle"]
    yield f"  {same} of them equal the oracle's row once stall and nudge are cut out"
    yield f"take them in: breadcrumbs generate --config {config} --set 'include=[{out / ROWS}]'"
