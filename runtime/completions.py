"""What a run or a turn looks like to an OpenAI client: a stream of chunks, or one completion.

Events that OpenAI's form has no name for travel as `x_event` (stream) and `x_events` (whole);
held writes as `x_pending_approvals`; why the run ended as `x_done`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

from fastapi.responses import JSONResponse
from sse_starlette import ServerSentEvent

from breadcrumbs import openai_wire as wire
from breadcrumbs.errors import BreadcrumbsError, ModelError
from breadcrumbs.events import Approval, Done, Event, Nudge, Text, Think, ToolCallEvent, ToolResult
from breadcrumbs.messages import compact_json
from breadcrumbs.turns import Turn

logger = logging.getLogger(__name__)


async def frames(
    head: dict[str, Any], items: AsyncGenerator[Event | Turn, None]
) -> AsyncIterator[ServerSentEvent]:
    """Chunks, then `[DONE]`; an error after the headers is a frame of its own and the last."""
    yield _frame(wire.chunk(head, {"role": "assistant", "content": ""}))
    pending: list[dict[str, Any]] = []
    try:
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Done) and item.reason == "model_error":
                    raise ModelError(item.text)
                for found in _chunks(head, item, pending):
                    yield _frame(found)
    except BreadcrumbsError as error:
        yield _frame(wire.error_body(str(error), "server_error"))
        return
    except RuntimeError:  # what a model's library raises; a stream must not just end
        logger.exception("the model broke")
        yield _frame(wire.error_body(wire.BROKEN, "server_error"))
        return
    yield ServerSentEvent(data="[DONE]")


def _chunks(
    head: dict[str, Any], item: Event | Turn, pending: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """What one item adds to a stream."""
    match item:
        case Text():
            return [wire.chunk(head, {"content": item.text})]
        case Think():
            return [wire.chunk(head, wire.reasoning(item.text))]
        case Turn():
            calls = wire.calls_out(item.calls, indexed=True)
            delta = [wire.chunk(head, {"tool_calls": calls})] if calls else []
            return [*delta, wire.chunk(head, {}, "tool_calls" if calls else "stop")]
        case Done():
            extra = {"x_done": item.reason, "x_pending_approvals": pending}
            return [wire.chunk(head, {}, "stop", **extra)]
        case Approval():
            pending.append(dict(item.card))
            return [wire.chunk(head, {}, x_event=_event(item))]
        case _:
            return [wire.chunk(head, {}, x_event=_event(item))]


async def whole(head: dict[str, Any], items: AsyncGenerator[Event | Turn, None]) -> JSONResponse:
    """All items as one completion."""
    text: list[str] = []
    thinking: list[str] = []
    extra: dict[str, Any] = {}
    events: list[dict[str, Any]] = []
    pending: list[dict[str, Any]] = []
    turn: Turn | None = None
    async with aclosing(items):
        async for item in items:
            match item:
                case Text():
                    text.append(item.text)
                case Think():
                    thinking.append(item.text)
                case Turn():
                    turn = item
                case Done() if item.reason == "model_error":
                    raise ModelError(item.text)
                case Done():
                    extra = {"x_done": item.reason, "x_pending_approvals": pending}
                    extra["x_events"] = events
                case _:
                    events.append(_event(item))
                    if isinstance(item, Approval):
                        pending.append(dict(item.card))
    calls = turn.calls if turn is not None else ()
    body = wire.completion(
        head,
        "".join(text),
        "tool_calls" if calls else "stop",
        thinking="\n".join(thinking),
        calls=calls,
        **extra,
    )
    return JSONResponse(body)


def _event(event: ToolCallEvent | ToolResult | Approval | Nudge) -> dict[str, Any]:
    """An event that OpenAI's stream has no name for, as plain JSON."""
    match event:
        case ToolCallEvent():
            (call,) = wire.calls_out([event.call])
            return {"type": event.type, **call["function"], "id": call["id"]}
        case ToolResult():
            return {"type": event.type, "id": event.call_id, "payload": dict(event.payload)}
        case Approval():
            return {"type": event.type, **event.card}
        case Nudge():
            return {"type": event.type, "kind": event.kind, "count": event.count}


def _frame(body: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(data=compact_json(body))
