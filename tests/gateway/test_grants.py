"""Grants: counted, bounded in time and arguments, never for what destroys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.approvals import ApprovalCard, ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog, Risk
from breadcrumbs.gateway.gateway import Gateway, GatewaySession, Principal
from breadcrumbs.gateway.identity import SeededIds, SimulatedClock
from breadcrumbs.gateway.worlds import World, WorldExecutor


class Granting:
    """A gateway, and a card of `create_ticket` to grant from."""

    def __init__(self, place: str, desk: Catalog) -> None:
        self.clock, ids, self.world = SimulatedClock(step_s=0), SeededIds(0), World(desk)
        self.journal = ApprovalJournal(place, self.clock, ids)
        executor = WorldExecutor(self.world)
        self.gateway = Gateway(desk, executor, self.journal, clock=self.clock, ids=ids)

    async def session(self, principal: str = "bo") -> GatewaySession:
        session = self.gateway.session(Principal(principal, ("admin",)))
        names = ["create_ticket", "delete_ticket", "close_ticket"]
        await session.call("get_tool_schema", {"tool_names": names})
        return session

    async def card(self, session: GatewaySession, **arguments: Any) -> ApprovalCard:
        held = await create(session, **arguments)
        card = self.journal.get(held["approval_id"])
        assert card is not None
        return card

    @property
    def tickets(self) -> int:
        return len(self.world.state()["desk.tickets"])


async def create(session: GatewaySession, **arguments: Any) -> dict[str, Any]:
    call = {"tool_name": "create_ticket", "arguments": arguments}
    return await session.call("execute_tool", call)


@pytest.fixture
def at(place: str, desk: Catalog) -> Iterator[Granting]:
    granting = Granting(place, desk)
    yield granting
    checked = granting.journal.verify()
    granting.journal.close()
    assert checked.faults == ()


async def test_a_grant_is_used_up(at: Granting) -> None:
    session = await at.session()
    card = await at.card(session, title="first")
    grant = at.journal.grant(card, fixed=["priority"], uses=2, ttl_s=600, by="ann")
    statuses = [(await create(session, title=f"t{n}"))["status"] for n in range(3)]
    assert statuses == ["done", "done", "approval_required"]
    assert at.tickets == 5
    assert [g.uses_left for g in at.journal.grants()] == [0]
    ran = [row for row in at.journal.rows() if row.state == "done"]
    assert {row.decided_by for row in ran} == {grant.id}
    assert [e.after for e in at.journal.events(grant.id)] == ["2 left", "1 left", "0 left"]
    assert [e.after for e in at.journal.events(ran[0].id)] == [
        *("pending", "approved", "executing", "done")
    ]


async def test_a_grant_covers_no_other_value_caller_or_tool(at: Granting) -> None:
    session = await at.session()
    card = await at.card(session, title="first")
    at.journal.grant(card, fixed=["priority"], uses=5, ttl_s=600, by="ann")
    other = await at.session("cy")
    close = {"tool_name": "close_ticket", "arguments": {"ticket_id": "tkt_1"}}
    for answer in (
        await create(session, title="x", priority="high"),
        await create(other, title="x"),
        await session.call("execute_tool", close),
    ):
        assert answer["status"] == "approval_required"
    assert (await create(session, title="x"))["status"] == "done"


async def test_a_grant_ends_by_time_by_hand_and_with_its_tool(at: Granting) -> None:
    session = await at.session()
    card = await at.card(session, title="first")
    at.journal.grant(card, fixed=[], uses=5, ttl_s=60, by="ann")
    at.clock.advance(60)
    assert (await create(session, title="late"))["status"] == "approval_required"
    grant = at.journal.grant(card, fixed=[], uses=5, ttl_s=60, by="ann")
    assert at.journal.revoke(grant.id, "ann")
    assert not at.journal.revoke(grant.id, "ann")
    assert (await create(session, title="revoked"))["status"] == "approval_required"
    at.journal.grant(card, fixed=[], uses=5, ttl_s=60, by="ann")
    tools = dict(at.gateway.catalog.tools)
    tools["create_ticket"] = dataclasses.replace(tools["create_ticket"], description="Another")
    at.gateway.catalog = Catalog(tools, at.gateway.catalog.collections)
    await session.call("get_tool_schema", {"tool_names": ["create_ticket"]})
    assert (await create(session, title="changed"))["status"] == "approval_required"
    assert at.tickets == 3


async def test_a_denied_call_stays_denied_under_a_grant(at: Granting) -> None:
    session = await at.session()
    card = await at.card(session, title="first")
    at.journal.grant(card, fixed=[], uses=5, ttl_s=600, by="ann")
    at.journal.decide(card.id, approve=False, by="ann")
    assert (await create(session, title="first"))["status"] == "denied"


async def test_nothing_destructive_is_ever_granted(at: Granting) -> None:
    session = await at.session()
    call = {"tool_name": "delete_ticket", "arguments": {"ticket_id": "tkt_1"}}
    held = await session.call("execute_tool", call)
    card = at.journal.get(held["approval_id"])
    assert card is not None
    with pytest.raises(DataError, match="destructive tool cannot be granted"):
        at.journal.grant(card, fixed=[], uses=1, ttl_s=60, by="ann")
    # Also where a row says otherwise than the catalog.
    lied = dataclasses.replace(card, risk="write")
    at.journal.grant(lied, fixed=[], uses=1, ttl_s=60, by="ann")
    other = {"tool_name": "delete_ticket", "arguments": {"ticket_id": "tkt_2"}}
    assert at.gateway.catalog.tools["delete_ticket"].risk is Risk.DESTRUCTIVE
    assert (await session.call("execute_tool", other))["status"] == "approval_required"
    assert at.tickets == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"uses": 0}, "1 to 100 calls, not 0"),
        ({"uses": 101}, "1 to 100 calls"),
        ({"ttl_s": 0}, "1 to 86400 seconds"),
        ({"ttl_s": 86401}, "1 to 86400 seconds"),
        ({"fixed": ["colour"]}, "no argument 'colour' to fix"),
    ],
)
async def test_a_grant_without_bounds_is_refused(
    desk: Catalog, changes: dict[str, Any], words: str
) -> None:
    at = Granting(":memory:", desk)
    card = await at.card(await at.session(), title="first")
    given: dict[str, Any] = {"fixed": [], "uses": 1, "ttl_s": 60, "by": "ann", **changes}
    with pytest.raises(DataError, match=words):
        at.journal.grant(card, **given)
    assert at.journal.grants() == []


@pytest.mark.parametrize(
    ("when", "ends", "tickets"), [("finish", "unknown", 4), ("hold", "failed", 3)]
)
async def test_a_granted_write_that_ran_is_never_said_not_to_have_run(
    at: Granting, monkeypatch: pytest.MonkeyPatch, when: str, ends: str, tickets: int
) -> None:
    """The journal goes away behind the effect, or in front of it."""
    session = await at.session()
    card = await at.card(session, title="first")
    at.journal.grant(card, fixed=[], uses=2, ttl_s=600, by="ann")

    def gone(*_: Any, **__: Any) -> None:
        raise DataError("approval journal: disk full")

    with monkeypatch.context() as broken:
        broken.setattr(at.journal, when, gone)
        answer = await create(session, title="second")
    assert (answer["status"], at.tickets) == (ends, tickets)
    assert ("not run" in answer["reason"]) is (when == "hold")
