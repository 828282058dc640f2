"""`/v1/runs`: the loop with all its events, numbered; a watcher that comes back misses nothing.

A held write is waited for, so that the run tells how it ended. A run goes on without a watcher,
until it ends or is cancelled.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import Depends, FastAPI, Header, Query, Response
from sse_starlette import ServerSentEvent
from starlette.exceptions import HTTPException

from breadcrumbs import openai_wire as wire
from breadcrumbs import runs_wire as native
from breadcrumbs.access import Access
from breadcrumbs.callers import Caller
from breadcrumbs.completions import event_out
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.runs import Run, Runs, saved
from breadcrumbs.sse import EventStream

EVENT_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


def add(app: FastAPI, runs: Runs, access: Access, ping_s: float) -> None:
    """Put the routes into an app."""
    needs_chat = Depends(access.needs("chat"))

    def own(run_id: str, caller: Caller = needs_chat) -> Run:
        run = runs.get(run_id, caller.name)
        if run is None:
            raise HTTPException(404, f"no run {run_id!r}")
        return run

    owned = Depends(own)

    async def start(body: native.RunRequest, caller: Caller = needs_chat) -> dict[str, Any]:
        """Begin a run; watch it at `/v1/runs/{id}/events`."""
        before = None
        if body.previous_run_id is not None:
            before = own(body.previous_run_id, caller)
            if before.done is None:
                raise HTTPException(409, f"{before.id} has not ended; cancel it or wait")
        return _card(runs.start(_messages(body), caller.name, after=before, until_decided=True))

    def listed(caller: Caller = needs_chat) -> dict[str, Any]:
        """The caller's runs that the server keeps."""
        brief = [_card(run) for run in runs.of(caller.name)]
        return {"object": "list", "data": [{**card, "messages": []} for card in brief]}

    def one(run: Run = owned) -> dict[str, Any]:
        """How a run stands, and its conversation as it is kept."""
        return _card(run)

    async def events(
        run: Run = owned,
        after: int = Query(default=0, ge=0, le=1_000_000),
        last_event_id: str | None = Header(default=None, max_length=20),
    ) -> Response:
        """The events behind number `after` as server-sent events, up to the run's last."""
        seen = int(last_event_id) if last_event_id and last_event_id.isdecimal() else after
        return EventStream(_frames(run, seen), ping_s)

    async def cancel(run: Run = owned) -> dict[str, Any]:
        """Stop a run. A write that runs goes to its end; one that waits goes on waiting."""
        run.cancel()
        async with aclosing(run.follow(len(run.events))) as rest:
            async for _ in rest:
                pass
        return _card(run)

    place = "/v1/runs/{run_id}"
    app.add_api_route(
        "/v1/runs", start, methods=["POST"], status_code=201, response_model=native.RunCard
    )
    app.add_api_route("/v1/runs", listed, response_model=native.RunList)
    app.add_api_route(place, one, response_model=native.RunCard)
    app.add_api_route(f"{place}/events", events, response_class=Response, responses=EVENT_STREAM)
    app.add_api_route(f"{place}/cancel", cancel, methods=["POST"], response_model=native.RunCard)


def _messages(body: native.RunRequest) -> list[Message]:
    if isinstance(body.input, str):
        return [Message("user", body.input)]
    messages = wire.messages_of(body.input, "input")
    if messages[-1].role != "user":
        raise wire.RequestError("the last message must be the user's", "input")
    return messages


def _card(run: Run) -> dict[str, Any]:
    return {
        "id": run.id,
        "object": "run",
        "created": run.created,
        "status": run.status,
        "previous_run_id": run.previous,
        "input": run.conversation[run.spoken - 1].content,
        "events": len(run.events),
        "held": list(run.held),
        "messages": [message.to_dict() for message in saved(run.conversation)],
        "usage": None if run.usage is None else wire.usage_out(run.usage),
    }


async def _frames(run: Run, after: int) -> AsyncIterator[ServerSentEvent]:
    async with aclosing(run.follow(after)) as events:
        async for number, event in events:
            body = {"seq": number, **event_out(event)}
            yield ServerSentEvent(id=str(number), event=event.type, data=compact_json(body))
