"""MCP servers for tests, one a process: `python upstream_server.py KIND [PORT]`.

`stdio` and `http` are the SDK's own server with three tools. The others speak just enough of the
protocol to misbehave at the moment their name says.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

BIG = 50 * 1024 * 1024


def serve(transport: str, port: int) -> None:
    from mcp.server import MCPServer
    from mcp.types import ToolAnnotations

    server = MCPServer("Note Keeper")

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def list_notes(folder: str = "inbox") -> list[str]:
        """List the notes of a folder."""
        return [folder]

    @server.tool()
    def add_note(text: str, tags: list[str] | None = None) -> str:
        """Write a note down."""
        return text

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def drop_folder(folder: str) -> str:
        """Delete a folder with all its notes."""
        return folder

    if transport == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


def misbehave(kind: str) -> None:
    if kind == "silent":
        time.sleep(600)
    if kind == "dead":
        sys.exit("cannot open the database")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] == "initialize":
            body = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": kind, "version": "1"},
            }
            answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": body})
        elif request["method"] == "tools/list":
            answer = listing(kind, request["id"])
        else:
            error = {"code": -32601, "message": "Method not found"}
            answer = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error})
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


def listing(kind: str, number: int) -> str:
    if kind == "hangs":
        time.sleep(600)
    if kind == "dies":
        os._exit(1)
    result: dict[str, Any] = {"tools": [tool("fine")]}
    if kind == "huge":
        result["tools"].append(tool("huge", "x" * BIG))
    if kind == "endless":
        result["nextCursor"] = "again"
    if kind == "nameless":
        result["tools"].append({"description": "no name, no schema"})
    text = json.dumps({"jsonrpc": "2.0", "id": number, "result": result})
    if kind == "surrogate":
        text = text.replace('"description": ""', '"description": "\\ud800"')
    if kind == "nan":
        text = text.replace('{"type": "object"}', '{"type": "object", "maxProperties": NaN}')
    if kind == "deep":
        text = text.replace('{"type": "object"}', '{"not":' * 100_000 + "{}" + "}" * 100_000)
    return text


if __name__ == "__main__":
    if sys.argv[1] in ("stdio", "http"):
        serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    else:
        misbehave(sys.argv[1])
