"""Rows as JSON lines in OpenAI's shape: the border where arguments become JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.files import write_text
from breadcrumbs.messages import Message
from breadcrumbs.openai_wire import calls_out


def export(rows: Sequence[Row], path: Path) -> None:
    """Write one line a row, in their order; the file appears whole or not at all.

    Raises:
        ConfigError: the place cannot be written.
    """
    lines = [json.dumps(exported(row), ensure_ascii=False) for row in rows]
    write_text(path, "".join(f"{line}\n" for line in lines))


def exported(row: Row) -> dict[str, Any]:
    """The conversation and its tools as a chat completion request holds them."""
    return {
        "messages": [_message(message) for message in row.messages],
        "tools": [dict(tool) for tool in row.tools],
    }


def _message(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["tool_calls"] = calls_out(message.tool_calls)
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body
