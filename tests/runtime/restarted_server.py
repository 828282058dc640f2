"""A server as a process of its own: scripted turns, a real journal, effects written to a file.

python restarted_server.py FOLDER PORT
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import uvicorn

from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.worlds import World, WorldExecutor
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.messages import ToolCall
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.service import ServiceSettings, create_app
from breadcrumbs.turns import Turn

WRITE = {"tool_name": "create_ticket", "arguments": {"title": "Lift is stuck"}}


class Recorded(WorldExecutor):
    """Notes each write that runs, before it runs."""

    def __init__(self, world: World, place: Path) -> None:
        super().__init__(world)
        self.place = place

    async def run(self, spec: Any, arguments: Any) -> Any:
        with self.place.open("a", encoding="utf-8") as effects:
            effects.write(f"{spec.name} {arguments['title']}\n")
        return await super().run(spec, arguments)


def main(folder: Path, port: int) -> None:
    catalog = load_catalog([folder / "desk.yaml"])
    executor = Recorded(World(catalog), folder / "effects")
    gateway = open_gateway(catalog, folder / "approvals.sqlite", executor=executor)
    turns = [
        Turn("", (ToolCall("c1", "get_tool_schema", {"tool_names": ["create_ticket"]}),)),
        Turn("", (ToolCall("c2", "execute_tool", WRITE),)),
        Turn("It waits."),
    ]
    app = create_app("small", ScriptedPolicy(turns), gateway, ServiceSettings())
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none")
    asyncio.run(uvicorn.Server(config).serve())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
