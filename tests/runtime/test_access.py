"""Keys, scopes, the page's cookie, and pages of other origins."""

from __future__ import annotations

import dataclasses
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from breadcrumbs import access, http_border
from breadcrumbs.callers import known, read_keys
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import SimulatedGateway, simulated_gateway
from breadcrumbs.service import ServiceSettings
from breadcrumbs.turns import Turn

Start = Callable[..., str]
KEYS = ("agent:chat", "ann:approve_all", "ops:metrics", "bo")


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def test_scopes_are_read_and_the_name_is_the_keys_alone() -> None:
    agent, ann, ops, bo = read_keys(KEYS)
    assert (agent.scopes, bo.scopes) == ({"chat"}, {"chat", "approve"})
    assert ann.may("approve")
    assert not ann.may("chat")
    assert not ops.may("approve")
    assert known("Bearer agent", read_keys(("agent:chat+metrics",))) is not None
    assert read_keys(("agent",))[0].name == agent.name
    assert "agent" not in repr(agent)


@pytest.mark.parametrize("entry", [":chat", "key:", "key:admin", "a:b:chat", "key:chat,x"])
def test_a_malformed_key_is_refused_without_showing_it(entry: str) -> None:
    with pytest.raises(ConfigError, match="entry 2: write KEY") as refused:
        read_keys(("fine", entry))
    assert "key:" not in str(refused.value).lower().replace("write key or key:scope", "")
    with pytest.raises(ConfigError, match="twice"):
        read_keys(("fine", "fine:chat"))


def test_G58_every_route_needs_a_key_and_each_its_scope(start: Start) -> None:
    url = start(Turn("Hi."), api_keys=KEYS)
    document = httpx.get(f"{url}/openapi.json", headers=bearer("agent")).json()
    routes = [
        (method.upper(), path.replace("{", "").replace("}", ""))
        for path, methods in document["paths"].items()
        for method in methods
    ]
    assert len(routes) > 12
    for method, path in [*routes, ("GET", "/openapi.json")]:
        for headers in ({}, bearer("nobody"), {"cookie": f"{access.COOKIE}=key-x.1.2"}):
            answer = httpx.request(method, url + path, headers=headers, json={})
            assert answer.status_code == 401, (method, path)
    body = {"model": "small", "messages": [{"role": "user", "content": "hi"}]}
    decision = {"approve": True}
    for key, method, path, sent in (
        ("ann", "POST", "/v1/chat/completions", body),
        ("ops", "GET", "/v1/models", None),
        ("agent", "POST", "/v1/approvals/appr_x", decision),
        ("ops", "POST", "/v1/approvals/appr_x", decision),
    ):
        answer = httpx.request(method, url + path, headers=bearer(key), json=sent)
        assert answer.status_code == 403
        assert "no scope" in answer.json()["error"]["message"]


def test_who_may_decide_everybodys_writes_sees_them_and_an_agent_gets_no_challenge(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    from breadcrumbs.gateway.challenge import KeyRing

    gateway.gateway.keys = KeyRing.fresh()
    url = start(*script.prelude, script.execute, Turn("It waits."), api_keys=KEYS)
    body = {"model": "small-loop", "messages": [{"role": "user", "content": script.request}]}
    httpx.post(f"{url}/v1/chat/completions", json=body, headers=bearer("agent"), timeout=60)

    def listed(key: str) -> list[dict[str, Any]]:
        answer = httpx.get(f"{url}/v1/approvals", headers=bearer(key)).json()
        found: list[dict[str, Any]] = answer["data"]
        return found

    (own,) = listed("agent")
    assert "challenge" not in own
    assert listed("bo") == []
    (card,) = listed("ann")
    place = f"{url}/v1/approvals/{card['approval_id']}"
    decision = {"approve": True, "challenge": card["challenge"]}
    assert httpx.post(place, json=decision, headers=bearer("agent")).status_code == 403
    assert httpx.post(place, json=decision, headers=bearer("bo")).status_code == 404
    assert httpx.post(place, json={"approve": True}, headers=bearer("ann")).status_code == 403
    assert [row.state for row in gateway.gateway.journal.rows()] == ["pending"]
    assert httpx.post(place, json=decision, headers=bearer("ann")).json()["status"] == "done"


@pytest.mark.parametrize(("key", "shown"), [("ann", ["create_ticket"]), ("bo", [])])
def test_a_keys_roles_open_its_tools_in_the_loop(
    start: Start, desk: Catalog, script: Any, key: str, shown: list[str]
) -> None:
    closed = dataclasses.replace(desk.tools["create_ticket"], allow=("admin",))
    tools = {**desk.tools, closed.name: closed}
    served = simulated_gateway(Catalog(tools, desk.collections), seed=1).gateway
    keys = ("ann:chat+role=admin", "bo:chat")
    url = start(script.schema, Turn("Read."), over=served, api_keys=keys)
    asked = {"input": "Read the schema"}
    run = httpx.post(f"{url}/v1/runs", json=asked, headers=bearer(key)).json()["id"]
    told = httpx.get(f"{url}/v1/runs/{run}/events", headers=bearer(key), timeout=30).text
    (payload,) = [
        json.loads(line[6:])["payload"]
        for line in told.splitlines()
        if line.startswith("data: ") and json.loads(line[6:])["type"] == "tool_result"
    ]
    assert [tool["name"] for tool in payload["disclosed"]] == shown
    assert payload["unauthorized"] == ([] if shown else ["create_ticket"])


def test_a_write_of_another_gateway_is_decided_here_and_left_to_it(
    start: Start, gateway: SimulatedGateway
) -> None:
    journal, known = gateway.gateway.journal, gateway.gateway.catalog.tool("create_ticket")
    assert known is not None
    for name, state in (("elsewhere", "approved"), ("create_ticket", "done")):
        spec = dataclasses.replace(known, name=name)
        card = journal.hold(spec, {"title": "x"}, principal="cust", session="s")
        url = start(api_keys=KEYS)
        place = f"{url}/v1/approvals/{card.id}"
        answer = httpx.post(place, json={"approve": True}, headers=bearer("ann"))
        assert answer.status_code == 200
        assert [row.state for row in journal.rows() if row.id == card.id] == [state]


def test_a_browser_signs_in_once_and_G34_pages_of_others_send_nothing(start: Start) -> None:
    url = start(*[Turn("Hi.")] * 3, api_keys=KEYS)
    own = {"origin": url}
    with httpx.Client(base_url=url) as browser:
        assert browser.get("/v1/session").status_code == 401
        signed = browser.post("/v1/session", headers={**bearer("bo"), **own})
        kept = signed.headers["set-cookie"].lower()
        assert "httponly" in kept
        assert "samesite=strict" in kept
        assert "bo" not in kept.split(";")[0].split(".")[-1]
        assert browser.get("/v1/session").json()["scopes"] == ["approve", "chat"]
        post = "/v1/runs"
        assert browser.post(post, json={"input": "hi"}, headers=own).status_code == 201
        for headers in (
            {},
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {**own, "sec-fetch-site": "cross-site"},
        ):
            assert browser.post(post, json={"input": "hi"}, headers=headers).status_code == 403
        browser.delete("/v1/session", headers=own)
        assert browser.get("/v1/session").status_code == 401


def test_a_cookie_ends_with_its_time_and_with_its_key(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = start(api_keys=KEYS)
    cookies = httpx.post(f"{url}/v1/session", headers=bearer("bo")).cookies
    value = cookies[access.COOKIE]
    name, ends, mac = value.split(".")
    assert httpx.get(f"{url}/v1/session", cookies=cookies).status_code == 200
    for forged in (
        f"{name}.{int(ends) + 1}.{mac}",
        f"{name}.{ends}.{mac[:-1]}",
        f"{read_keys(KEYS)[1].name}.{ends}.{mac}",
        f"{name}.{ends}x.{mac}",
        f"{name}.{'9' * 30}.{mac}",
        name,
    ):
        answer = httpx.get(f"{url}/v1/session", headers={"cookie": f"{access.COOKIE}={forged}"})
        assert answer.status_code == 401
    without = start(api_keys=("agent:chat",))
    assert httpx.get(f"{without}/v1/session", cookies=cookies).status_code == 401
    later = time.time() + access.SESSION_S + 5
    monkeypatch.setattr(access.time, "time", lambda: later)
    assert httpx.get(f"{url}/v1/session", cookies=cookies).status_code == 401


def test_without_keys_a_page_of_another_port_sends_nothing(start: Start) -> None:
    url = start(Turn("Hi."))
    body = {"input": "hi"}
    for headers in ({"origin": "http://127.0.0.1:1"}, {"sec-fetch-site": "same-site"}):
        assert httpx.post(f"{url}/v1/runs", json=body, headers=headers).status_code == 403
    assert httpx.post(f"{url}/v1/runs", json=body, headers={"origin": url}).status_code == 201


def test_G34_every_answer_carries_a_browsers_headers(start: Start) -> None:
    url = start()
    for path in ("/", "/page/page.js", "/v1/models", "/nothing", "/approve/appr_x"):
        headers = httpx.get(url + path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_G56_a_body_that_never_ends_is_let_go(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_border, "BODY_S", 0.5)
    url = start(Turn("Hi."))
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as slow:
        slow.sendall(
            f"POST /v1/runs HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            "Content-Length: 500\r\n\r\n{".encode()
        )
        assert b"408" in slow.recv(4096)


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b'{"input": "hi"}', {"content-type": "text/plain"}),
        (b"\x1f\x8b\x08\x00", {"content-type": "application/json", "content-encoding": "gzip"}),
        (b'{"input": ' + b"[" * 50_000, {"content-type": "application/json"}),
        (b'{"input": NaN}', {"content-type": "application/json"}),
        (b'{"input": "\\ud800"}', {"content-type": "application/json"}),
        (b"\xff", {"content-type": "application/json"}),
    ],
)
def test_G56_what_is_no_json_is_refused_without_a_trace_G60(
    content: bytes, headers: dict[str, str], start: Start
) -> None:
    answer = httpx.post(f"{start()}/v1/runs", content=content, headers=headers)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert "Traceback" not in answer.text
    assert "/" not in error["message"].replace("https://", "")


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": [{"role": "user", "content": "x"}] * 1001}, "messages"),
        ({"tools": [{"type": "function", "function": {"name": "x"}}] * 129}, "tools"),
        ({"n": 10**9}, "n"),
        ({"x_run_id": "r" * 101}, "x_run_id"),
        ({"model": "../../etc/passwd"}, None),
        ({"model": "small\u0000"}, None),
    ],
)
def test_G57_what_asks_for_too_much_is_refused_G59(
    change: dict[str, Any], param: str | None, start: Start
) -> None:
    body = {"model": "small", "messages": [{"role": "user", "content": "hi"}], **change}
    answer = httpx.post(f"{start()}/v1/chat/completions", json=body)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["param"] == param


def test_G52_a_ping_comes_before_a_proxy_gives_up() -> None:
    assert ServiceSettings().ping_s <= 15
