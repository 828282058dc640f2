"""`/v1/responses` over the loop: held writes are items that a key with the scope may answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from sse_starlette import ServerSentEvent
from starlette.exceptions import HTTPException

from breadcrumbs.access import Access
from breadcrumbs.callers import Caller
from breadcrumbs.errors import ModelError
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.openai_wire import RequestError
from breadcrumbs.responses_wire import (
    ApprovalResponse,
    ResponseBuilder,
    ResponsesRequest,
    response_id,
    run_id,
)
from breadcrumbs.runs import Run, Runs, told
from breadcrumbs.sse import EventStream, while_there


def add(app: FastAPI, runs: Runs, access: Access, model: str, ping_s: float) -> None:
    """Put the routes into an app."""
    needs_chat = Depends(access.needs("chat"))

    async def create(
        body: ResponsesRequest, request: Request, caller: Caller = needs_chat
    ) -> Response:
        """A response, whole or streamed."""
        if body.model != model:
            raise HTTPException(404, f"no model {body.model!r} here; there is {model}")
        if body.tools:
            raise RequestError(f"{model} brings its own tools", "tools")
        runs.check(body.wishes)  # before anything is decided
        run = await _begin(runs, body, caller)
        if body.stream:
            return EventStream(_frames(run, model, runs, body.store), ping_s)
        return JSONResponse(await while_there(request, _whole(run, model, runs, body.store)))

    async def retrieve(response: str, caller: Caller = needs_chat) -> Response:
        """A response that ended, while the server keeps it."""
        run = runs.get(run_id(response), caller.name)
        if run is None or run.done is None:
            raise HTTPException(404, f"no response {response!r} that ended")
        return JSONResponse(_body(run, model))

    app.add_api_route("/v1/responses", create, methods=["POST"], response_model=None)
    app.add_api_route("/v1/responses/{response}", retrieve, response_model=None)


async def _begin(runs: Runs, body: ResponsesRequest, caller: Caller) -> Run:
    """Carry out the decisions of the input, then let the loop go on from there."""
    before = None
    if body.previous_response_id is not None:
        before = runs.get(run_id(body.previous_response_id), caller.name)
        if before is None or before.done is None:
            raise HTTPException(404, f"no response {body.previous_response_id!r} that ended")
    decisions, (front, behind) = body.decisions, body.messages
    if not decisions and (not front or front[-1].role != "user"):
        raise RequestError("the last item must be a user's message or a decision", "input")
    _check_decisions(runs, decisions, caller)
    decided = [decision.approval_request_id for decision in decisions]
    if before is None:
        held_by = (runs.holding(approval, caller.name) for approval in decided)
        before = next((run for run in held_by if run is not None), None)
        if before is not None:
            front = []  # a client that keeps the context itself sends again what is known here
        elif body.instructions is not None:
            front.insert(0, Message("system", body.instructions))
    payloads = [
        await runs.gateway.decide(
            decision.approval_request_id,
            approve=decision.approve,
            by=caller.name,
            reason=decision.reason or "",
        )
        for decision in decisions
    ]
    messages = [*front, *told(payloads), *behind]
    return runs.start(messages, caller.name, after=before, known=decided, wishes=body.wishes)


def _check_decisions(runs: Runs, decisions: list[ApprovalResponse], caller: Caller) -> None:
    """All of them may be made, or none is: the request is refused before anything is decided."""
    if decisions and not caller.may("approve"):
        raise HTTPException(403, "this key has no scope 'approve'; decide on the page")
    for decision in decisions:
        card = runs.gateway.journal.get(decision.approval_request_id)
        if card is None or card.principal != caller.name:
            raise HTTPException(404, f"no approval {decision.approval_request_id!r}")


def _head(run: Run, model: str) -> dict[str, Any]:
    previous = None if run.previous is None else response_id(run.previous)
    return {
        "id": response_id(run.id),
        "created_at": run.created,
        "model": model,
        "previous_response_id": previous,
        "max_output_tokens": run.wishes.max_tokens,
        "temperature": run.wishes.temperature,
        "top_p": run.wishes.top_p,
    }


def _body(run: Run, model: str) -> dict[str, Any]:
    """The response of a run that ended."""
    assert run.done is not None
    builder = ResponseBuilder(_head(run, model))
    for event in run.events[:-1]:
        builder.take(event)
    builder.end(run.done, run.usage)
    return builder.final(run.done, run.usage)


async def _whole(run: Run, model: str, runs: Runs, keep: bool) -> dict[str, Any]:
    try:
        async with aclosing(run.follow()) as events:
            async for _ in events:
                pass
    finally:
        _leave(run, runs, keep)
    assert run.done is not None
    if run.done.reason == "model_error":
        raise ModelError(run.done.text)
    return _body(run, model)


async def _frames(run: Run, model: str, runs: Runs, keep: bool) -> AsyncIterator[ServerSentEvent]:
    builder = ResponseBuilder(_head(run, model))
    for found in builder.begin():
        yield _frame(found)
    try:
        async with aclosing(run.follow()) as events:
            async for _, event in events:
                if run.done is event:
                    break
                for found in builder.take(event):
                    yield _frame(found)
    finally:
        _leave(run, runs, keep)
    assert run.done is not None
    for found in builder.end(run.done, run.usage):
        yield _frame(found)


def _leave(run: Run, runs: Runs, keep: bool) -> None:
    """Without its one client a run is stopped."""
    run.cancel()
    if not keep:
        runs.forget(run)


def _frame(body: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(event=body["type"], data=compact_json(body))
