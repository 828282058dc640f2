"""What every HTTP route shares: a bound on request bodies, and errors in OpenAI's shape."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from breadcrumbs import openai_wire as wire
from breadcrumbs.errors import BreadcrumbsError

ERROR_KINDS = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}


def guard(app: FastAPI, max_body_bytes: int) -> None:
    """Give an app the body bound and the error handlers."""
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(wire.RequestError, _request_error)
    app.add_exception_handler(BreadcrumbsError, _own_error)
    app.add_exception_handler(Exception, _unexpected)
    app.add_middleware(_BodyBound, limit=max_body_bytes)


class _BodyBound:
    """Refuses a request body beyond a limit, declared or not."""

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
        seen = 0

        async def bounded() -> Message:
            nonlocal seen
            message = await receive()
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
    headers = {"WWW-Authenticate": "Bearer"} if error.status_code == 401 else None
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


def _own_error(request: Request, error: Exception) -> Response:
    return JSONResponse(wire.error_body(str(error), "server_error"), 500)


def _unexpected(request: Request, error: Exception) -> Response:
    """A fault of ours: the client learns no details, the server logs the traceback."""
    body = wire.error_body(wire.BROKEN, "server_error")
    # The server drops the connection after a fault; a client told so does not reuse it.
    return JSONResponse(body, 500, {"Connection": "close"})
