"""Live MCP servers: real ones over stdio and HTTP, and servers that misbehave, one refusal each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp.types import ListToolsResult, Tool

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Risk
from breadcrumbs.gateway.imports.drafts import Refusal
from breadcrumbs.gateway.imports.importing import import_sources
from breadcrumbs.gateway.imports.live import (
    MAX_CLEANED,
    MAX_COMPLAINTS,
    MAX_TOOLS,
    LiveServer,
    all_tools,
    first_fault,
    last_line,
    list_tools,
    parse_servers,
)
from breadcrumbs.gateway.imports.secret_scan import REMOVED
from breadcrumbs.gateway.imports.sources import load_servers

SERVER = str(Path(__file__).with_name("upstream_server.py"))
GENEROUS_S = 60.0
"""For servers that answer; a busy machine starts a process slowly."""


def stdio(kind: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": [SERVER, kind]}


def servers_file(folder: Path, **servers: Any) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def http_url() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SERVER, "http", str(port)], stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + GENEROUS_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/mcp"
    process.terminate()
    process.wait()


def test_real_servers_over_both_transports(tmp_path: Path, http_url: str) -> None:
    path = servers_file(
        tmp_path,
        notes=stdio("stdio"),
        web={"type": "http", "url": http_url, "headers": {"X-Team": "blue"}},
        gone={"command": "no-such-command-anywhere"},
    )
    report = import_sources([path], timeout_s=GENEROUS_S)
    names = {
        tool.spec.name: (tool.upstream, tool.own_name, tool.spec.risk) for tool in report.tools
    }
    assert names == {
        "list_notes": ("notes", "list_notes", Risk.WRITE),
        "add_note": ("notes", "add_note", Risk.WRITE),
        "drop_folder": ("notes", "drop_folder", Risk.DESTRUCTIVE),
        "web.list_notes": ("web", "list_notes", Risk.WRITE),
        "web.add_note": ("web", "add_note", Risk.WRITE),
        "web.drop_folder": ("web", "drop_folder", Risk.DESTRUCTIVE),
    }
    assert [refusal.tool for refusal in report.refused] == ["gone"]
    assert "No such file or directory" in report.refused[0].reason
    added = report.catalog().tools["add_note"]
    assert added.required == ("text",)
    assert added.domain == "notes"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("dead", r"Connection closed \(it said: cannot open the database\)"),
        ("dies", "Connection closed"),
        ("endless", "goes on after 100 pages"),
        ("nameless", "its answer breaks the protocol at tools.1.inputSchema: Field required"),
    ],
)
async def test_a_server_that_fails_is_refused_with_its_reason(kind: str, says: str) -> None:
    server = LiveServer(kind, sys.executable, (SERVER, kind))
    with pytest.raises(CatalogError, match=says):
        await list_tools(server, timeout_s=GENEROUS_S)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("silent", "no complete answer within 3 s$"),
        ("hangs", "no complete answer within 3 s$"),
        ("surrogate", "within 3 s, and 1 that cannot be read as MCP"),
        ("deep", "within 3 s, and 1 that cannot be read as MCP"),
    ],
)
async def test_a_server_that_never_answers_is_given_up(kind: str, says: str) -> None:
    with pytest.raises(CatalogError, match=says):
        await list_tools(LiveServer(kind, sys.executable, (SERVER, kind)), timeout_s=3)


async def test_fifty_megabytes_are_refused() -> None:
    server = LiveServer("huge", sys.executable, (SERVER, "huge"))
    with pytest.raises(CatalogError, match="^a line of its output is over 16777216 bytes$"):
        await list_tools(server, timeout_s=GENEROUS_S)


async def test_a_server_with_tools_without_number_is_refused() -> None:
    """Half a million of them fit into what a server may answer, and importing them takes minutes."""
    with pytest.raises(CatalogError, match="more than 5000 tools"):
        await all_tools(Offering(MAX_TOOLS + 1))  # type: ignore[arg-type]
    assert len(await all_tools(Offering(MAX_TOOLS))) == MAX_TOOLS  # type: ignore[arg-type]


class Offering:
    """A client whose server has this many tools."""

    def __init__(self, count: int) -> None:
        self._tools = [Tool(name=f"t{n}", input_schema={"type": "object"}) for n in range(count)]

    async def list_tools(self, cursor: str | None) -> ListToolsResult:
        return ListToolsResult(tools=self._tools)


def test_nan_refuses_the_one_tool(tmp_path: Path) -> None:
    report = import_sources([servers_file(tmp_path, nan=stdio("nan"))], timeout_s=GENEROUS_S)
    (refusal,) = report.refused
    assert (refusal.tool, "NaN" in refusal.reason) == ("fine", True)


def test_one_bad_server_does_not_keep_the_others_out(tmp_path: Path) -> None:
    path = servers_file(tmp_path, hangs=stdio("hangs"), fine=stdio("fine"), dead=stdio("dead"))
    report = import_sources([path], timeout_s=5)
    assert [tool.spec.name for tool in report.tools] == ["fine"]
    assert [refusal.tool for refusal in report.refused] == ["hangs", "dead"]


@pytest.mark.parametrize("stubborn", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN);"])
async def test_no_process_outlives_its_question(tmp_path: Path, stubborn: str) -> None:
    pid_file = tmp_path / "pid"
    code = f"import os, signal, time; {stubborn}"
    code += f"open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with pytest.raises(CatalogError, match="no complete answer"):
        await list_tools(LiveServer("sleeper", sys.executable, ("-c", code)), timeout_s=3)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)


def test_secrets_of_a_server_stay_out_of_the_report(tmp_path: Path) -> None:
    secret = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    code = "import os, sys; sys.exit('bad token ' + os.environ['TOKEN'])"
    entry = {"command": sys.executable, "args": ["-c", code], "env": {"TOKEN": secret}}
    report = import_sources([servers_file(tmp_path, leaky=entry)], timeout_s=GENEROUS_S)
    assert "bad token [secret removed]" in report.refused[0].reason
    assert secret not in str(report.to_dict())


@pytest.fixture
def flood() -> Iterator[str]:
    """An HTTP server whose every answer is 50 MB of JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            try:
                for _ in range(50):
                    self.wfile.write(b" " * 1024 * 1024)
            except OSError:
                pass  # the client hung up, as it should

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        server.shutdown()
        thread.join()


async def test_an_http_answer_without_end_is_cut_off(flood: str) -> None:
    with pytest.raises(CatalogError, match="the answer is over 16777216 bytes"):
        await list_tools(LiveServer("flood", url=flood), timeout_s=GENEROUS_S)


async def test_nobody_listens() -> None:
    with pytest.raises(CatalogError, match="ConnectError"):
        await list_tools(LiveServer("gone", url="http://127.0.0.1:9/mcp"), timeout_s=GENEROUS_S)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (3, "not a map"),
        ({}, "either command or url"),
        ({"command": "a", "url": "http://b"}, "either command or url"),
        ({"command": ["a"]}, "either command or url"),
        ({"command": "a", "args": "b"}, "args must be a list"),
        ({"command": "a", "args": [1]}, "args must be a list"),
        ({"command": "a", "env": {"K": 1}}, "env and headers"),
        ({"command": "a", "cwd": "/no/such/folder"}, "cwd is no folder"),
        ({"url": "ftp://b"}, "must start with http"),
        ({"url": "file:///etc/passwd"}, "must start with http"),
        ({"url": "http://b", "type": "sse"}, "use streamable HTTP"),
        ({"command": "a", "disabled": True}, "disabled in the file"),
    ],
)
def test_entries_that_name_no_server(entry: Any, says: str) -> None:
    (refusal,) = parse_servers({"mcpServers": {"x": entry}}, "mcp.json")
    assert isinstance(refusal, Refusal)
    assert refusal.tool == "x"
    assert says in refusal.reason


@pytest.mark.parametrize(("one", "two"), [("my-mail", "my.mail"), ("почта", "погода")])
def test_two_servers_never_share_a_domain_and_so_labels(tmp_path: Path, one: str, two: str) -> None:
    path = tmp_path / "mcp.json"
    entries = {one: {"command": "a"}, two: {"command": "b"}}
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    with pytest.raises(CatalogError, match=f"'{one}' both become the domain '.*'; rename one"):
        load_servers(path)
    entries[one]["disabled"] = True  # type: ignore[assignment]
    path.write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    assert [server.name for server in load_servers(path)] == [two]
    first, second = parse_servers({"mcpServers": {one: {"disabled": True}, two: entries[two]}}, "x")
    assert isinstance(first, Refusal)
    assert isinstance(second, LiveServer)


SECRET = "sk-abcdefghij00000001KLMNopqr"


@pytest.mark.parametrize("shown", range(3, len(SECRET)))
def test_no_part_of_a_secret_at_a_cut_is_shown(shown: int) -> None:
    """Blanks vanish from a reason, so what stands before the cut can become its beginning."""
    padding = " " * (MAX_CLEANED - shown)
    assert "sk-" not in first_fault(OSError(f"{padding}{SECRET} was refused"))
    assert SECRET[shown:] not in last_line(f"{SECRET[shown:]} {'x ' * 2048}"[:MAX_COMPLAINTS])
    assert first_fault(OSError(f"{SECRET} was refused")) == f"{REMOVED} was refused"
    assert last_line(f"a line\n{SECRET} was refused") == f" (it said: {REMOVED} was refused)"


def test_keys_for_desktop_clients_are_passed_over() -> None:
    entry = {
        "command": "npx",
        "args": ["-y", "server"],
        "env": {"A": "b"},
        "autoApprove": ["x"],
        "timeout": 60,
        "type": "stdio",
    }
    assert parse_servers({"mcpServers": {"x": entry}}, "f") == [
        LiveServer("x", "npx", ("-y", "server"), {"A": "b"})
    ]
