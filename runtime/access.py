"""Who is let in, on every route: a bearer key, the page's cookie, or this machine's own programs.

The cookie is proof that its browser once had a key: a MAC of that key over the caller's name and
an end, so nothing is stored and a key that is taken off the list ends its sessions.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from breadcrumbs.callers import LOOPBACK, THIS_MACHINE, Caller, Scope, known

COOKIE = "breadcrumbs_session"
SESSION_S = 12 * 3600
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Access:
    """The callers that are known; with none, only programs of this machine are answered."""

    callers: tuple[Caller, ...] = ()

    def caller(self, request: Request) -> Caller:
        """Who calls.

        Raises:
            HTTPException: 401 for nobody known, 403 for a web page of another origin.
        """
        _check_origin(request)
        if not self.callers:
            # A web page that this machine's browser shows must not reach the approvals.
            for header in ("host", "origin"):
                if (value := request.headers.get(header)) and hostname(value) not in LOOPBACK:
                    raise HTTPException(403, f"{header} {value!r} is not this machine")
            return THIS_MACHINE
        if authorization := request.headers.get("authorization"):
            caller = known(authorization, self.callers)
        else:
            caller = self._by_cookie(request)
        if caller is None:
            raise HTTPException(401, "a valid API key is needed: Authorization: Bearer KEY")
        return caller

    def needs(self, scope: Scope) -> Callable[[Request], Caller]:
        """A route's dependency: the caller, who must have this scope."""

        def check(request: Request) -> Caller:
            caller = self.caller(request)
            if not caller.may(scope):
                raise HTTPException(403, f"this key has no scope {scope!r}")
            return caller

        return check

    def begin_session(self, request: Request, response: Response) -> Caller:
        """Let a browser that shows a key once come back by cookie."""
        caller = self.caller(request)
        if caller.secret:
            ends = int(time.time()) + SESSION_S
            response.set_cookie(
                COOKIE,
                f"{caller.name}.{ends}.{_mac(caller, ends)}",
                max_age=SESSION_S,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return caller

    def _by_cookie(self, request: Request) -> Caller | None:
        name, _, rest = request.cookies.get(COOKIE, "").partition(".")
        ends, _, mac = rest.partition(".")
        caller = next((each for each in self.callers if each.name == name), None)
        if caller is None or not ends.isdecimal() or len(ends) > 12 or int(ends) < time.time():
            return None
        if not hmac.compare_digest(
            mac.encode("utf-8", "replace"), _mac(caller, int(ends)).encode()
        ):
            return None
        if request.method not in _READS and "origin" not in request.headers:
            raise HTTPException(403, "a browser says its Origin when it sends something")
        return caller


def hostname(value: str) -> str:
    """The host of a Host or Origin header, without scheme and port."""
    host = value.rpartition("//")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _check_origin(request: Request) -> None:
    """What a page of another origin sends changes nothing here, whoever it belongs to."""
    if request.method in _READS:
        return
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    own = request.headers.get("host", "").lower()
    if site not in ("same-origin", "none") or (
        origin is not None and origin.lower().partition("//")[2] != own
    ):
        raise HTTPException(403, "this came from a page of another origin")


def _mac(caller: Caller, ends: int) -> str:
    bound = f"breadcrumbs/session/v1\n{caller.name}\n{ends}"
    return hmac.digest(caller.secret.encode(), bound.encode(), "sha256").hex()
