"""A small catalog and scripted turns, so that these tests do not hang on what ships."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings, SimulatedGateway, simulated_gateway
from breadcrumbs.messages import Message, ToolCall
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
