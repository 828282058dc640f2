"""The approval journal under replay, race, expiry, crash; with the naive version beside it."""

import asyncio
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.approvals import ApprovalCard, ApprovalJournal, arguments_sha
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import Gateway
from breadcrumbs.gateway.identity import SeededIds, SimulatedClock, SystemClock, SystemIds
from breadcrumbs.gateway.worlds import World, WorldExecutor

THREADS = 8
ROUNDS = 20
CLAIM_AND_DIE = """
import os, signal, sys
from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.identity import SystemClock, SystemIds
journal = ApprovalJournal(sys.argv[1], SystemClock(), SystemIds())
assert journal.decide(sys.argv[2], approve=True, by="ann")
if sys.argv[4] == "claimed":
    assert journal.claim(sys.argv[2], sys.argv[3]) is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(step_s=0)


@pytest.fixture
def journal(clock: SimulatedClock) -> ApprovalJournal:
    return ApprovalJournal(":memory:", clock, SeededIds(1), ttl_s=300)


def hold(journal: ApprovalJournal, desk: Catalog, title: str = "x") -> ApprovalCard:
    spec = desk.tools["create_ticket"]
    return journal.hold(spec, {"title": title}, principal="bo", session="s1")


def race(work: Callable[[int], bool]) -> int:
    """How many of the threads won, all let go at once."""
    barrier, wins = threading.Barrier(THREADS), []

    def run(number: int) -> None:
        barrier.wait()
        wins.append(work(number))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == THREADS
    return sum(wins)


def open_each(path: Path) -> list[ApprovalJournal]:
    return [ApprovalJournal(path, SystemClock(), SystemIds()) for _ in range(THREADS)]


def test_one_approval_runs_once(tmp_path: Path, desk: Catalog) -> None:
    journals = open_each(tmp_path / "journal.db")
    for number in range(ROUNDS):
        card = hold(journals[0], desk, str(number))
        assert journals[0].decide(card.id, approve=True, by="ann")
        version = card.tool_version
        assert race(lambda n, c=card, v=version: journals[n].claim(c.id, v) is not None) == 1
    for journal in journals:
        journal.close()


def test_naive_check_then_set_spends_twice(tmp_path: Path, desk: Catalog) -> None:
    """The control: looking first and writing after loses the same race."""
    journals = open_each(tmp_path / "journal.db")
    raw = [
        sqlite3.connect(
            tmp_path / "journal.db", isolation_level=None, check_same_thread=False, timeout=10
        )
        for _ in range(THREADS)
    ]
    seen = threading.Barrier(THREADS)

    def naive(number: int, approval: str) -> bool:
        db = raw[number]
        row = db.execute("SELECT state FROM approvals WHERE id=?", (approval,)).fetchone()
        seen.wait()
        if row[0] != "approved":
            return False
        db.execute("UPDATE approvals SET state='executing' WHERE id=?", (approval,))
        return True

    card = hold(journals[0], desk)
    journals[0].decide(card.id, approve=True, by="ann")
    assert race(lambda n: naive(n, card.id)) > 1
    for database in [*raw, *journals]:
        database.close()


def test_approve_against_deny_has_one_winner(tmp_path: Path, desk: Catalog) -> None:
    journals = open_each(tmp_path / "journal.db")
    for number in range(ROUNDS):
        card = hold(journals[0], desk, str(number))
        won = race(lambda n, c=card: journals[n].decide(c.id, approve=n % 2 == 0, by=f"person {n}"))
        assert won == 1
    for journal in journals:
        journal.close()


def test_eight_equal_holds_are_one_row(tmp_path: Path, desk: Catalog) -> None:
    journals = open_each(tmp_path / "journal.db")
    assert race(lambda n: bool(hold(journals[n], desk))) == THREADS
    assert len(journals[0].rows()) == 1
    for journal in journals:
        journal.close()


async def test_gateway_runs_the_effect_once_for_many_approvals(desk: Catalog) -> None:
    clock, ids, world = SimulatedClock(), SeededIds(1), World(desk)
    journal = ApprovalJournal(":memory:", clock, ids)
    gateway = Gateway(desk, WorldExecutor(world), journal, clock=clock, ids=ids)
    card = hold(journal, desk)
    answers = await asyncio.gather(
        *(gateway.decide(card.id, approve=True, by=f"person {n}") for n in range(8))
    )
    assert len(world.state()["desk.tickets"]) == 4
    assert (await gateway.decide(card.id, approve=True, by="late"))["status"] == "done"
    assert answers[0]["status"] == "done"
    assert len(world.state()["desk.tickets"]) == 4


def test_replay_tamper_and_wrong_order_are_refused(journal: ApprovalJournal, desk: Catalog) -> None:
    card = hold(journal, desk)
    assert journal.claim(card.id, card.tool_version) is None, "not approved yet"
    assert journal.decide(card.id, approve=True, by="ann")
    assert not journal.decide(card.id, approve=False, by="ann"), "decided already"
    assert journal.claim(card.id, "another version of the tool") is None
    assert journal.claim("appr_made_up", card.tool_version) is None
    claimed = journal.claim(card.id, card.tool_version)
    assert claimed is not None
    assert claimed.arguments == {"title": "x"}
    assert journal.claim(card.id, card.tool_version) is None, "replay"
    journal.finish(card.id, "done", {"ticket_id": "tkt_4"})
    journal.finish(card.id, "failed", {"reason": "too late to say so"})
    done = journal.get(card.id)
    assert done is not None
    assert (done.state, done.result, done.decided_by) == ("done", {"ticket_id": "tkt_4"}, "ann")


def test_the_stored_arguments_are_a_copy(journal: ApprovalJournal, desk: Catalog) -> None:
    arguments = {"title": "x", "watchers": ["ann"]}
    card = journal.hold(desk.tools["create_ticket"], arguments, principal="bo", session="s1")
    arguments["watchers"] = ["mallory"]
    stored = journal.get(card.id)
    assert stored is not None
    assert stored.arguments == {"title": "x", "watchers": ["ann"]}


@pytest.mark.parametrize(("after_s", "lives"), [(299.999999, True), (300, False), (301, False)])
def test_time_runs_out_at_expires_not_after(
    journal: ApprovalJournal, clock: SimulatedClock, desk: Catalog, after_s: float, lives: bool
) -> None:
    card = hold(journal, desk)
    clock.advance(after_s)
    assert journal.decide(card.id, approve=True, by="ann") is lives
    assert [c.id for c in journal.rows()] == [card.id]
    now = journal.get(card.id)
    assert now is not None
    assert now.state == ("approved" if lives else "expired")


def test_an_approval_not_begun_in_time_does_not_begin(
    journal: ApprovalJournal, clock: SimulatedClock, desk: Catalog
) -> None:
    card = hold(journal, desk)
    journal.decide(card.id, approve=True, by="ann")
    clock.advance(300)
    assert journal.claim(card.id, card.tool_version) is None
    late = journal.get(card.id)
    assert late is not None
    assert late.state == "expired"
    assert hold(journal, desk).id != card.id


def test_denial_sticks_to_the_same_arguments(journal: ApprovalJournal, desk: Catalog) -> None:
    card = hold(journal, desk)
    journal.decide(card.id, approve=False, by="ann", reason="no budget")
    refused = hold(journal, desk)
    assert (refused.id, refused.state, refused.reason) == (card.id, "denied", "no budget")
    assert hold(journal, desk, "y").state == "pending"
    spec, same = desk.tools["create_ticket"], {"title": "x"}
    for principal, session in (("bo", "s2"), ("cy", "s1")):
        assert journal.hold(spec, same, principal=principal, session=session).state == "pending"


@pytest.mark.parametrize(("point", "after"), [("approved", "approved"), ("claimed", "unknown")])
def test_kill_9_never_runs_twice(tmp_path: Path, desk: Catalog, point: str, after: str) -> None:
    path = tmp_path / "journal.db"
    journal = ApprovalJournal(path, SystemClock(), SystemIds())
    card = hold(journal, desk)
    ended = subprocess.run(
        [sys.executable, "-c", CLAIM_AND_DIE, str(path), card.id, card.tool_version, point],
        check=False,
    )
    assert ended.returncode == -9
    assert journal.recover() == (point == "claimed")
    row = journal.get(card.id)
    assert row is not None
    assert row.state == after
    assert (journal.claim(card.id, card.tool_version) is not None) is (point == "approved")
    journal.close()


def test_files_are_written_through(tmp_path: Path) -> None:
    journal = ApprovalJournal(tmp_path / "journal.db", SystemClock(), SystemIds())
    assert journal._store.read("PRAGMA journal_mode") == [("wal",)]
    assert journal._store.read("PRAGMA synchronous") == [(2,)]
    assert journal._store.read("PRAGMA busy_timeout") == [(10_000,)]
    assert (tmp_path / "journal.db").stat().st_mode & 0o777 == 0o600
    journal.close()


def test_a_file_that_cannot_be_opened_says_so(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="approval journal"):
        ApprovalJournal(tmp_path / "no folder" / "journal.db", SystemClock(), SystemIds())


json_objects = st.dictionaries(
    st.text(), st.integers(-1000, 1000) | st.text() | st.lists(st.booleans()), max_size=4
)


@given(json_objects, st.randoms())
def test_hash_ignores_key_order_and_sees_every_value(
    arguments: dict[str, object], chance: random.Random
) -> None:
    items = list(arguments.items())
    chance.shuffle(items)
    digest = arguments_sha(arguments)
    assert arguments_sha(dict(items)) == digest
    for key in arguments:
        assert arguments_sha({**arguments, key: {"another": "value"}}) != digest


def test_hash_takes_equal_numbers_for_equal() -> None:
    assert arguments_sha({"n": 10}) == arguments_sha({"n": 10.0})
    assert arguments_sha({"n": "\u00e9"}) != arguments_sha({"n": "e\u0301"})
