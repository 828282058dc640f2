"""`breadcrumbs catalog`: bring tools in, look at them, find what is wrong with them."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from breadcrumbs.errors import CatalogError
from breadcrumbs.visible import plain, visible

if TYPE_CHECKING:
    from breadcrumbs.gateway.imports.importing import Import

FINDINGS, UNUSABLE = 1, 2
_LISTED = 20
"""Lines of one kind that are shown; `--json` holds all."""
_PATH = click.Path(path_type=Path)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
timeout_option = click.option(
    "--timeout", "timeout_s", type=click.FloatRange(min=0.1), help="Seconds for each live server."
)


@click.group()
def catalog() -> None:
    """Import tools from elsewhere, and check what a catalog holds.

    A SOURCE is a file or folder: the project's YAML, an MCP tools/list answer, an mcpServers file
    (its servers are started), an OpenAPI 3 document, OpenAI tools, or BFCL function docs.
    """


@catalog.command("import")
@click.argument("sources", type=_PATH, nargs=-1, required=True, metavar="SOURCE...")
@click.option("--out", type=_PATH, help="Write the tools as one catalog file (YAML).")
@as_json_option
@timeout_option
def import_command(
    sources: tuple[Path, ...], out: Path | None, as_json: bool, timeout_s: float | None
) -> None:
    """Import every tool, or say why not. Exit 2 where nothing came in; then nothing is written."""
    report = _read(sources, timeout_s)
    if out is not None and report.tools:
        from breadcrumbs.gateway.imports.writing import write_catalog

        write_catalog([tool.spec for tool in report.tools], out)
    if as_json:
        click.echo(json.dumps(report.to_dict(), indent=2))
    else:
        _tell(report, out)
    if not report.tools:
        sys.exit(UNUSABLE)


def _tell(report: Import, out: Path | None) -> None:
    parts = [f"{len(report.tools)} imported", f"{len(report.refused)} refused"]
    parts += [f"{len(report.duplicates)} duplicates", f"{len(report.secrets)} secrets"]
    _list("refused", [f"{one.tool}: {one.reason}" for one in report.refused])
    _list("duplicate", [f"{one.tool}: as in {one.same_as}" for one in report.duplicates])
    _list("secret", [f"{s.tool} at {s.where}: {s.kind} {s.shown}" for s in report.secrets])
    _list("changed", [f"{tool.spec.name}: {note}" for tool in report.tools for note in tool.notes])
    written = f"; {'written to' if report.tools else 'nothing written to'} {out}" if out else ""
    click.echo(f"{', '.join(parts)}{written}")


@catalog.command("show")
@click.argument("name")
@click.argument("sources", type=_PATH, nargs=-1, metavar="[SOURCE]...")
@as_json_option
def show_command(name: str, sources: tuple[Path, ...], as_json: bool) -> None:
    """Show one tool of some sources, or of the catalogs that ship."""
    report = _read(sources, None)
    tool = next((tool for tool in report.tools if tool.spec.name == name), None)
    if tool is None:
        raise CatalogError(f"no tool {name!r} among {len(report.tools)}{_near(name, report)}")
    spec = tool.spec
    shown: dict[str, Any] = {
        "name": spec.name,
        "domain": spec.domain,
        "source": tool.source,
        "risk": str(spec.risk),
        "requires_approval": spec.requires_approval,
        "allow": list(spec.allow),
        "keywords": list(spec.keywords),
        "requests": list(spec.requests),
        "content_hash": spec.content_hash,
        "description": spec.description,
        "inputSchema": dict(spec.input_schema),
    }
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    for key, value in shown.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2)
        click.echo(f"{key}: {plain(text)}")


@catalog.command("lint")
@click.argument("sources", type=_PATH, nargs=-1, metavar="[SOURCE]...")
@as_json_option
@timeout_option
def lint_command(sources: tuple[Path, ...], as_json: bool, timeout_s: float | None) -> None:
    """Find missing texts and types, false defaults, instructions, secrets. Exit 1 on findings."""
    from breadcrumbs.gateway.imports.lint import lint

    report = _read(sources, timeout_s)
    findings = lint(report)
    if not findings:
        _some(report)
    if as_json:
        click.echo(json.dumps([finding.to_dict() for finding in findings], indent=2))
    else:
        for finding in findings:
            place = f" at {finding.where}" if finding.where else ""
            click.echo(visible(f"{finding.tool}{place}: {finding.problem}"))
        click.echo(f"{len(findings)} findings in {len(report.tools)} tools")
    if findings:
        sys.exit(FINDINGS)


@catalog.command("stats")
@click.argument("sources", type=_PATH, nargs=-1, metavar="[SOURCE]...")
@as_json_option
@timeout_option
def stats_command(sources: tuple[Path, ...], as_json: bool, timeout_s: float | None) -> None:
    """Count tools, domains and risk, and say how long the schemas are."""
    from breadcrumbs.gateway.imports.figures import figures

    report = _some(_read(sources, timeout_s))
    counted = figures([tool.spec for tool in report.tools])
    if as_json:
        click.echo(json.dumps(counted, indent=2))
        return
    domains = counted["domains"]
    click.echo(f"{counted['tools']} tools in {len(domains)} domains")
    largest = sorted(domains.items(), key=lambda item: (-item[1], item[0]))[:_LISTED]
    click.echo("  domain: " + ", ".join(f"{name} {number}" for name, number in largest))
    click.echo("  risk: " + ", ".join(f"{name} {n}" for name, n in counted["risk"].items()))
    click.echo(f"  held for approval: {counted['held_for_approval']}")
    lengths = ", ".join(f"{name} {n}" for name, n in counted["schema_characters"].items())
    click.echo(f"  schema characters: {lengths}")


@catalog.command("synthesize")
@click.option("--tools", "size", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("--schema-tokens", type=int, default=200, show_default=True, help="100 to 32000.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--out", type=_PATH, required=True, help="Catalog file to write (YAML).")
def synthesize_command(size: int, schema_tokens: int, seed: int, out: Path) -> None:
    """Write synthetic tools with schemas of one length, to try things at scale."""
    from breadcrumbs.gateway.imports.writing import write_catalog
    from breadcrumbs.gateway.synthetic import synthetic_catalog

    made = synthetic_catalog(size, seed, schema_tokens)
    write_catalog(list(made.tools.values()), out)
    click.echo(f"{len(made.tools)} tools written to {out}")


def _read(sources: tuple[Path, ...], timeout_s: float | None) -> Import:
    """The tools of the sources; of the catalogs that ship where none is named."""
    from importlib import resources

    from breadcrumbs.gateway.imports.importing import import_sources

    quiet_sdk()
    shipped = Path(str(resources.files("breadcrumbs.configs"))) / "catalogs"
    return import_sources(sources or [shipped], timeout_s=timeout_s)


def _some(report: Import) -> Import:
    """The report, where a tool came in: figures of nothing would hide a slip in a name."""
    if not report.tools:
        why = report.refused[0].reason if report.refused else "there is none in what was named"
        raise CatalogError(f"no tool came in: {why}")
    return report


def quiet_sdk() -> None:
    """Unless logs are wanted: the MCP SDK logs at length what a report says in one line."""
    if logging.getLogger().level > logging.INFO:
        logging.getLogger("mcp").setLevel(logging.CRITICAL)


def _list(word: str, lines: list[str]) -> None:
    for line in lines[:_LISTED]:
        click.echo(visible(f"{word}: {line}"))
    if len(lines) > _LISTED:
        click.echo(
            f"{word}: and {len(lines) - _LISTED} more; see --json and breadcrumbs catalog lint"
        )


def _near(name: str, report: Import) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, [tool.spec.name for tool in report.tools], n=3)
    return f"; near: {', '.join(near)}" if near else "; see breadcrumbs catalog stats"
