"""Which tools a split may show.

Held-out tools are missing from the training catalog itself, so that training rows cannot find them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.catalog import Catalog

Split = Literal["train", "held_out_tools", "held_out_domain"]
_FEW_DOMAINS = 2
SPLITS: tuple[Split, ...] = ("train", "held_out_tools", "held_out_domain")


@dataclass(frozen=True, slots=True)
class Splits:
    """A catalog cut in three: training, held-out tools of training domains, one whole domain."""

    catalog: Catalog
    held_out_tools: tuple[str, ...]
    held_out_domain: str

    def tools(self, split: Split) -> list[str]:
        """Names of the tools whose scenarios belong to a split, in catalog order."""
        return [name for name in self.catalog.names() if self.split_of(name) == split]

    def split_of(self, tool: str) -> Split:
        """The split a tool belongs to."""
        spec = self.catalog.tool(tool)
        if spec is not None and spec.domain == self.held_out_domain:
            return "held_out_domain"
        return "held_out_tools" if tool in self.held_out_tools else "train"

    def catalog_for(self, split: Split) -> Catalog:
        """The gateway's catalog: training sees training tools only, evaluation sees all."""
        if split != "train":
            return self.catalog
        return self.catalog.without(self.tools("held_out_tools") + self.tools("held_out_domain"))


def choose_held_out(catalog: Catalog, share: float, seed: int) -> tuple[tuple[str, ...], str]:
    """Tools and a domain to hold out, about `share` of all tools each; the same for the same seed.

    With fewer than three domains no domain is held out. Tools that share their own name with a
    tool of another domain are not held out: training would show their like. One tool at least
    is left to train on.
    """
    rng = random.Random(f"{seed}/held out")
    domains = catalog.domains
    rng.shuffle(domains)
    sizes = Counter(spec.domain for spec in catalog.tools.values())
    wanted = share * len(catalog.tools)
    domain = ""
    if share and len(domains) > _FEW_DOMAINS:
        domain = min(domains, key=lambda name: abs(sizes[name] - wanted))
    rest = [name for name in catalog.names() if catalog.tools[name].domain != domain]
    plain = Counter(name.rpartition(".")[2] for name in catalog.names())
    single = [name for name in rest if plain[name.rpartition(".")[2]] == 1]
    count = min(-(-int(share * len(rest) * 100) // 100), len(single), len(rest) - 1)
    return tuple(sorted(rng.sample(single, max(0, count)))), domain


def make_splits(catalog: Catalog, held_out_tools: Sequence[str], held_out_domain: str) -> Splits:
    """Check the lists against the catalog.

    Raises:
        ConfigError: a tool or the domain does not exist, overlaps, or training would be empty.
    """
    unknown = [name for name in held_out_tools if catalog.tool(name) is None]
    if unknown:
        raise ConfigError(f"held_out_tools: no such tool {', '.join(unknown)} in the catalog")
    if held_out_domain and held_out_domain not in catalog.domains:
        known = ", ".join(catalog.domains)
        raise ConfigError(f"held_out_domain: no domain {held_out_domain!r}; choose from {known}")
    for name in held_out_tools:
        spec = catalog.tool(name)
        if spec is not None and spec.domain == held_out_domain:
            raise ConfigError(f"held_out_tools: {name} lies in the held-out domain already")
    splits = Splits(catalog, tuple(held_out_tools), held_out_domain)
    if not splits.tools("train"):
        raise ConfigError("held_out_tools: nothing is left to train on; hold fewer tools out")
    return splits


def kinds_seen_in_training(splits: Splits) -> dict[str, bool]:
    """For every kind of required argument outside training: does training have it too?

    A kind is the JSON type with its format, or `enum`.
    """
    seen = {kind for tool in splits.tools("train") for kind in _required_kinds(splits, tool)}
    others = [*splits.tools("held_out_tools"), *splits.tools("held_out_domain")]
    return {kind: kind in seen for tool in others for kind in _required_kinds(splits, tool)}


def _required_kinds(splits: Splits, tool: str) -> list[str]:
    spec = splits.catalog.tool(tool)
    assert spec is not None
    properties = spec.input_schema.get("properties", {})
    return [argument_kind(properties[name]) for name in spec.input_schema.get("required", ())]


def argument_kind(schema: dict[str, object]) -> str:
    """`enum`, or the JSON type with its format where it has one."""
    if "enum" in schema:
        return "enum"
    kind = str(schema.get("type", "any"))
    return f"{kind}:{schema['format']}" if "format" in schema else kind
