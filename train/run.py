"""A run's folder: whose it is, and whether it is finished.

`run.json` says what was asked for, `serving.json` (written last) that the adapter is whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

from breadcrumbs.config import to_dict
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.files import write_text
from breadcrumbs.progress import is_main_process
from breadcrumbs.train.config import ContinueConfig, RunConfig
from breadcrumbs.train.rows import data_hash

RUN = "run.json"
METRICS = "metrics.jsonl"
ROLLOUTS = "rollouts.jsonl"
GAPS = "gaps.jsonl"
CHECKPOINTS = "checkpoints"
SERVING = "serving.json"
_LIBRARIES = ("torch", "transformers", "trl", "peft", "datasets", "accelerate")
# Keys that change where or how often things are written, not what is trained.
_INDIFFERENT = frozenset({"data", "out", "save_every", "log_every"})
_BEFORE = {"dtype": "bfloat16", "quantization": None, "processes": 1}
"""What a run was whose folder is older than these settings."""
WEIGHTS = "adapter_model.safetensors"


def run_identity(config: RunConfig) -> dict[str, Any]:
    """What makes two runs the same: settings that matter, and the bytes that go in.

    Raises:
        ConfigError: no finished adapter where the config says.
        DataError: no complete data set where the config says.
    """
    settings = {key: value for key, value in to_dict(config).items() if key not in _INDIFFERENT}
    # With another number a resumed run would skip other rows than it has met.
    settings["processes"] = int(os.environ.get("WORLD_SIZE", "1"))
    identity = {"settings": settings, "data_sha256": data_hash(config)}
    if isinstance(config, ContinueConfig):
        del settings["adapter"]  # wherever it lies, it is the same
        identity["adapter_sha256"] = _adapter_hash(Path(config.adapter))
    return identity


def _adapter_hash(folder: Path) -> str:
    if not (folder / SERVING).is_file():
        raise ConfigError(f"{folder}: no finished adapter here; train one: breadcrumbs train sft")
    try:
        return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"{folder / WEIGHTS}: cannot read: {error.strerror}") from error


def claim(out: Path, identity: dict[str, Any]) -> bool:
    """Take `out` for this run, or find that the run is finished there already (True).

    Raises:
        ConfigError: another run's folder, or not writable.
        DataError: the same settings, but the data or the adapter it began with has changed.
    """
    path = out / RUN
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot read ({error}); remove {out} and start again") from error
    if known is not None:
        _compare(known, identity, out)
        return (out / SERVING).is_file()
    if is_main_process():
        body = {**identity, "versions": versions()}
        write_text(path, json.dumps(body, indent=2) + "\n")
    return False


def _compare(known: dict[str, Any], identity: dict[str, Any], out: Path) -> None:
    before, now = _dated(known.get("settings", {})), _dated(identity["settings"])
    if changed := sorted(k for k in {*before, *now} if before.get(k) != now.get(k)):
        raise ConfigError(
            f"{out}: holds a run with other settings ({', '.join(changed)}); "
            "choose another out, or remove the folder"
        )
    if known.get("adapter_sha256") != identity.get("adapter_sha256"):
        raise DataError(
            f"{out}: went on from an adapter that has changed since; "
            "choose another out, or remove the folder"
        )
    if known.get("data_sha256") != identity["data_sha256"]:
        raise DataError(
            f"{out}: was trained on data that has changed since; "
            "choose another out, or remove the folder"
        )


def _dated(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with what they meant before a key was there: with `beta` it was DPO."""
    known = _BEFORE | settings
    return {"stage": "dpo", **known} if "beta" in known else known


def versions() -> dict[str, str]:
    """Versions of the libraries that decide what comes out."""
    return {name: metadata.version(name) for name in _LIBRARIES}
