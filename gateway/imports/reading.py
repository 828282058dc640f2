"""Untrusted bytes to plain JSON values, within bounds; every fault is one `CatalogError`.

What comes out holds only dicts with text keys, lists, text, booleans, null, whole numbers below
2^53 and finite numbers, no key twice, and is at most `MAX_DEPTH` deep: what follows may recurse.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.arguments import MAX_INTEGER

MAX_VALUES = 2_000_000
"""Values in one document; a YAML alias counts as often as it is used."""
MAX_DEPTH = 96
"""Levels of one document. A schema may be 32 deep, and each of its levels is two of these."""

try:  # libyaml where it is built in
    _SafeLoader: type[Any] = yaml.CSafeLoader
except AttributeError:
    _SafeLoader = yaml.SafeLoader


def parse_json(text: str, where: str) -> Any:
    """One JSON document as plain values.

    Raises:
        CatalogError: not JSON, a key stands twice, or a value is out of bounds.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=lambda pairs: _unique(pairs, where), parse_constant=_no_constant
        )
    except RecursionError as error:
        raise CatalogError(f"{where}: nested too deeply; at most {MAX_DEPTH} levels") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise CatalogError(f"{where}: not valid JSON at {place}: {error.msg}") from error
    except CatalogError:
        raise
    except ValueError as error:  # NaN, or an integer of more than 4 300 digits
        raise CatalogError(f"{where}: {str(error).split(';')[0]}") from error
    check_plain(value, where)
    return value


def parse_yaml(text: str, where: str) -> Any:
    """One YAML document as plain values, read as YAML 1.2 does: `on` and dates are text.

    Raises:
        CatalogError: not YAML, a key stands twice, or a value is out of bounds.
    """
    try:
        _check_events(text, where)
        value = yaml.load(text, Loader=_PlainLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or getattr(error, "reason", "broken")
        raise CatalogError(f"{where}: not valid YAML{place}: {problem}") from error
    except CatalogError:
        raise
    except (RecursionError, ValueError) as error:
        raise CatalogError(f"{where}: not plain data: {error}") from error
    check_plain(value, where)
    return value


def check_plain(value: Any, where: str) -> None:
    """Walk a parsed document, without recursion, and refuse what the bounds forbid.

    Raises:
        CatalogError: too deep, too many values, or a value that is not plain JSON.
    """
    seen = 0
    rest = [(value, 1)]
    while rest:
        current, depth = rest.pop()
        seen += 1
        if depth > MAX_DEPTH:
            raise CatalogError(f"{where}: nested deeper than {MAX_DEPTH} levels")
        if seen > MAX_VALUES:
            raise CatalogError(f"{where}: more than {MAX_VALUES} values; split it")
        if isinstance(current, dict):
            for key in current:
                _check_leaf(key, where, is_key=True)
            rest.extend((inner, depth + 1) for inner in current.values())
        elif isinstance(current, list):
            rest.extend((inner, depth + 1) for inner in current)
        else:
            _check_leaf(current, where)


def _check_leaf(value: Any, where: str, *, is_key: bool = False) -> None:
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise CatalogError(f"{where}: text holds half of a surrogate pair") from error
    elif is_key:
        raise CatalogError(f"{where}: key {str(value)[:40]!r} is not text")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise CatalogError(f"{where}: NaN and Infinity are not JSON; leave them out")
    elif value is not None and not isinstance(value, bool | int):
        raise CatalogError(f"{where}: {type(value).__name__} is not a JSON value")


def is_exact(number: float) -> bool:
    """Whether other systems read this number as it is written: whole ones below 2^53."""
    return isinstance(number, float) or abs(number) <= MAX_INTEGER


def _unique(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (twice, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise CatalogError(f"{where}: key {twice[:80]!r} stands twice in one object; remove one")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; leave it out")


def _check_events(text: str, where: str) -> None:
    """Depth is counted before anything is built: composing recurses in C."""
    depth = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise CatalogError(f"{where}: nested deeper than {MAX_DEPTH} levels")


class _PlainLoader(_SafeLoader):  # type: ignore[misc]  # its base is chosen at run time
    """Safe YAML that refuses a key that stands twice and keeps YAML 1.1's surprises out."""

    yaml_implicit_resolvers: dict[Any, Any] = {}


_NUMBER_STARTS = list("-+.0123456789")
_RESOLVERS: tuple[tuple[str, str, list[str]], ...] = (
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", _NUMBER_STARTS),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?",
        _NUMBER_STARTS,
    ),
)
for _kind, _pattern, _starts in _RESOLVERS:
    _PlainLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), _starts
    )


def _mapping(loader: Any, node: Any) -> Iterator[dict[str, Any]]:
    found: dict[str, Any] = {}
    yield found
    for key, inner in node.value:
        # Response codes and versions are keys too: `200:` means the text "200".
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
        fault = "stands twice; remove one" if name in found else None
        if name == "<<" and not key.style:  # merging maps of maps can grow without end
            fault = "merges maps, which YAML 1.2 does not know; write them out"
        if not isinstance(key, yaml.ScalarNode):
            fault = "must be text"
        if fault:
            raise yaml.constructor.ConstructorError(
                None, None, f"key {name[:80]!r} {fault}", key.start_mark
            )
        found[name] = loader.construct_object(inner)


_PlainLoader.add_constructor("tag:yaml.org,2002:map", _mapping)
