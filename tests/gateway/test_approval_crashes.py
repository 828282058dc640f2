"""The journal under kill -9, full disks, lost servers, tampering and a stop; G37 to G46."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.execution import MAX_AT_ONCE, idempotency_key
from breadcrumbs.gateway.gateway import Gateway, GatewaySession, Principal
from breadcrumbs.gateway.identity import SystemClock, SystemIds
from breadcrumbs.gateway.journal_store import open_store, without_password
from breadcrumbs.gateway.payloads import DECIDED

CREATE = {"tool_name": "create_ticket", "arguments": {"title": "Loud fan"}}
CHILD = """
import asyncio, os, signal, sys
from breadcrumbs.gateway import journal_log
from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import Gateway
from breadcrumbs.gateway.identity import SystemClock, SystemIds

place, desk, approval, effects, point = sys.argv[1:]

def die():
    os.kill(os.getpid(), signal.SIGKILL)

class Executor:
    async def run(self, spec, arguments):
        if point == "claimed":
            die()
        with open(effects, "a") as file:
            file.write("ran ")
        if point == "acted":
            die()
        return {"ticket_id": "tkt_9"}

# Inside the transaction, after the row was moved and before it is committed.
append = journal_log.append
def dying_append(sql, **entry):
    if point == "in " + entry["after"]:
        die()
    append(sql, **entry)
journal_log.append = dying_append

clock, ids = SystemClock(), SystemIds()
journal = ApprovalJournal(place, clock, ids)
if point == "approved":
    journal.claim = lambda *_: die()
gateway = Gateway(load_catalog([desk]), Executor(), journal, clock=clock, ids=ids)
asyncio.run(gateway.decide(approval, approve=True, by="ann"))
assert point == "recorded", "it should have died before"
die()
"""


class Writing:
    """A tool whose effect is a word in a file."""

    def __init__(self, effects: Path) -> None:
        self.effects = effects

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        with self.effects.open("a") as file:
            file.write("ran ")
        return {"ticket_id": "tkt_9"}

    @property
    def ran(self) -> int:
        return self.effects.read_text().count("ran") if self.effects.exists() else 0


@contextmanager
def opened(place: str, desk: Catalog, executor: Any) -> Iterator[Gateway]:
    clock, ids = SystemClock(), SystemIds()
    journal = ApprovalJournal(place, clock, ids)
    try:
        yield Gateway(desk, executor, journal, clock=clock, ids=ids)
    finally:
        journal.close()


async def hold(gateway: Gateway) -> tuple[GatewaySession, str]:
    session = gateway.session(Principal("bo"), "s1")
    await session.call("get_tool_schema", {"tool_names": ["create_ticket"]})
    answer = await session.call("execute_tool", CREATE)
    return session, answer["approval_id"]


@pytest.mark.parametrize(
    ("point", "left", "effects", "at_last", "in_all"),
    [
        pytest.param("in approved", "pending", 0, "done", 1, id="g37-deciding"),
        pytest.param("approved", "approved", 0, "done", 1, id="g37-before-the-claim"),
        pytest.param("in executing", "approved", 0, "done", 1, id="g37-claiming"),
        pytest.param("claimed", "executing", 0, "unknown", 0, id="g38-after-the-claim"),
        pytest.param("acted", "executing", 1, "unknown", 1, id="g39-after-the-effect"),
        pytest.param("in done", "executing", 1, "unknown", 1, id="g39-recording"),
        pytest.param("recorded", "done", 1, "done", 1, id="g40-after-the-record"),
    ],
)
async def test_g37_to_g40_kill_9_at_every_step(
    place: str,
    desk: Catalog,
    desk_file: Path,
    tmp_path: Path,
    point: str,
    left: str,
    effects: int,
    at_last: str,
    in_all: int,
) -> None:
    executor = Writing(tmp_path / "effects")
    with opened(place, desk, executor) as gateway:
        session, approval = await hold(gateway)
        words = [place, str(desk_file), approval, str(executor.effects), point]
        died = subprocess.run(
            [sys.executable, "-c", CHILD, *words], capture_output=True, check=False, timeout=60
        )
        assert died.returncode == -signal.SIGKILL, died.stderr.decode()
        card = gateway.journal.get(approval)
        assert card is not None
        assert (card.state, executor.ran) == (left, effects)
        assert gateway.journal.recover() == (left == "executing")
        poll = {**CREATE, "approval_id": approval}
        for _ in range(2):  # an operator and a model that do not give up
            answer = await gateway.decide(approval, approve=True, by="ann")
            assert answer["status"] == at_last
            assert await session.call("execute_tool", poll) == answer
        assert executor.ran == in_all
        assert gateway.journal.verify().faults == ()


async def test_g39_control_a_retry_from_executing_acts_twice(
    place: str, desk: Catalog, desk_file: Path, tmp_path: Path
) -> None:
    """The naive recovery: what was left `executing` is simply run again."""
    executor = Writing(tmp_path / "effects")
    with opened(place, desk, executor) as gateway:
        _, approval = await hold(gateway)
        words = [place, str(desk_file), approval, str(executor.effects), "acted"]
        subprocess.run([sys.executable, "-c", CHILD, *words], check=False, timeout=60)
        with gateway.journal._store.writing() as sql:
            sql("UPDATE approvals SET state='approved' WHERE state='executing'")
        await gateway.decide(approval, approve=True, by="ann")
        assert executor.ran == 2
        assert gateway.journal.verify().faults != (), "and the log shows it"


async def test_g41_the_sweep_marks_what_is_stale_and_runs_nothing(
    place: str, desk: Catalog, tmp_path: Path
) -> None:
    executor = Writing(tmp_path / "effects")
    with opened(place, desk, executor) as gateway:
        session, approval = await hold(gateway)
        journal = gateway.journal
        journal.decide(approval, approve=True, by="ann")
        assert journal.claim(approval, desk.tools["create_ticket"].content_hash) is not None
        assert journal.recover(older_than_s=60) == 0, "another gateway may be at it"
        running = await session.call("execute_tool", {**CREATE, "approval_id": approval})
        assert "is running" in running["next_step"]
        assert journal.recover() == 1
        assert not journal.finish(approval, "done", {}), "too late to say so"
        shown = await session.call("execute_tool", {**CREATE, "approval_id": approval})
        assert shown["status"] == "unknown"
        assert shown["reason"] == "the gateway stopped while it ran"
        assert executor.ran == 0


async def test_g42_the_approval_id_is_the_idempotency_key(desk: Catalog, tmp_path: Path) -> None:
    """A tool that takes one acts once, also where a person tries again after `unknown`."""
    effects: dict[str, int] = {}

    class Idempotent:
        async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
            effects.setdefault(str(idempotency_key.get()), len(effects))
            raise ConnectionError("the answer was lost")

    with opened(":memory:", desk, Idempotent()) as gateway:
        session, approval = await hold(gateway)
        answer = await gateway.decide(approval, approve=True, by="ann")
        assert answer["status"] == "unknown"
        effects.setdefault(approval, len(effects))  # what the person sends by hand
        assert effects == {approval: 0}
        assert idempotency_key.get() is None, "set for the write alone"


def locked(path: str, store: Any) -> Any:
    store._db.execute("PRAGMA busy_timeout=50")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return other.close


def read_only(path: str, store: Any) -> Any:
    store._db.execute("PRAGMA query_only=ON")
    return lambda: store._db.execute("PRAGMA query_only=OFF")


def full(path: str, store: Any) -> Any:
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    # Leave no page free: the next row that needs one finds the disk full.
    store._db.execute(f"PRAGMA max_page_count={pages}")
    return lambda: store._db.execute("PRAGMA max_page_count=1073741823")


@pytest.mark.parametrize(
    ("fault", "when"),
    [
        (fault, when)
        for fault in (locked, read_only, full)
        for when in ("holding", "deciding", "recording")
        if (fault, when) != (full, "deciding")  # a decision needs no new page
    ],
)
async def test_g43_a_journal_that_cannot_be_written_fails_closed(
    desk: Catalog, tmp_path: Path, fault: Any, when: str
) -> None:
    path = str(tmp_path / "journal.sqlite")
    long = {"tool_name": "create_ticket", "arguments": {"title": "x" * 50_000}}

    class Breaking(Writing):
        async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
            await super().run(spec, arguments)
            if when == "recording":
                mended.append(fault(path, gateway.journal._store))
            return {"text": "y" * 50_000}

    executor, mended = Breaking(tmp_path / "effects"), list[Any]()
    with opened(path, desk, executor) as gateway:
        session, approval = await hold(gateway)
        if when == "holding":
            mended.append(fault(path, gateway.journal._store))
            answer = await session.call("execute_tool", long)
            assert answer["status"] == "failed"
            assert answer["reason"].startswith("not held, not run: approval journal: ")
        else:
            if when == "deciding":
                mended.append(fault(path, gateway.journal._store))
            with pytest.raises(DataError, match="approval journal"):
                await gateway.decide(approval, approve=True, by="ann")
        assert executor.ran == (when == "recording")
        (mend,) = mended
        mend()
        card = gateway.journal.get(approval)
        assert card is not None
        assert card.state == ("executing" if when == "recording" else "pending")
        gateway.journal.recover()
        final = await gateway.decide(approval, approve=True, by="ann")
        assert final["status"] == ("unknown" if when == "recording" else "done")
        assert executor.ran == 1
        assert gateway.journal.verify().faults == ()


async def test_g43_a_lost_server_fails_closed_and_comes_back(
    postgres_url: str, desk: Catalog, tmp_path: Path
) -> None:
    import psycopg

    executor = Writing(tmp_path / "effects")
    with opened(postgres_url, desk, executor) as gateway:
        session, approval = await hold(gateway)
        store: Any = gateway.journal._store
        store._db.close()
        assert [card.id for card in gateway.journal.pending()] == [approval], "opened again"
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s)", (store._db.info.backend_pid,))
        answer = await session.call("execute_tool", {**CREATE, "arguments": {"title": "Second"}})
        assert answer["status"] == "failed"
        assert "not held, not run" in answer["reason"]
        assert (await gateway.decide(approval, approve=True, by="ann"))["status"] == "done"
        assert executor.ran == 1


def test_g44_commits_are_written_through(place: str) -> None:
    store = open_store(place)
    if place.startswith("postgresql://"):
        assert store.read("SHOW synchronous_commit") == [("on",)]
        assert store.read("SHOW fsync") == [("on",)]
    else:
        assert store.read("PRAGMA synchronous") == [(2,)]
        assert store.read("PRAGMA journal_mode") == [("wal",)]
    store.close()


TAMPERING = [
    ("UPDATE approvals SET arguments='{\"title\":\"Evil\"}' WHERE id=?", "was changed behind"),
    ("UPDATE approvals SET decided_by='nobody' WHERE id=?", "was changed behind"),
    ("UPDATE approvals SET state='approved' WHERE id=?", "was changed behind"),
    ("DELETE FROM approvals WHERE id=?", "its row was deleted"),
    ("UPDATE approval_events SET actor='nobody' WHERE subject=? AND after='approved'", "it was changed"),
    ("UPDATE approval_events SET digest='' WHERE subject=? AND after='done'", "it was changed"),
    ("DELETE FROM approval_events WHERE subject=? AND after='approved'", "deleted or changed"),
    ("DELETE FROM approval_events WHERE subject=? AND after='done'", "was changed behind"),
    ("DELETE FROM approval_events WHERE subject=?", "its events were deleted"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "words"), TAMPERING)
async def test_g45_what_was_edited_or_deleted_is_found(
    place: str, desk: Catalog, tmp_path: Path, statement: str, words: str
) -> None:
    with opened(place, desk, Writing(tmp_path / "effects")) as gateway:
        _, approval = await hold(gateway)
        await gateway.decide(approval, approve=True, by="ann")
        journal = gateway.journal
        whole = journal.verify()
        assert (whole.events, whole.faults) == (4, ())
        if "approval_events" in statement:
            with pytest.raises(DataError, match="append-only"), journal._store.writing() as sql:
                sql(statement, (approval,))
            assert journal.verify() == whole, "the table itself refuses"
        with journal._store.writing() as sql:
            if place.startswith("postgresql://"):
                sql("ALTER TABLE approval_events DISABLE TRIGGER ALL")
            else:
                sql("DROP TRIGGER approval_events_no_update")
                sql("DROP TRIGGER approval_events_no_delete")
            sql(statement, (approval,))
        assert any(words in fault for fault in journal.verify().faults), journal.verify()


async def test_g45_a_tail_cut_off_with_its_rows_is_found_by_a_head_noted_before(
    desk: Catalog, tmp_path: Path
) -> None:
    with opened(str(tmp_path / "j"), desk, Writing(tmp_path / "effects")) as gateway:
        _, approval = await hold(gateway)
        head = gateway.journal.verify().head
        with gateway.journal._store.writing() as sql:
            sql("DROP TRIGGER approval_events_no_delete")
            sql("DELETE FROM approval_events")
            sql("DELETE FROM approvals")
        assert gateway.journal.verify().faults == (), "the limit of any chain"
        assert "head" in gateway.journal.verify(head).faults[0]


class Slow:
    def __init__(self, seconds: float) -> None:
        self.seconds, self.ran = seconds, 0

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(self.seconds)
        self.ran += 1
        return {}


@pytest.mark.parametrize(("seconds", "ends", "left"), [(0.05, "done", 0), (30, "unknown", 1)])
async def test_g46_a_stop_waits_for_writes_and_says_of_the_rest_that_it_is_unknown(
    desk: Catalog, seconds: float, ends: str, left: int
) -> None:
    executor = Slow(seconds)
    with opened(":memory:", desk, executor) as gateway:
        _, approval = await hold(gateway)
        deciding = asyncio.create_task(gateway.decide(approval, approve=True, by="ann"))
        await asyncio.sleep(0.01)
        assert await gateway.writes.drain(timeout_s=0.5) == left
        card = gateway.journal.get(approval)
        assert card is not None
        assert (card.state, executor.ran) == (ends, 1 - left)
        assert await gateway.writes.drain() == 0
        with pytest.raises(asyncio.CancelledError) if left else contextmanager(lambda: iter([0]))():
            await deciding


async def test_what_is_approved_elsewhere_is_run_once_by_one_of_two_gateways(
    place: str, desk: Catalog, tmp_path: Path
) -> None:
    executor = Writing(tmp_path / "effects")
    with opened(place, desk, executor) as one, opened(place, desk, executor) as two:
        session, approval = await hold(one)
        following = [asyncio.create_task(g.writes.follow(0.01)) for g in (one, two)]
        terminal = ApprovalJournal(place, SystemClock(), SystemIds(), must_exist=True)
        assert terminal.decide(approval, approve=True, by="ann")
        terminal.close()
        poll = {**CREATE, "approval_id": approval}
        async with asyncio.timeout(20):
            while (await session.call("execute_tool", poll))["status"] != "done":
                await asyncio.sleep(0.01)
        for task in following:
            task.cancel()
        assert executor.ran == 1
        assert one.journal.verify().faults == ()


class Stuck:
    """A tool that does not come back for some titles."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended = asyncio.Event()

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.begun.append(arguments["title"])
        if arguments["title"].startswith("stuck"):
            await self.ended.wait()
        return {}


def approve(gateway: Gateway, principal: str, *titles: str, tool: str = "create_ticket") -> None:
    for title in titles:
        card = gateway.journal.hold(
            gateway.catalog.tools[tool],
            {"title": title},
            principal=principal,
            session="s1",
        )
        assert gateway.journal.decide(card.id, approve=True, by="ann")


async def test_a_slow_write_holds_up_no_other_caller_or_server(place: str, desk: Catalog) -> None:
    """Its own caller and server only past a bound."""
    executor = Stuck()
    elsewhere = dataclasses.replace(desk.tools["create_ticket"], name="create", upstream="web")
    both = Catalog({**desk.tools, "create": elsewhere}, desk.collections)
    with opened(place, both, executor) as gateway:
        slow = [f"stuck {number}" for number in range(MAX_AT_ONCE + 2)]
        approve(gateway, "bo", *slow)
        approve(gateway, "eve", "hers")
        approve(gateway, "bo", "elsewhere", tool="create")
        following = asyncio.create_task(gateway.writes.follow(0.01))
        async with asyncio.timeout(20):
            while "elsewhere" not in executor.begun:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)  # several looks: none begins a write again, or one too many
        assert executor.begun == [*slow[:MAX_AT_ONCE], "hers", "elsewhere"]
        executor.ended.set()
        async with asyncio.timeout(20):
            while {card.state for card in gateway.journal.rows()} != {"done"}:
                await asyncio.sleep(0.01)
        following.cancel()
        assert sorted(executor.begun) == sorted([*slow, "hers", "elsewhere"])
        assert gateway.journal.verify().faults == ()


async def test_a_journal_that_fails_while_approvals_are_followed_is_told_and_followed_again(
    desk: Catalog, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    executor = Stuck()
    with opened(str(tmp_path / "j"), desk, executor) as gateway:
        approve(gateway, "bo", "one")
        claim: Any = gateway.journal.claim

        def fails(*words: str) -> None:
            gateway.journal.claim = claim  # type: ignore[method-assign]
            raise DataError("disk full")

        gateway.journal.claim = fails  # type: ignore[assignment, method-assign]
        following = asyncio.create_task(gateway.writes.follow(0.01))
        async with asyncio.timeout(20):
            while executor.begun != ["one"]:
                await asyncio.sleep(0.01)
        following.cancel()
    assert "cannot follow the approvals: disk full" in caplog.text


async def test_a_gateway_without_the_tool_leaves_it_to_the_others(
    place: str, desk: Catalog, tmp_path: Path
) -> None:
    executor = Writing(tmp_path / "effects")
    fewer = desk.without(["create_ticket"])
    with opened(place, desk, executor) as one, opened(place, fewer, executor) as two:
        session, approval = await hold(one)
        told = await two.decide(approval, approve=True, by="ann")
        assert (told["status"], told["next_step"]) == ("approval_required", DECIDED["approved"])
        assert told["reason"].endswith("is not here: a gateway that has it runs it")
        following = asyncio.create_task(two.writes.follow(0.01))
        await asyncio.sleep(0.1)
        following.cancel()
        there = two.session(Principal("bo"), "s1")  # the same caller, over HTTP, lands on another
        polled = await there.call("execute_tool", {**CREATE, "approval_id": approval})
        card = two.journal.get(approval)
        assert card is not None
        assert (polled["status"], card.state) == ("approval_required", "approved")
        done = await session.call("execute_tool", {**CREATE, "approval_id": approval})
        assert (done["status"], executor.ran) == ("done", 1)


def test_places_that_are_no_journal_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"mysql://bo:\*\*\*@host/db: not a journal"):
        open_store("mysql://bo:secret@host/db")
    with pytest.raises(DataError, match="cannot open the approval journal") as refused:
        open_store(f"postgresql://bo:secret@/db?host={tmp_path}")
    assert "secret" not in str(refused.value)
    assert (
        without_password("postgresql://h/d?password=secret&x=1")
        == "postgresql://h/d?password=***&x=1"
    )
    (tmp_path / "old").write_bytes(b"not a database at all, only text")
    with pytest.raises(DataError):
        ApprovalJournal(tmp_path / "old", SystemClock(), SystemIds())
    with sqlite3.connect(tmp_path / "v1") as old:
        old.execute("CREATE TABLE approvals (id TEXT, state TEXT)")
    old.close()
    with pytest.raises(DataError):
        ApprovalJournal(tmp_path / "v1", SystemClock(), SystemIds())


def journal_at(path: Path) -> None:
    ApprovalJournal(path, SystemClock(), SystemIds()).close()


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("mode", [0o666, 0o660, 0o602])
def test_a_journal_that_others_may_write_is_refused(tmp_path: Path, end: str, mode: int) -> None:
    path = tmp_path / "j.sqlite"
    journal_at(path)
    assert path.stat().st_mode & 0o777 == 0o600
    part = tmp_path / f"j.sqlite{end}"
    part.touch()
    part.chmod(mode)
    with pytest.raises(DataError, match=f"^{part}: others may write it.*: chmod 600 {part}$"):
        journal_at(path)
    part.chmod(0o644)  # others may read it, as in a journal of before
    journal_at(path)


def test_a_journal_in_a_folder_that_all_may_write_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shared" / "j.sqlite"
    path.parent.mkdir()
    path.parent.chmod(0o777)
    for exists in (False, True):
        with pytest.raises(DataError, match=f"^{path}: all may write its folder.*chmod o-w"):
            journal_at(path)
        assert path.exists() is exists
        path.touch(mode=0o600)
    for mode in (0o1777, 0o755):  # as /tmp, where nobody can move another's file away
        path.parent.chmod(mode)
        journal_at(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("end", ["", "-wal"])
def test_a_journal_that_another_put_there_is_refused(tmp_path: Path, end: str) -> None:
    path = tmp_path / "shared" / "j.sqlite"
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    journal_at(path)
    part = path.with_name(path.name + end)
    part.touch(mode=0o600)
    os.chown(part, 12345, 12345)
    with pytest.raises(DataError, match=f"^{part}: somebody else put it"):
        journal_at(path)
    path.parent.chmod(0o755)  # the control: whose folder it is decides what lies in it
    journal_at(path)


def test_who_decides_leaves_another_database_as_it_is(place: str, tmp_path: Path) -> None:
    """A slip in --journal must not make tables in an application's own database."""
    if not place.startswith("postgresql://"):
        with sqlite3.connect(place) as other:
            other.execute("CREATE TABLE customers (name TEXT)")
        other.close()
        Path(place).chmod(0o600)
        (tmp_path / "empty").touch(mode=0o600)
        with pytest.raises(DataError, match="no approval journal here"):
            ApprovalJournal(tmp_path / "empty", SystemClock(), SystemIds(), must_exist=True)
        assert (tmp_path / "empty").read_bytes() == b""
    before = b"" if place.startswith("postgresql://") else Path(place).read_bytes()
    with pytest.raises(DataError, match="no approval journal here"):
        ApprovalJournal(place, SystemClock(), SystemIds(), must_exist=True)
    if before:
        assert Path(place).read_bytes() == before
    ApprovalJournal(place, SystemClock(), SystemIds()).close()
    ApprovalJournal(place, SystemClock(), SystemIds(), must_exist=True).close()


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal"])
def test_a_journal_that_is_a_link_is_refused(tmp_path: Path, end: str) -> None:
    other = tmp_path / "other"
    if end:
        other.touch()
    else:
        journal_at(other)
    link = tmp_path / f"j.sqlite{end}"
    link.symlink_to(other)
    with pytest.raises(DataError, match=f"^{link}: a link"):
        journal_at(tmp_path / "j.sqlite")
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")  # nor is one made through it
    with pytest.raises(DataError, match=f"^{link}: a link"):
        journal_at(tmp_path / "j.sqlite")
    assert not (tmp_path / "nowhere").exists()
    link.unlink()
    journal_at(tmp_path / "j.sqlite")


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file; choose another --journal"):
        journal_at(tmp_path)
