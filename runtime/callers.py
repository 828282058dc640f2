"""Who may call over HTTP: bearer keys, or without keys the programs of this machine alone.

A key is written `KEY` or `KEY:SCOPE+SCOPE`; without scopes it may chat and decide its own writes.
Among the scopes may stand `role=NAME`: a role of the key, for tools that are open to some alone.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from breadcrumbs.errors import ConfigError

KEYS_VARIABLE = "BREADCRUMBS_API_KEYS"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
LOCAL = "local"
Scope = Literal["chat", "approve", "approve_all", "metrics"]
"""Talk to models; decide one's own writes; see and decide everybody's; read the figures."""
SCOPES: frozenset[str] = frozenset(get_args(Scope))
USUAL: frozenset[str] = frozenset({"chat", "approve"})
_ROLE = "role="
_ROLE_NAME = re.compile(r"[\w.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody known, and what they may do."""

    name: str
    scopes: frozenset[str]
    secret: str = field(default="", repr=False, compare=False)
    roles: tuple[str, ...] = ()
    """As the `allow` of tools names them."""

    def may(self, scope: Scope) -> bool:
        """Whether this scope is among theirs; who decides everybody's writes decides their own."""
        return scope in self.scopes or (scope == "approve" and "approve_all" in self.scopes)

    @property
    def may_decide(self) -> bool:
        """Whether they may decide any write at all."""
        return self.may("approve")


THIS_MACHINE = Caller(LOCAL, USUAL | {"metrics"})


def keys_for(host: str, option: str = "--host") -> tuple[str, ...]:
    """The keys of BREADCRUMBS_API_KEYS; another than a loopback host needs some.

    Raises:
        ConfigError: it has none, or one names a scope that there is not.
    """
    keys = tuple(key.strip() for key in os.environ.get(KEYS_VARIABLE, "").split(",") if key.strip())
    if host not in LOOPBACK and not keys:
        raise ConfigError(
            f"{option} {host}: reachable from outside, so set {KEYS_VARIABLE} to one or more keys"
        )
    read_keys(keys)
    return keys


def read_keys(entries: Sequence[str]) -> tuple[Caller, ...]:
    """The callers that `KEY` and `KEY:SCOPE+SCOPE` entries stand for, roles among the scopes.

    The name is drawn from the key itself, not from its place: rows and grants of a key that is
    taken off the list are nobody's then.

    Raises:
        ConfigError: an entry has no key, names a scope that there is not, or stands twice.
    """
    callers: dict[str, Caller] = {}
    for number, entry in enumerate(entries, 1):
        key, colon, listed = entry.partition(":")
        words = listed.split("+") if colon else []
        roles = sorted({word.removeprefix(_ROLE) for word in words if word.startswith(_ROLE)})
        scopes = frozenset(word for word in words if not word.startswith(_ROLE)) or USUAL
        # The message must not show the key.
        if not key or not scopes <= SCOPES or not all(map(_ROLE_NAME.fullmatch, roles)):
            raise ConfigError(
                f"{KEYS_VARIABLE}: entry {number}: write KEY or KEY:SCOPE+SCOPE, the key without"
                f" ':', scopes of {', '.join(sorted(SCOPES))}, and role=NAME for each role"
            )
        if key in callers:
            raise ConfigError(f"{KEYS_VARIABLE}: entry {number}: this key stands twice")
        digest = hashlib.sha256(f"breadcrumbs/caller/{key}".encode()).hexdigest()[:12]
        callers[key] = Caller(f"key-{digest}", scopes, key, tuple(roles))
    return tuple(callers.values())


def known(authorization: str, callers: Sequence[Caller]) -> Caller | None:
    """The caller whose key an Authorization header carries; None where it is none."""
    scheme, _, given = authorization.partition(" ")
    fitting = [
        caller
        for caller in callers
        if hmac.compare_digest(given.strip().encode("utf-8", "replace"), caller.secret.encode())
    ]
    return fitting[0] if fitting and scheme.lower() == "bearer" else None


def caller_of(authorization: str, keys: Sequence[str]) -> Caller | None:
    """The caller whose key a header carries, if that key may chat; else None."""
    caller = known(authorization, read_keys(keys))
    return caller if caller is not None and caller.may("chat") else None
