"""A model endpoint that stalls on purpose, to watch what an agent's loop does about it.

It searches and reads a schema through the agent's own discovery tools where there are any, then
stalls. It never calls another tool, so nothing the agent can reach is changed; once it was
nudged, it says that it stops.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException

from breadcrumbs import openai_wire as wire
from breadcrumbs.asking import Parameter, is_given, parameters_of
from breadcrumbs.data_gen.questions import plain_question
from breadcrumbs.data_gen.stalls import StallKind, Subject, stall_text
from breadcrumbs.eval.audit_discovery import (
    Stage,
    arguments_for,
    schemas_in,
    stage_of,
    tool_names_in,
)
from breadcrumbs.gateway.identity import SystemIds
from breadcrumbs.http_border import guard
from breadcrumbs.messages import Message, ToolCall, compact_json
from breadcrumbs.turns import Turn

MODEL = "breadcrumbs-audit"
QUESTION = "true_question"
FOREVER = "stall_forever"
STALLS: tuple[StallKind, ...] = get_args(StallKind)
RUNS = (*STALLS, FOREVER, QUESTION)
MAX_REQUESTS = 40
"""An agent that asks this often in one run does not end; further requests are refused."""
MAX_BODY_BYTES = 16 * 1024 * 1024
GIVEN_UP = "I stop here: nothing was done."
_FINISHERS = re.compile(r"^(?:final_answer|final_result|finish|attempt_completion)$", re.I)


@dataclass(slots=True)
class Run:
    """What happened in one run; filled in as requests arrive."""

    name: str
    requests: int = 0
    tools_offered: int = 0
    said: str = ""
    """The stall or the question, once it was said."""
    retries: int = 0
    """Requests with tools that came after it."""
    unjudged: str = ""
    """Why the run proves nothing, where it does not."""
    finisher: str = ""
    """The tool by which the agent's model is to speak to the user, where it has one."""
    asked: set[Stage] = field(default_factory=set)
    """Discovery steps taken; some agents do not show a model the calls it made."""
    last: list[Message] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Disclosed:
    tool: str
    schema: dict[str, Any]


class AuditModel:
    """Answers requests for the current run; `begin` starts the next one."""

    def __init__(self, *, by_conversation: bool) -> None:
        """`by_conversation`: a fresh conversation after a stall begins the next run itself."""
        self.runs = [Run(RUNS[0])]
        self.strays: set[str] = set()
        self.heard_at = time.monotonic()
        self._by_conversation = by_conversation

    @property
    def run(self) -> Run:
        """The run that requests belong to now."""
        return self.runs[-1]

    def begin(self, name: str) -> Run:
        """Start a run; the first request begins the first by itself."""
        if self.run.requests or self.run.name != name:
            self.runs.append(Run(name))
        return self.run

    def answer(self, messages: list[Message], tools: Sequence[Mapping[str, Any]]) -> Turn:
        """The model's turn.

        Raises:
            RequestError: the run has had `MAX_REQUESTS` requests.
        """
        self.heard_at = time.monotonic()
        if self._by_conversation and self._is_fresh(messages) and len(self.runs) < len(RUNS):
            self.begin(RUNS[len(self.runs)])
        run = self.run
        run.requests += 1
        run.last = messages
        if run.requests > MAX_REQUESTS:
            raise wire.RequestError(f"the audit's run {run.name} is over: {MAX_REQUESTS} requests")
        functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
        if not functions:  # a title, a summary: not the loop
            return Turn(GIVEN_UP)
        run.tools_offered = max(run.tools_offered, len(functions))
        names = [str(function.get("name")) for function in functions]
        run.finisher = next((name for name in names if _FINISHERS.match(name)), "")
        if run.said:
            run.retries += 1
            return self._after_nudge(run, messages, functions)
        call = _discovery_call(run, messages, functions)
        return Turn("", (call,)) if call else self._stalled(run, messages, functions)

    def _is_fresh(self, messages: list[Message]) -> bool:
        said = any(message.role == "assistant" for message in messages)
        return bool(self.run.said) and not said and messages != self.run.last

    def _after_nudge(
        self, run: Run, messages: list[Message], functions: Sequence[Mapping[str, Any]]
    ) -> Turn:
        if run.name == FOREVER:
            return self._stalled(run, messages, functions)
        for function in functions:
            if run.finisher and function.get("name") == run.finisher:
                arguments = arguments_for(_parameters(function), GIVEN_UP, [GIVEN_UP])
                return Turn("", (_call(function, arguments),))
        return Turn(GIVEN_UP)

    def _stalled(
        self, run: Run, messages: list[Message], functions: Sequence[Mapping[str, Any]]
    ) -> Turn:
        said = next((m.content for m in messages if m.role == "user"), "")
        found = _disclosed(messages, functions)
        parameters = parameters_of(found.schema)
        given = [p.name for p in parameters if is_given(p, said, parameters)]
        if run.name == QUESTION:
            text = self._question(run, found, parameters, given)
        else:
            kind: StallKind = STALLS[run.retries % len(STALLS)]
            kind = next((stall for stall in STALLS if stall == run.name), kind)
            text = _stall(kind, found, parameters, given, run.retries)
            known = given or [p.name for p in parameters if p.has_default]
            if kind == "inferable_value_ask" and run.name == kind and not known:
                run.unjudged = "the request gives no value and no parameter has a default"
        run.said = run.said or text
        return Turn(text)

    def _question(
        self, run: Run, found: _Disclosed, parameters: Sequence[Parameter], given: Sequence[str]
    ) -> str:
        required = [p for p in parameters if p.required and not p.has_default]
        missing = [p.name for p in required if p.name not in given]
        if not missing:
            run.unjudged = f"no required value of {found.tool} is missing from the request"
        names = missing or [p.name for p in parameters] or ["value"]
        return plain_question(names[0])


def create_app(model: AuditModel) -> FastAPI:
    """The endpoint: `/v1/models` and `/v1/chat/completions`, streaming or not."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    card = {"id": MODEL, "object": "model", "created": 0, "owned_by": "breadcrumbs"}

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [card]}

    @app.get("/v1/models/{name}")
    async def one_model(name: str) -> dict[str, Any]:
        return {**card, "id": name}

    @app.post("/v1/chat/completions")
    async def complete(body: wire.ChatRequest) -> Response:
        head = {"id": SystemIds().new("chatcmpl"), "created": int(time.time()), "model": body.model}
        turn = model.answer(wire.messages_in(body), body.tools or [])
        if body.stream:
            return EventSourceResponse(_frames(head, turn), sep="\n")
        finish = "tool_calls" if turn.calls else "stop"
        whole = wire.completion(head, turn.text, finish, calls=turn.calls, usage=_USAGE)
        return JSONResponse(whole)

    @app.api_route("/v1/{path:path}", methods=["GET", "POST"])
    async def stray(path: str) -> None:
        model.strays.add(f"/v1/{path}")
        raise HTTPException(404, f"/v1/{path} is not served; use /v1/chat/completions")

    guard(app, MAX_BODY_BYTES)
    return app


_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


async def _frames(head: Mapping[str, Any], turn: Turn) -> AsyncIterator[ServerSentEvent]:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in re.findall(r"\S+\s*", turn.text)]
    if turn.calls:
        deltas.append({"tool_calls": wire.calls_out(turn.calls, indexed=True)})
    chunks = [wire.chunk(head, delta) for delta in deltas]
    chunks.append(wire.chunk(head, {}, "tool_calls" if turn.calls else "stop"))
    chunks.append({**chunks[-1], "choices": [], "usage": _USAGE})
    for chunk in chunks:
        yield ServerSentEvent(data=compact_json(chunk))
    yield ServerSentEvent(data="[DONE]")


def _discovery_call(
    run: Run, messages: Sequence[Message], functions: Sequence[Mapping[str, Any]]
) -> ToolCall | None:
    """The next discovery step that was not taken yet: the search, then the schema."""
    stages: tuple[Stage, ...] = ("search", "schema")
    for stage in stages:
        if stage in run.asked:
            continue
        for function in functions:
            if stage_of(str(function.get("name"))) != stage:
                continue
            run.asked.add(stage)
            names = [name for value in _answers(messages) for name in tool_names_in(value)]
            query = next((m.content for m in messages if m.role == "user"), "")[:200]
            return _call(function, arguments_for(_parameters(function), query, names[:1]))
    return None


def _call(function: Mapping[str, Any], arguments: Mapping[str, Any]) -> ToolCall:
    return ToolCall(SystemIds().new("call"), str(function["name"]), arguments)


def _answers(messages: Sequence[Message]) -> list[Any]:
    """The tools' answers that hold a JSON object, the newest first.

    Some agents pass them as user messages with words around, so those are looked into too.
    """
    found = []
    for message in reversed(messages):
        if message.role not in ("tool", "user"):
            continue
        start = message.content.find("{")
        try:
            found.append(json.JSONDecoder().raw_decode(message.content, max(start, 0))[0])
        except (ValueError, RecursionError):
            continue
    return found


def _parameters(function: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = function.get("parameters")
    return schema if isinstance(schema, Mapping) else {}


def _disclosed(messages: Sequence[Message], functions: Sequence[Mapping[str, Any]]) -> _Disclosed:
    """What the stall is about: the schema read last, else the first tool offered that needs one."""
    for value in _answers(messages):
        for name, schema in schemas_in(value).items():
            return _Disclosed(name, _plain(schema))
    rest = [f for f in functions if stage_of(str(f.get("name"))) is None]
    usable = [f for f in rest if not _FINISHERS.match(str(f.get("name")))] or list(functions)
    chosen = next((f for f in usable if _parameters(f).get("required")), usable[0])
    return _Disclosed(str(chosen.get("name")), _plain(_parameters(chosen)))


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    return {
        "type": "object",
        "properties": {n: s if isinstance(s, dict) else {} for n, s in known.items()},
        "required": [name for name in schema.get("required") or () if name in known],
    }


def _stall(
    kind: StallKind,
    found: _Disclosed,
    parameters: Sequence[Parameter],
    given: Sequence[str],
    seed: int,
) -> str:
    """The scripted staller's text about what was disclosed; same input, same text."""
    if kind == "inferable_value_ask" and not parameters:
        return plain_question("value")
    subject = Subject(found.tool, found.schema, {name: "..." for name in given})
    return stall_text(kind, subject, random.Random(f"{kind} {seed}"))
