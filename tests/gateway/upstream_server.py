"""MCP servers for tests, one a process: `python upstream_server.py KIND [PORT]`.

`stdio` and `http` are the SDK's own server. The others speak just enough of the protocol to
misbehave at the moment their name says; `desk FILE` answers calls, and its writes append to FILE.
"""

from __future__ import annotations

import json
import os
import sys
import threading
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

    if path := os.environ.get("EFFECTS"):  # a fourth tool, whose runs can be counted

        @server.tool()
        def append_line(line: str, crash: bool = False) -> str:
            """Append a line."""
            with open(path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
            if crash:
                os._exit(1)
            return line

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def drop_folder(folder: str) -> str:
        """Delete a folder with all its notes."""
        return folder

    if transport == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", host="127.0.0.1", port=port)


def serve_asking(path: str) -> None:
    """A write that acts, and then asks for more; and one whose answer is matched for ever."""
    import anyio
    from mcp.server import Server
    from mcp.server.stdio import stdio_server
    from mcp.types import (
        CallToolResult,
        InputRequiredResult,
        ListToolsResult,
        TextContent,
        Tool,
    )

    slow = {"type": "object", "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}}}

    async def listed(context: Any, params: Any) -> ListToolsResult:
        plain: dict[str, Any] = {"type": "object", "properties": {}}
        return ListToolsResult(
            tools=[
                Tool(name="ask_back", description="Act, then ask.", input_schema=plain),
                Tool(name="match", description="Match.", input_schema=plain, output_schema=slow),
            ]
        )

    async def called(context: Any, params: Any) -> Any:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{params.name}\n")
        if params.name == "ask_back":
            return InputRequiredResult(request_state="again")
        content = [TextContent(text="matched")]
        return CallToolResult(content=content, structured_content={"text": "a" * 40 + "b"})

    async def run() -> None:
        server: Any = Server("asking", on_list_tools=listed, on_call_tool=called)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)


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


class Desk:
    """A server with a file of effects, and tools that go wrong after they have acted."""

    def __init__(self, path: str, *copied: str) -> None:
        self.path = path
        self.tools: dict[str, dict[str, Any]] = {
            name: tool(name, description)
            for name, description in {
                "look": "Look at something.",
                "write_down": "Write a text down.",
                "write_slowly": "Write a text down after a second.",
                "write_and_die": "Write a text down, and die.",
                "write_and_hang": "Write a text down, and hang.",
                "hang": "Hang.",
                "huge": "Answer 50 MB.",
                "ramble": "Begin a line without end.",
                "refuse": "Say that it failed.",
                "misfit": "Refuse the arguments.",
                "secret": "Say what is in the environment, on the error stream, and die.",
                "change": "Change write_down.",
            }.items()
            if not copied or name in copied
        }
        for spec in self.tools.values():
            spec["inputSchema"] = {"type": "object", "properties": {"text": {"type": "string"}}}

    def call(self, name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        text = arguments.get("text", "")
        if name == "hang":
            time.sleep(600)
        if name == "write_slowly":
            open(f"{self.path}.begun", "w").close()
            time.sleep(1)
        if name.startswith("write"):
            key = meta.get("breadcrumbs/idempotency-key", "")
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(f"{name} {text} {key}".rstrip() + "\n")
        if name == "write_and_hang":
            time.sleep(600)
        if name == "write_and_die":
            os._exit(1)
        if name == "secret":
            sys.stderr.write(f"the token is {os.environ['TOKEN']}\n")
            sys.stderr.flush()
            os._exit(1)
        if name == "change":
            self.change(text)
        if name == "ramble" and text == "later":
            threading.Timer(0.2, ramble).start()
        elif name == "ramble":
            ramble()
        if name == "huge":
            text = "x" * (BIG if text == "" else int(text))
        return {"content": [{"type": "text", "text": text}], "isError": name == "refuse"}

    def change(self, how: str) -> None:
        changed = self.tools["write_down"]
        if "destructive" in how:
            changed["annotations"] = {"destructiveHint": True}
        else:
            changed["inputSchema"]["required"] = ["text"]
        for _ in range(how.count("loud")):
            send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})

    def serve(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            method, params = request["method"], request.get("params", {})
            if "id" not in request:
                continue
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
            if method == "initialize":
                answer["result"] = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "desk", "version": "1"},
                }
            elif method == "tools/list":
                answer["result"] = {"tools": list(self.tools.values())}
            elif method == "tools/call" and params["name"] == "misfit":
                answer["error"] = {"code": -32602, "message": "no such field"}
            elif method == "tools/call":
                meta = params.get("_meta", {})
                answer["result"] = self.call(params["name"], params.get("arguments", {}), meta)
            else:
                answer["error"] = {"code": -32601, "message": "Method not found"}
            send(answer)


def ramble() -> None:
    while True:
        sys.stdout.write("x" * 65536)


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[1] in ("stdio", "http"):
        serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    elif sys.argv[1] == "asking":
        serve_asking(sys.argv[2])
    elif sys.argv[1] == "desk":
        Desk(*sys.argv[2:]).serve()
    else:
        misbehave(sys.argv[1])
