"""Chat templates before any conversation: where they come from, and whether they carry calls."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from breadcrumbs.call_format import probe_call
from breadcrumbs.errors import ModelError
from breadcrumbs.messages import Message

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


def render_probe(tokenizer: Any, template: str) -> tuple[str, str] | None:
    """A prompt, and that conversation with a call and its answer behind it.

    None where the template fails, or leaves out the system message, tools, call or answer.
    """
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
        prompt, text = rendered(2), rendered(4)
    except (TemplateError, ValueError, TypeError, KeyError):
        return None
    wanted = ("probe_description", "probe_key", "probe_value", "probe_result", "probe_system")
    return (prompt, text) if all(word in text for word in wanted) else None
