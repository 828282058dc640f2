"""Answers of an endpoint on disk, one file each, so that nothing is asked twice.

A file is named by the digest of what was asked and moved into place whole. One that does not
hold together, or answers something else, is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadcrumbs.errors import ModelError
from breadcrumbs.files import read_text, write_text
from breadcrumbs.messages import STRICT_JSON, compact_json

MAX_FILE_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answers:
    """A folder of recorded answers."""

    folder: Path

    def get(self, request: Mapping[str, Any], seed: int) -> dict[str, Any] | None:
        """The recorded answer to a request, if there is a whole one."""
        try:
            text = read_text(self._path(request, seed), MAX_FILE_BYTES, ModelError)
            record = STRICT_JSON.decode(text)
        except (ModelError, ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or not isinstance(record.get("answer"), dict):
            return None
        asked = {"request": record.get("request"), "seed": record.get("seed")}
        if asked != {"request": request, "seed": seed}:
            return None
        answer: dict[str, Any] = record["answer"]
        return answer if record.get("sha256") == _digest(answer) else None

    def put(self, request: Mapping[str, Any], seed: int, answer: Mapping[str, Any]) -> None:
        """Keep an answer.

        Raises:
            ConfigError: the folder cannot be written.
        """
        record = {
            "request": request,
            "seed": seed,
            "answer": answer,
            "sha256": _digest(answer),
        }
        write_text(self._path(request, seed), compact_json(record))

    def _path(self, request: Mapping[str, Any], seed: int) -> Path:
        name = _digest({"request": request, "seed": seed})
        return self.folder / name[:2] / f"{name}.json"


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
