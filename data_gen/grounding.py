"""Where an argument's value comes from: the conversation, a stated default, or nowhere.

This one check yields the label: all required values found means dispatch is right, one found
nowhere means asking for it is right. Comparison is by normalised words, never by a model.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from breadcrumbs.data_gen.derivations import read_back
from breadcrumbs.data_gen.hints import ArgumentHint, Composed
from breadcrumbs.data_gen.values import spoken, words
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import Message, json_object

Source = Literal["user", "system", "tool_result", "default", "composed", "derived"]
_DATE_TIME = re.compile(r"(?<=\d)t(?=\d)")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
"""Letters of scripts without spaces: each is a word of its own."""
_TOKEN = re.compile(r"\d+(?:\.\d+)?|[^\W\d_]+")


def normalise(text: str) -> str:
    """Lower-case words and numbers, one space between them, a space at either end.

    `25.0` and `25` are the same; punctuation, accents' encoding and spacing do not count.
    """
    folded = _DATE_TIME.sub(" ", unicodedata.normalize("NFKC", text).casefold())
    if not folded.isascii():
        folded = _CJK.sub(r" \g<0> ", folded)
    tokens = (_number(token) for token in _TOKEN.findall(words(folded)))
    return f" {' '.join(tokens)} "


def _number(token: str) -> str:
    return token.rstrip("0").rstrip(".") if "." in token else token


def says(text: str, value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether a normalised text holds a value: whole words in order, lists item by item."""
    if isinstance(value, list):
        inner = schema.get("items", {})
        return bool(value) and all(says(text, item, inner) for item in value)
    if isinstance(value, Mapping):
        inner = schema.get("properties", {})
        return bool(value) and all(says(text, v, inner.get(k, {})) for k, v in value.items())
    return any(form in text for form in _forms(value, schema))


def _forms(value: Any, schema: Mapping[str, Any]) -> list[str]:
    forms = {normalise(str(value)), normalise(spoken(value, schema))}
    if isinstance(value, float):
        forms.add(normalise(f"{value:.2f}"))
    return [form for form in forms if form.strip()]


def says_boolean(text: str, name: str, value: bool, hint: ArgumentHint | None) -> bool:
    """Whether a normalised text sets the boolean `name`: "breakfast yes", or a hint's clause."""
    clauses = (f"{words(name)} {spoken(value, {})}", *(hint.clauses_for(value) if hint else ()))
    return any(normalise(clause.removeprefix("and ")) in text for clause in clauses)


def worded_well(text: Any, composed: Composed) -> bool:
    """Soft comparison of a text the assistant worded: what must appear does, nothing false."""
    if not isinstance(text, str):
        return False
    said = normalise(text)
    held = all(normalise(must).strip() in said for must in composed.must)
    return held and not any(normalise(fact) in said for fact in composed.must_not)


def softened(value: Any, composed: Mapping[str, Composed]) -> Any:
    """A state with every well-worded text replaced by the gold wording."""
    if isinstance(value, Mapping):
        return {
            key: composed[key].write
            if key in composed and worded_well(inner, composed[key])
            else softened(inner, composed)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [softened(item, composed) for item in value]
    return value


def ground(
    spec: ToolSpec,
    arguments: Mapping[str, Any],
    messages: Sequence[Message],
    *,
    composed: Mapping[str, Composed] | None = None,
    hints: Mapping[str, ArgumentHint] | None = None,
    derived: Mapping[str, str] | None = None,
    now: str = "",
) -> dict[str, Source | None]:
    """The source of every given argument, `None` where it is found nowhere.

    Only what stood in the conversation counts: system prompt, user turns, and results of
    executed calls. A disclosed schema's defaults count as stated; its enum values, examples
    and the catalog's payloads do not. `derived` holds the words for arguments that the user says
    otherwise; they count where they are said and mean the value at the time `now`.
    """
    texts = _texts(messages)
    properties = spec.input_schema.get("properties", {})
    found: dict[str, Source | None] = {}
    for name, value in arguments.items():
        schema = properties.get(name, {})
        hint = (hints or {}).get(name)
        if composed and name in composed:
            found[name] = "composed" if worded_well(value, composed[name]) else None
        elif derived and name in derived:
            said = normalise(derived[name]) in texts["user"]
            means = said and read_back(name, derived[name], schema, now) == value
            found[name] = "derived" if means else None
        else:
            found[name] = _source(name, value, schema, hint, texts)
    return found


def _source(
    name: str,
    value: Any,
    schema: Mapping[str, Any],
    hint: ArgumentHint | None,
    texts: Mapping[Source, str],
) -> Source | None:
    for source, text in texts.items():
        if isinstance(value, bool):
            if says_boolean(text, name, value, hint):
                return source
        elif says(text, value, schema):
            return source
    return "default" if "default" in schema and schema["default"] == value else None


def _texts(messages: Iterable[Message]) -> dict[Source, str]:
    parts: dict[Source, list[str]] = {"user": [], "tool_result": [], "system": []}
    for message in messages:
        if message.role == "user" and not message.synthetic:
            parts["user"].append(message.content)
        elif message.role == "system":
            parts["system"].append(message.content)
        elif message.role == "tool":
            parts["tool_result"].extend(_result_text(message.content))
    return {source: normalise("\n".join(found)) for source, found in parts.items()}


def _result_text(content: str) -> list[str]:
    """The result of an executed call; catalog and schema payloads ground nothing."""
    payload = json_object(content)
    if payload.get("layer") != "3_execution":
        return []
    return [json.dumps(payload.get("result"), ensure_ascii=False)]


def absent(
    spec: ToolSpec, name: str, value: Any, texts: Iterable[str], hint: ArgumentHint | None = None
) -> bool:
    """Whether nothing in `texts` could be taken for a value of the parameter.

    Stricter than "not this value": for an enum or a boolean no allowed value may be said.
    """
    said = normalise("\n".join(texts))
    schema = spec.input_schema.get("properties", {}).get(name, {})
    if isinstance(value, bool):
        return not any(says_boolean(said, name, either, hint) for either in (True, False))
    candidates = list(schema.get("enum", ())) or [value]
    return not any(says(said, candidate, schema) for candidate in candidates)
