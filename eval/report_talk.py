"""The request the project was born from, base beside adapter, at the forced decision point."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from breadcrumbs.eval.report_tables import STALLS

STATUS = {
    "approval_required": "the gateway holds the write until a person approves it",
    "done": "the gateway ran it",
    "invalid": "the gateway refused the arguments",
}


def talk_section(run: Path) -> str:
    """Two conversations side by side, or why there are none."""
    found = {system: _read(run / "watch" / f"{system}.json") for system in ("base", "adapter")}
    columns = [_column(system, record) for system, record in found.items() if record]
    if not columns:
        body = '<p class="missing">Not shown: the run has no watch/base.json or adapter.json.</p>'
    else:
        body = f'<div class="two">{"".join(columns)}</div>'
    return (
        "<section><h2>The same moment, twice</h2><p>Search and schema are forced, so that both"
        " stand right where the schema was disclosed. What is framed is what the model wrote."
        f"</p>{body}</section>"
    )


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _column(system: str, record: Mapping[str, Any]) -> str:
    request = escape(str(record.get("request", "")))
    return (
        f'<div class="talk of-{system}"><h3>{system}</h3>'
        f'<div class="turn user"><span class="who">user</span>{request}</div>'
        f"{_forced(record.get('messages', ()))}{_said(system, record)}{_verdict(record)}</div>"
    )


def _forced(messages: Sequence[Mapping[str, Any]]) -> str:
    steps = []
    for message in messages[2:]:
        for call in message.get("tool_calls", ()):
            arguments = json.dumps(call["arguments"], ensure_ascii=False)
            steps.append(f"<pre>{escape(call['name'])} {escape(arguments)}</pre>")
        if message.get("role") == "tool":
            steps.append(f"<pre>{escape(_pretty(str(message.get('content', ''))))}</pre>")
    size = sum(len(str(m.get("content", ""))) for m in messages[2:])
    return (
        '<div class="turn forced"><details><summary>forced: search, then the schema'
        f" ({size:,} characters)</summary>{''.join(steps)}</details></div>"
        if steps
        else ""
    )


def _pretty(content: str) -> str:
    try:
        return json.dumps(json.loads(content), indent=1, ensure_ascii=False)
    except ValueError:
        return content


def _said(system: str, record: Mapping[str, Any]) -> str:
    parts = []
    if record.get("thinking"):
        parts.append(f'<p class="think">{escape(str(record["thinking"]))}</p>')
    if record.get("text"):
        parts.append(f"<pre>{escape(str(record['text']))}</pre>")
    for call in record.get("calls", ()):
        arguments = json.dumps(call["arguments"], indent=1, ensure_ascii=False)
        parts.append(f"<pre>{escape(str(call['name']))} {escape(arguments)}</pre>")
    parts += [f"<pre>{escape(str(problem))}</pre>" for problem in record.get("problems", ())]
    inner = "".join(parts) or "<em>nothing</em>"
    return f'<div class="turn said"><span class="who">{system}</span>{inner}</div>'


def _verdict(record: Mapping[str, Any]) -> str:
    payload = record.get("payload") or {}
    stall = record.get("stall")
    status = str(payload.get("status", payload.get("layer", "")))
    if record.get("calls"):
        good = status in ("approval_required", "done")
        text = f"Called: {STATUS.get(status, status)}."
    elif stall:
        good, text = False, f"Stall, {stall}: {STALLS.get(str(stall), '')}."
    else:
        good, text = False, "No call; the radar sees no stall."
    return f'<p class="verdict {"good" if good else "bad"}">{escape(text)}</p>'
