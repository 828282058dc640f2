"""Rows as JSON lines in OpenAI's shape: the border where arguments become JSON text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.files import write_json_lines
from breadcrumbs.openai_wire import message_out


def export(rows: Sequence[Row], path: Path) -> None:
    """Write one line a row, in their order; the file appears whole or not at all.

    Raises:
        ConfigError: the place cannot be written.
    """
    write_json_lines(path, map(exported, rows))


def exported(row: Row) -> dict[str, Any]:
    """The conversation and its tools as a chat completion request holds them.

    `unlearned` is there only where a turn is wrong and mended by a later one: the indices of
    messages that no trainer may learn.
    """
    slips = row.meta.get("unlearned")
    return {
        "messages": [message_out(message) for message in row.shown_messages],
        "tools": row.shown_tools,
        **({"unlearned": slips} if slips else {}),
    }
