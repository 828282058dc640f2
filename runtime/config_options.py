"""The options of every command that reads a config: which file, and what to change in it."""

from __future__ import annotations

from pathlib import Path

import click

CONFIG = click.Path(path_type=Path)
overrides = click.option(
    "--set", "changes", multiple=True, metavar="KEY=VALUE", help="Change one config value."
)
