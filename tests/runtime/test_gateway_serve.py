"""`breadcrumbs gateway serve` as a process: real clients before it, real servers behind it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.session import ElicitationFnT
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult, InputRequiredResult

from breadcrumbs import gateway_serve
from breadcrumbs.cli import main
from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.identity import SystemClock, SystemIds
from breadcrumbs.gateway.imports.live import LiveServer
from breadcrumbs.gateway.upstream_session import Masker
from breadcrumbs.gateway_serve import _Masked, http_app
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.mcp_server import McpFace

SERVER = str(Path(__file__).parents[1] / "gateway" / "upstream_server.py")
ERAS = ("legacy", "auto")
SECRET = "hunter2hunter2"
LABELS = """
version: 1
domain: desk
tools:
  - name: look
    description: Look at something.
    risk: read
    parameters:
      text: {type: string}
  - name: refuse
    description: Its server says this in other words, so the label's roles alone hold.
    risk: write
    allow: [admin]
    parameters:
      text: {type: string}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of a gateway over a desk and the SDK's own server."""
    servers = {
        "desk": {
            "command": sys.executable,
            "args": [SERVER, "desk", str(tmp_path / "effects")],
            "env": {"TOKEN": SECRET},
        },
        "notes": {"command": sys.executable, "args": [SERVER, "stdio"]},
        "old": {"command": "no-such-command", "disabled": True},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (tmp_path / "labels.yaml").write_text(LABELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BREADCRUMBS_API_KEYS", raising=False)
    monkeypatch.delenv("BREADCRUMBS_JOURNAL", raising=False)
    return tmp_path


def words(*more: str) -> list[str]:
    serve = ["gateway", "serve", "--upstream", "mcp.json", "--catalog", "labels.yaml"]
    return [sys.executable, "-m", "breadcrumbs", *serve, *more]


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def journal(folder: Path) -> ApprovalJournal:
    return ApprovalJournal(folder / "approvals.sqlite", SystemClock(), SystemIds())


def states(folder: Path) -> list[str]:
    opened = journal(folder)
    found = [card.state for card in opened.rows()]
    opened.close()
    return found


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def over_stdio(folder: Path, era: str) -> AsyncIterator[Client]:
    command, *arguments = words()
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    with (folder / "log").open("w") as log:
        async with Client(stdio_client(parameters, errlog=log), mode=era, cache=None) as client:
            yield client


class Served:
    """A gateway over HTTP, with two keys."""

    def __init__(self, folder: Path, *more: str) -> None:
        self.log = folder / "log"
        keys = "key-of-ann,key-of-bob:chat+role=admin"
        env = {**os.environ, "BREADCRUMBS_API_KEYS": keys}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                words("--http", "127.0.0.1:0", *more), stderr=log, stdout=log, env=env
            )
        deadline = time.monotonic() + 60
        while not (found := re.search(r"http://\S+", self.log.read_text())):
            assert time.monotonic() < deadline
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.url = found[0]

    @asynccontextmanager
    async def client(
        self, key: str, era: str, person: ElicitationFnT | None = None
    ) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(self.url, http_client=http)
            asked = Client(transport, mode=era, elicitation_callback=person, cache=None)
            async with asked as client:
                yield client

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    gateway = Served(folder)
    yield gateway
    gateway.end()


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    payload: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
    assert list(payload)[-1] == "next_step"
    return payload


async def execute(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    await call(client, "get_tool_schema", tool_names=[tool])
    return await call(client, "execute_tool", tool_name=tool, arguments=arguments)


async def poll(client: Client, approval: str) -> dict[str, Any]:
    return await call(
        client, "execute_tool", tool_name="write_down", arguments={}, approval_id=approval
    )


@pytest.mark.parametrize("era", ERAS)
async def test_over_stdio_a_write_runs_exactly_once_when_a_person_approves_it_G1(
    folder: Path, era: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with over_stdio(folder, era) as client:
        assert len((await client.list_tools()).tools) == 3
        found = await call(client, "search_tool_catalog", query="write a note down")
        assert "add_note" in [match["name"] for match in found["matches"]]
        assert (await execute(client, "look", text="hill"))["result"] == {"text": "hill"}
        held = await execute(client, "write_down", text="hi")
        approval = held["approval_id"]
        assert (held["status"], effects(folder)) == ("approval_required", [])
        main(["approvals", "approve", approval, "--yes"])  # as its answer says
        assert f"approvals approve {approval} --journal" in held["a_person_decides_by"]
        for _ in range(3):
            assert (await poll(client, approval))["status"] == "done"
        assert effects(folder) == [f"write_down hi {approval}"]
        denied = (await execute(client, "write_down", text="no"))["approval_id"]
        main(["approvals", "deny", denied])
        assert (await poll(client, denied))["status"] == "denied"
        assert (await execute(client, "write_down", text="no"))["status"] == "denied"
        assert len(effects(folder)) == 1
    assert "servers: 2" in (folder / "log").read_text()


@pytest.mark.parametrize("era", ERAS)
async def test_over_http_callers_are_told_apart_G7(folder: Path, era: str, served: Served) -> None:
    async with served.client("key-of-ann", era) as ann, served.client("key-of-bob", era) as bob:
        held = await execute(ann, "write_down", text="hi")
        approval = held["approval_id"]
        assert (await poll(ann, approval))["status"] == "approval_required"
        stolen, unknown = await poll(bob, approval), await poll(bob, "appr_unknown")
        assert stolen["status"] == "not_found"
        assert {**stolen, "reason": ""} == {**unknown, "reason": ""}
        opened = journal(folder)
        assert opened.decide(approval, approve=True, by="ann")
        await until(lambda: states(folder) == ["done"])  # nobody had to ask for it
        opened.close()
        assert (await poll(ann, approval))["status"] == "done"
        assert (await poll(bob, approval))["status"] == "not_found"
    assert effects(folder) == [f"write_down hi {approval}"]


async def test_over_http_a_key_has_its_own_roles(shared: Served) -> None:
    async with (
        shared.client("key-of-ann", "auto") as ann,
        shared.client("key-of-bob", "auto") as bob,
    ):
        for client, closed in ((ann, True), (bob, False)):
            found = await call(client, "search_tool_catalog", query="refuse", limit=20)
            names = [m["name"] for m in found["matches"] if m["name"].endswith("refuse")]
            assert names == ([] if closed else ["desk.refuse"])
            shown = await call(client, "get_tool_schema", tool_names=["desk.refuse"])
            assert shown["unauthorized"] == (["desk.refuse"] if closed else [])
            ran = await execute(client, "desk.refuse", text="x")
            assert ran["status"] == ("unauthorized" if closed else "approval_required")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic key-of-ann"}, 401),
        ({"Authorization": "Bearer key-of-ann", "Host": "evil.example"}, 421),
        ({"Authorization": "Bearer key-of-ann", "Origin": "http://evil.example"}, 403),
        ({"Authorization": "Bearer key-of-ann"}, 200),
    ],
)
def test_who_may_not_call_is_turned_away(
    shared: Served, headers: dict[str, str], status: int
) -> None:
    answer = httpx2.post(
        shared.url,
        headers={"Accept": "application/json, text/event-stream", **headers},
        json={
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        },
    )
    assert answer.status_code == status


async def test_who_opens_all_sessions_it_may_shuts_no_other_caller_out_G7(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BREADCRUMBS_API_KEYS", "key-of-ann,key-of-bob")
    monkeypatch.setattr(gateway_serve, "MAX_SESSIONS", 3)
    gateway = open_gateway(load_catalog())
    app = http_app(McpFace(gateway).server(), gateway, 60, "127.0.0.1")
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}

    async def opens(http: httpx2.AsyncClient, key: str) -> int:
        headers = {
            "Authorization": f"Bearer {key}",
            "Accept": "application/json, text/event-stream",
        }
        return (await http.post("/mcp", headers=headers, json=body)).status_code

    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as http,
    ):
        assert [await opens(http, "key-of-ann") for _ in range(5)] == [200, 200, 200, 503, 503]
        assert await opens(http, "key-of-bob") == 200


def hello_and(*calls: dict[str, Any]) -> list[str]:
    """An old client's greeting, and calls, as JSON texts."""
    who = {"name": "t", "version": "1"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": who}
    first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
    noted = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    asked = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        for number, params in enumerate(calls, start=1)
    ]
    return [json.dumps(message) for message in (first, noted, *asked)]


WRITE_DOWN = {
    "name": "execute_tool",
    "arguments": {"tool_name": "write_down", "arguments": {"text": "a"}},
}
READ_IT = {"name": "get_tool_schema", "arguments": {"tool_names": ["write_down"]}}


def test_g14_a_key_that_stands_twice_is_a_field_error_over_stdio(folder: Path) -> None:
    hello, noted, *calls = hello_and(READ_IT, WRITE_DOWN, WRITE_DOWN)
    calls[-1] = calls[-1].replace('"text": "a"', '"text": "a", "text": "b"')
    with subprocess.Popen(
        words(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(message: str) -> dict[str, Any]:
            process.stdin.write(b"\xff no UTF-8, no JSON\n" + message.encode() + b"\n")
            process.stdin.flush()
            while "result" not in (answer := json.loads(process.stdout.readline())):
                pass
            return answer["result"]

        ask(hello)
        process.stdin.write(noted.encode() + b"\n")
        _, held, twice = [json.loads(ask(each)["content"][0]["text"]) for each in calls]
        process.stdin.close()
    assert held["status"] == "approval_required"
    assert twice["errors"] == [{"field": "text", "problem": "this key stands twice in one object"}]
    assert states(folder) == ["pending"], "the plain call alone"


def test_g14_a_key_that_stands_twice_is_a_field_error_over_http(shared: Served) -> None:
    headers = {
        "Authorization": "Bearer key-of-ann",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    hello, _, twice = hello_and(WRITE_DOWN)
    twice = twice.replace('"tool_name"', '"tool_name": "look", "tool_name"')
    with httpx2.Client(headers=headers, timeout=60) as http:
        session = http.post(shared.url, content=hello).headers["mcp-session-id"]
        answer = http.post(shared.url, content=twice, headers={"Mcp-Session-Id": session})
    (line,) = [text for text in answer.text.splitlines() if text.startswith("data: {")]
    payload = json.loads(json.loads(line[6:])["result"]["content"][0]["text"])
    assert payload["errors"] == [
        {"field": "tool_name", "problem": "this key stands twice in one object"}
    ]


def test_a_large_body_is_refused(shared: Served) -> None:
    headers = {
        "Authorization": "Bearer key-of-ann",
        "Accept": "application/json, text/event-stream",
    }
    answer = httpx2.post(shared.url, headers=headers, json={"x": "y" * 2_000_000})
    assert answer.status_code == 413


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One gateway for tests that only knock."""
    path = tmp_path_factory.mktemp("shared")
    desk = {"command": sys.executable, "args": [SERVER, "desk", str(path / "effects")]}
    (path / "mcp.json").write_text(json.dumps({"mcpServers": {"desk": desk}}), encoding="utf-8")
    (path / "labels.yaml").write_text(LABELS, encoding="utf-8")
    before = Path.cwd()
    os.chdir(path)
    try:
        gateway = Served(path)
    finally:
        os.chdir(before)
    yield gateway
    gateway.end()


async def nobody(context: object, params: object) -> ElicitResult:
    return ElicitResult(action="cancel")


@pytest.mark.parametrize("shares_keys", [True, False])
async def test_a_call_sent_again_may_land_on_another_gateway_G73(
    folder: Path, monkeypatch: pytest.MonkeyPatch, shares_keys: bool
) -> None:
    """Two gateways, one journal: the answer to one's question is taken by the other, once."""
    if shares_keys:
        monkeypatch.setenv("BREADCRUMBS_APPROVAL_KEYS", f"first:{'5a' * 32}")
    one, two = (Served(folder, "--allow-form-approval") for _ in range(2))
    arguments = {"tool_name": "write_down", "arguments": {"text": "hi"}}
    yes = {"approve": ElicitResult(action="accept", content={"approve": True})}
    try:
        async with (
            one.client("key-of-ann", "2026-07-28", nobody) as here,
            two.client("key-of-ann", "2026-07-28", nobody) as there,
            two.client("key-of-bob", "2026-07-28", nobody) as bob,
        ):
            for client in (here, there, bob):
                await call(client, "get_tool_schema", tool_names=["write_down"])
            question = await here.session.call_tool(
                "execute_tool", arguments, allow_input_required=True
            )
            assert isinstance(question, InputRequiredResult)

            async def answer(client: Client) -> Any:
                return await client.session.call_tool(
                    "execute_tool",
                    arguments,
                    input_responses=yes,
                    request_state=question.request_state,
                    allow_input_required=True,
                )

            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await answer(bob)
            if not shares_keys:
                with pytest.raises(MCPError, match="Invalid or expired requestState"):
                    await answer(there)
                return
            for client in (there, here, there):
                assert json.loads((await answer(client)).content[0].text)["status"] == "done"
        assert states(folder) == ["done"]
        assert len(effects(folder)) == 1
    finally:
        one.end()
        two.end()


async def start_a_slow_write(folder: Path, client: Client) -> None:
    """A write that a person approved and that its server has begun."""
    held = await execute(client, "write_slowly", text="hi")
    opened = journal(folder)
    opened.decide(held["approval_id"], approve=True, by="ann")
    opened.close()
    await until((folder / "effects.begun").exists)
    assert states(folder) == ["executing"]


async def test_a_gateway_that_is_stopped_ends_its_writes_first_G46(
    folder: Path, served: Served
) -> None:
    async with served.client("key-of-ann", "auto") as client:
        await start_a_slow_write(folder, client)
        served.process.send_signal(signal.SIGTERM)
    assert served.process.wait(timeout=60) in (0, -signal.SIGTERM)
    assert (states(folder), len(effects(folder))) == (["done"], 1)


async def test_a_gateway_that_is_killed_never_runs_its_write_again_G38(
    folder: Path, served: Served
) -> None:
    async with served.client("key-of-ann", "auto") as client:
        await start_a_slow_write(folder, client)
        served.process.kill()
    again = Served(folder)
    try:
        await until(lambda: len(effects(folder)) == 1)  # the server ended what it had begun
        await asyncio.sleep(1.5)  # time enough for the gateway to look for approved writes
    finally:
        again.end()
    assert (states(folder), len(effects(folder))) == (["executing"], 1)


def test_stdout_is_the_protocol_alone_and_a_signal_ends_it(folder: Path) -> None:
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            words("--journal", "other.sqlite"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    schema = {"name": "get_tool_schema", "arguments": {"tool_names": ["secret"]}}
    secret = {"name": "execute_tool", "arguments": {"tool_name": "secret", "arguments": {}}}
    for number, (method, params) in enumerate(
        [("initialize", hello), ("tools/call", schema), ("tools/call", secret)]
    ):
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        assert answer["id"] == number
        if method == "initialize":
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            process.stdin.write(json.dumps(note) + "\n")
    held = json.loads(answer["result"]["content"][0]["text"])
    main(["approvals", "approve", held["approval_id"], "--yes", "--journal", "other.sqlite"])
    deadline = time.monotonic() + 60
    while state(folder / "other.sqlite") not in ("unknown", "failed"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # its input is still open
    assert process.wait(timeout=60) == 0
    assert process.stdout.read() == ""
    assert SECRET not in (folder / "log").read_text()
    process.stdin.close()
    process.stdout.close()


def state(path: Path) -> str:
    opened = ApprovalJournal(path, SystemClock(), SystemIds())
    (card,) = opened.rows()
    opened.close()
    return card.state


def entry(**keys: Any) -> str:
    return json.dumps({"mcpServers": {"x": keys}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "mcp.json: cannot read: No such file or directory"),
        ("{", "mcp.json: not valid JSON at line 1"),
        ("[]", "mcp.json: no mcpServers in it"),
        ('{"mcpServers": []}', "mcp.json: no mcpServers in it"),
        ('{"mcpServers": {}}', "mcp.json: names no server that is not disabled"),
        (entry(command="a", disabled=True), "names no server that is not disabled"),
        (entry(args=["a"]), "server 'x': give it either command or url"),
        (entry(command="a", env={"K": 1}), "server 'x': env and headers must map"),
        (entry(command="no-such-command", env={"K": SECRET}), "server 'x': .*No such file"),
        (
            entry(command="sh", args=["-c", "echo no $K >&2; exit 1"], env={"K": SECRET}),
            r"server 'x': Connection closed \(it said: no \[secret removed\]\)",
        ),
        (entry(command="sh", args=["-c", f"exit 1 # --token {SECRET}"]), "server 'x': Connection"),
    ],
)
def test_a_servers_file_that_cannot_be_used_is_one_line(
    folder: Path, text: str | None, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mcp.json").unlink()
    if text is not None:
        (folder / "mcp.json").write_text(text, encoding="utf-8")
    line = refused(capsys)
    assert re.search(says, line)
    assert SECRET not in line


ANSI = "bad\x1b[2J\nbreadcrumbs: all writes approved \u202e"


def test_a_log_line_is_one_line_and_nothing_in_it_is_obeyed_or_secret() -> None:
    """Names and errors come from servers; the negative control is the plain formatter."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(_Masked(Masker([LiveServer("desk", "x", env={"TOKEN": SECRET})])))
    log = logging.Logger("test")
    log.addHandler(handler)
    log.warning("refused: %s: %s", ANSI, SECRET)
    line = "bad\\u001b[2J\\u000abreadcrumbs: all writes approved \\u202e"
    assert out.getvalue() == f"breadcrumbs: refused: {line}: [secret removed]\n"
    try:
        raise ValueError(f"{ANSI} {SECRET}")
    except ValueError:
        log.exception("tool broke")
    first, *trace = out.getvalue().splitlines()[1:]
    assert first == "breadcrumbs: tool broke"
    assert len(trace) > 3
    assert all(text.startswith("  ") for text in trace)
    assert "\x1b" not in out.getvalue()
    assert SECRET not in out.getvalue()
    assert "\x1b" in logging.Formatter().format(logging.makeLogRecord({"msg": ANSI}))


def test_what_a_server_says_when_it_does_not_start_is_not_obeyed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    talk = ["-c", r"printf 'no \033[2J \342\200\256' >&2; exit 1"]
    (folder / "mcp.json").write_text(entry(command="sh", args=talk), encoding="utf-8")
    assert r"(it said: no \u001b[2J \u202e)" in refused(capsys)


def test_an_address_that_cannot_be_used_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = refused(capsys, "--http", address)
    assert line == f"breadcrumbs: --http {address}: cannot listen there: Address already in use\n"
    assert "write HOST:PORT" in refused(capsys, "--http", "127.0.0.1")
    assert "write HOST:PORT" in refused(capsys, "--http", "127.0.0.1:65536")
    outside = refused(capsys, "--http", "0.0.0.0:0")
    assert "reachable from outside, so set BREADCRUMBS_API_KEYS" in outside


@pytest.mark.parametrize(
    "url",
    [
        *("desk.example/approve", "javascript:alert(1)", "https://", "https://[::1", "/approve"),
        *("https://ann:pw@desk.example", "https://desk.example/?id=", "https://desk.example/#"),
        "https://desk.example/a b",
    ],
)
def test_a_page_that_no_client_should_open_is_one_line(
    folder: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, "--approval-page", url)
    assert line.startswith(f"breadcrumbs: --approval-page {url}: write http(s)://HOST/PATH")


def test_a_journal_that_cannot_be_opened_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "choose another --journal" in refused(capsys, "--journal", "no/such/folder.sqlite")


def refused(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["gateway", "serve", "--upstream", "mcp.json", *more])
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err
