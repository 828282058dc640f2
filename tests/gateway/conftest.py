"""A small catalog of its own, so that these tests do not hang on what ships."""

from pathlib import Path

import pytest

from breadcrumbs.gateway.catalog import Catalog, load_catalog

DESK = """
version: 1
domain: desk
collections:
  tickets:
    key: ticket_id
    prefix: tkt
    records:
      - {ticket_id: tkt_1, title: Printer jams, status: open, notes: []}
      - {ticket_id: tkt_2, title: No network, status: open, notes: []}
      - {ticket_id: tkt_3, title: Lost badge, status: closed, notes: []}
tools:
  - name: create_ticket
    description: Open a support ticket.
    risk: write
    keywords: [issue, problem]
    effect: {op: create, collection: tickets}
    parameters:
      title: {type: string, minLength: 1, description: What is wrong}
      priority: {type: string, enum: [low, normal, high], default: normal}
      due: {type: string, format: date-time}
      place:
        type: object
        properties: {floor: {type: integer, minimum: 0, maximum: 40}}
        required: [floor]
        additionalProperties: false
      watchers: {type: array, items: {type: string}}
    required: [title]
  - name: close_ticket
    description: Close a support ticket.
    risk: write
    effect: {op: update, collection: tickets, key_argument: ticket_id, set: {status: closed}}
    parameters:
      ticket_id: {type: string}
      reason: {type: string}
    required: [ticket_id]
  - name: delete_ticket
    description: Delete a ticket for good.
    risk: destructive
    allow: [admin]
    effect: {op: delete, collection: tickets, key_argument: ticket_id}
    parameters:
      ticket_id: {type: string}
    required: [ticket_id]
  - name: add_ticket_note
    description: Add a note to a ticket.
    risk: write
    requires_approval: false
    effect: {op: append, collection: tickets, key_argument: ticket_id, field: notes}
    parameters:
      ticket_id: {type: string}
      text: {type: string}
    required: [ticket_id, text]
  - name: list_tickets
    description: List support tickets.
    risk: read
    effect: {op: list, collection: tickets}
    parameters:
      status: {type: string, enum: [open, closed]}
  - name: get_ticket
    description: Show one ticket.
    risk: read
    effect: {op: get, collection: tickets, key_argument: ticket_id}
    parameters:
      ticket_id: {type: string}
    required: [ticket_id]
"""


@pytest.fixture(scope="session")
def desk_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalogs") / "desk.yaml"
    path.write_text(DESK, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def desk(desk_file: Path) -> Catalog:
    return load_catalog([desk_file])
