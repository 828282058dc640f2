"""The tools behind the gateway, read from YAML.

A spec is MCP's `Tool` shape plus the gateway's own risk, keywords, roles and, for the simulated
world, the effect a call has. A catalog is immutable; every fault in a file is a `CatalogError`.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from enum import StrEnum
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs
import rfc8785
from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT, parse, read_yaml
from breadcrumbs.errors import CatalogError, ConfigError
from breadcrumbs.gateway.schema_cost import SchemaCost, cost_of


def _is_moment(text: str) -> bool:
    """ISO 8601 as people and models write it; RFC 3339 would insist on seconds and zone."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "T" in text or " " in text


def _is_time(text: str) -> bool:
    try:
        time.fromisoformat(text)
    except ValueError:
        return False
    return True


_FORMATS = {"date-time": _is_moment, "time": _is_time}
Operation = Literal["create", "update", "delete", "get", "list", "append", "record"]


class Risk(StrEnum):
    """What a tool may do; unknown counts as write."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"


@checked(config=STRICT)
class Effect:
    """What a call does to the simulated world; `worlds` carries it out."""

    op: Operation
    collection: str
    key_argument: str | None = None
    """The argument that holds the record's key (update, delete, get, append)."""
    field: str | None = None
    """append: the list field that grows."""
    set: dict[str, Any] = dataclasses.field(default_factory=dict)
    """update: constants written besides the arguments."""


Rows = dict[str, dict[str, Any]]
"""Records by their key."""


@checked(config=STRICT)
class Collection:
    """Records of one kind, with the field that names each and the prefix of new names."""

    key: str
    prefix: str
    records: tuple[dict[str, Any], ...] = ()

    @cached_property
    def rows(self) -> Rows:
        """The records by key, to be read: worlds share them."""
        return {str(record[self.key]): copy.deepcopy(record) for record in self.records}

    @cached_property
    def canonical(self) -> bytes:
        """The records by key as RFC 8785 writes them."""
        return bytes(rfc8785.dumps(self.rows))


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """A validator that checks formats as people write them, and fetches nothing.

    Raises:
        jsonschema_rs.ValidationError, ValueError: it is no JSON Schema, or refers outside.
    """
    return jsonschema_rs.Draft202012Validator(
        dict(schema), validate_formats=True, formats=_FORMATS, offline=True
    )


@dataclass(frozen=True)
class ToolSpec:
    """One tool as the gateway knows it."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    """JSON Schema of the arguments: an object with properties, required, no others allowed."""
    risk: Risk
    domain: str
    keywords: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    """What people say who need it, in their own words; search reads them, no model does."""
    requires_approval: bool = True
    allow: tuple[str, ...] = ()
    """Roles that may use it; empty means everyone."""
    effect: Effect | None = None
    upstream: str | None = None
    """The live server that runs it. The same tool on another server is another tool."""

    @property
    def required(self) -> tuple[str, ...]:
        """Arguments a call must pass."""
        return tuple(self.input_schema.get("required", ()))

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of what the tool means: equal for copies found or filed in other ways."""
        meaning = [self.name, self.description, dict(self.input_schema), str(self.risk)]
        if self.upstream is not None:
            meaning.append(self.upstream)
        return hashlib.sha256(rfc8785.dumps(meaning)).hexdigest()

    @cached_property
    def version(self) -> str:
        """What an approval is bound to: what the tool means, and to whom it is open."""
        if not self.allow:
            return self.content_hash
        return hashlib.sha256(rfc8785.dumps([self.content_hash, sorted(self.allow)])).hexdigest()

    @cached_property
    def validator(self) -> jsonschema_rs.Draft202012Validator:
        """The compiled schema."""
        return compile_schema(self.input_schema)

    @cached_property
    def cost(self) -> SchemaCost:
        """What holding arguments against the schema can cost."""
        return cost_of(self.input_schema)

    def open_to(self, roles: Iterable[str]) -> bool:
        """Whether a caller with these roles may use the tool."""
        return not self.allow or bool(set(self.allow) & set(roles))


@dataclass(frozen=True, eq=False)
class Catalog:
    """Tools by name and the records of their simulated worlds by domain; compared by identity."""

    tools: Mapping[str, ToolSpec]
    collections: Mapping[str, Mapping[str, Collection]] = dataclasses.field(default_factory=dict)

    whole: Catalog | None = None
    """The catalog this one was cut from by `without`; both share one search index."""

    def tool(self, name: str) -> ToolSpec | None:
        """The tool of that name, if there is one."""
        return self.tools.get(name)

    def names(self) -> list[str]:
        """Every tool's name, sorted."""
        return sorted(self.tools)

    @property
    def domains(self) -> list[str]:
        """Every domain, sorted."""
        return sorted({spec.domain for spec in self.tools.values()})

    def without(self, names: Iterable[str]) -> Catalog:
        """The same catalog less some tools."""
        gone = set(names)
        kept = {name: spec for name, spec in self.tools.items() if name not in gone}
        return Catalog(kept, self.collections, self.whole or self)


@checked(config=STRICT)
class _Tool:
    name: str
    description: str
    risk: Risk
    parameters: dict[str, dict[str, Any]]
    required: tuple[str, ...] = ()
    requires_approval: bool | None = None
    keywords: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    effect: Effect | None = None
    domain: str | None = None
    """Where it is not the file's: a file of imported tools holds those of many servers."""
    constraints: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Keywords of the arguments' schema beside properties and required, such as `anyOf`."""


@checked(config=STRICT)
class _File:
    domain: str
    tools: tuple[_Tool, ...]
    collections: dict[str, Collection] = dataclasses.field(default_factory=dict)


def load_catalog(paths: Sequence[str | Path] | None = None) -> Catalog:
    """Read catalog files; `None` reads every one that ships with the package.

    Raises:
        CatalogError: a file is missing or malformed, a tool is named twice, a schema does not
            compile, a default breaks its own schema, or an effect names what is not there.
    """
    tools: dict[str, ToolSpec] = {}
    collections: dict[str, Mapping[str, Collection]] = {}
    for path in _shipped() if paths is None else [Path(path) for path in paths]:
        try:
            parsed = parse(read_yaml(path), _File, str(path))
        except ConfigError as error:
            raise CatalogError(str(error)) from error
        if parsed.domain in collections:
            raise CatalogError(f"{path}: domain {parsed.domain!r} stands in another file already")
        for name, kind in parsed.collections.items():
            _check_records(kind, f"{path}: collection {name!r}")
        collections[parsed.domain] = parsed.collections
        for tool in parsed.tools:
            if tool.name in tools:
                raise CatalogError(f"{path}: tool {tool.name!r} is named twice; rename one")
            tools[tool.name] = _spec(tool, parsed, path)
    return Catalog(tools, collections)


def _shipped() -> list[Path]:
    folder = Path(str(resources.files("breadcrumbs.configs"))) / "catalogs"
    return sorted(folder.glob("*.yaml"))


def _spec(tool: _Tool, file: _File, path: Path) -> ToolSpec:
    where = f"{path}: tool {tool.name!r}"
    unknown = [name for name in tool.required if name not in tool.parameters]
    if unknown:
        raise CatalogError(f"{where}: required names {unknown}, which are no parameters")
    taken = sorted({"type", "properties", "required"} & set(tool.constraints))
    if taken:
        raise CatalogError(f"{where}: constraints hold {taken}; write parameters and required")
    schema = {
        "type": "object",
        "required": list(tool.required),
        "properties": {name: tool.parameters[name] for name in _required_first(tool)},
        "additionalProperties": False,
        **tool.constraints,
    }
    approval = tool.risk is not Risk.READ
    spec = ToolSpec(
        name=tool.name,
        description=tool.description,
        input_schema=schema,
        risk=tool.risk,
        domain=tool.domain or file.domain,
        keywords=tool.keywords,
        requests=tool.requests,
        requires_approval=approval if tool.requires_approval is None else tool.requires_approval,
        allow=tool.allow,
        effect=tool.effect,
    )
    _check_schema(spec, where)
    _check_effect(spec, file, where)
    return spec


def _required_first(tool: _Tool) -> list[str]:
    """Parameter names, the required ones in front and in their own order.

    A model reads from left to right: it should know what is required before it reads the fields.
    """
    return [*tool.required, *(name for name in tool.parameters if name not in tool.required)]


def _check_schema(spec: ToolSpec, where: str) -> None:
    try:
        validator = spec.validator
    except (jsonschema_rs.ValidationError, ValueError) as error:
        raise CatalogError(f"{where}: schema does not compile: {error}") from error
    properties = spec.input_schema["properties"]
    defaults = {name: field["default"] for name, field in properties.items() if "default" in field}
    for fault in validator.iter_errors(defaults):
        if fault.instance_path:
            raise CatalogError(f"{where}: default of {fault.instance_path[0]!r}: {fault.message}")


def _check_records(kind: Collection, where: str) -> None:
    keys = [record.get(kind.key) for record in kind.records]
    if not all(isinstance(key, str) for key in keys):
        raise CatalogError(f"{where}: every record needs {kind.key!r}, as text")
    twice = sorted({key for key in keys if keys.count(key) > 1}, key=str)
    if twice:
        raise CatalogError(f"{where}: {kind.key} {twice[0]!r} stands twice; rename one")
    try:
        rfc8785.dumps(list(kind.records))
    except rfc8785.CanonicalizationError as error:
        raise CatalogError(f"{where}: not plain JSON (quote dates): {error}") from error


def _check_effect(spec: ToolSpec, file: _File, where: str) -> None:
    effect = spec.effect
    if effect is None:
        return
    if spec.domain != file.domain:
        raise CatalogError(f"{where}: an effect acts on its own file's domain; leave out domain")
    if effect.collection not in file.collections:
        raise CatalogError(f"{where}: effect names no collection {effect.collection!r}")
    if effect.op in ("update", "delete", "get", "append"):
        properties = spec.input_schema["properties"]
        if effect.key_argument not in properties:
            raise CatalogError(f"{where}: effect needs key_argument, the parameter with the key")
    if effect.op == "append" and effect.field is None:
        raise CatalogError(f"{where}: effect append needs field, the list that grows")
    for record in file.collections[effect.collection].records if effect.op == "append" else ():
        if not isinstance(record.get(str(effect.field), []), list):
            raise CatalogError(f"{where}: effect appends to {effect.field!r}, which is no list")
