"""OpenAI's Responses border: requests in, output items and numbered stream events out.

Held writes are `mcp_approval_request` items, gateway calls are `mcp_call` items, text kept from
the window is a `reasoning` item. Knows no loop and no gateway beyond the events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, Field

from breadcrumbs.events import Approval, Done, Event, Text, Think, ToolCallEvent, ToolResult
from breadcrumbs.messages import Message, Role, compact_json
from breadcrumbs.openai_wire import MAX_MESSAGES, Body, RequestError, Sampling
from breadcrumbs.turns import Usage, Wishes

SERVER_LABEL = "breadcrumbs"
_CUT = frozenset({"out_of_tokens", "out_of_time", "max_rounds"})
Emitted = list[dict[str, Any]]


class InputPart(BaseModel):
    """One part of an input message."""

    type: Literal["input_text", "output_text", "text"]
    text: str


class InputMessage(BaseModel):
    """A message of the input."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[InputPart]


class ApprovalResponse(BaseModel):
    """A person's decision on an `mcp_approval_request`."""

    type: Literal["mcp_approval_response"]
    approval_request_id: str = Field(max_length=100)
    approve: bool
    reason: str | None = Field(default=None, max_length=500)


class Echo(BaseModel):
    """An output item that a client sends back as context; the server has it already."""

    type: Literal["mcp_approval_request", "mcp_call", "mcp_list_tools", "reasoning"]


class ResponsesRequest(Body, Sampling):
    """The part of a Responses request that is used or refused; the rest is passed over."""

    model: str
    input: str | list[InputMessage | ApprovalResponse | Echo] = Field(max_length=1_000_000)
    instructions: str | None = None
    previous_response_id: str | None = Field(default=None, max_length=100)
    stream: bool = False
    store: bool = True
    tools: list[dict[str, Any]] | None = Field(default=None, max_length=MAX_MESSAGES)
    max_output_tokens: int | None = Field(default=None, ge=1)
    top_logprobs: int | None = None
    text: dict[str, Any] | None = None

    @property
    def wishes(self) -> Wishes:
        """How the client wants the turns written.

        Raises:
            RequestError: a field cannot be served.
        """
        if self.top_logprobs:
            raise RequestError("is not served; leave it out", "top_logprobs")
        form = (self.text or {}).get("format") or {}
        if not isinstance(form, dict) or form.get("type", "text") != "text":
            raise RequestError("only text is served; leave it out", "text.format")
        return Wishes(self.max_output_tokens, self.temperature, self.top_p)

    @property
    def decisions(self) -> list[ApprovalResponse]:
        """The decisions among the input."""
        items = [] if isinstance(self.input, str) else self.input
        return [item for item in items if isinstance(item, ApprovalResponse)]

    @property
    def messages(self) -> tuple[list[Message], list[Message]]:
        """The messages of the input in the inner form: before its first decision, and behind."""
        if isinstance(self.input, str):
            return [Message("user", self.input)], []
        kinds = [isinstance(item, ApprovalResponse) for item in self.input]
        at = kinds.index(True) if True in kinds else len(kinds)
        halves = (self.input[:at], self.input[at:])
        front, behind = (
            [_message(item) for item in half if isinstance(item, InputMessage)] for half in halves
        )
        return front, behind


def _message(item: InputMessage) -> Message:
    content = item.content
    text = content if isinstance(content, str) else "".join(part.text for part in content)
    role: Role = "system" if item.role == "developer" else item.role
    return Message(role, text)


def response_id(run_id: str) -> str:
    """The response that a run is."""
    return f"resp_{run_id.removeprefix('run_')}"


def run_id(response: str) -> str:
    """The run that a response is."""
    return f"run_{response.removeprefix('resp_')}"


@dataclass(slots=True)
class ResponseBuilder:
    """Turns events into output items, and into the stream events that announce them."""

    head: dict[str, Any]
    """id, created_at, model, previous_response_id and the wishes."""
    output: list[dict[str, Any]] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0
    _open: dict[str, Any] | None = None
    """The message that text still flows into."""
    _calls: dict[str, int] = field(default_factory=dict)

    def begin(self) -> Emitted:
        """The first stream events."""
        body = self.body("in_progress")
        return [
            self._event("response.created", response=body),
            self._event("response.in_progress", response=body),
        ]

    def take(self, event: Event) -> Emitted:
        """The stream events that one event of the run leads to."""
        if isinstance(event, Text):
            return self._text(event.text)
        closed = self._close()
        match event:
            case Think():
                return closed + self._reasoning(event.text)
            case ToolCallEvent():
                return closed + self._call(event)
            case ToolResult():
                return closed + self._result(event)
            case Approval():
                return closed + self._approval(event.card)
            case _:
                return closed

    def end(self, done: Done, usage: Usage | None) -> Emitted:
        """The last stream events."""
        closed = self._close()
        body = self.final(done, usage)
        return [*closed, self._event(f"response.{body['status']}", response=body)]

    def final(self, done: Done, usage: Usage | None) -> dict[str, Any]:
        """The whole response."""
        status = "completed"
        error = None
        if done.reason == "model_error":
            status, error = "failed", {"code": "server_error", "message": done.text}
        elif done.reason in _CUT:
            status = "incomplete"
        body = self.body(status, error)
        if status == "incomplete":
            body["incomplete_details"] = {"reason": "max_output_tokens"}
        if usage is not None:
            body["usage"] = {
                "input_tokens": usage.prompt,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": usage.completion,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.prompt + usage.completion,
            }
        return {**body, "x_done": done.reason, "x_pending_approvals": self.pending}

    def body(self, status: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
        """The response object as it stands."""
        return {
            **self.head,
            "object": "response",
            "status": status,
            "output": [dict(item) for item in self.output],
            "error": error,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }

    def _text(self, text: str) -> Emitted:
        emitted: Emitted = []
        if self._open is None:
            self._open = {
                "id": f"msg_{len(self.output)}",
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            emitted.append(self._added(self._open))
            part = {"type": "output_text", "text": "", "annotations": []}
            emitted.append(self._part("response.content_part.added", self._open, part=part))
            self._open["content"] = [part]
        (part,) = self._open["content"]
        part["text"] += text
        delta = self._part("response.output_text.delta", self._open, delta=text, logprobs=[])
        return [*emitted, delta]

    def _close(self) -> Emitted:
        if self._open is None:
            return []
        item, self._open = self._open, None
        (part,) = item["content"]
        item["status"] = "completed"
        return [
            self._part("response.output_text.done", item, text=part["text"], logprobs=[]),
            self._part("response.content_part.done", item, part=part),
            self._done(item),
        ]

    def _reasoning(self, text: str) -> Emitted:
        item: dict[str, Any] = {
            "id": f"rs_{len(self.output)}",
            "type": "reasoning",
            "summary": [],
            "content": [],
            "status": "in_progress",
        }
        added = self._added(item)
        delta = self._part("response.reasoning_text.delta", item, delta=text)
        ended = self._part("response.reasoning_text.done", item, text=text)
        item |= {"content": [{"type": "reasoning_text", "text": text}], "status": "completed"}
        return [added, delta, ended, self._done(item)]

    def _call(self, event: ToolCallEvent) -> Emitted:
        arguments = compact_json(dict(event.call.arguments))
        item: dict[str, Any] = {
            "id": f"mcp_{event.call.id}",
            "type": "mcp_call",
            "server_label": SERVER_LABEL,
            "name": event.call.name,
            "arguments": "",
            "status": "in_progress",
        }
        self._calls[event.call.id] = len(self.output)
        added = self._added(item)
        item["arguments"] = arguments
        place = {"item_id": item["id"], "output_index": self._calls[event.call.id]}
        return [
            added,
            self._event("response.mcp_call.in_progress", **place),
            self._event("response.mcp_call_arguments.delta", **place, delta=arguments),
            self._event("response.mcp_call_arguments.done", **place, arguments=arguments),
        ]

    def _result(self, event: ToolResult) -> Emitted:
        index = self._calls[event.call_id]
        item = self.output[index]
        item |= {"output": compact_json(dict(event.payload)), "status": "completed", "error": None}
        place = {"item_id": item["id"], "output_index": index}
        return [self._event("response.mcp_call.completed", **place), self._done(item)]

    def _approval(self, card: Mapping[str, Any]) -> Emitted:
        self.pending.append(dict(card))
        item = {
            "id": card["approval_id"],
            "type": "mcp_approval_request",
            "server_label": SERVER_LABEL,
            "name": card["tool"],
            "arguments": compact_json(card["arguments"]),
        }
        return [self._added(item), self._done(item)]

    def _added(self, item: dict[str, Any]) -> dict[str, Any]:
        self.output.append(item)
        return self._event(
            "response.output_item.added", output_index=len(self.output) - 1, item=dict(item)
        )

    def _done(self, item: dict[str, Any]) -> dict[str, Any]:
        index = next(at for at, known in enumerate(self.output) if known is item)
        return self._event("response.output_item.done", output_index=index, item=dict(item))

    def _part(self, kind: str, item: dict[str, Any], **more: Any) -> dict[str, Any]:
        index = next(at for at, known in enumerate(self.output) if known is item)
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        return self._event(kind, **place, **{k: _copy(v) for k, v in more.items()})

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        number, self._number = self._number, self._number + 1
        return {"type": kind, "sequence_number": number, **fields}


def _copy(value: Any) -> Any:
    """Parts grow while they are streamed; an event holds what was true when it was made."""
    return dict(value) if isinstance(value, dict) else value
