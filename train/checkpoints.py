"""Checkpoints that are whole or not there, and where an interrupted run goes on.

The trainer writes a checkpoint file by file, and loads what it finds: without its optimizer state
it goes on in silence to other losses. So a manifest is written last, after every byte is on disk;
a folder without one, or whose files are not of the sizes it names, is no checkpoint.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from breadcrumbs.errors import ConfigError
from breadcrumbs.files import sync, write_text
from breadcrumbs.models import first_line

MANIFEST = "whole.json"


class WholeCheckpoints:
    """Put before a `Trainer` among the bases: what it saves is sealed, or not kept."""

    args: Any
    state: Any
    accelerator: Any

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        step = self.state.global_step
        if step >= self.state.max_steps:
            return  # resumed from there, the trainer would take one step more
        folder = Path(self.args.output_dir) / f"checkpoint-{step}"
        try:
            super()._save_checkpoint(model, trial)  # type: ignore[misc]  # the trainer's
            self.accelerator.wait_for_everyone()  # each process writes a part of its own
            if self.args.should_save:
                seal(folder, step)
        except Exception as error:  # each library tells of a full disk in its own way
            shutil.rmtree(folder, ignore_errors=True)
            reason = getattr(error, "strerror", None) or first_line(error)
            raise ConfigError(
                f"{folder}: cannot save: {reason}; what was saved before is whole: make room and "
                "run the same command, it goes on from there"
            ) from error


def seal(folder: Path, step: int) -> None:
    """Put every file of a checkpoint on disk, then the manifest that says so."""
    sizes = {}
    for path in sorted(folder.rglob("*")):
        sync(path)
        if path.is_file():
            sizes[str(path.relative_to(folder))] = path.stat().st_size
    sync(folder)
    write_text(folder / MANIFEST, json.dumps({"step": step, "bytes": sizes}) + "\n")


def last_checkpoint(folder: Path) -> Path | None:
    """The newest whole checkpoint; others are removed if they are half-written."""
    whole: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        step = _whole_step(path)
        if step is None:
            shutil.rmtree(path)
        else:
            whole.append((step, path))
    return max(whole)[1] if whole else None


def trim_metrics(path: Path, checkpoint: Path | None) -> None:
    """Drop log lines of steps that will be done again after a resume."""
    if not path.is_file():
        return
    reached = (_whole_step(checkpoint) or 0) if checkpoint else 0
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            step = json.loads(line)["step"]
        except (ValueError, KeyError):
            continue  # the line that was being written when the run was stopped
        if step <= reached:
            kept.append(line + "\n")
    write_text(path, "".join(kept))


def _whole_step(checkpoint: Path) -> int | None:
    try:
        manifest = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        whole = all(
            (checkpoint / name).stat().st_size == size for name, size in manifest["bytes"].items()
        )
        return int(manifest["step"]) if whole else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
