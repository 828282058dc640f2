"""The HTTP service: `/v1/chat/completions` over the loop or the bare model, and approvals.

Model `NAME` is the bare model: the client brings the tools and runs them. Model `NAME-loop` runs
the loop with the gateway here: held writes end the turn and wait for `POST /v1/approvals/{id}`.
Streams carry chunks and `: ping` comments only. Loading a model stays outside `create_app`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException

from breadcrumbs import openai_wire as wire
from breadcrumbs.callers import LOCAL, LOOPBACK, caller_of, keys_for
from breadcrumbs.completions import frames, whole
from breadcrumbs.events import Event, Text, Think
from breadcrumbs.gateway.approvals import ApprovalCard
from breadcrumbs.gateway.gateway import Gateway, Principal
from breadcrumbs.gateway.identity import SystemIds
from breadcrumbs.http_border import guard
from breadcrumbs.loop import LoopSettings, stream
from breadcrumbs.messages import Message
from breadcrumbs.policies import SerialPolicy
from breadcrumbs.prompts import system_prompt
from breadcrumbs.turns import Policy, Turn

LOOP_SUFFIX = "-loop"
MAX_BODY_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """Who may call, and the bounds of a request."""

    api_keys: tuple[str, ...] = ()
    """Bearer keys; with none, only callers on this machine are answered."""
    max_body_bytes: int = MAX_BODY_BYTES
    ping_s: float = 15.0
    loop: LoopSettings = field(default_factory=LoopSettings)


def create_app(
    name: str,
    policy: Policy,
    gateway: Gateway,
    settings: ServiceSettings = ServiceSettings(),
) -> FastAPI:
    """The service over a policy and a gateway; `policy` writes one turn at a time."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=_lifespan(gateway))
    service = _Service(name, SerialPolicy(policy), gateway, settings)
    guarded = [Depends(service.check_caller)]
    app.add_api_route("/v1/models", service.models, dependencies=guarded)
    app.add_api_route("/v1/models/{model}", service.model, dependencies=guarded)
    app.add_api_route(
        "/v1/chat/completions",
        service.complete,
        methods=["POST"],
        dependencies=guarded,
        response_model=None,
    )
    app.add_api_route("/v1/approvals", service.approvals, dependencies=guarded)
    app.add_api_route("/v1/approvals/{approval_id}", service.approval, dependencies=guarded)
    app.add_api_route(
        "/v1/approvals/{approval_id}", service.decide, methods=["POST"], dependencies=guarded
    )
    guard(app, settings.max_body_bytes)
    return app


def _lifespan(gateway: Gateway) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """The service runs what was approved elsewhere, and waits for its writes before it ends."""

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncGenerator[None, None]:
        following = asyncio.create_task(gateway.writes.follow())
        try:
            yield
        finally:
            following.cancel()
            await gateway.writes.drain()

    return live


def serve_model(
    model: str,
    adapter: Path | None,
    catalogs: Sequence[Path] | None,
    encoder: Path | None,
    journal: str,
    host: str,
    port: int,
) -> None:
    """Load a model and answer until stopped.

    Raises:
        ConfigError: another than a loopback host without API keys, or bad approval keys.
        ModelError: the model, adapter or encoder cannot be loaded.
        CatalogError: a catalog is malformed.
        DataError: the journal cannot be opened.
    """
    keys = keys_for(host)
    import uvicorn

    from breadcrumbs.gateway.catalog import load_catalog
    from breadcrumbs.live_gateway import open_gateway
    from breadcrumbs.local_model import LocalModel, LocalPolicy

    catalog = load_catalog(catalogs)
    local = LocalModel.load(model, adapter=adapter)
    gateway = open_gateway(catalog, journal, local.gateway_settings(), encoder=encoder)
    name = (adapter or Path(model)).name
    app = create_app(name, LocalPolicy(local), gateway, ServiceSettings(api_keys=keys))
    uvicorn.run(app, host=host, port=port, log_level="warning", timeout_graceful_shutdown=5)


@dataclass(frozen=True, slots=True)
class _Service:
    """The routes and what they share."""

    name: str
    policy: Policy
    gateway: Gateway
    settings: ServiceSettings

    def check_caller(self, request: Request) -> str:
        """The caller's name; without keys, only this machine's own programs are let in."""
        if self.settings.api_keys:
            return self._by_key(request.headers.get("authorization", ""))
        # A web page that this machine's browser shows must not reach the approvals.
        for header in ("host", "origin"):
            if (value := request.headers.get(header)) and _hostname(value) not in LOOPBACK:
                raise HTTPException(403, f"{header} {value!r} is not this machine")
        return LOCAL

    def _by_key(self, header: str) -> str:
        caller = caller_of(header, self.settings.api_keys)
        if caller is None:
            raise HTTPException(401, "a valid API key is needed: Authorization: Bearer KEY")
        return caller

    def models(self) -> dict[str, Any]:
        return {"object": "list", "data": [self._card(m) for m in self._names()]}

    def model(self, model: str) -> dict[str, Any]:
        return self._card(self._known(model))

    async def complete(self, body: wire.ChatRequest, request: Request) -> Response:
        model = self._known(body.model)
        if body.n not in (None, 1):
            raise wire.RequestError("only n=1 is served", "n")
        head = {"id": SystemIds().new("chatcmpl"), "created": int(time.time()), "model": model}
        messages = wire.messages_in(body)
        if model == self.name:
            items = self._raw(messages, wire.tools_in(body))
        else:
            if body.tools:
                raise wire.RequestError(
                    f"{model} brings its own tools; pass tools to {self.name}", "tools"
                )
            if messages[-1].role != "user":
                raise wire.RequestError("the last message must be the user's", "messages")
            items = self._loop(messages, self.check_caller(request))
        if body.stream:
            return EventSourceResponse(
                frames(head, items),
                ping=self.settings.ping_s,
                ping_message_factory=lambda: ServerSentEvent(comment="ping"),
                sep="\n",
            )
        return await whole(head, items)

    def approvals(self, request: Request) -> dict[str, Any]:
        """What waits of the caller's own; another's is for `breadcrumbs approvals`."""
        caller = self.check_caller(request)
        own = [card for card in self.gateway.journal.pending() if card.principal == caller]
        return {"object": "list", "data": [self._approval(card) for card in own]}

    def approval(self, approval_id: str, request: Request) -> dict[str, Any]:
        card = self.gateway.journal.get(approval_id)
        if card is None or card.principal != self.check_caller(request):
            raise HTTPException(404, f"no approval {approval_id!r}")
        return self._approval(card)

    def _approval(self, card: ApprovalCard) -> dict[str, Any]:
        """The card, with the challenge that a decision must bring back."""
        challenge = self.gateway.challenge(card)
        return card.to_dict() if challenge is None else {**card.to_dict(), "challenge": challenge}

    async def decide(
        self, approval_id: str, body: wire.DecisionRequest, request: Request
    ) -> dict[str, Any]:
        self.approval(approval_id, request)
        challenge = body.challenge
        if self.gateway.keys is not None and not self.gateway.challenge_fits(
            approval_id, challenge or ""
        ):
            raise HTTPException(403, "challenge: send the one that the card has now")
        return await self.gateway.decide(
            approval_id, approve=body.approve, by=self.check_caller(request), reason=body.reason
        )

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

    async def _loop(
        self, messages: list[Message], caller: str
    ) -> AsyncGenerator[Event | Turn, None]:
        """The loop's events over a fresh session of the caller."""
        if messages[0].role != "system":
            now = self.gateway.clock.now().strftime("%Y-%m-%dT%H:%M")
            messages.insert(0, Message("system", system_prompt(now).text))
        session = self.gateway.session(Principal(caller))
        events = stream(self.policy, session, messages, settings=self.settings.loop)
        async with aclosing(events):
            async for event in events:
                yield event

    def _names(self) -> tuple[str, str]:
        return self.name, self.name + LOOP_SUFFIX

    def _known(self, model: str) -> str:
        if model not in self._names():
            raise HTTPException(404, f"no model {model!r}; there are {', '.join(self._names())}")
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


def _hostname(value: str) -> str:
    host = value.rpartition("//")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()
