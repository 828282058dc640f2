"""What a run or a turn looks like to an OpenAI client: a stream of chunks, or one completion.

Events that OpenAI's form has no name for travel as `x_event` (stream) and `x_events` (whole);
held writes as `x_pending_approvals` and as a line of text with a link; why the run ended as
`x_done`.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from fastapi.responses import JSONResponse
from sse_starlette import ServerSentEvent

from breadcrumbs import openai_wire as wire
from breadcrumbs.errors import BreadcrumbsError, ModelError
from breadcrumbs.events import Approval, Done, Event, Nudge, Text, Think, ToolCallEvent, ToolResult
from breadcrumbs.messages import compact_json
from breadcrumbs.runs import BROKEN, Run
from breadcrumbs.turns import Turn, Usage
from breadcrumbs.visible import visible

logger = logging.getLogger(__name__)
_CUT = frozenset({"out_of_tokens", "out_of_time", "max_rounds"})
"""Ends that an OpenAI client knows as `length`."""


@dataclass(slots=True)
class Shape:
    """What one answer is made of besides its items."""

    head: dict[str, Any]
    """id, created and model."""
    run: Run | None = None
    page: str = ""
    """Address of the approval page, the approval's id goes behind it."""
    include_usage: bool = False
    pending: list[dict[str, Any]] = field(default_factory=list)

    def note(self) -> str:
        """What waits for a person, as text: plain clients show nothing else."""
        lines = [
            f"{visible(card['tool'])} ({card['risk']}) waits for approval:"
            f" {self.page}/{card['approval_id']}"
            for card in self.pending
        ]
        return "".join(f"\n\n{line}" for line in lines)

    def ending(self, done: Done) -> dict[str, Any]:
        """The end of a run, in fields of our own."""
        ids = {} if self.run is None else {"x_run_id": self.run.id}
        return {"x_done": done.reason, "x_pending_approvals": self.pending, **ids}

    def usage(self, turn: Turn | None) -> Usage | None:
        """Tokens of the run, or of the bare turn; None where nobody counts them."""
        if self.run is not None:
            return self.run.usage
        return None if turn is None else turn.usage


async def watched(run: Run) -> AsyncGenerator[Event | Turn, None]:
    """A run's events for the one client it has: without that client it is stopped."""
    try:
        async with aclosing(run.follow()) as events:
            async for _, event in events:
                yield event
    finally:
        run.cancel()


async def frames(
    shape: Shape, items: AsyncGenerator[Event | Turn, None]
) -> AsyncIterator[ServerSentEvent]:
    """Chunks, then `[DONE]`; an error after the headers is a frame of its own and the last."""
    yield _frame(wire.chunk(shape.head, {"role": "assistant", "content": ""}))
    turn: Turn | None = None
    try:
        async with aclosing(items):
            async for item in items:
                if isinstance(item, Done) and item.reason == "model_error":
                    raise ModelError(item.text)
                turn = item if isinstance(item, Turn) else turn
                for found in _chunks(shape, item):
                    yield _frame(found)
    except BreadcrumbsError as error:
        yield _frame(wire.error_body(str(error), "server_error"))
        return
    except RuntimeError:  # what a model's library raises; a stream must not just end
        logger.exception("the model broke")
        yield _frame(wire.error_body(BROKEN, "server_error"))
        return
    if shape.include_usage:
        usage = shape.usage(turn)
        counted = None if usage is None else wire.usage_out(usage)
        body = {**shape.head, "object": "chat.completion.chunk", "choices": [], "usage": counted}
        yield _frame(body)
    yield ServerSentEvent(data="[DONE]")


def _chunks(shape: Shape, item: Event | Turn) -> list[dict[str, Any]]:
    """What one item adds to a stream."""
    head = shape.head
    match item:
        case Text():
            return [wire.chunk(head, {"content": item.text})]
        case Think():
            return [wire.chunk(head, wire.reasoning(item.text))]
        case Turn():
            calls = wire.calls_out(item.calls, indexed=True)
            delta = [wire.chunk(head, {"tool_calls": calls})] if calls else []
            return [*delta, wire.chunk(head, {}, _turn_finish(item))]
        case Done():
            note = shape.note()
            said = [wire.chunk(head, {"content": note})] if note else []
            return [*said, wire.chunk(head, {}, _finish(item), **shape.ending(item))]
        case _:
            if isinstance(item, Approval):
                shape.pending.append(dict(item.card))
            return [wire.chunk(head, {}, x_event=event_out(item))]


async def whole(shape: Shape, items: AsyncGenerator[Event | Turn, None]) -> JSONResponse:
    """All items as one completion."""
    text: list[str] = []
    thinking: list[str] = []
    extra: dict[str, Any] = {}
    events: list[dict[str, Any]] = []
    finish = "stop"
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
                    finish = _turn_finish(turn)
                case Done() if item.reason == "model_error":
                    raise ModelError(item.text)
                case Done():
                    text.append(shape.note())
                    finish = _finish(item)
                    extra = {**shape.ending(item), "x_events": events}
                case _:
                    events.append(event_out(item))
                    if isinstance(item, Approval):
                        shape.pending.append(dict(item.card))
    if (usage := shape.usage(turn)) is not None:
        extra["usage"] = wire.usage_out(usage)
    body = wire.completion(
        shape.head,
        "".join(text),
        finish,
        thinking="\n".join(thinking),
        calls=() if turn is None else turn.calls,
        **extra,
    )
    return JSONResponse(body)


def event_out(event: Event) -> dict[str, Any]:
    """An event as plain JSON, as our own streams send it."""
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
        case Done():
            return {"type": event.type, "reason": event.reason, "text": event.text}
        case _:
            return {"type": event.type, "text": event.text}


def _turn_finish(turn: Turn) -> str:
    return "tool_calls" if turn.calls else "length" if turn.cut else "stop"


def _finish(done: Done) -> str:
    return "length" if done.reason in _CUT else "stop"


def _frame(body: dict[str, Any]) -> ServerSentEvent:
    return ServerSentEvent(data=compact_json(body))
