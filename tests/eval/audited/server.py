"""A gateway over MCP: `with` breadcrumbs, `without`, or `pasted` (text); a port serves HTTP."""

import sys

from mcp.server import MCPServer

from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings, simulated_gateway
from breadcrumbs.messages import compact_json

mode = sys.argv[1]
settings = GatewaySettings(breadcrumbs=mode != "without")
session = simulated_gateway(load_catalog(), seed=0, settings=settings).gateway.session()
server = MCPServer("crumbs", instructions="Tools behind a gateway.")


async def answer(name: str, arguments: dict) -> str:
    payload = await session.call(name, arguments)
    if mode == "pasted":
        return f"Found: {list(payload)}\nnext_step: {payload['next_step']}"
    return compact_json(payload)


@server.tool(structured_output=False)
async def search_tool_catalog(query: str, limit: int = 5) -> str:
    """Find tools."""
    return await answer("search_tool_catalog", {"query": query, "limit": limit})


@server.tool(structured_output=False)
async def get_tool_schema(tool_names: list[str]) -> str:
    """Read schemas."""
    return await answer("get_tool_schema", {"tool_names": tool_names})


@server.tool(structured_output=False)
async def execute_tool(tool_name: str, arguments: dict) -> str:
    """Run a tool; an audit must never come here."""
    sys.exit("execute_tool was called")


if len(sys.argv) > 2:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run("stdio")
