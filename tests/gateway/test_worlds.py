"""The simulated world: equal calls give equal states, and failures change nothing."""

import hashlib
from dataclasses import replace
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.gateway.catalog import Catalog, Collection, Effect, Risk, ToolSpec
from breadcrumbs.gateway.worlds import LIST_LIMIT, ToolFailure, World

Call = tuple[str, dict[str, Any]]
keys = st.sampled_from(["tkt_1", "tkt_2", "tkt_3", "tkt_4", "tkt_9"])
calls = st.lists(
    st.tuples(st.just("create_ticket"), st.fixed_dictionaries({"title": st.text(max_size=4)}))
    | st.tuples(
        st.sampled_from(["close_ticket", "delete_ticket", "get_ticket"]),
        st.fixed_dictionaries({"ticket_id": keys}),
    )
    | st.tuples(
        st.just("add_ticket_note"), st.fixed_dictionaries({"ticket_id": keys, "text": st.text()})
    ),
    max_size=8,
)


def play(catalog: Catalog, script: list[Call]) -> tuple[World, list[Any]]:
    world, results = World(catalog), []
    for name, arguments in script:
        try:
            results.append(world.apply(catalog.tools[name], arguments))
        except ToolFailure as failure:
            results.append(str(failure))
    return world, results


@given(calls)
def test_equal_calls_give_equal_states(desk: Catalog, script: list[Call]) -> None:
    first, second = play(desk, script), play(desk, script)
    assert first[1] == second[1]
    assert first[0].state_hash() == second[0].state_hash()
    assert World(desk).state_hash() == World(desk).state_hash()


@given(calls)
def test_the_hash_is_that_of_the_whole_state_and_the_start_stays(
    desk: Catalog, script: list[Call]
) -> None:
    fresh = rfc8785.dumps(World(desk).state())
    world, _ = play(desk, script)
    assert world.state_hash() == hashlib.sha256(rfc8785.dumps(world.state())).hexdigest()
    assert rfc8785.dumps(World(desk).state()) == fresh
    assert World(desk.without(["get_ticket"])).state_hash() == hashlib.sha256(fresh).hexdigest()


def test_each_effect_does_what_it_says(desk: Catalog) -> None:
    world, results = play(
        desk,
        [
            ("create_ticket", {"title": "Loud fan", "priority": "normal"}),
            ("close_ticket", {"ticket_id": "tkt_1", "reason": "fixed"}),
            ("add_ticket_note", {"ticket_id": "tkt_2", "text": "checked"}),
            ("delete_ticket", {"ticket_id": "tkt_3"}),
            ("get_ticket", {"ticket_id": "tkt_4"}),
            ("list_tickets", {"status": "open"}),
        ],
    )
    tickets = world.state()["desk.tickets"]
    assert results[0] == {"ticket_id": "tkt_4", "status": "created"}
    assert tickets["tkt_1"]["status"] == "closed"
    assert tickets["tkt_1"]["reason"] == "fixed"
    assert tickets["tkt_2"]["notes"] == [{"text": "checked"}]
    assert "tkt_3" not in tickets
    assert results[4]["title"] == "Loud fan"
    assert results[5]["total"] == 1
    assert World(desk).state()["desk.tickets"]["tkt_3"]


def test_an_unknown_key_fails_and_changes_nothing(desk: Catalog) -> None:
    world = World(desk)
    before = world.state_hash()
    with pytest.raises(ToolFailure, match="tkt_9"):
        world.apply(desk.tools["close_ticket"], {"ticket_id": "tkt_9"})
    assert world.state_hash() == before


def test_lists_are_bounded_and_say_how_many_there_are(desk: Catalog) -> None:
    script: list[Call] = [("create_ticket", {"title": str(n)}) for n in range(9)]
    _, results = play(desk, [*script, ("list_tickets", {})])
    assert len(results[-1]["tickets"]) == LIST_LIMIT
    assert results[-1]["total"] == 12


def test_a_name_is_not_used_again_after_a_delete(desk: Catalog) -> None:
    create: Call = ("create_ticket", {"title": "x"})
    _, results = play(desk, [create, ("delete_ticket", {"ticket_id": "tkt_4"}), create])
    assert results[2]["ticket_id"] == "tkt_5"


def test_results_are_copies(desk: Catalog) -> None:
    world = World(desk)
    before = world.state_hash()
    world.apply(desk.tools["get_ticket"], {"ticket_id": "tkt_1"})["notes"].append("forged")
    world.apply(desk.tools["list_tickets"], {})["tickets"][0]["notes"].append("forged")
    assert world.state_hash() == before


def test_a_state_is_that_of_its_moment_and_worlds_with_other_records_differ(desk: Catalog) -> None:
    create: Call = ("create_ticket", {"title": "x"})
    world, _ = play(desk, [create])
    before = world.state()
    world.apply(desk.tools["create_ticket"], {"title": "y"})
    assert set(world.state()["desk.tickets"]) - set(before["desk.tickets"]) == {"tkt_5"}
    kinds = desk.collections["desk"]
    bare = {**kinds, "tickets": replace(kinds["tickets"], records=())}
    other = World(Catalog(desk.tools, {"desk": bare}, desk))
    assert other.state()["desk.tickets"] == {}
    assert other.state_hash() != World(desk).state_hash()


def test_a_write_of_unknown_effect_leaves_its_arguments_and_nothing_else() -> None:
    effect = Effect("record", "calls")
    spec = ToolSpec("send_flare", "", {"properties": {}}, Risk.WRITE, "sea", effect=effect)
    catalog = Catalog({spec.name: spec}, {"sea": {"calls": Collection("call_id", "CALL")}})
    states = []
    for arguments in ({"colour": "red"}, {"colour": "green"}, {"colour": "red"}):
        world = World(catalog)
        assert world.apply(spec, arguments) == {"status": "ok"}
        states.append(world.state())
    assert states[0] == {"sea.calls": {"CALL_1": {"colour": "red", "call_id": "CALL_1"}}}
    assert states[0] == states[2] != states[1]
