"""YAML files in, frozen dataclasses out.

A config is checked by pydantic at the border: an unknown key, a wrong type or a missing
file is one `ConfigError` that names file and key. Every file says `version: 1`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from breadcrumbs.errors import ConfigError
from breadcrumbs.files import read_text

CONFIG_VERSION = 1
MAX_FILE_BYTES = 256 * 1024 * 1024
"""Catalogs and hints are read by this too, and may be derived from thousands of tools."""
STRICT = ConfigDict(extra="forbid", frozen=True)
T = TypeVar("T")

try:  # libyaml where it is built in: about eight times faster
    _Loader: type[Any] = yaml.CSafeLoader
except AttributeError:
    _Loader = yaml.SafeLoader


def resolve(path: str | Path) -> Path:
    """Find a config: as given, else inside the installed `configs` folder.

    Raises:
        ConfigError: neither place has the file.
    """
    given = Path(path)
    if given.is_file():
        return given
    inside = given.relative_to("configs") if given.parts[:1] == ("configs",) else given
    packaged = Path(str(resources.files("breadcrumbs.configs"))) / inside
    if packaged.is_file():
        return packaged
    raise ConfigError(f"{path}: no such file; name a YAML file, for example configs/eval/demo.yaml")


def read_yaml(path: Path) -> dict[str, Any]:
    """Read one YAML mapping.

    Raises:
        ConfigError: unreadable, too large, not YAML, or not a mapping.
    """
    text = read_text(path, MAX_FILE_BYTES, ConfigError)
    try:
        data = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "broken YAML"
        raise ConfigError(f"{path}{where}: not valid YAML: {problem}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected a mapping of keys, got {type(data).__name__}")
    return data


def parse(data: dict[str, Any], schema: type[T], source: str) -> T:
    """Check `data` (which must say `version: 1`) against a pydantic dataclass.

    All faults are reported together, on one line.

    Raises:
        ConfigError: wrong version, unknown key, missing key or wrong value.
    """
    body = dict(data)
    version = body.pop("version", None)
    if version != CONFIG_VERSION:
        raise ConfigError(f"{source}: version must be {CONFIG_VERSION}, got {version!r}")
    try:
        parsed: T = TypeAdapter(schema).validate_python(body)
    except ValidationError as error:
        faults = "; ".join(_fault(item) for item in error.errors(include_url=False))
        raise ConfigError(f"{source}: {faults}") from error
    return parsed


def load(path: str | Path, schema: type[T], overrides: Sequence[str] = ()) -> T:
    """Read a config file into `schema`, after `key=value` overrides (dotted keys, YAML values).

    Raises:
        ConfigError: see `resolve`, `read_yaml`, `parse`; or an override is not `key=value`.
    """
    found = resolve(path)
    data = read_yaml(found)
    for override in overrides:
        _override(data, override)
    return parse(data, schema, str(path))


def to_dict(config: Any) -> dict[str, Any]:
    """A resolved config as plain JSON values, with `version`, to lie beside its output."""
    body: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config), default=str))
    return {"version": CONFIG_VERSION, **body}


def _override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfigError(f"override {override!r}: write key=value, for example steps=20")
    *parents, last = key.split(".")
    target = data
    for parent in parents:
        inner = target.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"override {override!r}: {parent} is not a group of keys")
        target = inner
    try:
        target[last] = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"override {override!r}: the value is not YAML; quote it") from error


def _fault(item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"]) or "file"
    if item["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"unknown key {key!r}; remove it or mend its spelling"
    if item["type"] in ("missing", "missing_argument"):
        return f"key {key!r} is missing"
    return f"{key}: {item['msg']}, got {item['input']!r}"
