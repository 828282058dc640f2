"""The gateway's face to MCP clients, in memory: what they see, and who decides a held write."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.types import (
    ClientCapabilities,
    ElicitationCapability,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
)

from breadcrumbs import mcp_server
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import META_TOOLS, GatewaySession
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.mcp_server import MAX_FORM_CHARS, FaceSettings, McpFace, form_text

ERAS = ("legacy", "2026-07-28")
FORM = FaceSettings(form_approval=True)
PAGE = FaceSettings(approval_page="https://desk.example/approve/")
HELD = {"tool_name": "create_ticket", "arguments": {"title": "Lift \u202estuck"}}
Era = Literal["legacy", "2026-07-28"]


class Person:
    """A client's elicitation: answers each question the same way, and keeps the questions."""

    def __init__(self, answer: ElicitResult) -> None:
        self.answer = answer
        self.asked: list[ElicitRequestParams] = []

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        self.asked.append(params)
        return self.answer


YES = ElicitResult(action="accept", content={"approve": True})
NO = ElicitResult(action="accept", content={"approve": False})
OTHERS = {
    "decline": ElicitResult(action="decline"),
    "cancel": ElicitResult(action="cancel"),
    "nothing in it": ElicitResult(action="accept"),
    "a text": ElicitResult(action="accept", content={"approve": "yes"}),
    "another field": ElicitResult(action="accept", content={"ok": True}),
}


class Desk:
    """A gateway over the simulated desk, its face, and how many tickets were made."""

    def __init__(self, catalog: Catalog, settings: FaceSettings) -> None:
        closed = dataclasses.replace(
            catalog.tools["create_ticket"], name="delete_ticket", allow=("admin",)
        )
        tools = {**catalog.tools, closed.name: closed}
        self.gateway = open_gateway(Catalog(tools, catalog.collections))
        self.face = McpFace(self.gateway, settings)
        world: Any = self.gateway.executor
        self.state: Callable[[], dict[str, Any]] = world.world.state
        self.before = self.tickets()

    def client(self, era: Era, person: Person | None = None) -> Client:
        return Client(self.face.server(), mode=era, elicitation_callback=person, cache=None)

    def made(self) -> int:
        return self.tickets() - self.before

    def tickets(self) -> int:
        return len(self.state()["desk.tickets"])


@pytest.fixture
def desk_with(desk: Catalog) -> Callable[[FaceSettings], Desk]:
    return lambda settings: Desk(desk, settings)


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    payload: dict[str, Any] = json.loads(result.content[0].text)  # type: ignore[union-attr]
    assert list(payload)[-1] == "next_step"
    assert result.structured_content is None
    faulty = payload["layer"] == "0_usage" or payload.get("status") in (
        "invalid",
        "failed",
        "unknown",
    )
    assert result.is_error is faulty
    return payload


async def hold(client: Client) -> dict[str, Any]:
    await call(client, "get_tool_schema", tool_names=["create_ticket"])
    return await call(client, "execute_tool", **HELD)


@pytest.mark.parametrize("era", ERAS)
async def test_three_tools_in_a_fixed_order_with_honest_hints(
    era: Era, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    async with desk_with(FORM).client(era) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [tool["function"]["name"] for tool in META_TOOLS]
    hints = [
        (a.read_only_hint, a.destructive_hint, a.idempotent_hint, a.open_world_hint)
        for tool in tools
        if (a := tool.annotations)
    ]
    assert hints == [
        (True, None, True, False),
        (True, None, True, False),
        (False, True, False, True),
    ]
    properties = [list(tool.input_schema["properties"]) for tool in tools]
    assert properties == [
        ["query", "limit"],
        ["tool_names"],
        ["tool_name", "arguments", "approval_id"],
    ]
    assert all(tool.description and not tool.input_schema["additionalProperties"] for tool in tools)


@pytest.mark.parametrize("era", ERAS)
async def test_the_way_to_a_held_write(era: Era, desk_with: Callable[[FaceSettings], Desk]) -> None:
    desk = desk_with(FaceSettings(journal="approvals.sqlite"))
    async with desk.client(era) as client:
        found = await call(client, "search_tool_catalog", query="open a ticket", limit=1)
        assert [match["name"] for match in found["matches"]] == ["create_ticket"]
        unread = await call(client, "execute_tool", **HELD)
        assert unread["status"] == "not_disclosed"
        held = await hold(client)
        assert held["status"] == "approval_required"
        way = held["a_person_decides_by"]
        assert way.startswith(f"breadcrumbs approvals approve {held['approval_id']} --journal /")
        read = await call(client, "get_tool_schema", tool_names=["list_tickets"])
        assert read["disclosed"][0]["risk"] == "read"
        done = await call(client, "execute_tool", tool_name="list_tickets", arguments={})
        assert (done["status"], desk.made()) == ("done", 0)


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_without_the_callers_role_is_absent(
    era: Era, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    async with desk_with(FORM).client(era) as client:
        found = await call(client, "search_tool_catalog", query="delete a ticket", limit=20)
        assert "delete_ticket" not in [match["name"] for match in found["matches"]]
        named = await call(client, "get_tool_schema", tool_names=["delete_ticket"])
        assert (named["unauthorized"], named["disclosed"]) == (["delete_ticket"], [])


@pytest.mark.parametrize("era", ERAS)
async def test_a_caller_with_the_role_finds_reads_and_calls_the_tool(
    era: Era, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    async with desk_with(FaceSettings(roles=("admin",))).client(era) as client:
        found = await call(client, "search_tool_catalog", query="delete a ticket", limit=20)
        assert "delete_ticket" in [match["name"] for match in found["matches"]]
        named = await call(client, "get_tool_schema", tool_names=["delete_ticket"])
        assert named["unauthorized"] == []
        held = await call(client, "execute_tool", **{**HELD, "tool_name": "delete_ticket"})
        assert held["status"] == "approval_required"


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("execute_tool", {**HELD, "approve": True}, "approve"),
        ("search_tool_catalog", {"query": "x", "limit": 0}, "limit"),
        ("search_tool_catalog", {}, "query"),
        ("get_tool_schema", {"tool_names": "create_ticket"}, "tool_names"),
        ("no_such_tool", {"a": 1}, "name"),
    ],
)
async def test_misuse_names_the_argument(
    name: str, arguments: dict[str, Any], field: str, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    async with desk_with(FORM).client("2026-07-28") as client:
        payload = await call(client, name, **arguments)
    assert [error["field"] for error in payload["errors"]] == [field]


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_decides_only_where_it_is_allowed_G2_G72(
    era: Era, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    desk, person = desk_with(FaceSettings()), Person(YES)
    async with desk.client(era, person) as client:
        held = await hold(client)
    assert (held["status"], person.asked, desk.made()) == ("approval_required", [], 0)
    desk = desk_with(FORM)
    async with desk.client(era, person) as client:
        done = await hold(client)
    assert (done["status"], len(person.asked), desk.made()) == ("done", 1, 1)
    (question,) = person.asked
    assert isinstance(question, ElicitRequestFormParams)
    assert 'title = "Lift \\u202estuck"' in question.message
    (card,) = desk.gateway.journal.rows()
    assert card.decided_by == "local, by a form of the client"
    assert [event.after for event in desk.gateway.journal.events(card.id)] == [
        "pending",
        "approved",
        "executing",
        "done",
    ]


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_can_deny(era: Era, desk_with: Callable[[FaceSettings], Desk]) -> None:
    desk = desk_with(FORM)
    async with desk.client(era, Person(NO)) as client:
        assert (await hold(client))["status"] == "denied"
        assert (await call(client, "execute_tool", **HELD))["status"] == "denied"
    assert desk.made() == 0


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("answer", OTHERS)
async def test_any_other_answer_decides_nothing_G72(
    era: Era, answer: str, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    """A client that declines may never have shown the question: the write still waits."""
    desk = desk_with(FORM)
    async with desk.client(era, Person(OTHERS[answer])) as client:
        held = await hold(client)
        assert (held["status"], desk.made()) == ("approval_required", 0)
        await desk.gateway.decide(held["approval_id"], approve=True, by="ann")
        poll = await call(client, "execute_tool", **HELD, approval_id=held["approval_id"])
    assert (poll["status"], desk.made()) == ("done", 1)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("action", ["accept", "decline", "cancel"])
async def test_opening_a_page_decides_nothing_G2_G72(
    era: Era, action: Any, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    desk = desk_with(PAGE)
    person = Person(ElicitResult(action=action, content=None))
    async with desk.client(era, person) as client:
        held = await hold(client)
    assert (held["status"], desk.made()) == ("approval_required", 0)
    (question,) = person.asked
    assert isinstance(question, ElicitRequestURLParams)
    assert question.url == f"https://desk.example/approve/{held['approval_id']}"
    assert held["approve_url"] == question.url


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_cannot_be_asked_is_told_where_to_decide_G72(
    era: Era, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    desk = desk_with(FaceSettings(True, PAGE.approval_page))
    async with desk.client(era) as client:
        held = await hold(client)
    assert held["status"] == "approval_required"
    assert held["approve_url"].endswith(held["approval_id"])


@pytest.mark.parametrize(
    ("able", "with_page", "without"),
    [
        (None, None, None),
        ({}, "form", "form"),
        ({"form": {}}, "form", "form"),
        ({"url": {}}, "url", None),
        ({"form": {}, "url": {}}, "url", "form"),
    ],
)
def test_a_client_is_asked_by_what_it_declares_G72(
    able: dict[str, Any] | None, with_page: str | None, without: str | None, desk: Catalog
) -> None:
    gateway = open_gateway(desk)
    card = gateway.journal.hold(
        desk.tools["create_ticket"], {"title": "x"}, principal="local", session="s"
    )
    declared = ClientCapabilities.model_validate({} if able is None else {"elicitation": able})
    context: Any = SimpleNamespace(session=SimpleNamespace(client_capabilities=declared))
    for page, expected in ((PAGE.approval_page, with_page), (None, without)):
        face: Any = McpFace(gateway, FaceSettings(True, page))
        question = face._question(context, card)
        assert (question and question.mode) == expected
    unasked: Any = McpFace(gateway)
    assert unasked._question(context, card) is None


ABLE: dict[str, dict[str, Any] | None] = {
    "none": None,
    "form": {"form": {}},
    "url": {"url": {}},
    "form+url": {"form": {}, "url": {}},
}
ANSWERS = {"accept": YES, "malformed": OTHERS["a text"], **OTHERS}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("able", ABLE)
@pytest.mark.parametrize("answer", ["accept", "decline", "cancel", "malformed"])
async def test_g72_what_a_client_can_do_and_what_it_answers(
    era: Era,
    able: str,
    answer: str,
    desk_with: Callable[[FaceSettings], Desk],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole matrix over the wire. Who declines by itself is not told from who was asked."""
    declare = ClientSession._build_capabilities

    def declares(self: ClientSession, *version: Any) -> ClientCapabilities:
        said = ABLE[able]
        elicitation = None if said is None else ElicitationCapability.model_validate(said)
        return declare(self, *version).model_copy(update={"elicitation": elicitation})

    monkeypatch.setattr(ClientSession, "_build_capabilities", declares)
    desk, person = desk_with(FaceSettings(True, PAGE.approval_page)), Person(ANSWERS[answer])
    async with desk.client(era, person) as client:
        held = await hold(client)
        modes = [question.mode for question in person.asked]
        assert modes == {"none": [], "form": ["form"]}.get(able, ["url"])
        decided = (able, answer) == ("form", "accept")
        assert (held["status"], desk.made()) == (
            ("done", 1) if decided else ("approval_required", 0)
        )
        if not decided:
            assert held["approve_url"].endswith(held["approval_id"])
            await desk.gateway.decide(held["approval_id"], approve=True, by="ann")
            poll = await call(client, "execute_tool", **HELD, approval_id=held["approval_id"])
            assert (poll["status"], desk.made()) == ("done", 1)


async def test_a_long_card_is_not_put_into_a_form_G31(
    desk_with: Callable[[FaceSettings], Desk],
) -> None:
    desk, person = desk_with(FORM), Person(YES)
    long = {"tool_name": "create_ticket", "arguments": {"title": "x" * MAX_FORM_CHARS}}
    async with desk.client("2026-07-28", person) as client:
        await call(client, "get_tool_schema", tool_names=["create_ticket"])
        held = await call(client, "execute_tool", **long)
    assert (held["status"], person.asked, desk.made()) == ("approval_required", [], 0)


def test_a_form_says_what_eyes_cannot_see_G32(desk: Catalog) -> None:
    gateway = open_gateway(desk)
    for title, is_noted in (("P\u0430yroll", True), ("Payroll", False)):
        card = gateway.journal.hold(
            desk.tools["create_ticket"], {"title": title}, principal="local", session="s"
        )
        assert ("careful: title mixes latin and cyrillic" in form_text(card)) is is_noted


async def asked_by_hand(client: Client) -> InputRequiredResult:
    """The question as it crosses the wire, unanswered."""
    await call(client, "get_tool_schema", tool_names=["create_ticket"])
    question = await client.session.call_tool("execute_tool", HELD, allow_input_required=True)
    assert isinstance(question, InputRequiredResult)
    return question


async def send(client: Client, state: str | None, **changes: Any) -> Any:
    return await client.session.call_tool(
        "execute_tool",
        {**HELD, **changes},
        input_responses={"approve": YES},
        request_state=state,
        allow_input_required=True,
    )


async def test_an_answer_counts_once_and_only_with_its_state_G1_G22(
    desk_with: Callable[[FaceSettings], Desk],
) -> None:
    desk = desk_with(FORM)
    async with desk.client("2026-07-28", Person(YES)) as client:
        question = await asked_by_hand(client)
        forged = await send(client, None)  # an answer to a question of which nothing is brought
        assert isinstance(forged, InputRequiredResult)
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await send(client, f"form:{desk.gateway.journal.rows()[0].id}")
        assert question.request_state is not None
        with pytest.raises(MCPError, match="Invalid or expired requestState"):
            await send(client, question.request_state, arguments={"title": "another"})
        assert desk.made() == 0
        for _ in range(4):
            replayed = await send(client, question.request_state)
            assert json.loads(replayed.content[0].text)["status"] == "done"
        assert desk.made() == 1


async def test_a_forms_answer_decides_nothing_where_forms_are_off_G2(
    desk_with: Callable[[FaceSettings], Desk],
) -> None:
    """It was asked by another gateway with the same keys, or by this one before."""
    desk: Any = desk_with(FORM)
    async with desk.client("2026-07-28", Person(YES)) as client:
        question = await asked_by_hand(client)
        desk.face._settings = FaceSettings()
        refused = await send(client, question.request_state)
        assert json.loads(refused.content[0].text)["status"] == "approval_required"
        assert desk.made() == 0
        desk.face._settings = FORM
        taken = await send(client, question.request_state)
    assert json.loads(taken.content[0].text)["status"] == "done"


async def test_an_answer_after_a_denial_changes_nothing_G4(
    desk_with: Callable[[FaceSettings], Desk],
) -> None:
    desk = desk_with(FORM)
    async with desk.client("2026-07-28", Person(YES)) as client:
        question = await asked_by_hand(client)
        (card,) = desk.gateway.journal.rows()
        await desk.gateway.decide(card.id, approve=False, by="ann")
        late = await send(client, question.request_state)
    assert json.loads(late.content[0].text)["status"] == "denied"
    assert desk.made() == 0


@pytest.mark.parametrize("era", ERAS)
async def test_an_id_is_no_approval_and_made_up_ids_are_none_G22(
    era: Era, desk_with: Callable[[FaceSettings], Desk]
) -> None:
    desk = desk_with(FaceSettings())
    async with desk.client(era) as client:
        held = await hold(client)
        for _ in range(3):
            poll = await call(client, "execute_tool", **HELD, approval_id=held["approval_id"])
            assert poll["status"] == "approval_required"
        invented = await call(client, "execute_tool", **HELD, approval_id="appr_guess")
    assert (invented["status"], desk.made()) == ("not_found", 0)


async def test_a_journal_that_fails_lets_nothing_run_G43(
    desk_with: Callable[[FaceSettings], Desk],
) -> None:
    broken = desk_with(FORM)
    async with broken.client("2026-07-28", Person(YES)) as client:
        question = await asked_by_hand(client)
        broken.gateway.journal.close()
        late = await send(client, question.request_state)
    assert late.is_error
    assert json.loads(late.content[0].text)["status"] == "unknown"
    assert broken.made() == 0


async def test_a_long_conversation_is_not_kept_in_memory(
    desk_with: Callable[[FaceSettings], Desk],
) -> None:
    desk: Any = desk_with(FORM)
    async with desk.client("2026-07-28") as client:
        for _ in range(5):
            await call(client, "search_tool_catalog", query="ticket")
    ((session,),) = (theirs.values() for theirs in desk.face._sessions.values())
    assert session.log == []


def test_made_up_session_ids_drive_out_no_session_of_another_caller_G7(
    desk: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    face: Any = McpFace(open_gateway(desk))

    def asks(caller: str, handle: str) -> GatewaySession:
        monkeypatch.setattr(
            mcp_server, "get_access_token", lambda: SimpleNamespace(client_id=caller, scopes=[])
        )
        headers = {"mcp-session-id": handle}
        session: GatewaySession = face._session(
            SimpleNamespace(request=SimpleNamespace(headers=headers))
        )
        return session

    bobs, anns = asks("bob", "his"), asks("ann", "hers")
    for number in range(mcp_server.MAX_SESSIONS):
        asks("ann", f"made up {number}")
    assert asks("bob", "his") is bobs
    assert asks("ann", "hers") is not anns  # her own oldest is the one that goes
    assert {len(theirs) for theirs in face._sessions.values()} == {1, mcp_server.MAX_SESSIONS}
