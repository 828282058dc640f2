"""`breadcrumbs catalog`: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.gateway.catalog import load_catalog

TOOL = {
    "name": "get_weather",
    "description": "Say the weather.",
    "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
REMOTE = {
    "name": "far",
    "description": "Far.",
    "inputSchema": {"type": "object", "properties": {"x": {"$ref": "https://example.invalid/x"}}},
}


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    status = 0
    try:
        main(["catalog", *map(str, words)])
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"tools": [TOOL, TOOL, REMOTE]}), encoding="utf-8")
    return path


def test_import_writes_a_catalog_and_reports(
    capsys: pytest.CaptureFixture[str], dump: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine.yaml"
    status, printed, _ = run(capsys, "import", dump, "--out", out, "--json")
    report = json.loads(printed)
    assert status == 0
    assert report["imported"] == 1
    assert report["duplicates"] == [
        {"tool": "get_weather", "source": f"{dump}[1]", "same_as": f"{dump}[0]"}
    ]
    (refused,) = report["refused"]
    assert set(refused) == {"tool", "reason"}
    assert (refused["tool"], "remote" in refused["reason"]) == ("far", True)
    assert list(report) == ["imported", "refused", "duplicates", "secrets"]
    assert load_catalog([out]).names() == ["get_weather"]
    status, printed, _ = run(capsys, "import", dump)
    assert printed.splitlines()[-1] == "1 imported, 1 refused, 1 duplicates, 0 secrets"


def test_show(capsys: pytest.CaptureFixture[str], dump: Path) -> None:
    status, printed, _ = run(capsys, "show", "get_weather", dump, "--json")
    shown = json.loads(printed)
    assert (status, shown["risk"], shown["requires_approval"], shown["domain"]) == (
        0,
        "write",
        True,
        "dump",
    )
    assert len(shown["content_hash"]) == 64
    status, printed, _ = run(capsys, "show", "create_invoice")
    assert "domain: billing" in printed
    status, _, err = run(capsys, "show", "create_invoces")
    assert status == 2
    assert err.strip().endswith("near: create_invoice") or "near: create_invoice" in err


def test_untrusted_text_cannot_drive_the_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    path.write_text(
        json.dumps([{**TOOL, "description": "red \x1b[31m and \u202e back"}]), encoding="utf-8"
    )
    _, printed, _ = run(capsys, "show", "get_weather", path)
    assert "\\u001b[31m and \\u202e back" in printed
    assert "\x1b" not in printed
    forged = {**TOOL, "name": "x\x1b[2J\n1 imported, 0 refused, 0 duplicates, 0 secrets"}
    path.write_text(json.dumps([forged]), encoding="utf-8")
    for command in ("import", "lint"):
        _, printed, _ = run(capsys, command, path)
        assert len(printed.splitlines()) == 2
        assert "\x1b" not in printed


def test_lint_ends_with_1_on_findings_only(
    capsys: pytest.CaptureFixture[str], dump: Path, tmp_path: Path
) -> None:
    status, printed, _ = run(capsys, "lint", dump)
    assert status == 1
    assert printed.splitlines()[-1] == "2 findings in 1 tools"
    status, printed, _ = run(capsys, "lint", dump, "--json")
    assert [finding["tool"] for finding in json.loads(printed)] == ["far", "get_weather"]
    (tmp_path / "clean.json").write_text(json.dumps([TOOL]), encoding="utf-8")
    assert run(capsys, "lint", tmp_path / "clean.json")[0] == 0
    assert run(capsys, "lint")[0] == 0  # what ships


def test_stats(capsys: pytest.CaptureFixture[str], dump: Path) -> None:
    status, printed, _ = run(capsys, "stats", dump)
    assert (status, printed.splitlines()[0]) == (0, "1 tools in 1 domains")
    status, printed, _ = run(capsys, "stats", dump, "--json")
    assert (
        json.loads(printed)["schema_characters"]["maximum"]
        == json.loads(printed)["schema_characters"]["minimum"]
    )


@pytest.mark.parametrize("command", ["import", "lint", "stats"])
def test_a_source_that_cannot_be_read_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    status, _, err = run(capsys, command, "nowhere.json")
    assert status == 2
    assert err.startswith("breadcrumbs: nowhere.json: no such file or folder; ")
    (tmp_path / "broken.json").write_text('{"a": 1, "a": 2}', encoding="utf-8")
    status, _, err = run(capsys, command, tmp_path / "broken.json")
    assert (status, err.count("\n")) == (2, 1)
    assert "key 'a' stands twice" in err


def test_import_needs_a_source_and_a_place_to_write(
    capsys: pytest.CaptureFixture[str], dump: Path
) -> None:
    assert run(capsys, "import")[0] == 2
    status, _, err = run(capsys, "import", dump, "--out", dump / "below.yaml")
    assert (status, "cannot write here" in err) == (2, True)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("notes.txt", "Call Ann tomorrow.", "notes.txt: text, not a tool definition"),
        ("empty.json", "", "empty.json: empty, not a tool definition"),
        ("none.json", "[]", None),
        ("settings.json", '{"editor": {"size": 3}}', "no tool definition (keys: editor)"),
    ],
)
def test_where_nothing_comes_in_nothing_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, text: str, says: str | None
) -> None:
    """Else a server that is down would empty the file with the labels."""
    source, out = tmp_path / name, tmp_path / "mine.yaml"
    source.write_text(text, encoding="utf-8")
    out.write_text("labels", encoding="utf-8")
    status, printed, _ = run(capsys, "import", source, "--out", out)
    assert (status, out.read_text(encoding="utf-8")) == (2, "labels")
    assert printed.splitlines()[-1].endswith(f"nothing written to {out}")
    assert says is None or says in printed
    status, printed, _ = run(capsys, "import", source, "--json")
    assert (status, json.loads(printed)["imported"]) == (2, 0)
    status, printed, err = run(capsys, "stats", source)
    assert (status, printed, err.count("\n")) == (2, "", 1)
    assert err.startswith("breadcrumbs: no tool came in: ")
    assert run(capsys, "lint", source)[0] == (1 if says else 2)


def test_a_broken_server_says_one_line_and_no_traceback(tmp_path: Path) -> None:
    """In a process of its own: the SDK logs, and none of it may reach the terminal."""
    code = "import sys; print('not json', flush=True); sys.exit('no database')"
    servers = {"mcpServers": {"bad": {"command": sys.executable, "args": ["-c", code]}}}
    (tmp_path / "mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    command = [sys.executable, "-m", "breadcrumbs", "catalog", "import", str(tmp_path / "mcp.json")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == ""
    assert "refused: bad: server 'bad': Connection closed (it said: no database)" in result.stdout


def test_synthesize_writes_tools_that_load(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "many.yaml"
    status, printed, _ = run(capsys, "synthesize", "--tools", 12, "--seed", 3, "--out", out)
    assert (status, printed) == (0, f"12 tools written to {out}\n")
    assert len(load_catalog([out]).tools) == 12


def test_synthesize_refuses_a_length_it_cannot_make(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "many.yaml"
    status, _, told = run(capsys, "synthesize", "--schema-tokens", 5, "--out", out)
    assert (status, told.count("\n"), out.exists()) == (2, 1, False)
    assert "schema_tokens is 5; give 100 to 32000 tokens" in told
