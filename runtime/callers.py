"""Who may call over HTTP: bearer keys, or without keys the programs of this machine alone."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence

from breadcrumbs.errors import ConfigError

KEYS_VARIABLE = "BREADCRUMBS_API_KEYS"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
LOCAL = "local"


def keys_for(host: str, option: str = "--host") -> tuple[str, ...]:
    """The keys of BREADCRUMBS_API_KEYS; another than a loopback host needs some.

    Raises:
        ConfigError: it has none.
    """
    keys = tuple(key.strip() for key in os.environ.get(KEYS_VARIABLE, "").split(",") if key.strip())
    if host not in LOOPBACK and not keys:
        raise ConfigError(
            f"{option} {host}: reachable from outside, so set {KEYS_VARIABLE} to one or more keys"
        )
    return keys


def caller_of(authorization: str, keys: Sequence[str]) -> str | None:
    """The name of the caller whose key an Authorization header carries; None where it is none.

    The name is drawn from the key itself, not from its place: rows and grants of a key that is
    taken off the list are nobody's then.
    """
    scheme, _, given = authorization.partition(" ")
    known = [hmac.compare_digest(given.strip().encode(), key.encode()) for key in keys]
    if scheme.lower() != "bearer" or True not in known:
        return None
    key = keys[known.index(True)]
    return f"key-{hashlib.sha256(f'breadcrumbs/caller/{key}'.encode()).hexdigest()[:12]}"
