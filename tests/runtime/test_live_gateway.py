from pathlib import Path

from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.live_gateway import open_gateway


async def test_a_recovered_journal_never_runs_what_a_crash_left(
    desk: Catalog, tmp_path: Path
) -> None:
    """A second process opening the file sees an unfinished write as unknown."""
    journal = tmp_path / "journal.sqlite"
    first = open_gateway(desk, journal)
    session = first.session()
    await session.call("get_tool_schema", {"tool_names": ["create_ticket"]})
    call = {"tool_name": "create_ticket", "arguments": {"title": "x"}}
    held = await session.call("execute_tool", call)
    spec = desk.tool("create_ticket")
    assert spec is not None
    first.journal.decide(held["approval_id"], approve=True, by="ana")
    assert first.journal.claim(held["approval_id"], spec.content_hash) is not None
    first.journal.close()
    second = open_gateway(desk, journal)
    assert second.standing(held["approval_id"])["status"] == "unknown"
    second.journal.close()
