"""Files somebody else made, read for the texts and tool definitions in them.

Nothing is assumed of their layout: every text and every tool definition at any depth counts, also
inside JSON that stands in a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.files import read_text

MAX_BYTES = 1 << 30
_JSON = (".json", ".jsonl", ".ndjson")
_SCHEMAS = ("inputSchema", "input_schema", "parameters")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool definition in any of the usual shapes."""

    name: str
    description: str
    schema: Mapping[str, Any]


def read_outside(path: Path) -> list[tuple[str, Any]]:
    """The documents of a file with where they stand: `.parquet`, JSON, JSON lines, or plain text.

    A list at the top of a JSON file is a document an item; any other ending is read as text, a
    document a line.

    Raises:
        DataError: missing, unreadable, over 1 GiB, or not what its ending says.
    """
    kind = path.suffix.lower()
    if kind == ".parquet":
        return _parquet(path)
    text = read_text(path, MAX_BYTES, DataError)
    if kind not in _JSON:
        return [(f"line {n}", line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return _json_lines(path, text)
    if isinstance(whole, list):
        return [(f"item {number}", item) for number, item in enumerate(whole)]
    return [("line 1", whole)]


def _json_lines(path: Path, text: str) -> list[tuple[str, Any]]:
    documents = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            documents.append((f"line {number}", json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path}:{number}: neither JSON nor JSON lines: {error}") from error
    return documents


def _parquet(path: Path) -> list[tuple[str, Any]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with path.open("rb") as file:
            records = parquet.read_table(file).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        what = getattr(error, "strerror", None) or "no Parquet that can be read"
        raise DataError(f"{path}: cannot read: {what}") from error
    return [(f"row {number}", record) for number, record in enumerate(records)]


def parts(document: Any) -> Iterator[str | Tool]:
    """Every text and every tool definition in a document, at any depth."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            inner = _inner(value)
            if inner is None:
                yield value
            else:
                waiting.append(inner)
        elif isinstance(value, Mapping):
            tool = tool_of(value)
            if tool is not None:
                yield tool
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)


def tool_of(value: Mapping[str, Any]) -> Tool | None:
    """The tool a mapping defines: a name beside a schema, as MCP, OpenAI and BFCL write it."""
    schema = next((value[key] for key in _SCHEMAS if isinstance(value.get(key), Mapping)), None)
    name, description = value.get("name"), value.get("description")
    if schema is None or not isinstance(name, str):
        return None
    return Tool(name, description if isinstance(description, str) else "", schema)


def _inner(text: str) -> Any:
    """The JSON object or list a text holds; None where it is just text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
