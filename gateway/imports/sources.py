"""One source, a file or a folder, to drafts: its kind is read off its content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import CatalogError
from breadcrumbs.files import read_text
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.imports.definitions import KNOWN, find_definitions
from breadcrumbs.gateway.imports.drafts import Draft, Refusal, domain_name
from breadcrumbs.gateway.imports.openapi import find_operations
from breadcrumbs.gateway.imports.reading import parse_json, parse_yaml

if TYPE_CHECKING:
    from breadcrumbs.gateway.imports.live import LiveServer

MAX_FILE_BYTES = 32 * 1024 * 1024
ENDINGS = frozenset({".json", ".jsonl", ".ndjson", ".snap", ".yaml", ".yml"})
"""Files that are looked at inside a folder; a file named itself may have any name."""
_PROJECT_KEYS = frozenset({"version", "domain", "tools"})


def read_source(source: str | Path, *, timeout_s: float | None = None) -> Iterator[Draft | Refusal]:
    """Every tool of a source, and what in it is none, in the source's order.

    Inside a folder a file that cannot be read is a refusal, and servers are not started: that
    needs their file to be named itself.

    Args:
        source: a file or folder.
        timeout_s: for each live server; `None` means `live.TIMEOUT_S`.

    Raises:
        CatalogError: there is no such file, or the file named cannot be read.
    """
    path = Path(source)
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.suffix.lower() in ENDINGS and file.is_file():
                yield from _file_in_folder(file, str(file.relative_to(path)))
    elif path.exists():
        yield from _file(path, str(path), timeout_s, start_servers=True)
    else:
        raise CatalogError(f"{path}: no such file or folder; {KNOWN}")


def load_servers(path: Path) -> list[LiveServer]:
    """The servers of an `mcpServers` file that are not disabled in it; none is started.

    Raises:
        CatalogError: it cannot be read, an entry is not usable, or there is none.
    """
    from breadcrumbs.gateway.imports.live import parse_servers  # brings the MCP SDK

    value = parse_json(read_text(path, MAX_FILE_BYTES, CatalogError), str(path))
    entries = value.get("mcpServers") if isinstance(value, dict) else None
    if not isinstance(entries, dict):
        raise CatalogError(f"{path}: no mcpServers in it; write {{'mcpServers': {{NAME: ...}}}}")
    used = {name: entry for name, entry in entries.items() if not _is_disabled(entry)}
    servers: list[LiveServer] = []
    for found in parse_servers({"mcpServers": used}, str(path)):
        if isinstance(found, Refusal):
            raise CatalogError(found.reason)
        servers.append(found)
    if not servers:
        raise CatalogError(f"{path}: names no server that is not disabled")
    return servers


def _is_disabled(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("disabled") is True


def _file_in_folder(path: Path, shown: str) -> Iterator[Draft | Refusal]:
    try:
        yield from _file(path, shown, None, start_servers=False)
    except CatalogError as error:
        yield Refusal(shown, str(error))


def _file(
    path: Path, shown: str, timeout_s: float | None, *, start_servers: bool
) -> Iterator[Draft | Refusal]:
    text = read_text(path, MAX_FILE_BYTES, CatalogError)
    domain = domain_name(path.stem, "imported")
    lines = _json_lines(text)
    if lines is not None:
        yield from _lines(lines, shown, domain)
        return
    is_json = text.lstrip()[:1] in ("{", "[")
    value = parse_json(text, shown) if is_json else parse_yaml(text, shown)
    if not isinstance(value, Mapping):
        yield from find_definitions(value, shown, domain)
    elif "openapi" in value or "swagger" in value:
        yield from find_operations(value, shown, domain)
    elif "mcpServers" in value:
        yield from _servers(value, shown, timeout_s, start=start_servers)
    elif set(value) >= _PROJECT_KEYS:
        yield from _project_file(path, shown)
    elif not start_servers and "name" in value:  # one tool a file: the folder is the server
        yield from find_definitions(value, shown, domain_name(path.parent.name, domain))
    else:
        yield from find_definitions(value, shown, domain)


def _json_lines(text: str) -> list[str] | None:
    """The lines of a file that holds one JSON document a line, else None."""
    lines = text.split("\n") if text.lstrip()[:1] == "{" else []
    filled = [line for line in lines if line.strip()]
    if len(filled) < 2 or not all(line.strip()[-1] == "}" for line in filled[:2]):
        return None
    return lines if filled[1].lstrip()[0] == "{" else None


def _lines(lines: list[str], shown: str, domain: str) -> Iterator[Draft | Refusal]:
    found: list[Draft | Refusal] = []
    for number, line in enumerate(lines, start=1):
        place = f"{shown}:{number}"
        if not line.strip():
            continue
        try:
            found += find_definitions(parse_json(line, place), place, domain)
        except CatalogError as error:
            found.append(Refusal(place, str(error)))
    if len(found) > 1 and not any(isinstance(item, Draft) for item in found):
        first = found[0].reason if isinstance(found[0], Refusal) else ""
        yield Refusal(shown, f"no tool in any of its {len(found)} lines; the first: {first}")
    else:
        yield from found


def _servers(
    value: Mapping[str, Any], shown: str, timeout_s: float | None, *, start: bool
) -> Iterator[Draft | Refusal]:
    if not start:
        yield Refusal(shown, f"{shown}: servers are started only where their file is named itself")
        return
    from breadcrumbs.gateway.imports import live  # brings the MCP SDK

    servers = live.parse_servers(value, shown)
    yield from live.read_servers(servers, timeout_s=timeout_s or live.TIMEOUT_S)


def _project_file(path: Path, shown: str) -> Iterator[Draft]:
    """The operator's own file: its labels are own labels. Its simulated world stays behind."""
    for spec in load_catalog([path]).tools.values():
        yield Draft(
            name=spec.name,
            description=spec.description,
            schema=spec.input_schema,
            source=shown,
            domain=spec.domain,
            own=spec.risk,
            keywords=spec.keywords,
            requests=spec.requests,
            allow=spec.allow,
            requires_approval=spec.requires_approval,
        )
