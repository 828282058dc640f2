"""The other side of the OpenAI border: requests out, completions and streamed chunks in.

An endpoint is a stranger: what is no completion is a `ModelError`, what is no readable call is a
problem of the turn, as with a local model, so that the loop can ask for it again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from breadcrumbs.call_format import split_thinking
from breadcrumbs.call_reading import call_problem
from breadcrumbs.errors import ModelError
from breadcrumbs.messages import STRICT_JSON, Message, ToolCall, compact_json
from breadcrumbs.openai_wire import message_out
from breadcrumbs.turns import Turn, Usage

MAX_CALLS = 32
"""Calls of one turn that are read; more are a problem of the turn."""
MAX_TOKENS = 2**40
"""A `usage` beyond it is not believed."""
CUT_OFF = "The answer was cut off at the endpoint's limit of tokens"
Model = TypeVar("Model", bound=BaseModel)


class _Usage(BaseModel):
    prompt_tokens: int = Field(ge=0, le=MAX_TOKENS)
    completion_tokens: int = Field(default=0, ge=0, le=MAX_TOKENS)


class _Said(BaseModel):
    content: str | list[Any] | None = None
    tool_calls: Any = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class _Choice(BaseModel):
    message: _Said
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


class _CallPart(BaseModel):
    index: int = Field(default=0, ge=0)
    id: str | None = None
    function: dict[str, Any] = Field(default_factory=dict)


class _Delta(BaseModel):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_CallPart] | None = None


class _Piece(BaseModel):
    delta: _Delta = Field(default_factory=_Delta)
    finish_reason: str | None = None


class _Chunk(BaseModel):
    choices: list[_Piece] = Field(default_factory=list)
    usage: Any = None


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one answer was metered at."""

    input: int
    output: int


def request_body(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    options: Mapping[str, Any],
    *,
    stream: bool,
) -> dict[str, Any]:
    """A chat completion request. A turn's own reasoning is not sent back."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [message_out(without_thinking(message)) for message in messages],
        **options,
    }
    if tools:
        body["tools"] = [dict(tool) for tool in tools]
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body


def without_thinking(message: Message) -> Message:
    """The message as a model elsewhere reads it again: an assistant's without its reasoning."""
    if message.role != "assistant":
        return message
    return replace(message, content=split_thinking(message.content)[1].strip())


def read_json(text: str, what: str) -> Any:
    """JSON that the endpoint sent, with half characters replaced so that UTF-8 can hold it.

    Raises:
        ModelError: it is none, or names a key twice.
    """
    try:
        # Escapes can spell half a character, which no file could hold.
        return STRICT_JSON.decode(_whole(compact_json(STRICT_JSON.decode(text))))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{what} is not JSON; is this an OpenAI-compatible endpoint?") from error


def _whole(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def check_completion(answer: Any) -> None:
    """Whether a turn can be read off an answer.

    Raises:
        ModelError: it is no chat completion.
    """
    _checked(_Completion, answer, "the answer is no chat completion")


def tokens_of(answer: Mapping[str, Any]) -> Tokens | None:
    """What the answer's `usage` says; None where it says nothing that can be believed."""
    try:
        usage = _Usage.model_validate(answer.get("usage"))
    except ValidationError:
        return None
    return Tokens(usage.prompt_tokens, usage.completion_tokens)


def turn_of(answer: Any, first_id: int) -> Turn:
    """The turn a completion holds; calls without an id are numbered from `first_id`.

    Raises:
        ModelError: it is no chat completion.
    """
    found = _checked(_Completion, answer, "the answer is no chat completion")
    choice = found.choices[0]
    thought, text = split_thinking(_text(choice.message.content))
    calls, problems = _calls(choice.message.tool_calls, first_id)
    cut = choice.finish_reason == "length"
    if cut:
        problems.append(CUT_OFF)
    reasoning = choice.message.reasoning or choice.message.reasoning_content or thought
    tokens = tokens_of(answer)
    usage = None if tokens is None else Usage(tokens.input, tokens.output)
    return Turn(text.strip(), tuple(calls), reasoning.strip(), tuple(problems), usage, cut)


def _text(content: str | list[Any] | None) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content or ""


def _calls(given: Any, first_id: int) -> tuple[list[ToolCall], list[str]]:
    if given is None:
        return [], []
    if not isinstance(given, list):
        return [], [call_problem('"tool_calls" is not a list', str(given))]
    calls: list[ToolCall] = []
    problems: list[str] = []
    for entry in given[:MAX_CALLS]:
        found = _call(entry, f"call_{first_id + len(calls)}")
        if isinstance(found, str):
            problems.append(found)
        else:
            calls.append(found)
    if len(given) > MAX_CALLS:
        problems.append(call_problem(f"only {MAX_CALLS} calls are read in one turn", ""))
    return calls, problems


def _call(entry: Any, spare_id: str) -> ToolCall | str:
    """One call, or why it is none."""
    function = entry.get("function") if isinstance(entry, dict) else None
    if not isinstance(function, dict):
        return call_problem('it has no "function"', str(entry))
    name, text = function.get("name"), function.get("arguments") or "{}"
    if not isinstance(name, str) or not name:
        return call_problem('"name" must be the name of a tool', str(name))
    if not isinstance(text, str):
        return call_problem('"arguments" must be the text of a JSON object', str(text))
    try:
        arguments = STRICT_JSON.decode(text)
        compact_json(arguments).encode()  # infinities and half characters
    except (ValueError, RecursionError):
        return call_problem('"arguments" are malformed JSON', text)
    if not isinstance(arguments, dict):
        return call_problem('"arguments" must be a JSON object', text)
    given = entry.get("id")
    return ToolCall(given if isinstance(given, str) and given else spare_id, name, arguments)


async def chunks_of(lines: AsyncIterable[str]) -> AsyncGenerator[Any, None]:
    """The chunks of a streamed completion, up to the mark of its end.

    Raises:
        ModelError: a line holds no JSON.
    """
    async for line in lines:
        name, _, data = line.partition(":")
        if name != "data":
            continue
        if data.strip() == "[DONE]":
            return
        yield read_json(data, "a chunk of the stream")


def error_in(chunk: Any) -> Any:
    """What a server says went wrong in the middle of its stream; None where nothing did."""
    return (chunk.get("error") or None) if isinstance(chunk, dict) else None


@dataclass(slots=True)
class StreamedAnswer:
    """Puts streamed chunks together into the completion they are pieces of."""

    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish: str | None = None
    usage: Any = None

    def add(self, chunk: Any) -> None:
        """Take one chunk.

        Raises:
            ModelError: it is none.
        """
        found = _checked(_Chunk, chunk, "the stream holds what is no chunk")
        self.usage = found.usage or self.usage
        for piece in found.choices[:1]:
            delta = piece.delta
            self.content.append(delta.content or "")
            self.reasoning.append(delta.reasoning or delta.reasoning_content or "")
            for part in delta.tool_calls or ():
                self._add_call(part)
            self.finish = piece.finish_reason or self.finish

    def _add_call(self, part: _CallPart) -> None:
        call = self.calls.setdefault(
            part.index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
        )
        call["id"] = part.id or call["id"]
        for key in ("name", "arguments"):
            value = part.function.get(key)
            if isinstance(value, str):
                call["function"][key] += value

    def completion(self) -> dict[str, Any]:
        """The whole."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.content)}
        if any(self.reasoning):
            message["reasoning"] = "".join(self.reasoning)
        if self.calls:
            message["tool_calls"] = [self.calls[index] for index in sorted(self.calls)]
        choice = {"index": 0, "message": message, "finish_reason": self.finish}
        return {"object": "chat.completion", "choices": [choice], "usage": self.usage}


def _checked(schema: type[Model], value: Any, what: str) -> Model:
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        place = ".".join(str(part) for part in error.errors(include_url=False)[0]["loc"]) or "top"
        raise ModelError(f"{what} (at {place[:80]})") from error
