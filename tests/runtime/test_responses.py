"""`/v1/responses` with the `openai` client."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import openai
import pytest

from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.turns import Turn, Usage

Start = Callable[..., str]


@contextmanager
def client(url: str, key: str = "none") -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60) as opened:
        yield opened


def test_an_approval_item_answered_runs_the_write_once_G2(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    ends = [Turn("It waits.", usage=Usage(40, 3)), Turn("The ticket is open."), Turn("Still.")]
    url = start(*script.prelude, Turn(script.stall), script.execute, *ends)
    before = gateway.world.state_hash()
    with client(url) as api:
        first = api.responses.create(model="small-loop", input=script.request)
        kinds = [item.type for item in first.output]
        assert kinds == [
            *["mcp_call"] * 2,
            "reasoning",
            "mcp_call",
            "mcp_approval_request",
            "message",
        ]
        assert first.output_text == "It waits."
        assert first.status == "completed"
        assert first.usage is not None
        assert first.usage.output_tokens == 3
        asked = first.output[-2]
        assert asked.type == "mcp_approval_request"
        assert (asked.name, json.loads(asked.arguments)) == (
            "create_ticket",
            {**script.arguments},
        )
        assert gateway.world.state_hash() == before
        answer: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": asked.id,
            "approve": True,
        }
        second = api.responses.create(
            model="small-loop", input=[answer], previous_response_id=first.id
        )
        assert second.output_text == "The ticket is open."
        assert second.previous_response_id == first.id
        after = gateway.world.state_hash()
        assert after != before
        third = api.responses.create(
            model="small-loop", input=[answer], previous_response_id=first.id
        )
        assert third.output_text == "Still."
        assert gateway.world.state_hash() == after  # once
        again = api.responses.retrieve(first.id)
        assert again.output_text == "It waits."


def test_a_client_that_keeps_the_context_itself_may_send_its_items_back(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    seen = []

    class Seeing(ScriptedPolicy):
        async def stream(self, messages: Any, tools: Any) -> AsyncGenerator[str | Turn, None]:
            seen.append(list(messages))
            async for item in super().stream(messages, tools):
                yield item

    turns = [*script.prelude, script.execute, Turn("It waits."), Turn("Not done.")]
    url = start(Seeing(turns))
    with client(url) as api:
        first = api.responses.create(model="small-loop", input=script.request)
        asked = first.output[-2].model_dump()
        refusal = {
            "type": "mcp_approval_response",
            "approval_request_id": asked["id"],
            "approve": False,
            "reason": "no",
        }
        items: Any = [{"role": "user", "content": script.request}, asked, refusal]
        second = api.responses.create(model="small-loop", input=items)
    assert second.output_text == "Not done."
    told = seen[-1][-1]  # once, behind what the server knows, and the request is not asked again
    assert (told.role, told.synthetic) == ("user", True)
    assert '"status":"denied"' in told.content
    assert [m.content for m in seen[-1] if m.role == "user"] == [script.request, told.content]
    (row,) = gateway.gateway.journal.rows()
    assert (row.state, row.reason) == ("denied", "no")


def test_a_decision_after_a_restart_stands_behind_the_clients_own_context(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    first = start(*script.prelude, script.execute, Turn("It waits."))
    with client(first) as api:
        asked = api.responses.create(model="small-loop", input=script.request).output[-2]
    answer = {"type": "mcp_approval_response", "approval_request_id": asked.id, "approve": True}
    items: Any = [{"role": "user", "content": script.request}, asked.model_dump(), answer]
    with client(start(Turn("It is open."))) as api:  # a server that knows the journal alone
        second = api.responses.create(model="small-loop", input=items, instructions="Be short.")
    assert second.output_text == "It is open."
    assert [row.state for row in gateway.gateway.journal.rows()] == ["done"]


def test_streamed_events_are_put_together_by_the_client(start: Start, script: Any) -> None:
    url = start(*script.prelude, script.execute, Turn("It waits."))
    with (
        client(url) as api,
        api.responses.stream(model="small-loop", input=script.request) as streamed,
    ):
        kinds = [event.type for event in streamed]
        final = streamed.get_final_response()
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert "response.mcp_call_arguments.done" in kinds
    assert final.output_text == "It waits."
    assert [item.type for item in final.output][-2:] == ["mcp_approval_request", "message"]


def test_a_stream_holds_named_numbered_events_and_never_ids(start: Start) -> None:
    url = start(Turn("Hi."))
    body = {"model": "small-loop", "input": "hi", "stream": True}
    with httpx.stream("POST", f"{url}/v1/responses", json=body, timeout=60) as answer:
        lines = [line for line in answer.iter_lines() if line and not line.startswith(":")]
    assert {line.split(":")[0] for line in lines} == {"event", "data"}
    told = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    assert [event["sequence_number"] for event in told] == list(range(len(told)))
    assert [line[7:] for line in lines if line.startswith("event: ")] == [e["type"] for e in told]


def test_a_broken_model_fails_the_response_in_both_forms_G54(start: Start) -> None:
    with client(start()) as api:
        with pytest.raises(openai.InternalServerError, match="no further turn"):
            api.responses.create(model="small-loop", input="hi")
        told = list(api.responses.create(model="small-loop", input="hi", stream=True))
    last = told[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert "no further turn" in last.response.error.message


def test_a_key_without_the_scope_decides_nothing(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    url = start(*script.prelude, script.execute, Turn("It waits."), api_keys=("agent:chat",))
    with client(url, "agent") as api:
        first = api.responses.create(model="small-loop", input=script.request)
        answer: Any = {
            "type": "mcp_approval_response",
            "approval_request_id": first.output[-2].id,
            "approve": True,
        }
        with pytest.raises(openai.PermissionDeniedError, match="decide on the page"):
            api.responses.create(model="small-loop", input=[answer], previous_response_id=first.id)
    assert [card.state for card in gateway.gateway.journal.rows()] == ["pending"]


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"model": "small"}, 404, "small-loop"),
        ({"tools": [{"type": "web_search"}]}, 400, "its own tools"),
        ({"input": []}, 400, "a user's message or a decision"),
        ({"input": [{"role": "assistant", "content": "x"}]}, 400, "a user's message"),
        ({"previous_response_id": "resp_x"}, 404, "resp_x"),
        (
            {
                "input": [
                    {"type": "mcp_approval_response", "approval_request_id": "x", "approve": True}
                ]
            },
            404,
            "no approval",
        ),
    ],
)
def test_what_cannot_be_served_is_said_in_openais_shape_G60(
    change: dict[str, Any], status: int, message: str, start: Start
) -> None:
    body = {"model": "small-loop", "input": "hi", **change}
    answer = httpx.post(f"{start()}/v1/responses", json=body)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert message in answer.json()["error"]["message"]


def test_what_is_not_to_be_stored_is_forgotten(start: Start) -> None:
    with client(start(Turn("Hi."))) as api:
        made = api.responses.create(model="small-loop", input="hi", store=False)
        with pytest.raises(openai.NotFoundError):
            api.responses.retrieve(made.id)
