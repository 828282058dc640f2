"""`breadcrumbs approvals`: what a person sees and decides, from the stored row alone."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.approvals_cli import watch
from breadcrumbs.cli import main
from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.identity import SystemClock, SystemIds
from breadcrumbs.live_gateway import open_gateway

HIDDEN = "Pay\u202e 001\u200b \x1b[2K now"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("BREADCRUMBS_JOURNAL", str(tmp_path / "journal.sqlite"))
    monkeypatch.setenv("COLUMNS", "200")
    return str(tmp_path / "journal.sqlite")


@pytest.fixture
def held(place: str, desk: Catalog) -> str:
    return hold(place, desk, HIDDEN)


def opened(place: str) -> ApprovalJournal:
    return ApprovalJournal(place, SystemClock(), SystemIds())


def hold(place: str, desk: Catalog, title: str) -> str:
    journal = opened(place)
    spec = desk.tools["create_ticket"]
    card = journal.hold(spec, {"title": title}, principal="bo", session="s1")
    journal.close()
    return card.id


def state(place: str, approval: str) -> str:
    journal = opened(place)
    card = journal.get(approval)
    journal.close()
    assert card is not None
    return card.state


def said(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    code: Any = 0
    try:
        main(["approvals", *words])
    except SystemExit as stop:
        code = stop.code
    captured = capsys.readouterr()
    assert code == status, captured
    return captured.err if status == 2 else captured.out


def test_list_and_show_write_hidden_characters_out(
    held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "list").startswith(f"{held}  pending   create_ticket (write) for bo")
    shown = said(capsys, "show", held)
    assert r"Pay\u202e 001\u200b \u001b[2K now" in shown
    assert not any(char in shown for char in "\u202e\u200b\x1b")
    assert "pending" in shown
    record = json.loads(said(capsys, "show", held, "--json"))
    assert record["arguments"] == {"title": HIDDEN}
    assert [(e["from"], e["to"], e["by"]) for e in record["events"]] == [(None, "pending", "bo")]
    assert "nonce" not in record
    assert [card["approval_id"] for card in json.loads(said(capsys, "list", "--json"))] == [held]


def test_what_ran_out_is_listed_as_expired(
    place: str, desk: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = opened(place)
    journal._ttl = timedelta(0)
    spec = desk.tools["create_ticket"]
    card = journal.hold(spec, {"title": "x"}, principal="bo", session="s1")
    journal.close()
    assert said(capsys, "list", "--all").startswith(f"{card.id}  expired ")
    assert said(capsys, "list") == ""


async def test_what_is_approved_here_runs_in_the_gateway(
    place: str, desk: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    gateway = open_gateway(desk, place)
    session = gateway.session()
    await session.call("get_tool_schema", {"tool_names": ["create_ticket"]})
    call = {"tool_name": "create_ticket", "arguments": {"title": "Lift"}}
    approval = (await session.call("execute_tool", call))["approval_id"]
    out = said(capsys, "approve", approval, "--yes", "--by", "ann")
    assert 'title = "Lift"' in out
    assert out.endswith("approved; the gateway runs it\n")
    done = await session.call("execute_tool", {**call, "approval_id": approval})
    assert done["status"] == "done"
    gateway.journal.close()
    assert said(capsys, "list") == ""
    assert f"{approval}  done" in said(capsys, "list", "--all")
    shown = said(capsys, "show", approval)
    assert "approved   ann" in shown
    assert 'result: {"ticket_id": ' in shown
    again = said(capsys, "approve", approval, "--yes", status=2)
    assert again == f"breadcrumbs: {approval} is done already; nothing was changed\n"


def test_approving_asks_after_the_card(
    place: str, held: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("click.confirm", lambda text: False)
    assert "approval needed" in said(capsys, "approve", held)
    assert state(place, held) == "pending"
    monkeypatch.setattr("click.confirm", lambda text: True)
    said(capsys, "approve", held)
    assert state(place, held) == "approved"


def test_deny_with_a_reason(place: str, held: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "deny", held, "--reason", "no \u202ebudget") == "denied\n"
    assert state(place, held) == "denied"
    assert r"reason: no \u202ebudget" in said(capsys, "show", held)


def test_watch_shows_each_card_once_and_asks(
    place: str, desk: Catalog, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [hold(place, desk, title) for title in ("one", "two", "three")]
    answers = iter(["y", "", "no"])
    journal, rounds = opened(place), list[float]()

    def wait(seconds: float) -> None:
        rounds.append(seconds)
        if len(rounds) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(journal, "ann", 1.0, ask=lambda text: next(answers), wait=wait)
    journal.close()
    assert [state(place, approval) for approval in ids] == ["approved", "pending", "denied"]
    assert capsys.readouterr().out.count("approval needed") == 3


def test_watch_as_json_asks_nobody(
    place: str, held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = opened(place)

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    def nobody(text: str) -> str:
        raise AssertionError

    with pytest.raises(KeyboardInterrupt):
        watch(journal, "ann", 1.0, as_json=True, ask=nobody, wait=stop)
    journal.close()
    assert json.loads(capsys.readouterr().out)["approval_id"] == held


def test_grant_and_revoke(place: str, held: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--uses", "2", "--minutes", "5", "--fixed", "title"]
    out = said(capsys, "grant", held, *words)
    assert "2 calls of create_ticket until" in out
    grant = out.partition(":")[0]
    assert said(capsys, "revoke", grant) == "revoked\n"
    assert "no grant" in said(capsys, "revoke", grant, status=2)


def test_verify_ends_with_1_where_a_row_was_changed(
    place: str, held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(said(capsys, "verify", "--json"))
    assert (whole["events"], whole["faults"]) == (1, [])
    assert said(capsys, "verify", "--head", whole["head"]).startswith("1 events, 0 faults, head ")
    assert "noted before is gone" in said(capsys, "verify", "--head", "ab", status=1)
    journal: Any = opened(place)
    with journal._store.writing() as sql:
        sql("UPDATE approvals SET state='approved'")
    journal.close()
    assert f"{held}: its row was changed" in said(capsys, "verify", status=1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("list", "--journal", "nowhere.sqlite"), "nowhere.sqlite: no approval journal here"),
        (("show", "appr_x"), "no approval 'appr_x'; see: breadcrumbs approvals list"),
        (("approve", "appr_x", "--yes"), "no approval 'appr_x'"),
        (("deny", "appr_x"), "no approval 'appr_x'"),
        (("list", "--journal", "redis://bo:pw@h"), "redis://bo:***@h: not a journal"),
    ],
)
def test_bad_input_is_one_line(
    held: str, words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = said(capsys, *words, status=2)
    assert line.startswith("breadcrumbs: ")
    assert told in line
    assert line.count("\n") == 1
    assert not Path("nowhere.sqlite").exists()
