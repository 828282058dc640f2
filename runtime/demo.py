"""The demo: the public commands in a row, each printed before it runs.

Every command knows what it has finished, so a demo that was stopped goes on where it was.
This module only orders them, keeps their times in `timings.json` and stops at the first that fails.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.files import write_text

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_OUT = Path("runs/demo")
TIMINGS = "timings.json"


@dataclass(frozen=True, slots=True)
class Step:
    """One command of the demo and the words that introduce it."""

    name: str
    why: str
    arguments: tuple[str, ...]
    leaves: str = ""
    """A file in the run folder that the command writes when it works, and leaves when it looks."""


def steps(out: Path) -> list[Step]:
    """The demo's commands for a run folder, in order."""
    watch = ("eval", "watch", "--config", "configs/eval/demo.yaml")
    evaluation = _paths(out, data="data", adapter="adapter", out="eval")
    return [
        Step(
            "generate",
            "Make verified trajectories through the simulated gateway.",
            ("generate", "--config", "configs/generate/demo.yaml", "--out", str(out / "data")),
            "data/manifest.json",
        ),
        Step(
            "watch base",
            "The untrained model on the request this project was born from.",
            (*watch, "--system", "base", "--out", str(out / "watch/base.json"), *evaluation),
            "watch/base.json",
        ),
        Step(
            "train",
            "Preflight every row, then train a LoRA adapter.",
            ("train", "sft", "--config", "configs/train/demo.yaml")
            + _paths(out, data="data", out="adapter"),
            "adapter/serving.json",
        ),
        Step(
            "eval",
            "Score base, adapter and two constant policies on held-out tools.",
            ("eval", "--config", "configs/eval/demo.yaml", *evaluation),
            "eval/results.json",
        ),
        Step(
            "probe",
            "Measure attention on steering and schema, base against adapter.",
            ("probe", "attention", "--config", "configs/probe/demo.yaml")
            + _paths(out, adapter="adapter", out="probe"),
            "probe/attention.json",
        ),
        Step(
            "watch adapter",
            "The same request, with the adapter.",
            (*watch, "--system", "adapter", "--out", str(out / "watch/adapter.json"), *evaluation),
            "watch/adapter.json",
        ),
        Step("report", "Put it on one page.", ("report", str(out))),
    ]


def run_demo(out: Path, console: Console) -> None:
    """Run every step; exits with a failing step's own status.

    Raises:
        ConfigError: the run folder cannot be written.
    """
    timings = _read_timings(out)
    _write_timings(out, timings)
    plan = steps(out)
    for number, step in enumerate(plan, 1):
        console.rule(f"{number}/{len(plan)} {step.name}", align="left")
        console.print(step.why)
        _run(step, out, timings, console)
    total = sum(entry["seconds"] for entry in timings.values())
    console.rule("done", align="left")
    _print_table(out, console)
    console.print(f"{total / 60:.1f} minutes in all. Open {out / 'report.html'}")


def _run(step: Step, out: Path, timings: dict[str, Any], console: Console) -> None:
    console.print(f"$ breadcrumbs {shlex.join(step.arguments)}\n", style="dim", markup=False)
    before, began = _written(out, step), time.monotonic()
    command = [sys.executable, "-m", "breadcrumbs", *step.arguments]
    status = 1
    try:
        status = subprocess.run(command, env=_environment(), check=False).returncode
    finally:
        entry = timings.setdefault(step.name, {"seconds": 0.0, "finished": False})
        if entry["finished"] and _written(out, step) != before:  # what it had made was gone
            entry.update(seconds=0.0, finished=False)
        if not entry["finished"]:  # a second run of a finished step only looks and leaves
            entry["seconds"] = round(entry["seconds"] + time.monotonic() - began, 1)
            entry["finished"] = status == 0
            entry["command"] = shlex.join(["breadcrumbs", *step.arguments])
        _write_timings(out, timings)
    if status != 0:
        sys.exit(status)


def _written(out: Path, step: Step) -> int | None:
    """When a step last wrote what it leaves, in nanoseconds."""
    try:
        return (out / step.leaves).stat().st_mtime_ns if step.leaves else None
    except OSError:
        return None


def _environment() -> dict[str, str]:
    return {**os.environ, "HF_HUB_DISABLE_TELEMETRY": "1", "TOKENIZERS_PARALLELISM": "false"}


def _paths(run: Path, **places: str) -> tuple[str, ...]:
    """Overrides that move a config's folders below `run`; none for the default place."""
    if run == DEFAULT_OUT:
        return ()
    return tuple(part for key, name in places.items() for part in ("--set", f"{key}={run / name}"))


def _print_table(out: Path, console: Console) -> None:
    from breadcrumbs.eval.results import read_results, table

    console.print(table(read_results(out)), markup=False, soft_wrap=True)


def _read_timings(out: Path) -> dict[str, Any]:
    try:
        timings = json.loads((out / TIMINGS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return timings if isinstance(timings, dict) else {}


def _write_timings(out: Path, timings: dict[str, Any]) -> None:
    write_text(out / TIMINGS, json.dumps(timings, indent=2) + "\n")
