"""An adapter's folder, read back: what it says of itself, and the base it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from breadcrumbs.errors import ModelError
from breadcrumbs.models import SMALL, base_identity
from breadcrumbs.train.run import SERVING, WEIGHTS
from breadcrumbs.train.serving import ADAPTER_CONFIG, SERVING_VERSION

_NEEDED = ("canary", "golden", "files", "base", "base_revision", "stop_ids")


def read_adapter(folder: Path) -> dict[str, Any]:
    """What the `serving.json` of a finished adapter says.

    Raises:
        ModelError: no adapter there, an unfinished one, or one of an older version.
    """
    if not (folder / ADAPTER_CONFIG).is_file():
        is_base = (folder / "config.json").is_file()
        what = "a base model, not an adapter" if is_base else "no adapter here"
        raise ModelError(f"{folder}: {what}; name a folder that `breadcrumbs train` finished")
    for name in (WEIGHTS, SERVING):
        if not (folder / name).is_file():
            raise ModelError(f"{folder}: no {name}; the training did not finish: run it again")
    facts = read_json(folder / SERVING)
    missing = [key for key in _NEEDED if key not in facts]
    if facts.get("version") != SERVING_VERSION or missing:
        raise ModelError(
            f"{folder / SERVING}: version {facts.get('version')!r} without what is checked here "
            f"({', '.join(missing) or 'another version'}); train again"
        )
    return facts


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        ModelError: it cannot be read, or is something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: cannot be read ({error}); train again") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path}: not an object; train again")
    return value


def base_name(facts: Mapping[str, Any], given: str | None) -> str:
    """The base model to load: the one given, else the one the adapter names.

    Raises:
        ModelError: it was trained on a local folder, which only the user can find.
    """
    base = str(facts["base"])
    if given:
        return given
    if base == base_identity(SMALL):
        return SMALL
    if base.count("/") == 1:
        return base
    raise ModelError(f"trained on the local model {base!r}: name its folder with --model")
