"""`breadcrumbs audit`: the checks every team should make, on what the team has."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from breadcrumbs.eval.audit import AuditReport

FINDINGS = 1
FILE = click.Path(path_type=Path)
WORDS = {"ignore_unknown_options": True, "allow_interspersed_args": False}
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")


@click.group()
def audit() -> None:
    """Check a server, payloads, a prompt or a loop; status 1 where something is found."""


@audit.command("server", context_settings=WORDS)
@click.option("--entry", help="One entry of an mcpServers file; without it, all.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1), default=30.0, show_default=True)
@as_json_option
@click.argument("source", nargs=-1, required=True)
def audit_server_command(
    entry: str | None, timeout_s: float, as_json: bool, source: tuple[str, ...]
) -> None:
    """Does each discovery payload of a live MCP server end with a next step?

    SOURCE is a url, an mcpServers JSON file, or a command. Only discovery tools are called.
    """
    from breadcrumbs.eval.audit_server import audit_server, read_sources

    sources = read_sources(source, entry)
    _finish([audit_server(one, timeout_s) for one in sources], as_json)


@audit.command("payloads")
@click.argument("file", type=FILE)
@as_json_option
def audit_payloads_command(file: Path, as_json: bool) -> None:
    """Does each payload of a dump end with a next step, and could its data forge one?"""
    from breadcrumbs.eval.audit_payloads import audit_payloads

    _finish([audit_payloads(file)], as_json)


@audit.command("prompt")
@click.argument("file", type=FILE)
@as_json_option
def audit_prompt_command(file: Path, as_json: bool) -> None:
    """Does a system prompt still tell the model to ask before it acts?"""
    from breadcrumbs.eval.audit_prompt import audit_prompt

    _finish([audit_prompt(file)], as_json)


@audit.command("loop", context_settings=WORDS)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0: any that is free.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1), default=60.0, show_default=True)
@as_json_option
@click.argument("command", nargs=-1)
def audit_loop_command(
    port: int, timeout_s: float, as_json: bool, command: tuple[str, ...]
) -> None:
    """Does an agent's loop catch a stall, leave a true question alone, and end?

    COMMAND starts the agent; it is run once for each kind of stall and once for a question, with
    OPENAI_BASE_URL, OPENAI_API_KEY and BREADCRUMBS_AUDIT_RUN set. Without it, the address is
    printed, and every fresh conversation is the next run.
    """
    from breadcrumbs.eval.audit_loop import audit_loop

    def announce(address: str) -> None:
        click.echo(f"OPENAI_BASE_URL={address} OPENAI_API_KEY=audit; waiting", err=True)

    _finish([audit_loop(command, port, timeout_s, announce=announce)], as_json)


def _finish(reports: list[AuditReport], as_json: bool) -> None:
    """Print the reports and leave with the status that says whether anything was found."""
    if as_json:
        bodies = [report.to_dict() for report in reports]
        click.echo(json.dumps(bodies[0] if len(bodies) == 1 else bodies, indent=2))
    else:
        from rich.console import Console

        from breadcrumbs.eval.audit import rendered

        console = Console(highlight=False)
        for report in reports:
            for piece in rendered(report):
                console.print(piece)
    if any(report.findings for report in reports):
        sys.exit(FINDINGS)
