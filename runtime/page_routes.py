"""The page: static files without a build step, and the browser's session."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from breadcrumbs import runs_wire as native
from breadcrumbs.access import COOKIE, Access

FILES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "chat.js": "text/javascript; charset=utf-8",
    "approvals.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


def add(app: FastAPI, access: Access, models: Sequence[str]) -> None:
    """Put the page and its session into an app. The files hold nothing that is anybody's."""
    folder = resources.files("breadcrumbs") / "page"
    contents = {name: (folder / name).read_bytes() for name in FILES}

    def file(name: str) -> Response:
        return Response(contents[name], media_type=FILES[name])

    def index() -> Response:
        return file("index.html")

    def approve(approval_id: str) -> Response:
        return file("index.html")

    def asset(name: str) -> Response:
        if name not in contents:
            raise HTTPException(404, f"no file {name!r}")
        return file(name)

    def who(request: Request) -> dict[str, Any]:
        """Who this browser or program is, and what it may do."""
        caller = access.caller(request)
        return {"caller": caller.name, "scopes": sorted(caller.scopes), "models": list(models)}

    def sign_in(request: Request, response: Response) -> dict[str, Any]:
        """Show a key once, come back by cookie."""
        access.begin_session(request, response)
        return who(request)

    def sign_out(response: Response) -> None:
        """Let the cookie go."""
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")

    app.add_api_route("/", index, include_in_schema=False)
    app.add_api_route("/approve/{approval_id}", approve, include_in_schema=False)
    app.add_api_route("/page/{name}", asset, include_in_schema=False)
    session = "/v1/session"
    app.add_api_route(session, who, response_model=native.Session)
    app.add_api_route(session, sign_in, methods=["POST"], response_model=native.Session)
    known = [Depends(access.caller)]
    app.add_api_route(session, sign_out, methods=["DELETE"], status_code=204, dependencies=known)
