"""The HTTP service: OpenAI's routes, native runs, approvals and the page, over one gateway.

Model `NAME` is the bare model: the client brings the tools and runs them. Model `NAME-loop` runs
the loop with the gateway here: held writes end the turn and wait for a person. OpenAI's streams
carry their own events and `: ping` comments only. Loading a model stays outside `create_app`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from breadcrumbs import __version__, approval_routes, page_routes, response_routes, run_routes
from breadcrumbs import openai_wire as wire
from breadcrumbs import runs_wire as native
from breadcrumbs.access import Access
from breadcrumbs.callers import Caller, read_keys
from breadcrumbs.completions import Shape, frames, watched, whole
from breadcrumbs.events import Event, Text, Think
from breadcrumbs.gateway.gateway import Gateway
from breadcrumbs.gateway.identity import SystemIds
from breadcrumbs.http_border import ERRORS, guard
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message
from breadcrumbs.monitoring import (
    Figures,
    Monitor,
    MonitoredPolicy,
    figures_if_installed,
)
from breadcrumbs.policies import SerialPolicy
from breadcrumbs.runs import Run, Runs
from breadcrumbs.sse import EventStream, while_there
from breadcrumbs.turns import Policy, Turn

LOOP_SUFFIX = "-loop"
MAX_BODY_BYTES = 1_000_000
MAX_RUN_S = 600.0
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Who may call, and the bounds of a request."""

    api_keys: tuple[str, ...] = ()
    """Bearer keys, with scopes or without; with none, only callers on this machine are answered."""
    max_body_bytes: int = MAX_BODY_BYTES
    ping_s: float = 15.0
    loop: LoopSettings = field(default_factory=lambda: LoopSettings(max_s=MAX_RUN_S))
    turns_at_once: int = 1
    """Turns that the policy can write at a time; others wait."""
    trace_content: bool = False
    """Whether spans hold messages, arguments and results."""


def create_app(
    name: str,
    policy: Policy,
    gateway: Gateway,
    settings: ServiceSettings = ServiceSettings(),
) -> FastAPI:
    """The service over a policy and a gateway.

    Raises:
        ConfigError: a key is malformed.
    """
    figures = figures_if_installed()
    monitor = Monitor(name, figures, settings.trace_content)
    serial = MonitoredPolicy(SerialPolicy(policy, settings.turns_at_once), monitor)
    access = Access(read_keys(settings.api_keys))
    roles = {caller.name: caller.roles for caller in access.callers}
    runs = Runs(serial, gateway, settings.loop, monitor, roles)
    app = FastAPI(
        title="breadcrumbs",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=_lifespan(gateway, runs),
        responses=ERRORS,
        dependencies=[Depends(HTTPBearer(auto_error=False))],  # for the OpenAPI document alone
    )
    service = _Service(name, serial, gateway, settings, runs, access)
    chats = [Depends(access.needs("chat"))]
    app.add_api_route(
        "/v1/models", service.models, dependencies=chats, response_model=native.ModelList
    )
    app.add_api_route(
        "/v1/models/{model:path}",
        service.model,
        dependencies=chats,
        response_model=native.ModelCard,
    )
    service.add_completions(app)
    loop_model = name + LOOP_SUFFIX
    response_routes.add(app, runs, access, loop_model, settings.ping_s)
    run_routes.add(app, runs, access, settings.ping_s)
    approval_routes.add(app, gateway, access)
    page_routes.add(app, access, service.names)
    if figures is not None:
        _add_metrics(app, figures, runs, access)
    app.add_api_route("/openapi.json", app.openapi, dependencies=chats, include_in_schema=False)
    guard(app, settings.max_body_bytes)
    return app


def _add_metrics(app: FastAPI, figures: Figures, runs: Runs, access: Access) -> None:
    def metrics() -> Response:
        pending = len(runs.gateway.journal.pending())
        return Response(figures.text(runs.count(), pending), media_type=METRICS_TYPE)

    guarded = [Depends(access.needs("metrics"))]
    app.add_api_route("/metrics", metrics, dependencies=guarded, include_in_schema=False)


def _lifespan(
    gateway: Gateway, runs: Runs
) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """The service runs what was approved elsewhere, and waits for its writes before it ends."""

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncGenerator[None, None]:
        following = asyncio.create_task(gateway.writes.follow())
        try:
            yield
        finally:
            following.cancel()
            await runs.close()
            await gateway.writes.drain()

    return live


@dataclass(frozen=True, slots=True)
class _Service:
    """The routes of models and chat completions, and what they share."""

    name: str
    policy: MonitoredPolicy
    gateway: Gateway
    settings: ServiceSettings
    runs: Runs
    access: Access

    @property
    def names(self) -> tuple[str, str]:
        """The bare model and the loop over it."""
        return self.name, self.name + LOOP_SUFFIX

    def models(self) -> dict[str, Any]:
        """The bare model, and the loop over it."""
        return {"object": "list", "data": [self._card(m) for m in self.names]}

    def model(self, model: str) -> dict[str, Any]:
        """One model."""
        return self._card(self._known(model))

    def add_completions(self, app: FastAPI) -> None:
        """Put `/v1/chat/completions` into an app."""
        needs_chat = Depends(self.access.needs("chat"))

        async def complete(
            body: wire.ChatRequest,
            request: Request,
            caller: Caller = needs_chat,
        ) -> Response:
            """A chat completion, whole or streamed."""
            return await self.complete(body, request, caller)

        app.add_api_route("/v1/chat/completions", complete, methods=["POST"], response_model=None)

    async def complete(self, body: wire.ChatRequest, request: Request, caller: Caller) -> Response:
        """A chat completion, whole or streamed."""
        model = self._known(body.model)
        if body.n not in (None, 1):
            raise wire.RequestError("only n=1 is served", "n")
        shape = Shape(
            {"id": SystemIds().new("chatcmpl"), "created": int(time.time()), "model": model},
            page=f"{str(request.base_url).rstrip('/')}/approve",
            include_usage=body.stream_options is not None and body.stream_options.include_usage,
        )
        messages = wire.messages_in(body)
        if model == self.name:
            items = self._raw(messages, wire.tools_in(body))
        else:
            shape.run = self._run(body, messages, caller)
            items = watched(shape.run)
        if body.stream:
            return EventStream(frames(shape, items), self.settings.ping_s)
        return await while_there(request, whole(shape, items))

    def _run(self, body: wire.ChatRequest, messages: list[Message], caller: Caller) -> Run:
        """The loop over a fresh session of the caller, or over the one of an earlier answer."""
        if body.tools:
            raise wire.RequestError(
                f"{body.model} brings its own tools; pass tools to {self.name}", "tools"
            )
        if messages[-1].role != "user":
            raise wire.RequestError("the last message must be the user's", "messages")
        if body.x_run_id is None:
            return self.runs.start(messages, caller.name)
        before = self.runs.get(body.x_run_id, caller.name)
        if before is None or before.done is None:
            raise HTTPException(404, f"no run {body.x_run_id!r} that ended")
        return self.runs.start(messages[-1:], caller.name, after=before)

    async def _raw(
        self, messages: list[Message], tools: Sequence[Any]
    ) -> AsyncGenerator[Event | Turn, None]:
        """The bare model's turn."""
        sent = False
        async with aclosing(self.policy.stream(messages, tools)) as turn:
            async for item in turn:
                if isinstance(item, str):
                    sent = True
                    yield Text(item)
                    continue
                if item.thinking:
                    yield Think(item.thinking)
                if item.text and not sent:
                    yield Text(item.text)
                for problem in item.problems:
                    yield Think(problem)
                yield item

    def _known(self, model: str) -> str:
        if model not in self.names:
            raise HTTPException(404, f"no model {model!r}; there are {', '.join(self.names)}")
        return model

    def _card(self, model: str) -> dict[str, Any]:
        parent = self.name if model != self.name else None
        return {
            "id": model,
            "object": "model",
            "created": 0,
            "owned_by": "breadcrumbs",
            "parent": parent,
        }
