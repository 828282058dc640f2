"""Derived worlds and hints as the YAML files a person would have written, one pair a domain."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from breadcrumbs.config import CONFIG_VERSION
from breadcrumbs.data_gen.derive import Derived
from breadcrumbs.gateway.imports.drafts import domain_name
from breadcrumbs.gateway.imports.writing import catalog_text, yaml_text

_HEADER = (
    "# Derived by breadcrumbs generate. To change it, write hints of your own: docs/generate.md\n"
)


def derived_files(derived: Derived) -> dict[str, str]:
    """Texts by path: `catalogs/DOMAIN.yaml` and `hints/DOMAIN.yaml`.

    `load_catalog` and `load_hints` read them back as they were.
    """
    files: dict[str, str] = {}
    catalog = derived.catalog
    for domain, file in _file_names(catalog.domains).items():
        specs = [spec for spec in catalog.tools.values() if spec.domain == domain]
        collections = catalog.collections.get(domain, {})
        files[f"catalogs/{file}.yaml"] = _HEADER + catalog_text(specs, domain, collections)
        tools = {spec.name: _plain(dataclasses.asdict(derived.hints[spec.name])) for spec in specs}
        body = {"version": CONFIG_VERSION, "domain": domain, "tools": tools}
        files[f"hints/{file}.yaml"] = _HEADER + yaml_text(body)
    return files


def _file_names(domains: Iterable[str]) -> dict[str, str]:
    """A plain file name for each domain: a project's own file may call its domain anything."""
    names: dict[str, str] = {}
    for domain in domains:
        name = domain_name(domain, "tools")
        while name in names.values():
            name = f"{name}_2"
        names[domain] = name
    return names


def _plain(value: Any) -> Any:
    """Lists for tuples, and nothing that is empty."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items() if inner not in ((), {}, [])}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
