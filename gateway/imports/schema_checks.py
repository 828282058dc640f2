"""What a schema in the project's shape must stand: cheap patterns, size, compiling, defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import rfc8785

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import compile_schema
from breadcrumbs.gateway.patterns import steps
from breadcrumbs.messages import compact_json

MAX_BYTES = 256 * 1024
"""Of the canonical JSON, once references are written out: about 64 000 tokens."""
MAX_PATTERN = 1_000
"""Characters of a regular expression."""
MAX_PATTERN_BYTES = 1024 * 1024
"""A regular expression, compiled."""
MAX_DEFAULT = 2_000
"""Characters of a default's JSON; longer ones are left out."""
_MAX_MATCHING = 200_000
"""Characters of a default times steps of its patterns: milliseconds, and there may be thousands."""


def check_values(schema: Mapping[str, Any], place: str) -> None:
    """Refuse an `enum` that nothing passes, and patterns that cost too much.

    Raises:
        CatalogError: naming the keyword and `place`.
    """
    if schema.get("enum") == []:
        raise CatalogError(f"enum at {place} is empty: no value could pass")
    for pattern in [schema.get("pattern"), *schema.get("patternProperties", {})]:
        if isinstance(pattern, str):
            _check_pattern(pattern, place)


def _check_pattern(pattern: str, place: str) -> None:
    """Only what a linear-time engine takes; lookaround and backreferences can cost without end."""
    options = jsonschema_rs.RegexOptions(size_limit=MAX_PATTERN_BYTES)
    shown = f"pattern {pattern[:60]!r} at {place}"
    if len(pattern) > MAX_PATTERN:
        raise CatalogError(f"{shown} is {len(pattern)} characters long; at most {MAX_PATTERN}")
    try:
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise CatalogError(
            f"{shown} is broken, looks around, refers back or is too large; write a plain one"
        ) from error


def check_compiles(schema: dict[str, Any]) -> None:
    """Refuse what is no JSON Schema, is too large, or holds numbers that lose digits.

    Raises:
        CatalogError: with the place and the validator's first line.
    """
    try:
        size = len(rfc8785.dumps(schema))
    except rfc8785.CanonicalizationError as error:
        raise CatalogError(f"not canonical JSON: {error}") from error
    if size > MAX_BYTES:
        raise CatalogError(f"{size} bytes, references written out; at most {MAX_BYTES}")
    try:
        compile_schema(schema)
    except (jsonschema_rs.ValidationError, ValueError) as error:
        reason = getattr(error, "message", str(error)).splitlines()[0][:160]
        steps = "/".join(str(step) for step in getattr(error, "instance_path", ()))
        raise CatalogError(f"no valid JSON Schema at {steps or 'the root'}: {reason}") from error


def without_lying_defaults(schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Drop defaults that their schema refuses or that are huge: the gateway fills defaults in."""
    properties = schema["properties"]
    lying = [name for name, inner in properties.items() if _lies(inner)]
    if not lying:
        return schema
    notes.extend(
        f"default of {name!r} breaks its own schema or is long; left out" for name in sorted(lying)
    )
    kept = {
        name: {k: v for k, v in inner.items() if k != "default"} if name in lying else inner
        for name, inner in properties.items()
    }
    return {**schema, "properties": kept}


def _lies(schema: Mapping[str, Any]) -> bool:
    """Whether a default is refused by its own schema, or too large to ask.

    A validator that lists all faults of a long list under many rules takes minutes and
    gigabytes; one that stops at the first does not.
    """
    if "default" not in schema:
        return False
    default = schema["default"]
    length = len(compact_json(default))
    if length > MAX_DEFAULT or length * steps(schema) > _MAX_MATCHING:
        return True
    whole = {"type": "object", "properties": {"value": schema}}
    return not compile_schema(whole).is_valid({"value": default})
