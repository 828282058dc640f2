"""What every HTTP route shares: bounds on request bodies, a browser's headers, OpenAI's errors."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from breadcrumbs import openai_wire as wire
from breadcrumbs.errors import BreadcrumbsError
from breadcrumbs.runs import BROKEN, TooManyRuns
from breadcrumbs.runs_wire import ErrorBody
from breadcrumbs.turns import UnservedWish

_MEANINGS: dict[int | str, str] = {
    400: "the request cannot be served",
    401: "no key, or none that is known",
    403: "a key without the scope, another origin, or a wrong challenge",
    404: "there is no such thing, or none of the caller's",
    405: "no such method",
    409: "it has not ended",
    413: "the body is too large",
    429: "too many runs",
    500: "the server broke",
    "default": "any other error",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text} for status, text in _MEANINGS.items()
}
BODY_S = 30.0
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
        " img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ERROR_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def guard(app: FastAPI, max_body_bytes: int) -> None:
    """Give an app the body bound and the error handlers."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(wire.RequestError, _request_error)
    app.add_exception_handler(TooManyRuns, _too_many)
    app.add_exception_handler(UnservedWish, _unserved)
    app.add_exception_handler(BreadcrumbsError, _own_error)
    app.add_exception_handler(Exception, _unexpected)
    app.add_middleware(_BodyBound, limit=max_body_bytes)
    app.add_middleware(_Headers)


class _Headers:
    """Gives every answer what a browser must know about it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    given.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, with_headers)


class _BodyBound:
    """Refuses a request body beyond a limit, declared or not, and one that never ends."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared) > self._limit:
            await self._refusal()(scope, receive, send)
            return
        await self._app(scope, self._counting(receive), send)

    def _counting(self, receive: Receive) -> Receive:
        seen, whole = 0, False
        ends = asyncio.get_running_loop().time() + BODY_S

        async def bounded() -> Message:
            nonlocal seen, whole
            try:
                async with asyncio.timeout_at(None if whole else ends):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, f"the request body took more than {BODY_S} s") from None
            whole = whole or not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise HTTPException(413, self._text())
            return message

        return bounded

    def _text(self) -> str:
        return f"the request body is larger than {self._limit} bytes"

    def _refusal(self) -> JSONResponse:
        return JSONResponse(wire.error_body(self._text(), "invalid_request_error"), 413)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = ERROR_KINDS.get(error.status_code, "invalid_request_error")
    headers = {**(error.headers or {})}
    if error.status_code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(wire.error_body(str(error.detail), kind), error.status_code, headers)


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    param = ".".join(str(part) for part in first["loc"] if part != "body") or None
    text = f"{param}: {first['msg']}" if param else str(first["msg"])
    return JSONResponse(wire.error_body(text, "invalid_request_error", param), 400)


def _request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, wire.RequestError)
    text = f"{error.param}: {error}" if error.param else str(error)
    return JSONResponse(wire.error_body(text, "invalid_request_error", error.param), 400)


def _too_many(request: Request, error: Exception) -> Response:
    body = wire.error_body(str(error), "rate_limit_error", code="too_many_runs")
    return JSONResponse(body, 429, {"Retry-After": "5"})


def _unserved(request: Request, error: Exception) -> Response:
    return JSONResponse(wire.error_body(str(error), "invalid_request_error"), 400)


def _own_error(request: Request, error: Exception) -> Response:
    return JSONResponse(wire.error_body(str(error), "server_error"), 500)


def _unexpected(request: Request, error: Exception) -> Response:
    """A fault of ours: the client learns no details, the server logs the traceback."""
    body = wire.error_body(BROKEN, "server_error")
    # The server drops the connection after a fault; a client told so does not reuse it.
    return JSONResponse(body, 500, {"Connection": "close"})
