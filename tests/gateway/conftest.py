"""A small catalog of its own, so that these tests do not hang on what ships."""

import glob
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """A real server of these tests alone, in a folder of its own, reached by its socket."""
    found = shutil.which("initdb") or next(
        iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), reverse=True)), None
    )
    if found is None:
        why = "no Postgres server here: apt-get install postgresql"
        assert not os.environ.get("BREADCRUMBS_NEEDS_POSTGRES"), why
        pytest.skip(why)
    programs = Path(found).resolve().parent
    folder = Path(tempfile.mkdtemp(prefix="breadcrumbs-pg-"))
    # Postgres refuses to run as root; its package made a user for it.
    other = {"user": "postgres", "group": "postgres", "extra_groups": []}
    as_server: dict[str, Any] = other if os.getuid() == 0 else {}
    if as_server:
        shutil.chown(folder, "postgres", "postgres")

    def run(program: str, *words: str) -> None:
        command = [str(programs / program), "--pgdata", str(folder / "data"), *words]
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            **as_server,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"

    run("initdb", "--username=postgres", "--auth=trust", "--no-sync", "--no-locale", "-E", "UTF8")
    flags = f"-c listen_addresses= -c unix_socket_directories={folder} -c max_connections=50"
    run("pg_ctl", "start", "--wait", "--silent", "--log", str(folder / "log"), "-o", flags)
    try:
        yield f"postgresql://postgres@/{{name}}?host={folder}"
    finally:
        run("pg_ctl", "stop", "--wait", "--silent", "--mode", "immediate")
        shutil.rmtree(folder)


@pytest.fixture
def postgres_url(postgres_server: str) -> str:
    """An empty database."""
    import psycopg

    name = f"journal_{secrets.token_hex(8)}"
    with psycopg.connect(postgres_server.format(name="postgres"), autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name}".encode())
    return postgres_server.format(name=name)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a journal may lie: every test that asks for it runs over both stores."""
    if request.param == "sqlite":
        return str(tmp_path / "journal.sqlite")
    url: str = request.getfixturevalue("postgres_url")
    return url
