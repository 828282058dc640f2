"""Chat templates before any conversation: where they come from, and whether they carry calls."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breadcrumbs.call_format import probe_call
from breadcrumbs.errors import ModelError
from breadcrumbs.messages import Message
from breadcrumbs.models import first_line

PINNED_CLOCK = (
    "{% macro strftime_now(format) %}{{ format.replace('%Y', '2024').replace('%m', '07')"
    ".replace('%d', '26').replace('%b', 'Jul').replace('%B', 'July') }}{% endmacro %}"
)
"""Stands before a template that writes today's date: trained text would differ from tomorrow's.

The day is the one that Llama's templates fall back to. The true one is said by the system message.
"""
PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": probe_call().name,
        "description": "probe_description",
        "parameters": {
            "type": "object",
            "properties": {"probe_key": {"type": "string"}},
            "required": ["probe_key"],
        },
    },
}


def pinned(template: str) -> str:
    """The template with a clock that stands still, if it looks at one."""
    return PINNED_CLOCK + template if "strftime_now" in template else template


def shipped_template(name: str) -> str:
    """A chat template read from the installed TRL, without importing it."""
    spec = importlib.util.find_spec("trl")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        path = Path(place) / "chat_templates" / f"{name}.jinja"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise ModelError(f"TRL's {name} chat template is not installed; run: pip install 'trl>=1.16'")


@dataclass(frozen=True, slots=True)
class Probe:
    """How a template renders a prompt, and the same conversation with a call and its answer."""

    prompt: str = ""
    whole: str = ""
    fault: str | None = None
    """Why its tool support cannot be relied on; None where it can."""


def render_probe(tokenizer: Any, template: str) -> Probe:
    """Try a template on a conversation with a call."""
    from jinja2 import TemplateError

    call = probe_call()
    messages = [
        Message("system", "probe_system"),
        Message("user", "probe_user"),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "probe_result", tool_call_id=call.id),
    ]

    def rendered(count: int) -> str:
        text: str = tokenizer.apply_chat_template(
            [m.to_template() for m in messages[:count]],
            tools=[PROBE_TOOL],
            chat_template=template,
            add_generation_prompt=True,
            tokenize=False,
        )
        return text

    try:
        prompt, whole = rendered(2), rendered(4)
    except (TemplateError, ValueError, TypeError, KeyError) as error:
        return Probe(fault=f"it fails on a call: {first_line(error)}")
    parts = {
        "the system message": "probe_system",
        "the tools": "probe_description",
        "the call": "probe_value",
        "the call's result": "probe_result",
    }
    missing = [part for part, word in parts.items() if word not in whole]
    fault = f"behind a call it leaves out {', '.join(missing)}" if missing else None
    return Probe(prompt, whole, fault)
