"""What a config says about an OpenAI-compatible endpoint, and the key, which no config holds."""

from __future__ import annotations

import os
import re
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field
from pydantic.dataclasses import dataclass

from breadcrumbs.config import STRICT
from breadcrumbs.errors import ConfigError

KEY_VARIABLE = "BREADCRUMBS_ENDPOINT_KEY"
"""Fixed, so that a stranger's config cannot name another secret to be sent."""
_KEY = re.compile(r"[!#-\[\]-~]{8,}")  # as it stands in JSON, so that it can be cut out
_OURS = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})


@dataclass(config=STRICT)
class Prices:
    """Prices per million tokens, in any currency."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


@dataclass(config=STRICT)
class EndpointConfig:
    """A model behind `POST {base_url}/chat/completions`."""

    base_url: str
    """Up to and with the version: https://host/v1."""
    model: str = Field(min_length=1)
    stream: bool = False
    concurrency: int = Field(default=8, ge=1, le=64)
    """Requests under way at a time."""
    timeout_s: float = Field(default=120.0, gt=0, le=3600)
    """For one request from start to end; a request over it is tried again."""
    tries: int = Field(default=5, ge=1, le=20)
    """How often one request is sent at most."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further fields of the request, such as temperature or max_tokens."""
    prices: Prices | None = None
    """Where given, the cost is shown beside the tokens."""


def check_endpoint(config: EndpointConfig) -> None:
    """Whether address, options and key can be used; nothing is sent.

    Raises:
        ConfigError: as `checked_address` and `endpoint_key`.
    """
    checked_address(config)
    endpoint_key()


def checked_address(config: EndpointConfig) -> str:
    """Where requests go.

    Raises:
        ConfigError: no plain http(s) address, or an option that is not the user's to set.
    """
    try:
        parts = urlsplit(config.base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    # Never shown: it may hold a password by mistake.
    if not usable or "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            "endpoint.base_url: must be http(s)://host[:port]/path without user, password, query"
            f" or fragment; a key goes into {KEY_VARIABLE}"
        )
    taken = sorted(_OURS & config.options.keys())
    if taken:
        raise ConfigError(f"endpoint.options: {taken[0]!r} is set by the program; remove it")
    return f"{config.base_url.rstrip('/')}/chat/completions"


def endpoint_key() -> str:
    """The key from the environment; empty where none is set.

    Raises:
        ConfigError: it is too short to be told from a word, or no header can hold it.
    """
    key = os.environ.get(KEY_VARIABLE, "")
    if key and not _KEY.fullmatch(key):
        raise ConfigError(
            f"{KEY_VARIABLE}: must be at least 8 visible ASCII characters, no space, quote or"
            " backslash; unset it where the endpoint needs no key"
        )
    return key
