"""Calls whose arguments stand one by one between tags: Qwen3.5 and its kin, GLM.

The tags carry text alone, so a value's type is that of the tool's schema: `7` is a number for an
integer parameter and text for a string one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from breadcrumbs.call_reading import Found, Reader, Types, behind, call_problem, reason_of, shown
from breadcrumbs.messages import STRICT_JSON

_CLOSER = "</tool_call>"
_WORDS: Mapping[str, Any] = {"True": True, "False": False, "None": None}
"""How Jinja writes what JSON calls true, false and null, where a template does not say tojson."""


def _reader(
    head: str, key: str, value_closer: str, tail: str, strip: Callable[[str], str]
) -> Reader:
    head_mark, key_mark, tail_mark = (re.compile(pattern) for pattern in (head, key, tail))

    def read(text: str, start: int, types: Types) -> tuple[list[Found], int]:
        begun = head_mark.match(text, start)
        if begun is None:
            problem = call_problem("it names no tool", shown(text, start))
            return [problem], behind(text, _CLOSER, start)
        name, at = begun[1], begun.end()
        arguments: dict[str, Any] = {}
        while (mark := key_mark.match(text, at)) is not None:
            end = text.find(value_closer, mark.end())
            if end < 0:
                return [call_problem("it was cut off", shown(text, start))], len(text)
            if mark[1] in arguments:
                problem = call_problem(f"the key {mark[1][:40]!r} stands twice", shown(text, start))
                return [problem], behind(text, _CLOSER, end)
            try:
                value = typed(strip(text[mark.end() : end]), types.get(name), mark[1])
            except (ValueError, RecursionError) as error:
                problem = call_problem(f"{mark[1][:40]}: {reason_of(error)}", shown(text, start))
                return [problem], behind(text, _CLOSER, end)
            arguments[mark[1]] = value
            at = end + len(value_closer)
        closed = tail_mark.match(text, at)
        if closed is None:
            cut = text.find(_CLOSER, at) < 0
            reason = "it was cut off" if cut else "text stands between its parameters"
            return [call_problem(reason, shown(text, at) or shown(text, start))], behind(
                text, _CLOSER, at
            )
        return [(name, arguments)], closed.end()

    return read


def _without_line_ends(text: str) -> str:
    return text.removeprefix("\n").removesuffix("\n")


read_xml = _reader(
    head=r"\s*<function=([^<>\s]+)>",
    key=r"\s*<parameter=([^<>\n]+)>",
    value_closer="</parameter>",
    tail=r"\s*</function>\s*</tool_call>",
    strip=_without_line_ends,
)
"""Qwen3.5: `<function=name>`, then `<parameter=key>` each with its value on lines of its own."""

read_glm = _reader(
    head=r"\s*([^<>\s]+)",
    key=r"\s*<arg_key>([^<>\n]+)</arg_key>\s*<arg_value>",
    value_closer="</arg_value>",
    tail=r"\s*</tool_call>",
    strip=str,
)
"""GLM: the name, then pairs of `<arg_key>` and `<arg_value>`."""


def typed(text: str, properties: Mapping[str, Any] | None, key: str) -> Any:
    """A parameter's text as a value of the type that its schema gives.

    Text stays text for a string parameter, and for one that the tool does not declare, which the
    gateway then refuses by name.

    Raises:
        ValueError: the schema wants another type than string, and the text is no JSON.
    """
    if properties is None or key not in properties:
        return text
    kinds = _kinds(properties[key])
    if kinds == {"string"}:
        return text
    if kinds == {"string", "null"}:
        return None if text in ("null", "None") else text
    if text in _WORDS:
        return _WORDS[text]
    try:
        return STRICT_JSON.decode(text)
    except (ValueError, RecursionError):
        if not kinds or "string" in kinds:
            return text
        raise


def _kinds(schema: Any) -> set[str]:
    """The JSON types a schema allows; empty where it does not say."""
    if not isinstance(schema, Mapping):
        return set()
    kinds = schema.get("type")
    named = {kinds} if isinstance(kinds, str) else {str(kind) for kind in kinds or ()}
    for choice in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        named |= _kinds(choice)
    return named
