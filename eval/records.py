"""Finished work on disk: one JSONL file per unit of work, whole or not there.

The first line is a fingerprint of everything that decides what the model writes; a file with
another one is made anew. Scores are not part of it: they are computed again from the kept text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.config import System
from breadcrumbs.files import write_text
from breadcrumbs.models import GGUF_SHA256, SMALL

RESULTS = "results.json"
SUITE = "episodes.json"
OUTSIDE = "outside.json"
SCORES = "scores.jsonl"
CELLS = "cells"
Record = dict[str, Any]


def read_records(path: Path, fingerprint: str) -> list[Record] | None:
    """The records of a finished file made under the same fingerprint, else None."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        head, *rows = [json.loads(line) for line in lines]
    except (OSError, ValueError):
        return None
    if head.get("fingerprint") != fingerprint or head.get("rows") != len(rows):
        return None
    return rows


def write_records(path: Path, fingerprint: str, records: Sequence[Mapping[str, Any]]) -> None:
    """Write a file in one move.

    Raises:
        ConfigError: the place cannot be written.
    """
    head = {"fingerprint": fingerprint, "rows": len(records)}
    write_text(path, "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in (head, *records)))


def fingerprint(parts: Iterable[Any]) -> str:
    """A hash of JSON values."""
    text = json.dumps(list(parts), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Loads(Protocol):
    """What says which weights a run loads."""

    @property
    def model(self) -> str:
        """Name or folder."""

    @property
    def adapter(self) -> Path | None:
        """Folder of an adapter, if any."""

    @property
    def dtype(self) -> Literal["bfloat16", "float32"]:
        """What it computes in."""


def model_identity(config: Loads, system: System) -> dict[str, str]:
    """What the weights are: hashes where they lie here, the name where they come from a hub.

    Raises:
        ConfigError: the adapter has no weights.
    """
    identity = {"base": _base(config.model), "dtype": config.dtype}
    if system == "adapter" and config.adapter is not None:
        weights = config.adapter / "adapter_model.safetensors"
        if not weights.is_file():
            raise ConfigError(f"{weights}: not there; train first, or leave `adapter` out")
        identity["adapter"] = file_hash(weights)
    return identity


def _base(model: str) -> str:
    if model == SMALL:
        return f"gguf-sha256:{GGUF_SHA256}"
    weights = sorted(Path(model).glob("*.safetensors")) if Path(model).is_dir() else []
    return "+".join(file_hash(path) for path in weights) or model


def file_hash(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
