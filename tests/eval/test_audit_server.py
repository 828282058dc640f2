"""Live MCP servers: our gateway as one that passes, and ones that do not."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from breadcrumbs.errors import CatalogError, DataError
from breadcrumbs.eval.audit import AuditReport
from breadcrumbs.eval.audit_discovery import arguments_for, schemas_in, stage_of, tool_names_in
from breadcrumbs.eval.audit_server import audit_server, read_sources
from breadcrumbs.gateway.imports.live import LiveServer

SERVER = str(Path(__file__).parent / "audited" / "server.py")


def audited(*words: str) -> AuditReport:
    (source,) = read_sources([sys.executable, SERVER, *words])
    return audit_server(source)


def test_a_gateway_with_breadcrumbs_passes() -> None:
    report = audited("with")
    assert report.findings == ()
    assert report.checked == {"tools": 3, "discovery payloads": 4}


def test_a_gateway_without_breadcrumbs_is_found() -> None:
    findings = audited("without").findings
    assert [finding.check for finding in findings] == ["next_step"] * 4
    assert findings[0].where.startswith("search_tool_catalog(")


def test_a_directive_pasted_into_text_is_found() -> None:
    assert {finding.check for finding in audited("pasted").findings} == {"forgery"}


@pytest.mark.parametrize(
    ("hints", "called"),
    [
        ("read_only_hint=False", False),
        ("destructive_hint=True", False),
        ("read_only_hint=True", True),
        ("destructive_hint=False", True),
    ],
)
def test_a_tool_that_says_that_it_may_write_is_not_called(
    tmp_path: Path, hints: str, called: bool
) -> None:
    file, mark = tmp_path / "hinted.py", tmp_path / "called"
    file.write_text(
        "from mcp.server import MCPServer\n"
        "from mcp.types import ToolAnnotations\n"
        "server = MCPServer('hinted')\n"
        f"@server.tool(annotations=ToolAnnotations({hints}))\n"
        "def find_tools(query: str) -> str:\n"
        f"    open({str(mark)!r}, 'w').close()\n"
        "    return '{}'\n"
        "server.run('stdio')\n"
    )
    report = audit_server(LiveServer("hinted", sys.executable, (str(file),)))
    assert mark.exists() is called
    assert report.notes == (
        () if called else ("find_tools says that it may write, so it was not called",)
    )


def test_tools_listed_at_once_need_a_last_word(tmp_path: Path) -> None:
    file = tmp_path / "plain.py"
    text = (
        "from mcp.server import MCPServer\n"
        "server = MCPServer('plain', instructions={instructions!r})\n"
        "@server.tool()\n"
        "def book_room(room: str) -> str:\n"
        "    raise SystemExit('must not be called')\n"
        "server.run('stdio')\n"
    )
    source = LiveServer("plain", sys.executable, (str(file),))
    file.write_text(text.format(instructions="This server books rooms."))
    (finding,) = audit_server(source).findings
    assert (finding.check, finding.where) == ("next_step", "tools/list")
    file.write_text(text.format(instructions="Rooms. Call book_room(room) now; do not ask."))
    assert audit_server(source).findings == ()


@pytest.fixture
def address() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, SERVER, "with", str(port)], stderr=subprocess.DEVNULL
    )
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


def test_streamable_http(address: str) -> None:
    (source,) = read_sources([address])
    report = audit_server(source)
    assert report.findings == ()
    assert report.checked["discovery payloads"] == 4


def test_entries_of_a_client_file(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entries = {
        "one": {"command": "python", "args": ["a.py"], "env": {"KEY": "v"}},
        "two": {"url": "http://127.0.0.1:1/mcp"},
    }
    file.write_text(json.dumps({"mcpServers": entries}))
    one, two = read_sources([str(file)])
    assert (one.command, one.args, one.env) == ("python", ("a.py",), {"KEY": "v"})
    assert two.url == "http://127.0.0.1:1/mcp"
    assert read_sources([str(file)], "two") == [two]
    with pytest.raises(DataError, match="no entry 'three'; there are one, two"):
        read_sources([str(file)], "three")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "no mcpServers in it"),
        ('{"mcpServers": {}}', "names no server"),
        ('{"mcpServers": {"a": {}}}', "either command or url"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "args must be a list"),
        ('{"mcpServers": {"a": {"url": "http://x", "headers": {"K": 1}}}}', "headers must map"),
    ],
)
def test_bad_client_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(text)
    with pytest.raises(CatalogError, match=words):
        read_sources([str(file)])


@pytest.mark.parametrize("words", [["nowhere-to-be-found"], ["false"], ["http://127.0.0.1:9/mcp"]])
def test_a_server_that_is_none_is_named(words: list[str]) -> None:
    (source,) = read_sources(words)
    with pytest.raises(DataError, match="no MCP server answers"):
        audit_server(source, 20)


def test_a_server_that_hangs_is_given_up() -> None:
    with pytest.raises(DataError, match="no answer within 1 s"):
        audit_server(LiveServer("sleep", "sleep", ("60",)), 1)


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("search_tool_catalog", "search"),
        ("mcp__desk__search_tools", "search"),
        ("listTools", "search"),
        ("get_tool_schema", "schema"),
        ("describe-tools", "schema"),
        ("getToolDetails", "schema"),
        ("execute_tool", None),
        ("delete_tool", None),
        ("search", None),
        ("list_issues", None),
        ("get_tool_schema_and_delete", None),
    ],
)
def test_only_discovery_tools_are_called(name: str, stage: str | None) -> None:
    assert stage_of(name) == stage


def test_arguments_and_answers_of_other_spellings() -> None:
    schema = {
        "properties": {
            "names": {"anyOf": [{"type": "array"}, {"type": "null"}]},
            "n": {"type": "integer"},
        },
        "required": ["names", "n"],
    }
    assert arguments_for(schema, "q", ["a"]) == {"names": ["a"], "n": 5}
    assert arguments_for({"properties": {"query": {}}}, "q", []) == {"query": "q"}
    answer = {"tools": [{"name": "a", "parameters": {"properties": {"name": {"name": "b"}}}}]}
    assert tool_names_in(answer) == ["a"]
    assert list(schemas_in(answer)) == ["a"]
