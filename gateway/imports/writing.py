"""Imported tools as one catalog file that `load_catalog` reads back as they were."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from breadcrumbs.config import CONFIG_VERSION
from breadcrumbs.files import write_text
from breadcrumbs.gateway.catalog import Collection, Risk, ToolSpec
from breadcrumbs.gateway.imports.drafts import domain_name

_HEADER = "# Written by breadcrumbs catalog. Set each tool's risk: read, write or destructive.\n"
_WIDTH = 100

_BREAKS = frozenset("\x85\u2028\u2029\ufeff")
"""Characters that plain YAML folds into spaces; inside double quotes they are escaped."""

try:  # libyaml where it is built in
    _SafeDumper: type[Any] = yaml.CSafeDumper
except AttributeError:
    _SafeDumper = yaml.SafeDumper


class _Dumper(_SafeDumper):  # type: ignore[misc]  # its base is chosen at run time
    """Writes readable YAML that reads back to the character."""


def _text(dumper: Any, text: str) -> Any:
    style = '"' if _BREAKS & set(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def write_catalog(specs: Sequence[ToolSpec], path: Path) -> None:
    """Write a catalog file in one move.

    Raises:
        ConfigError: the place cannot be written.
    """
    # Each tool names its own domain.
    write_text(path, _HEADER + catalog_text(specs, domain_name(path.stem, "imported"), {}))


def catalog_text(
    specs: Sequence[ToolSpec], domain: str, collections: Mapping[str, Collection]
) -> str:
    """A catalog file with the simulated world of one domain; without one, effects are left out."""
    body: dict[str, Any] = {"version": CONFIG_VERSION, "domain": domain}
    if collections:
        body["collections"] = {name: _plain(kind) for name, kind in collections.items()}
    body["tools"] = [_tool(spec, with_effect=bool(collections)) for spec in specs]
    return yaml_text(body)


def yaml_text(body: Mapping[str, Any]) -> str:
    """Plain values as YAML that reads back to the character."""
    text: str = yaml.dump(
        dict(body), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH
    )
    return text


def _plain(value: Any) -> dict[str, Any]:
    """A dataclass as YAML takes it: lists for tuples, and without what is empty."""
    fields: dict[str, Any] = dataclasses.asdict(value)
    plain = {key: list(v) if isinstance(v, tuple) else v for key, v in fields.items()}
    return {key: inner for key, inner in plain.items() if inner not in (None, {}, [])}


def _tool(spec: ToolSpec, *, with_effect: bool) -> dict[str, Any]:
    schema = spec.input_schema
    written: dict[str, Any] = {
        "name": spec.name,
        "description": spec.description,
        "risk": str(spec.risk),
        "domain": spec.domain,
    }
    if spec.requires_approval is (spec.risk is Risk.READ):
        written["requires_approval"] = spec.requires_approval
    for key in ("keywords", "requests", "allow"):
        if words := getattr(spec, key):
            written[key] = list(words)
    if with_effect and spec.effect is not None:
        written["effect"] = _plain(spec.effect)
    written["parameters"] = dict(schema["properties"])
    written["required"] = list(spec.required)
    implied = {"additionalProperties": False}
    rest = {
        key: value
        for key, value in schema.items()
        if key not in ("type", "required", "properties") and implied.get(key) is not value
    }
    if rest:
        written["constraints"] = rest
    return written
