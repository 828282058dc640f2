"""Roles, from search over disclosure to execution and polling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import Principal, SimulatedGateway, simulated_gateway
from breadcrumbs.gateway.protocol import State, fault_of, state_of
from breadcrumbs.messages import compact_json

DELETE = {"tool_name": "delete_ticket", "arguments": {"ticket_id": "tkt_1"}}
NOBODY, WRONG, ADMIN = (), ("support", "Admin", "admin "), ("support", "admin")
words = st.sampled_from("delete a ticket for good remove desk delete_ticket tkt_1 open".split())


@pytest.fixture
def simulated(desk: Catalog) -> SimulatedGateway:
    return simulated_gateway(desk, seed=3)


@given(st.lists(words, min_size=1, max_size=5).map(" ".join))
def test_search_shows_a_closed_tool_to_nobody_without_its_role(desk: Catalog, query: str) -> None:
    gateway = simulated_gateway(desk, seed=3).gateway
    without = [spec.name for spec in gateway.search(query, 20, Principal(roles=WRONG))]
    assert "delete_ticket" not in without
    with_it = [spec.name for spec in gateway.search("delete ticket", 20, Principal(roles=ADMIN))]
    assert "delete_ticket" in with_it, "the control: it is there to be found"


@pytest.mark.parametrize("roles", [NOBODY, WRONG], ids=["none", "other roles"])
async def test_without_its_role_a_tool_is_unauthorized_only_where_it_is_named(
    simulated: SimulatedGateway, roles: tuple[str, ...]
) -> None:
    session = simulated.gateway.session(Principal("bo", roles))
    before = simulated.world.state_hash()
    found = await session.call("search_tool_catalog", {"query": "delete a ticket", "limit": 20})
    other = await session.call("get_tool_schema", {"tool_names": ["get_ticket"]})
    assert "delete_ticket" not in compact_json([found, other])
    named = await session.call("get_tool_schema", {"tool_names": ["delete_ticket"]})
    assert (named["disclosed"], named["unauthorized"], named["not_found"]) == (
        [],
        ["delete_ticket"],
        [],
    )
    assert "ticket_id" not in compact_json(named), "its schema stays closed"
    ran = await session.call("execute_tool", DELETE)
    assert [state_of(payload) for payload in (named, ran)] == [State.CLOSED, State.CLOSED]
    assert all(fault_of(payload) is None for payload in (found, other, named, ran))
    assert simulated.gateway.journal.rows() == []
    assert simulated.world.state_hash() == before


async def test_open_and_closed_tools_are_told_apart_in_one_answer(
    simulated: SimulatedGateway,
) -> None:
    session = simulated.gateway.session(Principal("bo"))
    names = ["get_ticket", "delete_ticket", "nothing"]
    payload = await session.call("get_tool_schema", {"tool_names": names})
    assert [tool["name"] for tool in payload["disclosed"]] == ["get_ticket"]
    assert (payload["unauthorized"], payload["not_found"]) == (["delete_ticket"], ["nothing"])
    assert state_of(payload) is State.DISCLOSED
    assert "delete_ticket" not in payload["next_step"]


async def test_with_its_role_a_tool_is_found_shown_held_and_run(
    simulated: SimulatedGateway,
) -> None:
    session = simulated.gateway.session(Principal("root", ADMIN))
    found = await session.call("search_tool_catalog", {"query": "delete a ticket for good"})
    assert found["matches"][0]["name"] == "delete_ticket"
    await session.call("get_tool_schema", {"tool_names": ["delete_ticket"]})
    held = await session.call("execute_tool", DELETE)
    assert held["status"] == "approval_required"
    done = await simulated.gateway.decide(held["approval_id"], approve=True, by="ann")
    assert done["result"]["status"] == "deleted"


async def test_another_principals_disclosure_and_approval_open_nothing(
    simulated: SimulatedGateway,
) -> None:
    admin = simulated.gateway.session(Principal("root", ADMIN), "shared")
    await admin.call("get_tool_schema", {"tool_names": ["delete_ticket"]})
    held = await admin.call("execute_tool", DELETE)
    user = simulated.gateway.session(Principal("bo"), "shared")
    poll: dict[str, Any] = {**DELETE, "approval_id": held["approval_id"]}
    assert (await user.call("execute_tool", poll))["status"] == "not_found"
    assert (await user.call("execute_tool", DELETE))["status"] == "unauthorized"
