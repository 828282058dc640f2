"""The gateway as a model and a person meet it: three meta-tools, held writes, roles."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.gateway import (
    META_TOOLS,
    Gateway,
    GatewaySession,
    GatewaySettings,
    Principal,
    SimulatedGateway,
    simulated_gateway,
)
from breadcrumbs.gateway.identity import SeededIds, SimulatedClock
from breadcrumbs.messages import compact_json

CREATE = {"tool_name": "create_ticket", "arguments": {"title": "Loud fan"}}


@pytest.fixture
def simulated(desk: Catalog) -> SimulatedGateway:
    return simulated_gateway(desk, seed=7)


async def disclosed(gateway: Gateway, *names: str, role: str = "") -> GatewaySession:
    session = gateway.session(Principal(roles=(role,) if role else ()))
    await session.call("get_tool_schema", {"tool_names": list(names)})
    return session


async def test_search_disclose_execute(simulated: SimulatedGateway) -> None:
    session = simulated.gateway.session()
    found = await session.call("search_tool_catalog", {"query": "show a ticket"})
    assert found["layer"] == "1_catalog"
    assert "get_ticket" in [match["name"] for match in found["matches"]]
    call = {"tool_name": "get_ticket", "arguments": {"ticket_id": "tkt_1"}}
    early = await session.call("execute_tool", call)
    assert early["status"] == "not_disclosed"
    assert "get_tool_schema(tool_names=['get_ticket'])" in early["next_step"]
    schema = await session.call("get_tool_schema", {"tool_names": ["get_ticket", "nothing"]})
    assert schema["not_found"] == ["nothing"]
    done = await session.call("execute_tool", call)
    assert (done["layer"], done["status"]) == ("3_execution", "done")
    assert done["result"]["title"] == "Printer jams"
    assert [entry.payload for entry in session.log] == [found, early, schema, done]


async def test_a_write_waits_then_runs_as_stored(simulated: SimulatedGateway) -> None:
    session = await disclosed(simulated.gateway, "create_ticket")
    before = simulated.world.state_hash()
    held = await session.call("execute_tool", CREATE)
    assert held["status"] == "approval_required"
    assert held["approval_id"].startswith("appr_")
    assert simulated.world.state_hash() == before
    again = await session.call("execute_tool", CREATE)
    assert again["approval_id"] == held["approval_id"]
    poll = {**CREATE, "approval_id": held["approval_id"], "arguments": {"title": "Other"}}
    assert (await session.call("execute_tool", poll))["status"] == "approval_required"
    assert simulated.world.state_hash() == before
    done = await simulated.gateway.decide(held["approval_id"], approve=True, by="ann")
    assert done["status"] == "done"
    key = done["result"]["ticket_id"]
    assert simulated.world.state()["desk.tickets"][key] == {
        "title": "Loud fan",
        "priority": "normal",
        "ticket_id": key,
    }
    assert await session.call("execute_tool", poll) == done


async def test_a_denial_sticks(simulated: SimulatedGateway) -> None:
    session = await disclosed(simulated.gateway, "create_ticket")
    held = await session.call("execute_tool", CREATE)
    denied = await simulated.gateway.decide(
        held["approval_id"], approve=False, by="ann", reason="no"
    )
    assert (denied["status"], denied["reason"]) == ("denied", "no")
    for _ in range(3):
        assert (await session.call("execute_tool", CREATE))["status"] == "denied"
    assert not simulated.gateway.journal.pending()
    late = await simulated.gateway.decide(held["approval_id"], approve=True, by="ann")
    assert late["status"] == "denied"
    assert len(simulated.world.state()["desk.tickets"]) == 3


async def test_another_sessions_approval_looks_like_none(simulated: SimulatedGateway) -> None:
    mine = await disclosed(simulated.gateway, "create_ticket")
    held = await mine.call("execute_tool", CREATE)
    other = await disclosed(simulated.gateway, "create_ticket")
    answers = [
        await other.call("execute_tool", {**CREATE, "approval_id": approval})
        for approval in (held["approval_id"], "appr_" + "0" * 32)
    ]
    for answer in answers:
        answer.pop("reason")
    assert answers[0] == answers[1]
    assert answers[0]["status"] == "not_found"


async def test_expired_writes_say_so(desk: Catalog) -> None:
    simulated = simulated_gateway(desk, seed=1)
    session = await disclosed(simulated.gateway, "create_ticket")
    held = await session.call("execute_tool", CREATE)
    assert isinstance(simulated.gateway.clock, SimulatedClock)
    simulated.gateway.clock.advance(300)
    late = await simulated.gateway.decide(held["approval_id"], approve=True, by="ann")
    assert late["status"] == "expired"
    assert len(simulated.world.state()["desk.tickets"]) == 3


async def test_tier_4_off_runs_writes_at_once(desk: Catalog) -> None:
    simulated = simulated_gateway(desk, seed=1, settings=GatewaySettings(hold_writes=False))
    session = await disclosed(simulated.gateway, "create_ticket")
    assert (await session.call("execute_tool", CREATE))["status"] == "done"


async def test_a_tool_that_needs_no_approval_runs(simulated: SimulatedGateway) -> None:
    session = await disclosed(simulated.gateway, "add_ticket_note")
    call = {"tool_name": "add_ticket_note", "arguments": {"ticket_id": "tkt_1", "text": "hi"}}
    assert (await session.call("execute_tool", call))["status"] == "done"


async def test_roles(simulated: SimulatedGateway) -> None:
    call = {"tool_name": "delete_ticket", "arguments": {"ticket_id": "tkt_1"}}
    user = simulated.gateway.session()
    found = await user.call("search_tool_catalog", {"query": "delete ticket"})
    assert "delete_ticket" not in compact_json(found)
    shown = await user.call("get_tool_schema", {"tool_names": ["delete_ticket"]})
    assert (shown["disclosed"], shown["unauthorized"]) == ([], ["delete_ticket"])
    assert (await user.call("execute_tool", call))["status"] == "unauthorized"
    admin = await disclosed(simulated.gateway, "delete_ticket", role="admin")
    assert (await admin.call("execute_tool", call))["status"] == "approval_required"


async def test_a_cut_catalog_knows_nothing_of_what_was_cut(desk: Catalog) -> None:
    session = simulated_gateway(desk.without(["create_ticket"]), seed=0).gateway.session()
    found = await session.call("search_tool_catalog", {"query": "open a support ticket"})
    shown = await session.call("get_tool_schema", {"tool_names": ["create_ticket"]})
    ran = await session.call("execute_tool", CREATE)
    assert "create_ticket" not in compact_json(found)
    assert shown["not_found"] == ["create_ticket"]
    assert ran["status"] == "not_found"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search_tool_catalog", {}),
        ("search_tool_catalog", {"query": 3}),
        ("search_tool_catalog", {"query": "x", "limit": "5"}),
        ("get_tool_schema", {"tool_names": "create_ticket"}),
        ("get_tool_schema", {"tool_names": []}),
        ("execute_tool", {"arguments": {}}),
        ("execute_tool", {"tool_name": "create_ticket", "arguments": "{}"}),
        ("execute_tool", {"tool_name": "create_ticket", "arguments": {"title": float("nan")}}),
        ("execute_tool", {**CREATE, "approval_id": 7}),
        ("execute_tool", ["a", "list"]),
        ("rm -rf", {}),
    ],
)
async def test_misuse_is_answered(simulated: SimulatedGateway, name: str, arguments: Any) -> None:
    session = await disclosed(simulated.gateway, "create_ticket")
    payload = await session.call(name, arguments)
    assert payload["status"] == "invalid"
    assert payload["errors"]
    assert len(session.log) == 2


async def test_invalid_arguments_are_answered_field_by_field(simulated: SimulatedGateway) -> None:
    session = await disclosed(simulated.gateway, "create_ticket")
    call = {"tool_name": "create_ticket", "arguments": {"priority": "urgent", "colour": 1}}
    payload = await session.call("execute_tool", call)
    assert payload["status"] == "invalid"
    assert {fault["field"] for fault in payload["errors"]} == {"title", "priority", "colour"}
    assert payload["next_step"].startswith("Mend ")
    assert "colour" not in payload["next_step"]
    assert not simulated.gateway.journal.rows()


class BrokenExecutor:
    """A tool that breaks, or whose answer is no JSON, after it has acted."""

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.ran = answer, 0

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        self.ran += 1
        if self.answer is None:
            raise ConnectionError("secret host went away")
        return {"answer": self.answer}


@pytest.mark.parametrize(
    "answer",
    [None, float("nan"), object(), "\ud800"],
    ids=["no answer", "not a number", "no JSON", "half a character"],
)
async def test_a_broken_write_is_unknown_and_not_run_again(desk: Catalog, answer: Any) -> None:
    executor, clock, ids = BrokenExecutor(answer), SimulatedClock(), SeededIds(0)
    journal = ApprovalJournal(":memory:", clock, ids)
    gateway = Gateway(desk, executor, journal, clock=clock, ids=ids)
    session = await disclosed(gateway, "create_ticket", "get_ticket")
    read = {"tool_name": "get_ticket", "arguments": {"ticket_id": "tkt_1"}}
    failed = await session.call("execute_tool", read)
    assert failed["status"] == "failed"
    held = await session.call("execute_tool", CREATE)
    for _ in range(2):
        unknown = await gateway.decide(held["approval_id"], approve=True, by="ann")
        assert unknown["status"] == "unknown"
    assert executor.ran == 2
    assert "secret" not in compact_json([failed, unknown])
    journal.close()


class SlowExecutor:
    """A tool that takes its time."""

    def __init__(self) -> None:
        self.finished = 0

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.05)
        self.finished += 1
        return {}


async def test_a_caller_that_leaves_does_not_cut_a_write(desk: Catalog) -> None:
    executor, clock, ids = SlowExecutor(), SimulatedClock(), SeededIds(0)
    journal = ApprovalJournal(":memory:", clock, ids)
    gateway = Gateway(desk, executor, journal, clock=clock, ids=ids)
    session = await disclosed(gateway, "create_ticket")
    held = await session.call("execute_tool", CREATE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gateway.decide(held["approval_id"], approve=True, by="ann"), 0.01)
    poll = {**CREATE, "approval_id": held["approval_id"]}
    assert "is running" in (await session.call("execute_tool", poll))["next_step"]
    await asyncio.sleep(0.1)
    assert (await session.call("execute_tool", poll))["status"] == "done"
    assert executor.finished == 1
    journal.close()


async def test_what_cannot_be_held_does_not_run(simulated: SimulatedGateway) -> None:
    session = await disclosed(simulated.gateway, "create_ticket")
    before = simulated.world.state_hash()
    simulated.gateway.journal.close()
    payload = await session.call("execute_tool", CREATE)
    assert payload["status"] == "failed"
    assert simulated.world.state_hash() == before
    with pytest.raises(DataError, match="approval journal"):
        await simulated.gateway.decide("appr_x", approve=True, by="ann")


async def test_same_seed_same_payloads(desk: Catalog) -> None:
    logs = []
    for seed in (1, 1, 2):
        session = await disclosed(simulated_gateway(desk, seed=seed).gateway, "create_ticket")
        await session.call("execute_tool", CREATE)
        logs.append(compact_json([entry.to_dict() for entry in session.log]))
    assert logs[0] == logs[1]
    assert logs[0] != logs[2]


def test_meta_tools_stay_short() -> None:
    names = [tool["function"]["name"] for tool in META_TOOLS]
    assert names == ["search_tool_catalog", "get_tool_schema", "execute_tool"]
    assert len(compact_json(META_TOOLS)) < 850


def test_an_episodes_gateway_is_cheap(desk: Catalog) -> None:
    simulated_gateway(desk, seed=0)
    start = time.perf_counter()
    for seed in range(20):
        simulated_gateway(desk.without(["get_ticket"]), seed=seed)
    assert (time.perf_counter() - start) / 20 < 0.005
