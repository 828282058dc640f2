"""One live progress line with the time left; plain lines where there is no terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

PLAIN_EVERY_S = 15.0


class Report(Protocol):
    """What long work calls: units done, units in all, and a few words on where it is."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """Show that `done` of `total` units are finished."""


def is_main_process() -> bool:
    """Whether this is the only process, or the first of those that a launcher started."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def live(title: str, console: Console) -> Iterator[Report]:
    """Show progress for the length of a block; yields the function to report with."""
    if console.is_terminal:
        with _bar(console) as bar:
            task = bar.add_task(title, total=None, note="")

            def show(done: int, total: int, note: str = "") -> None:
                bar.update(task, completed=done, total=total, note=note)

            yield show
    else:
        yield _plain(title, console)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=console,
    )


def _plain(title: str, console: Console) -> Report:
    began = time.monotonic()
    last = began - PLAIN_EVERY_S

    def show(done: int, total: int, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if done < total and now - last < PLAIN_EVERY_S:
            return
        last = now
        left = (now - began) / done * (total - done) if done else 0.0
        console.print(f"{title}: {done}/{total}, {left:.0f} s left {note}".rstrip())

    return show
