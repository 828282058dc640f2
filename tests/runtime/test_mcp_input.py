"""What an MCP client sends is marked where a key stands twice, and else goes on byte for byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from breadcrumbs.mcp_input import TWICE, MarkedBodies, marked

CALL = '{"method": "tools/call", "params": {"name": "x", "arguments": {"a": 1, "a": 2}}}'


def test_a_call_with_a_key_that_stands_twice_says_which() -> None:
    params = json.loads(marked(CALL))["params"]
    assert params["_meta"] == {TWICE: "a"}
    assert params["name"] == "x"
    kept = json.loads(marked(CALL.replace('"name"', '"_meta": {"k": 1}, "name"')))["params"]
    assert kept["_meta"] == {"k": 1, TWICE: "a"}


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        '{"a": ' * 100_000,
        '{"n": ' + "9" * 5000 + "}",
        '{"method": "tools/call", "params": {"name": "x", "arguments": {"a": 1}}}',
        '{"method": "tools/list", "params": {}, "params": {}}',
        '{"method": "tools/call", "params": [], "params": []}',
        '[{"a": 1, "a": 2}]',
    ],
    ids=lambda text: text[:20],
)
def test_all_else_goes_on_as_it_came(text: str) -> None:
    assert marked(text) == text


@pytest.mark.parametrize(
    ("parts", "taken"),
    [
        ([CALL[:30], CALL[30:]], marked(CALL)),
        (["{}"], "{}"),
        (["x" * 200, "y" * 200], "x" * 200 + "y" * 200),
    ],
    ids=["in parts", "plain", "too large"],
)
async def test_a_body_is_handed_on_whole(parts: Sequence[str], taken: str) -> None:
    events = [
        {"type": "http.request", "body": part.encode(), "more_body": part is not parts[-1]}
        for part in parts
    ]
    got: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            event = await receive()
            got.append(event["body"])
            more = event["more_body"]

    async def receive() -> Any:
        return events.pop(0)

    async def send(event: Any) -> None:
        raise AssertionError

    await MarkedBodies(app, 250)({"type": "http", "method": "POST"}, receive, send)
    assert b"".join(got).decode() == taken
