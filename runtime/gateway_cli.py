"""`breadcrumbs gateway`: the gateway as an MCP server in front of real ones."""

from __future__ import annotations

from pathlib import Path

import click

from breadcrumbs.approvals_cli import journal_option

_PATH = click.Path(path_type=Path)

encoder_option = click.option(
    "--encoder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of a sentence encoder: tools are found by meaning too.",
)


@click.group()
def gateway() -> None:
    """Put the gateway in front of real MCP servers."""


@gateway.command("serve")
@click.option(
    "--upstream",
    type=_PATH,
    required=True,
    help="An mcpServers JSON file, as desktop clients use it; its servers are started.",
)
@click.option(
    "--catalog", "labels", type=_PATH, multiple=True, help="Catalog YAML with your risk labels."
)
@journal_option
@encoder_option
@click.option("--http", metavar="HOST:PORT", help="Serve streamable HTTP there, and not stdio.")
@click.option(
    "--allow-form-approval",
    "form_approval",
    is_flag=True,
    help="Take a client's form for a person's decision. The client alone attests that.",
)
@click.option(
    "--approval-page", metavar="URL", help="Where people decide; clients are sent to URL/ID."
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    help="A role of who calls without a key, for tools whose label says `allow`.",
)
@click.option(
    "--timeout",
    "call_timeout_s",
    type=click.FloatRange(min=0.1),
    default=60,
    show_default=True,
    help="Seconds for each call of an upstream tool.",
)
def serve_command(
    upstream: Path,
    labels: tuple[Path, ...],
    journal: str,
    encoder: Path | None,
    http: str | None,
    form_approval: bool,
    approval_page: str | None,
    roles: tuple[str, ...],
    call_timeout_s: float,
) -> None:
    """Serve search_tool_catalog, get_tool_schema and execute_tool over the tools of MCP servers.

    Writes wait until a person decides: breadcrumbs approvals watch.
    """
    from breadcrumbs.gateway_serve import ServeOptions, serve_gateway

    serve_gateway(
        ServeOptions(
            upstream=upstream,
            labels=labels,
            journal=journal,
            encoder=encoder,
            http=http,
            form_approval=form_approval,
            approval_page=approval_page,
            roles=roles,
            call_timeout_s=call_timeout_s,
        )
    )
