"""What to generate, checked at the border, and what decides the bytes of a data set."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from pydantic import Field, NonNegativeInt
from pydantic.dataclasses import dataclass as checked

from breadcrumbs import __version__
from breadcrumbs.config import STRICT, to_dict
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.nudged import Nudged
from breadcrumbs.data_gen.requests import Phrasing
from breadcrumbs.data_gen.scenarios import Prompts
from breadcrumbs.data_gen.script import Kind
from breadcrumbs.data_gen.shaping import Shapes
from breadcrumbs.data_gen.speech import Language
from breadcrumbs.data_gen.splits import Split, Splits, make_splits
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.catalog import Catalog


@checked(config=STRICT)
class Amount:
    """How many scenarios a split gets."""

    pairs: int = Field(ge=0)
    """Dispatch and clarify twins."""
    declines: int = Field(default=0, ge=0)
    singles: int = Field(default=0, ge=0)
    """Dispatch scenarios of tools that cannot lack a required argument."""


@checked(config=STRICT)
class GenerateConfig:
    """What to generate. Same values, same catalog and hints: same bytes."""

    train: Amount
    eval_tools: Amount
    """Scenarios on held-out tools."""
    eval_domain: Amount
    """Scenarios on the held-out domain."""
    held_out_tools: tuple[str, ...] = ()
    held_out_domain: str = ""
    """None where it is empty."""
    held_out_share: float = Field(default=0.0, ge=0, le=0.5)
    """Where neither tools nor domain are named: the share of tools to choose, for each."""
    evaluation: str = ""
    """Names an evaluation set: every tool is held out, and no row may be trained on."""
    seed: int = 1
    catalogs: tuple[str, ...] = ()
    """Catalog files; none means those that ship."""
    hints: tuple[str, ...] = ()
    """Hint files; none means those that ship, or with `sources`, derived ones alone."""
    sources: tuple[str, ...] = ()
    """Instead of catalogs: anything `catalog import` reads. World and hints are derived."""
    shortfall: Literal["error", "report"] = "error"
    """What fewer rows than asked for are: an error, or a count in the manifest."""
    phrasing: Phrasing = "varied"
    """`plain` says every argument by its own name, in a list; small models learn it soonest.
    `personas` are people from terse to rambling; `languages` and `typo_share` need them."""
    languages: tuple[Language, ...] = ("en",)
    """What users and assistant speak; one that is named twice is spoken twice as often."""
    typo_share: float = Field(default=0.0, ge=0, le=1)
    """Share of requests that are typed in haste."""
    prompts: Prompts = "few"
    """`varied` puts system prompts together from parts, tier 2 off among them."""
    optional_share: float = Field(default=0.4, ge=0, le=1)
    """Chance that an optional argument is said."""
    corrected_share: float = Field(default=0.15, ge=0, le=1)
    """Share of training dispatch rows that come from a nudged, corrected episode."""
    nudged: Nudged = "remove"
    """What becomes of stall and nudge there: `remove`, `mask` (kept without loss), or `keep`."""
    include: tuple[str, ...] = ()
    """Folders of rows that take the places of this set's own, by id: what `data stalls` made."""
    include_sha256: tuple[str, ...] = ()
    """The digests those folders must have, one each; filled in where none are given."""
    worded_share: float = Field(default=0.0, ge=0, le=1)
    """Share of training pairs kept for tools with arguments in the assistant's own words."""
    waiting_share: float = Field(default=0.0, ge=0, le=0.5)
    """Share of training writes whose approval does not come in time."""
    denied_share: float = Field(default=0.0, ge=0, le=0.5)
    """Share of training writes that are denied."""
    kinds: dict[Kind, NonNegativeInt] = field(default_factory=dict)
    """Training pairs beside those of `train`, by special kind: what the twins turn on."""
    eval_kinds: dict[Kind, NonNegativeInt] = field(default_factory=dict)
    """The same on held-out tools, beside the pairs of `eval_tools`: to evaluate on."""
    practice_pairs: int = Field(default=0, ge=0)
    """Training pairs beside those of `train`, each on a made-up tool of its own."""
    max_hits: int = Field(default=2, ge=1, le=20)
    """Search hits the gateway shows."""
    shapes: Shapes = field(default_factory=Shapes)
    """How what a scenario is about is shown: names of the meta-tools and so on."""
    endpoint: EndpointConfig | None = None
    """A model that takes the scripted staller's place: `corrected_share` is asked of it."""
    reworded_share: float = Field(default=0.0, ge=0, le=1)
    """Share of training twins whose requests the endpoint puts into other words."""


_FIRST = {"prompts": "few", "languages": ["en"], "typo_share": 0.0}
"""What came later, as it was before there was a choice."""


def check_surface(config: GenerateConfig) -> None:
    """Whether the parts of a config that choose words go together.

    Raises:
        ConfigError: languages or typos without personas, or no language.
    """
    if not config.languages:
        raise ConfigError("languages: name at least one of en, de, fr, es, pt, zh, ja")
    if config.kinds.get("derived") and "en" not in config.languages:
        raise ConfigError("kinds.derived: says values in English words; add en to languages")
    if config.phrasing == "personas":
        return
    for name in ("languages", "typo_share"):
        if to_dict(config)[name] != _FIRST[name]:
            raise ConfigError(f"{name}: needs phrasing personas, but it is {config.phrasing!r}")


def check_evaluation(config: GenerateConfig) -> None:
    """Whether an evaluation set asks for nothing that is made for training.

    Raises:
        ConfigError: it does, or names what to hold out.
    """
    if not config.evaluation:
        return
    if config.train != Amount(pairs=0) or config.kinds or config.practice_pairs or config.include:
        raise ConfigError(
            "evaluation: nothing of an evaluation set is for training; leave out kinds,"
            " practice_pairs and include, and set train to {pairs: 0}"
        )
    if config.held_out_tools or config.held_out_domain or config.eval_domain != Amount(pairs=0):
        raise ConfigError(
            "evaluation: every tool is held out already; leave out held_out_tools and"
            " held_out_domain, and set eval_domain to {pairs: 0}"
        )


def config_dict(config: GenerateConfig) -> dict[str, Any]:
    """The config as a manifest holds it; what a set does not ask for leaves no byte there."""
    body = to_dict(config)
    if config.shapes == Shapes():
        del body["shapes"]
    if config.nudged == "remove":
        del body["nudged"]
    if not config.evaluation:
        del body["evaluation"]
    if not config.include:
        del body["include"], body["include_sha256"]
    for name in ("kinds", "eval_kinds"):
        if not body[name]:
            del body[name]
    for name in ("prompts", "languages", "typo_share"):
        if body[name] == _FIRST[name]:
            del body[name]
    if config.endpoint is None:
        del body["endpoint"], body["reworded_share"]
    return body


def inputs_hash(config: GenerateConfig, catalog: Catalog, hints: Mapping[str, ToolHint]) -> str:
    """SHA-256 of everything that decides the bytes of a data set."""
    parts = [
        __version__,
        json.dumps(config_dict(config), sort_keys=True),
        repr(sorted(hints.items())),
    ]
    parts += [repr(catalog.tool(name)) for name in catalog.names()]
    parts.append(repr(sorted((d, sorted(c.items())) for d, c in catalog.collections.items())))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def shards_hash(config: GenerateConfig, catalog: Catalog, hints: Mapping[str, ToolHint]) -> str:
    """SHA-256 of what decides the shards: not what is made of a shortfall, or of rows taken in."""
    same = dataclasses.replace(config, shortfall="error", include=(), include_sha256=())
    return inputs_hash(same, catalog, hints)


def amounts(config: GenerateConfig) -> dict[Split, Amount]:
    """What each split gets."""
    return {
        "train": config.train,
        "held_out_tools": config.eval_tools,
        "held_out_domain": config.eval_domain,
    }


def planned_rows(config: GenerateConfig) -> int:
    """How many rows a config asks for."""
    splits = amounts(config).values()
    asked = sum(2 * amount.pairs + amount.declines + amount.singles for amount in splits)
    special = sum(config.kinds.values()) + sum(config.eval_kinds.values())
    return asked + 2 * (config.practice_pairs + special)


def splits_of(config: GenerateConfig, catalog: Catalog) -> Splits:
    """Which tools each split may show.

    Raises:
        ConfigError: what is held out does not fit the catalog.
    """
    if config.evaluation:
        return Splits(catalog, tuple(catalog.names()), "")
    return make_splits(catalog, config.held_out_tools, config.held_out_domain)


def kinds_of(config: GenerateConfig, split: Split) -> dict[Kind, int]:
    """The pairs of special kinds that a split gets."""
    if split == "train":
        return config.kinds
    return config.eval_kinds if split == "held_out_tools" else {}
