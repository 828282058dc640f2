"""A small catalog and scripted turns, so that these tests do not hang on what ships."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings, SimulatedGateway, simulated_gateway
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.turns import Turn

DESK = """
version: 1
domain: desk
collections:
  tickets:
    key: ticket_id
    prefix: tkt
    records:
      - {ticket_id: tkt_1, title: Printer jams, priority: low}
tools:
  - name: create_ticket
    description: Open a support ticket.
    risk: write
    keywords: [issue, problem]
    effect: {op: create, collection: tickets}
    parameters:
      title: {type: string, description: What is wrong}
      priority: {type: string, enum: [low, normal, high], default: normal}
      floor: {type: integer}
      due: {type: string, format: date-time}
      contact_email: {type: string, format: email}
    required: [title]
  - name: list_tickets
    description: List support tickets.
    risk: read
    effect: {op: list, collection: tickets}
    parameters:
      priority: {type: string, enum: [low, normal, high]}
    required: []
"""
REQUEST = "Open a ticket titled 'Lift is stuck' with high priority"
ARGUMENTS = {"title": "Lift is stuck", "priority": "high"}


@pytest.fixture
def desk(tmp_path: Path) -> Catalog:
    path = tmp_path / "desk.yaml"
    path.write_text(DESK, encoding="utf-8")
    return load_catalog([path])


@pytest.fixture
def gateway(desk: Catalog) -> SimulatedGateway:
    return simulated_gateway(desk, seed=1)


@pytest.fixture
def make_gateway(desk: Catalog) -> Callable[[GatewaySettings], SimulatedGateway]:
    return lambda settings: simulated_gateway(desk, seed=1, settings=settings)


@pytest.fixture
def conversation() -> list[Message]:
    return [Message("system", "Act."), Message("user", REQUEST)]


class Script:
    """Turns about the desk catalog; `call` makes further ones."""

    request = REQUEST
    arguments = ARGUMENTS
    stall = "To open a ticket, please provide the following details: title, priority, floor, due."
    question = "What should the title of the ticket be?"

    @staticmethod
    def call(name: str, number: int = 0, **arguments: Any) -> Turn:
        return Turn("", (ToolCall(f"call_{name}_{number}", name, arguments),))

    search = call("search_tool_catalog", query="create ticket")
    schema = call("get_tool_schema", tool_names=["create_ticket"])
    execute = call("execute_tool", tool_name="create_ticket", arguments=ARGUMENTS)
    prelude = (search, schema)


@pytest.fixture
def script() -> type[Script]:
    return Script


class Dripping:
    """Writes words for ever, one each `every_s`, until it is closed."""

    def __init__(self, every_s: float = 0.02) -> None:
        self.every_s = every_s
        self.words = 0
        self.writing = 0

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        self.writing += 1
        try:
            while True:
                self.words += 1
                yield f"word{self.words} "
                await asyncio.sleep(self.every_s)
        finally:
            self.writing -= 1


@contextmanager
def running(app: Any) -> Iterator[str]:
    """An app with its lifespan on this machine's loopback; yields its address."""
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()


@pytest.fixture(name="running")
def running_fixture() -> Any:
    return running


@pytest.fixture
def start(gateway: SimulatedGateway) -> Iterator[Callable[..., str]]:
    """Start the service over turns, or over one policy; yields its address."""
    from breadcrumbs.service import ServiceSettings, create_app

    with ExitStack() as stack:

        def begin(*turns: Any, over: Any = None, **settings: Any) -> str:
            policy = turns[0] if turns and hasattr(turns[0], "stream") else ScriptedPolicy(turns)
            served = over or gateway.gateway
            app = create_app("small", policy, served, ServiceSettings(**settings))
            return stack.enter_context(running(app))

        yield begin


@pytest.fixture
def dripping() -> Dripping:
    return Dripping()
