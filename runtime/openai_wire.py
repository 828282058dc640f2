"""The OpenAI border: requests in, chunks, completions and errors out. Knows no loop or gateway.

Arguments are JSON text here and objects everywhere else. Reasoning is sent under both names in
use, `reasoning` and `reasoning_content`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, model_validator

from breadcrumbs.messages import STRICT_JSON, Message, Role, ToolCall, compact_json
from breadcrumbs.turns import Usage, Wishes

MAX_MESSAGES = 1000
MAX_TOOLS = 128
MAX_STOPS = 4
MAX_STOP_CHARS = 256


class RequestError(ValueError):
    """A request that cannot be served; `param` names the field."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param


class TextPart(BaseModel):
    """One part of a message's content."""

    type: Literal["text"]
    text: str


class FunctionCall(BaseModel):
    """A called function; `arguments` is JSON text."""

    name: str
    arguments: str = "{}"


class WireCall(BaseModel):
    """A tool call of an assistant message."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class WireMessage(BaseModel):
    """A message as clients send it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[WireCall] | None = None
    tool_call_id: str | None = None


class StreamOptions(BaseModel):
    """What a stream should hold besides."""

    include_usage: bool = False


class Body(BaseModel):
    """A request; all of its text can be written down as UTF-8."""

    @model_validator(mode="before")
    @classmethod
    def _is_whole(cls, value: Any) -> Any:
        try:
            compact_json(value).encode()
        except (TypeError, ValueError, RecursionError) as error:  # JSON can spell half a character
            raise ValueError("holds what UTF-8 text cannot, such as half a character") from error
        return value


class Sampling(BaseModel):
    """What a chat completion and a response are asked for in the same words."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)


class ChatRequest(Body, Sampling):
    """The part of a chat completion request that is used or refused; the rest is passed over."""

    model: str
    messages: list[WireMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    stream: bool = False
    stream_options: StreamOptions | None = None
    x_run_id: str | None = Field(default=None, max_length=100)
    """Goes on with the conversation that an earlier answer named; only the last message is new."""
    tools: list[dict[str, Any]] | None = Field(default=None, max_length=MAX_TOOLS)
    tool_choice: Any = None
    n: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63)
    stop: str | list[str] | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    response_format: dict[str, Any] | None = None


class DecisionRequest(Body):
    """A person's decision on a held write."""

    approve: bool
    reason: str = Field(default="", max_length=500)
    challenge: str | None = Field(default=None, max_length=200)
    """As it stands in the card; needed where the gateway has keys."""


def messages_in(request: ChatRequest) -> list[Message]:
    """The conversation in the inner form.

    Raises:
        RequestError: call arguments that are no JSON object, or a field that is missing.
    """
    return messages_of(request.messages, "messages")


def messages_of(messages: Sequence[WireMessage], where: str) -> list[Message]:
    """Messages in the inner form; `where` is the field that holds them.

    Raises:
        RequestError: call arguments that are no JSON object, or a field that is missing.
    """
    return [_message(message, f"{where}.{i}") for i, message in enumerate(messages)]


def tools_in(request: ChatRequest) -> list[Mapping[str, Any]]:
    """The tools the client passes; none where it says `tool_choice: none`.

    Raises:
        RequestError: a tool is no function, or a choice is asked for that cannot be forced.
    """
    if request.tool_choice not in (None, "auto", "none"):
        raise RequestError("tool_choice must be auto or none", "tool_choice")
    for index, tool in enumerate(request.tools or ()):
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise RequestError("must be {type: function, function: {name, ...}}", f"tools.{index}")
    return [] if request.tool_choice == "none" else list(request.tools or ())


def wishes_in(request: ChatRequest) -> Wishes:
    """How the client wants the turn written.

    Raises:
        RequestError: a field cannot be served.
    """
    if request.n not in (None, 1):
        raise RequestError("only n=1 is served", "n")
    for name in ("frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs"):
        if getattr(request, name):
            raise RequestError("is not served; leave it out", name)
    if (request.response_format or {}).get("type", "text") != "text":
        raise RequestError("only text is served; leave it out", "response_format")
    limits = {request.max_tokens, request.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise RequestError("says another number than max_completion_tokens", "max_tokens")
    return Wishes(
        limits.pop() if limits else None,
        request.temperature,
        request.top_p,
        request.seed,
        _stops(request.stop),
    )


def _stops(given: str | list[str] | None) -> tuple[str, ...]:
    stops = (given,) if isinstance(given, str) else tuple(given or ())
    if len(stops) > MAX_STOPS or not all(0 < len(stop) <= MAX_STOP_CHARS for stop in stops):
        raise RequestError(
            f"must be at most {MAX_STOPS} texts of 1 to {MAX_STOP_CHARS} characters", "stop"
        )
    return stops


def message_out(message: Message) -> dict[str, Any]:
    """A message as a request holds it."""
    body: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        body["tool_calls"] = calls_out(message.tool_calls)
    if message.tool_call_id is not None:
        body["tool_call_id"] = message.tool_call_id
    return body


def calls_out(calls: Sequence[ToolCall], *, indexed: bool = False) -> list[dict[str, Any]]:
    """Tool calls as clients read them; `indexed` as a stream's delta holds them."""
    return [
        {
            **({"index": index} if indexed else {}),
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": compact_json(dict(call.arguments))},
        }
        for index, call in enumerate(calls)
    ]


def reasoning(text: str) -> dict[str, str]:
    """Text that is not for the chat window, under both names clients read."""
    return {"reasoning": text, "reasoning_content": text}


def usage_out(usage: Usage) -> dict[str, int]:
    """Tokens as OpenAI counts them."""
    return {
        "prompt_tokens": usage.prompt,
        "completion_tokens": usage.completion,
        "total_tokens": usage.prompt + usage.completion,
    }


def chunk(
    head: Mapping[str, Any],
    delta: Mapping[str, Any],
    finish: str | None = None,
    **extra: Any,
) -> dict[str, Any]:
    """One streamed chunk; `head` holds id, created and model."""
    choice = {"index": 0, "delta": dict(delta), "finish_reason": finish}
    return {**head, "object": "chat.completion.chunk", "choices": [choice], **extra}


def completion(
    head: Mapping[str, Any],
    text: str,
    finish: str,
    *,
    thinking: str = "",
    calls: Sequence[ToolCall] = (),
    **extra: Any,
) -> dict[str, Any]:
    """A whole completion."""
    message: dict[str, Any] = {"role": "assistant", "content": text if text or not calls else None}
    if thinking:
        message |= reasoning(thinking)
    if calls:
        message["tool_calls"] = calls_out(calls)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {**head, "object": "chat.completion", "choices": [choice], **extra}


def error_body(
    message: str, kind: str, param: str | None = None, code: str | None = None
) -> dict[str, Any]:
    """An error in OpenAI's shape; it may echo halves of characters, which JSON cannot hold."""
    message = message.encode("utf-8", "replace").decode()
    param = None if param is None else param.encode("utf-8", "replace").decode()
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def _message(message: WireMessage, where: str) -> Message:
    content = message.content
    text = "".join(p.text for p in content) if isinstance(content, list) else content or ""
    if message.role == "tool" and not message.tool_call_id:
        raise RequestError("a tool message needs tool_call_id", f"{where}.tool_call_id")
    role: Role = "system" if message.role == "developer" else message.role
    calls = [
        ToolCall(call.id, call.function.name, _arguments(call, f"{where}.tool_calls.{i}"))
        for i, call in enumerate(message.tool_calls or ())
    ]
    return Message(role, text, tuple(calls), message.tool_call_id)


def _arguments(call: WireCall, where: str) -> dict[str, Any]:
    try:
        arguments = STRICT_JSON.decode(call.function.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise RequestError("arguments must be the text of a JSON object", where)
    return arguments
