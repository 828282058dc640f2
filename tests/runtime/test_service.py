import json
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from breadcrumbs.callers import caller_of
from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.messages import Message
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.serve import ServeOptions
from breadcrumbs.serve import serve as serve_until_stopped
from breadcrumbs.turns import Turn

KEY = "k-1"
TOOL = {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}}


class Recorder:
    """A scripted policy that keeps what it was shown and can be slow or fail."""

    def __init__(self, *turns: Turn, delay_s: float = 0.0, error: str = "") -> None:
        self.script = ScriptedPolicy(turns)
        self.seen: list[list[Message]] = []
        self.tools: list[list[Mapping[str, Any]]] = []
        self.delay_s = delay_s
        self.error = error
        self.writing = 0
        self.most = 0

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        import asyncio

        self.seen.append(list(messages))
        self.tools.append(list(tools))
        self.writing += 1
        self.most = max(self.most, self.writing)
        try:
            await asyncio.sleep(self.delay_s)
            if self.error:
                yield "half"
                raise ModelError(self.error)
            async for item in self.script.stream(messages, tools):
                yield item
        finally:
            self.writing -= 1


Start = Callable[..., str]


@contextmanager
def client(url: str, key: str = "none") -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=20) as opened:
        yield opened


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def test_the_loop_runs_the_gateway_and_ends_with_a_held_write(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    policy = Recorder(*script.prelude, Turn(script.stall), script.execute, Turn("It waits."))
    before = gateway.world.state_hash()
    with client(start(policy)) as api:
        answer = api.chat.completions.create(model="small-loop", messages=user(script.request))
        choice = answer.choices[0]
        extra = answer.model_extra or {}
        (card,) = extra["x_pending_approvals"]
        link = f"{str(api.base_url).removesuffix('/v1/')}/approve/{card['approval_id']}"
        said = f"It waits.\n\ncreate_ticket (write) waits for approval: {link}"
        assert (choice.message.content, choice.finish_reason) == (said, "stop")
        assert choice.message.tool_calls is None
        assert card["arguments"]["title"] == "Lift is stuck"
        assert extra["x_done"] == "answered"
        thoughts = choice.message.model_extra or {}
        assert thoughts["reasoning"] == thoughts["reasoning_content"] == script.stall
        kinds = [event["type"] for event in extra["x_events"]]
        assert kinds == [
            *["tool_call", "tool_result"] * 2,
            "nudge",
            "tool_call",
            "approval",
            "tool_result",
        ]
        assert policy.seen[0][0].role == "system"
        assert gateway.world.state_hash() == before

        listed = httpx.get(f"{api.base_url}approvals").json()["data"]
        assert [c["approval_id"] for c in listed] == [card["approval_id"]]
        url = f"{api.base_url}approvals/{card['approval_id']}"
        assert httpx.get(url).json()["state"] == "pending"
        assert httpx.post(url, json={"approve": True}).json()["status"] == "done"
        assert gateway.world.state_hash() != before
        after = gateway.world.state_hash()
        assert httpx.post(url, json={"approve": True}).json()["status"] == "done"
        assert gateway.world.state_hash() == after  # once
        assert httpx.get(f"{api.base_url}approvals").json()["data"] == []


def test_a_denial_runs_nothing(start: Start, script: Any, gateway: SimulatedGateway) -> None:
    before = gateway.world.state_hash()
    url = start(Recorder(*script.prelude, script.execute, Turn("It waits.")))
    with client(url) as api:
        api.chat.completions.create(model="small-loop", messages=user(script.request))
    (card,) = httpx.get(f"{url}/v1/approvals").json()["data"]
    decision = {"approve": False, "reason": "not today"}
    answer = httpx.post(f"{url}/v1/approvals/{card['approval_id']}", json=decision).json()
    assert (answer["status"], answer["reason"]) == ("denied", "not today")
    assert gateway.world.state_hash() == before


def test_what_a_terminal_approves_is_run_by_the_service(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    policy = Recorder(*script.prelude, script.execute, Turn("It waits."))
    before = gateway.world.state_hash()
    with client(start(policy)) as api:
        api.chat.completions.create(model="small-loop", messages=user(script.request))
        journal = gateway.gateway.journal
        (card,) = journal.pending()
        assert journal.decide(card.id, approve=True, by="ann")
        deadline = time.monotonic() + 20
        while journal.rows()[0].state != "done":
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert gateway.world.state_hash() != before


def test_streaming_the_loop_hides_the_stall_and_shows_it_as_reasoning(
    start: Start, script: Any
) -> None:
    policy = Recorder(*script.prelude, Turn(script.stall), script.execute, Turn("It waits."))
    with client(start(policy)) as api:
        chunks = list(
            api.chat.completions.create(
                model="small-loop", messages=user(script.request), stream=True
            )
        )
    deltas = [chunk.choices[0].delta for chunk in chunks]
    assert deltas[0].role == "assistant"
    said = "".join(delta.content or "" for delta in deltas)
    assert said.startswith("It waits.\n\ncreate_ticket (write) waits for approval: http")
    thoughts = [(delta.model_extra or {}).get("reasoning") for delta in deltas]
    assert [thought for thought in thoughts if thought] == [script.stall]
    assert all(
        (d.model_extra or {}).get("reasoning") == (d.model_extra or {}).get("reasoning_content")
        for d in deltas
    )
    events = [(chunk.model_extra or {}).get("x_event") for chunk in chunks]
    kinds = [event["type"] for event in events if event]
    assert "nudge" in kinds
    assert "approval" in kinds
    assert chunks[-1].choices[0].finish_reason == "stop"
    assert (chunks[-1].model_extra or {})["x_pending_approvals"][0]["tool"] == "create_ticket"


def test_the_bare_model_passes_tools_and_calls_through(start: Start) -> None:
    turn = Turn("Looking.", (), thinking="hm")
    call = Turn("", (script_call("get_time", {"zone": "Ü"}), script_call("get_time", {})))
    policy = Recorder(call, turn)
    with client(start(policy)) as api:
        answer = api.chat.completions.create(
            model="small",
            messages=user("What time is it?"),
            tools=[TOOL],  # type: ignore[list-item]
        )
        choice = answer.choices[0]
        assert choice.finish_reason == "tool_calls"
        calls = choice.message.tool_calls or []
        assert [json.loads(c.function.arguments) for c in calls] == [{"zone": "Ü"}, {}]  # type: ignore[union-attr]
        assert policy.tools[0] == [TOOL]
        assert [m.role for m in policy.seen[0]] == ["user"]
        back: list[Any] = [
            *user("What time is it?"),
            choice.message.model_dump(exclude_none=True),
            *({"role": "tool", "tool_call_id": c.id, "content": "12:00"} for c in calls),
        ]
        answer = api.chat.completions.create(
            model="small",
            messages=back,
            tools=[TOOL],
            tool_choice="none",  # type: ignore[list-item]
        )
        assert answer.choices[0].message.content == "Looking."
        assert (answer.choices[0].message.model_extra or {})["reasoning"] == "hm"
        assert policy.tools[1] == []
        assert dict(policy.seen[1][1].tool_calls[0].arguments) == {"zone": "Ü"}
        assert [m.role for m in policy.seen[1]] == ["user", "assistant", "tool", "tool"]


def script_call(name: str, arguments: dict[str, Any]) -> Any:
    from breadcrumbs.messages import ToolCall

    return ToolCall(f"c{len(str(arguments))}", name, arguments)


def test_streamed_calls_are_put_together_by_the_client(start: Start) -> None:
    call = Turn("Now. ", (script_call("get_time", {"zone": "UTC"}), script_call("get_time", {})))
    with (
        client(start(Recorder(call))) as api,
        api.chat.completions.stream(
            model="small",
            messages=user("time?"),
            tools=[TOOL],  # type: ignore[list-item]
        ) as streamed,
    ):
        final = streamed.get_final_completion()
    choice = final.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Now. "
    calls = choice.message.tool_calls or []
    assert [c.function.arguments for c in calls] == ['{"zone":"UTC"}', "{}"]


def test_content_parts_and_developer_messages_are_read(start: Start) -> None:
    policy = Recorder(Turn("Hi."))
    messages: list[Any] = [
        {"role": "developer", "content": "Be short."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}],
        },
    ]
    with client(start(policy)) as api:
        api.chat.completions.create(model="small", messages=messages)
    assert policy.seen[0] == [Message("system", "Be short."), Message("user", "Hello")]


def test_a_raw_stream_is_chunks_pings_and_done_and_never_ids(start: Start) -> None:
    url = start(Recorder(Turn("Hi."), delay_s=0.5), ping_s=0.1)
    body = {"model": "small", "messages": user("hi"), "stream": True}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert ": ping" in lines
    for line in lines[:-1]:
        if line.startswith(":"):
            continue
        assert line.startswith("data: {")
        assert json.loads(line.removeprefix("data: "))["object"] == "chat.completion.chunk"


def test_pings_do_not_disturb_the_client(start: Start) -> None:
    with client(start(Recorder(Turn("Hi."), delay_s=0.4), ping_s=0.05)) as api:
        chunks = list(api.chat.completions.create(model="small", messages=user("hi"), stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hi."


@pytest.mark.parametrize("model", ["small", "small-loop"])
def test_a_model_error_is_an_error_in_both_forms(model: str, start: Start) -> None:
    with client(start(Recorder(error="the model is gone"))) as api:
        with pytest.raises(openai.InternalServerError, match="the model is gone"):
            api.chat.completions.create(model=model, messages=user("hi"))
        with pytest.raises(openai.APIError, match="the model is gone"):
            list(api.chat.completions.create(model=model, messages=user("hi"), stream=True))


@pytest.mark.parametrize("model", ["small", "small-loop"])
def test_a_fault_that_nobody_foresaw_never_ends_a_stream_in_silence(
    model: str, start: Start
) -> None:
    class Broken:
        async def stream(
            self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
        ) -> AsyncGenerator[str | Turn, None]:
            yield "half"
            raise RuntimeError("secret/path")

    with client(start(Broken())) as api:
        with pytest.raises(openai.InternalServerError, match="its log says why"):
            api.chat.completions.create(model=model, messages=user("hi"))
        with pytest.raises(openai.APIError, match="its log says why"):
            list(api.chat.completions.create(model=model, messages=user("hi"), stream=True))


def test_turns_are_written_one_at_a_time(start: Start) -> None:
    policy = Recorder(*[Turn(str(n)) for n in range(4)], delay_s=0.05)
    with client(start(policy)) as api:

        def ask() -> None:
            api.chat.completions.create(model="small", messages=user("hi"))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(policy.seen) == 4
    assert policy.most == 1


def test_a_client_that_leaves_frees_the_model(start: Start) -> None:
    policy = Recorder(Turn("never read"), Turn("Hi."), delay_s=0.3)
    url = start(policy)
    body = {"model": "small", "messages": user("hi"), "stream": True}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
        next(response.iter_lines())
    deadline = time.monotonic() + 5
    while policy.writing and time.monotonic() < deadline:
        time.sleep(0.01)
    assert policy.writing == 0
    with client(url) as api:
        answer = api.chat.completions.create(model="small", messages=user("hi"))
    assert answer.choices[0].message.content in ("never read", "Hi.")


def test_models_are_listed(start: Start) -> None:
    with client(start(Recorder())) as api:
        assert [model.id for model in api.models.list()] == ["small", "small-loop"]
        assert api.models.retrieve("small-loop").id == "small-loop"
        with pytest.raises(openai.NotFoundError, match="no model 'large'"):
            api.models.retrieve("large")


@pytest.mark.parametrize(
    ("change", "message", "param"),
    [
        ({"model": "large"}, "no model 'large'", None),
        ({"messages": []}, "messages", "messages"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role", "messages.0.role"),
        ({"n": 2}, "only n=1", "n"),
        ({"tool_choice": "required"}, "auto or none", "tool_choice"),
        ({"tools": [{"type": "function"}]}, "function", "tools.0"),
        ({"model": "small-loop", "tools": [TOOL]}, "brings its own tools", "tools"),
        (
            {"messages": [{"role": "tool", "content": "x"}]},
            "tool_call_id",
            "messages.0.tool_call_id",
        ),
        (
            {"model": "small-loop", "messages": [{"role": "assistant", "content": "x"}]},
            "last",
            "messages",
        ),
        (
            {
                "messages": [
                    {
                        "role": "assistant",
                        "tool_calls": [
                            {"id": "c", "function": {"name": "f", "arguments": '{"a": NaN}'}}
                        ],
                    }
                ]
            },
            "JSON object",
            "messages.0.tool_calls.0",
        ),
    ],
)
def test_bad_requests_are_told_in_openais_shape(
    change: dict[str, Any], message: str, param: str | None, start: Start
) -> None:
    policy = Recorder(Turn("unused"))
    body = {"model": "small", "messages": user("hi"), **change}
    answer = httpx.post(f"{start(policy)}/v1/chat/completions", json=body)
    assert answer.status_code in (400, 404)
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert message in error["message"]
    assert error["param"] == param
    assert policy.seen == []


def test_bodies_are_bounded_declared_or_not(start: Start) -> None:
    url = f"{start(Recorder(Turn('x')), max_body_bytes=2000)}/v1/chat/completions"
    big = json.dumps({"model": "small", "messages": user("x" * 5000)}).encode()
    headers = {"content-type": "application/json"}

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(big), 500):
            yield big[start : start + 500]

    for content in (big, chunks()):
        answer = httpx.post(url, content=content, headers=headers)
        assert answer.status_code == 413
        assert "2000 bytes" in answer.json()["error"]["message"]
    small = json.dumps({"model": "small", "messages": user("x")}).encode()
    assert httpx.post(url, content=small, headers=headers).status_code == 200
    deep = b"[" * 1500
    answer = httpx.post(url, content=deep, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_with_keys_every_route_needs_one(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    policy = Recorder(*script.prelude, script.execute, Turn("It waits."))
    url = start(policy, api_keys=("other", KEY))
    with client(url, KEY) as api:
        api.chat.completions.create(model="small-loop", messages=user(script.request))
    (card,) = gateway.gateway.journal.pending()
    routes = [
        ("GET", "/v1/models", None),
        ("GET", "/v1/models/small", None),
        ("POST", "/v1/chat/completions", {"model": "small", "messages": user("hi")}),
        ("GET", "/v1/approvals", None),
        ("GET", f"/v1/approvals/{card.id}", None),
        ("POST", f"/v1/approvals/{card.id}", {"approve": True}),
    ]
    for authorization in (None, "Bearer wrong", f"Basic {KEY}", "Bearer", "Bearer kéy"):
        headers = {} if authorization is None else {"authorization": authorization.encode()}
        for method, path, body in routes:
            answer = httpx.request(method, url + path, json=body, headers=headers)  # type: ignore[arg-type]
            assert answer.status_code == 401
            assert answer.json()["error"]["type"] == "authentication_error"
    with client(url, "wrong") as api, pytest.raises(openai.AuthenticationError):
        api.models.list()
    assert [c.id for c in gateway.gateway.journal.pending()] == [card.id]
    headers = {"authorization": "Bearer other"}  # a caller, but not the one whose write it is
    place = f"{url}/v1/approvals/{card.id}"
    assert httpx.get(f"{url}/v1/approvals", headers=headers).json()["data"] == []
    assert httpx.get(place, headers=headers).status_code == 404
    assert httpx.post(place, json={"approve": True}, headers=headers).status_code == 404
    headers = {"authorization": f"Bearer {KEY}"}
    listed = httpx.get(f"{url}/v1/approvals", headers=headers).json()["data"]
    assert [entry["approval_id"] for entry in listed] == [card.id]
    answer = httpx.post(f"{url}/v1/approvals/{card.id}", json={"approve": True}, headers=headers)
    assert answer.json()["status"] == "done"
    decided = gateway.gateway.journal.get(card.id)
    assert decided is not None
    caller = caller_of(f"Bearer {KEY}", (KEY,))
    assert caller is not None
    assert (decided.principal, decided.decided_by) == (caller.name, caller.name)


def test_without_keys_only_this_machine_is_let_in(start: Start) -> None:
    url = start(Recorder())
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        answer = httpx.get(f"{url}/v1/approvals", headers=headers)
        assert answer.status_code == 403
        assert "is not this machine" in answer.json()["error"]["message"]
    for headers in (
        {"host": "localhost:1"},
        {"host": "[::1]:80"},
        {"origin": "http://127.0.0.1:9"},
    ):
        assert httpx.get(f"{url}/v1/approvals", headers=headers).status_code == 200


def test_unknown_approvals_and_paths_are_not_found(start: Start) -> None:
    url = start(Recorder())
    for method, path in (
        ("GET", "/v1/approvals/appr_x"),
        ("POST", "/v1/approvals/appr_x"),
        ("GET", "/docs"),
    ):
        body = {"approve": True} if method == "POST" else None
        answer = httpx.request(method, url + path, json=body)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"] == "not_found_error"
    assert httpx.post(f"{url}/v1/approvals/appr_x", json={"approve": "perhaps"}).status_code == 400


def test_another_host_without_keys_is_refused_before_anything_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BREADCRUMBS_API_KEYS", raising=False)
    with pytest.raises(ConfigError, match="BREADCRUMBS_API_KEYS"):
        serve_until_stopped(
            ServeOptions("none", journal=str(tmp_path / "j.sqlite"), host="0.0.0.0", port=0)
        )
    assert list(tmp_path.iterdir()) == []


def test_the_service_reaches_no_scripted_approver_and_no_model() -> None:
    code = (
        "import sys, breadcrumbs.service, breadcrumbs.chat\n"
        "found = [m for m in sys.modules if m.startswith(('breadcrumbs.data_gen', 'torch'))]\n"
        "assert not found, found\n"
        "everything = vars(breadcrumbs.service) | vars(breadcrumbs.chat)\n"
        "assert not any('Scripted' in name for name in everything)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    runtime = Path(__file__).resolve().parents[2] / "runtime"
    for name in (
        "service",
        "serve",
        "http_border",
        "openai_wire",
        "completions",
        "responses_wire",
        "response_routes",
        "runs",
        "run_routes",
        "approval_routes",
        "page_routes",
        "chat",
        "loop",
        "policies",
    ):
        source = (runtime / f"{name}.py").read_text(encoding="utf-8")
        assert "data_gen" not in source
        assert "Approver(" not in source.replace("class Approver(Protocol)", "")
