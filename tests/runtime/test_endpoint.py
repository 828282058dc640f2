"""A real HTTP server plays the endpoint: what is tried again, what ends the run, what is read."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from breadcrumbs.endpoint import MAX_ANSWER_BYTES, EndpointPolicy, open_endpoint
from breadcrumbs.endpoint_config import KEY_VARIABLE, EndpointConfig, endpoint_key
from breadcrumbs.endpoint_wire import turn_of
from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.turns import Turn

ASKED = [Message("system", "s"), Message("user", "u")]
KEY = "a-key-that-nobody-sees"


def said(text: str, **message: Any) -> dict[str, Any]:
    body = {"role": "assistant", "content": text, **message}
    return {"choices": [{"index": 0, "message": body, "finish_reason": "stop"}]}


def called(arguments: Any, name: str = "execute_tool") -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return said("", tool_calls=[call])


class Server:
    """Answers in order, the last one for ever; keeps what was asked."""

    def __init__(self, *answers: Response | Callable[[], Any] | dict[str, Any]) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.busy = self.busiest = 0
        self.app = Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "POST"])])

    async def answer(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        self.asked.append(await request.json())
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if callable(found) and not isinstance(found, Response):
                found = await found()
        finally:
            self.busy -= 1
        return found if isinstance(found, Response) else JSONResponse(found)


@pytest.fixture
def ask(serving: Any, tmp_path: Path) -> Any:
    """Asks a server once; gives the turn and the pauses between tries."""

    def once(server: Server, messages: list[Message] = ASKED, **settings: Any) -> Any:
        async def run(url: str) -> tuple[Turn, list[float]]:
            pauses: list[float] = []

            async def sleep(seconds: float) -> None:
                pauses.append(seconds)

            config = EndpointConfig(base_url=f"{url}/v1", model="yard", **settings)
            async with open_endpoint(config, tmp_path / "answers", sleep=sleep) as endpoint:
                items = [i async for i in EndpointPolicy(endpoint, 1).stream(messages, META_TOOLS)]
            turn = items[-1]
            assert isinstance(turn, Turn)
            assert items[:-1] == ([turn.text] if turn.text else [])
            return turn, pauses

        with serving(server.app) as url:
            return asyncio.run(run(url))

    return once


def test_a_turn_is_asked_for_with_tools_and_kept_on_disk(ask: Any, tmp_path: Path) -> None:
    server = Server(called('{"a": 1}'))
    history = [
        *ASKED,
        Message("assistant", "<think>hm</think>\nso", (ToolCall("x", "f", {"k": "ü"}),)),
        Message("tool", "{}", tool_call_id="x"),
    ]
    turn, pauses = ask(server, history, options={"temperature": 0.5})
    assert turn == Turn("", (ToolCall("c1", "execute_tool", {"a": 1}),))
    assert pauses == []
    assert server.paths == ["/v1/chat/completions"]
    body = server.asked[0]
    assert body["messages"][2]["content"] == "so"
    assert body["messages"][2]["tool_calls"][0]["function"]["arguments"] == '{"k":"ü"}'
    assert body["messages"][3] == {"role": "tool", "content": "{}", "tool_call_id": "x"}
    assert [tool["function"]["name"] for tool in body["tools"]][-1] == "execute_tool"
    assert (body["temperature"], body["model"], "stream" in body) == (0.5, "yard", False)
    record = json.loads(next((tmp_path / "answers").rglob("*.json")).read_text())
    assert record["request"] == body
    ask(server, history, options={"temperature": 0.5})
    assert len(server.asked) == 1


@pytest.mark.parametrize("spoil", ["cut", "other answer", "other request"])
def test_a_record_that_does_not_hold_together_is_not_trusted(
    ask: Any, tmp_path: Path, spoil: str
) -> None:
    server = Server(said("one"), said("two"))
    ask(server)
    file = next((tmp_path / "answers").rglob("*.json"))
    text = file.read_text()
    changed = {
        "cut": text[:-20],
        "other answer": text.replace('"content":"one"', '"content":"won"'),
        "other request": text.replace('"content":"u"', '"content":"v"'),
    }[spoil]
    assert changed != text
    file.write_text(changed)
    turn, _ = ask(server)
    assert turn.text == "two"
    assert ask(server)[0].text == "two"
    assert len(server.asked) == 2


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_tried_again_with_growing_pauses(ask: Any, status: int) -> None:
    server = Server(*[PlainTextResponse("busy", status) for _ in range(3)], said("ok"))
    turn, pauses = ask(server)
    assert turn.text == "ok"
    assert len(server.asked) == 4
    for number, pause in enumerate(pauses):
        assert 0.5 * 2**number <= pause <= 2**number


def test_an_error_under_a_good_status_is_tried_again(ask: Any) -> None:
    failed = JSONResponse({"error": {"message": "upstream is busy", "code": 502}})
    assert ask(Server(failed, said("ok")))[0].text == "ok"
    with pytest.raises(ModelError, match="answered with an error: upstream is busy 2 times"):
        ask(Server(failed), [*ASKED, Message("assistant", "x")], tries=2)


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_the_endpoint_says_how_long_to_wait(ask: Any, form: str) -> None:
    later = datetime.now(UTC) + timedelta(seconds=40)
    value = "40" if form == "seconds" else format_datetime(later, usegmt=True)
    server = Server(PlainTextResponse("", 429, {"Retry-After": value}), said("ok"))
    turn, (pause,) = ask(server)
    assert turn.text == "ok"
    assert 30 <= pause <= 45


def test_a_wait_that_is_too_long_ends_the_run(ask: Any) -> None:
    server = Server(PlainTextResponse("", 429, {"Retry-After": "86400"}), said("ok"))
    with pytest.raises(ModelError, match=r"answered 429, and asks to wait 86400 s"):
        ask(server)
    assert len(server.asked) == 1


async def _hang() -> Any:
    await asyncio.sleep(3)
    return said("late")


async def _trickle() -> Any:
    from starlette.responses import StreamingResponse

    async def bytes_for_ever() -> Any:
        for _ in range(60):
            yield b" "
            await asyncio.sleep(0.05)

    return StreamingResponse(bytes_for_ever(), media_type="application/json")


@pytest.mark.parametrize("slow", [_hang, _trickle])
def test_a_request_has_a_time_limit_from_start_to_end(ask: Any, slow: Any) -> None:
    server = Server(slow)
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"gave no answer within 0.2 s 2 times; run the same"):
        ask(server, timeout_s=0.2, tries=2)
    assert time.monotonic() - began < 5
    assert len(server.asked) == 2
    assert ask(Server(slow, said("ok")), timeout_s=0.2)[0].text == "ok"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (PlainTextResponse("x", 500), "answered 500 2 times"),
        (JSONResponse({"error": {"message": "no\x1b[2J such model"}}, 404), r"404: no\\u001b\[2J"),
        (JSONResponse({"error": "who?"}, 401), f"401: who\\?; check the key in {KEY_VARIABLE}"),
        (RedirectResponse("/v2/chat/completions"), "answered 307: redirects are not followed"),
        (PlainTextResponse("<html>"), "is not JSON"),
        (JSONResponse({"choices": []}), "no chat completion .at choices"),
        (JSONResponse([1]), "no chat completion"),
        (PlainTextResponse('{"choices": [], "choices": [1]}'), "is not JSON"),
        (PlainTextResponse("[" * 100_000), "is not JSON"),
        (PlainTextResponse(" " * (MAX_ANSWER_BYTES + 1)), f"over {MAX_ANSWER_BYTES} bytes"),
    ],
)
def test_what_will_not_pass_is_one_line(ask: Any, tmp_path: Path, answer: Any, words: str) -> None:
    server = Server(answer)
    with pytest.raises(ModelError, match=words) as told:
        ask(server, tries=2)
    assert "\n" not in str(told.value)
    assert str(told.value).startswith("http://127.0.0.1")
    assert set(server.paths) == {"/v1/chat/completions"}
    assert not list((tmp_path / "answers").rglob("*.json"))


def test_nobody_listens(tmp_path: Path) -> None:
    async def run() -> None:
        config = EndpointConfig(base_url="http://127.0.0.1:9", model="yard", tries=1)
        async with open_endpoint(config, tmp_path) as endpoint:
            await endpoint.turn(ASKED, [], 1)

    with pytest.raises(ModelError, match="cannot be reached"):
        asyncio.run(run())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"a": ', "malformed JSON"),
        ('{"a": 1, "a": 2}', "malformed JSON"),
        ('{"a": 1e999}', "malformed JSON"),
        ('{"a": "\\ud800"}', "malformed JSON"),
        ("[1]", "must be a JSON object"),
        ({"a": 1}, "must be the text of a JSON object"),
    ],
)
def test_a_broken_call_is_a_problem_of_the_turn(ask: Any, arguments: Any, words: str) -> None:
    turn, _ = ask(Server(called(arguments)))
    assert turn.calls == ()
    (problem,) = turn.problems
    assert words in problem


@pytest.mark.parametrize("calls", ["text", [1], [{}], [{"function": {"name": 3}}], {"a": 1}])
def test_calls_of_no_shape_are_problems_too(calls: Any) -> None:
    turn = turn_of(said("hm", tool_calls=calls), 1)
    assert turn.calls == ()
    assert len(turn.problems) == 1


def test_calls_in_one_turn_are_counted() -> None:
    call = {"function": {"name": "f", "arguments": ""}}
    turn = turn_of(said("", tool_calls=[call] * 40), 5)
    assert [c.id for c in turn.calls[:2]] == ["call_5", "call_6"]
    assert len(turn.calls) == 32
    assert len(turn.problems) == 1


def test_a_turn_that_was_cut_off_says_so() -> None:
    answer = said("I will now")
    assert turn_of(answer, 1).problems == ()
    answer["choices"][0]["finish_reason"] = "length"
    assert "cut off" in turn_of(answer, 1).problems[0]


@pytest.mark.parametrize(
    "message",
    [{"reasoning": "why"}, {"reasoning_content": "why"}, {"content": "<think>why</think>hello"}],
)
def test_reasoning_is_kept_from_the_text(message: dict[str, Any]) -> None:
    turn = turn_of(said("hello", **message), 1)
    assert (turn.text, turn.thinking) == ("hello", "why")


def test_content_in_parts_and_half_characters(ask: Any) -> None:
    parts = [{"type": "text", "text": "a\ud800"}, {"type": "image"}, {"type": "text", "text": "b"}]
    turn, _ = ask(Server(PlainTextResponse(json.dumps(said(parts)))))  # type: ignore[arg-type]
    assert turn.text == "a?b"


def stream(*chunks: Any, end: str = "data: [DONE]\n\n") -> Response:
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    return PlainTextResponse(f": hi\n\n{body}{end}", media_type="text/event-stream")


def delta(finish: str | None = None, **parts: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": parts, "finish_reason": finish}]}


def function(**parts: str) -> list[dict[str, Any]]:
    return [{"index": 0, "function": parts, **({"id": "c7"} if "name" in parts else {})}]


def test_a_streamed_turn_equals_a_whole_one(ask: Any) -> None:
    chunks = [
        delta(role="assistant", content=""),
        delta(reasoning="why"),
        delta(content="so "),
        delta(content="be it"),
        delta(tool_calls=function(name="execute_tool", arguments='{"a"')),
        delta(tool_calls=function(arguments=": 1}")),
        delta("tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    ]
    server = Server(stream(*chunks))
    turn, _ = ask(server, stream=True)
    assert turn == Turn("so be it", (ToolCall("c7", "execute_tool", {"a": 1}),), "why")
    assert server.asked[0]["stream_options"] == {"include_usage": True}
    assert ask(server, stream=True)[0] == turn
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "broken",
    [
        stream(delta(content="half"), end=""),
        stream(delta(content="half"), {"error": {"message": "overloaded"}}),
    ],
)
def test_a_stream_that_breaks_off_is_tried_again(ask: Any, broken: Response) -> None:
    turn, pauses = ask(Server(broken, stream(delta("stop", content="ok"))), stream=True)
    assert turn.text == "ok"
    assert len(pauses) == 1
    with pytest.raises(ModelError, match="broke its stream off"):
        ask(Server(broken), [*ASKED, Message("assistant", "x")], stream=True, tries=1)


def test_a_stream_of_something_else_ends_the_run(ask: Any) -> None:
    with pytest.raises(ModelError, match="no chunk"):
        ask(Server(stream({"choices": [{"delta": 3}]})), stream=True)


def test_no_more_requests_are_under_way_than_allowed(serving: Any, tmp_path: Path) -> None:
    async def slow() -> Any:
        await asyncio.sleep(0.05)
        return said("ok")

    async def run(url: str) -> None:
        config = EndpointConfig(base_url=url, model="yard", concurrency=2)
        async with open_endpoint(config, tmp_path) as endpoint:
            await asyncio.gather(*(endpoint.turn(ASKED, [], seed) for seed in range(8)))

    server = Server(slow)
    with serving(server.app) as url:
        asyncio.run(run(url))
    assert len(server.asked) == 8
    assert server.busiest == 2


def test_the_key_is_sent_and_never_told(
    ask: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    turn, _ = ask(Server(said(f"your key is {KEY}")))
    assert turn.text == "your key is [key]"
    record = next((tmp_path / "answers").rglob("*.json")).read_text()
    assert KEY not in record
    for long in ("", "x" * 190):  # cut out before the message is cut short
        refused = JSONResponse({"error": {"message": f"{long} {KEY} is wrong"}}, 403)
        with pytest.raises(ModelError, match="answered 403") as told:
            ask(Server(refused), [*ASKED, Message("assistant", long)])
        assert KEY[:8] not in str(told.value)
    spelt = "".join(f"\\u{ord(char):04x}" for char in KEY)
    with pytest.raises(ModelError, match="sends the key back") as told:
        ask(Server(called(f'{{"query": "{spelt}"}}')), [*ASKED, Message("assistant", "spelt")])
    assert KEY not in str(told.value)


@pytest.mark.parametrize("key", ["short", "with a space", 'with-a-"quote', "ünicode-key"])
def test_a_key_that_could_not_be_cut_out_is_refused(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    with pytest.raises(ConfigError, match="at least 8 visible") as told:
        endpoint_key()
    assert key not in str(told.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_url": "ftp://host/v1"}, "endpoint.base_url: must be"),
        ({"base_url": "host/v1"}, "endpoint.base_url: must be"),
        ({"base_url": "https://host:99999/v1"}, "endpoint.base_url: must be"),
        ({"base_url": "https://host/v1?key=k"}, "endpoint.base_url: must be"),
        ({"base_url": "https://host/\x01/v1"}, "endpoint.base_url: is no address"),
        ({"options": {"tools": []}}, "endpoint.options: 'tools' is set by the program"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_line(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    async def run() -> None:
        config = EndpointConfig(**{"base_url": "https://host/v1", "model": "yard", **changes})
        async with open_endpoint(config, tmp_path):
            raise AssertionError("opened")

    with pytest.raises(ConfigError, match=words):
        asyncio.run(run())
