"""Agents with a nudge loop and without, and our own loop, in front of the stalling model."""

from __future__ import annotations

import json
import sys
import threading
import urllib.request
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from breadcrumbs.cli import main
from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.audit_loop import audit_loop, judge
from breadcrumbs.eval.audit_model import (
    FOREVER,
    MAX_REQUESTS,
    QUESTION,
    RUNS,
    AuditModel,
    create_app,
)
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import simulated_gateway
from breadcrumbs.loop import run as run_loop
from breadcrumbs.messages import Message
from breadcrumbs.radar import Radar, situation_of
from breadcrumbs.turns import Turn

AGENT = str(Path(__file__).parent / "audited" / "agent.py")


def agent(*words: str) -> list[str]:
    return [sys.executable, AGENT, *words]


@pytest.mark.parametrize("form", ["whole", "stream"])
def test_an_agent_that_nudges_passes(form: str) -> None:
    report = audit_loop(agent("nudge", form))
    assert report.findings == ()
    assert [run["run"] for run in report.runs] == list(RUNS)
    caught = {run["run"]: run["times"] for run in report.runs}
    assert caught == {name: 1 for name in RUNS} | {FOREVER: 2, QUESTION: 0}


def test_an_agent_that_hands_stalls_over_fails() -> None:
    report = audit_loop(agent("plain"))
    assert [finding.where for finding in report.findings] == [f"run {name}" for name in RUNS[:5]]
    assert all("handed to the user" in finding.finding for finding in report.findings)


def test_an_agent_that_nudges_a_true_question_fails() -> None:
    (finding,) = audit_loop(agent("deaf")).findings
    assert finding.where == f"run {QUESTION}"
    assert "What is the email?" in finding.finding


def test_an_agent_that_never_ends_fails() -> None:
    report = audit_loop(agent("endless"))
    assert {run["requests"] for run in report.runs} == {MAX_REQUESTS + 1}
    assert all("does not end" in finding.finding for finding in report.findings)
    assert len(report.findings) == len(RUNS)


def test_an_agent_that_hangs_is_killed() -> None:
    report = audit_loop([sys.executable, "-c", "import time; time.sleep(600)"], timeout_s=0.3)
    assert all("never called" in finding.finding for finding in report.findings)
    assert {run["ended"] for run in report.runs} == {False}


def test_what_could_not_be_seen_is_not_passed() -> None:
    model = AuditModel(by_conversation=False)
    assert "never called" in judge(model.run, None)[0].finding
    model.answer([Message("user", "hi")], [])
    assert "no tools" in judge(model.run, None)[0].finding
    tools = [{"function": {"name": "search_tools", "parameters": {}}}]
    model.answer([Message("user", "hi")], tools)
    assert "before the model could stall" in judge(model.run, None)[0].finding


def test_fresh_conversations_are_the_runs_where_no_command_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The printed address, an agent started by hand for each run."""
    started: list[threading.Thread] = []

    def work(address: str) -> None:
        for name in RUNS:
            request = "Pay 3 EUR" + ("" if name == QUESTION else " to ann@example.com")
            body = {
                "model": "m",
                "messages": [{"role": "user", "content": f"{request}, please ({name})"}],
                "tools": [{"type": "function", "function": {"name": "pay", "parameters": PAY}}],
            }
            post(address, body)
            if name != QUESTION:
                body["messages"] += [
                    {"role": "assistant", "content": "x"},
                    {"role": "user", "content": "go"},
                ]
                post(address, body)

    def announce(address: str) -> None:
        started.append(threading.Thread(target=work, args=(address,)))
        started[0].start()

    report = audit_loop([], idle_s=0.5, announce=announce)
    started[0].join()
    assert report.findings == ()
    assert [run["run"] for run in report.runs] == list(RUNS)


PAY = {
    "type": "object",
    "properties": {"email": {"type": "string", "format": "email"}},
    "required": ["email"],
}


def post(address: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{address}/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_a_taken_port_and_a_missing_command_are_named() -> None:
    with pytest.raises(ConfigError, match="nowhere-to-be-found: cannot start"):
        audit_loop(["nowhere-to-be-found"])

    def announce(address: str) -> None:
        port = int(address.rsplit(":", 1)[1].partition("/")[0])
        with pytest.raises(ConfigError, match=f"--port {port}: Address already in use"):
            audit_loop(["true"], port=port)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audit_loop([], announce=announce)


class AsPolicy:
    """The stalling model as the model of our own loop."""

    def __init__(self, model: AuditModel) -> None:
        self.model = model

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        yield self.model.answer(list(messages), tools)


@pytest.mark.parametrize("name", RUNS)
async def test_our_own_loop_passes(name: str, desk_request: str) -> None:
    model = AuditModel(by_conversation=False)
    run = model.begin(name)
    session = simulated_gateway(load_catalog(), seed=0).gateway.session()
    text = desk_request if name != QUESTION else desk_request.partition(" titled")[0] + "."
    await run_loop(AsPolicy(model), session, [Message("system", "Act."), Message("user", text)])
    assert run.said
    assert judge(run, None) == []
    assert (run.retries > 0) == (name != QUESTION)


@pytest.fixture
def desk_request() -> str:
    return "Create a document titled 'Lift is stuck'."


def test_the_endpoint_names_what_it_does_not_serve() -> None:
    model = AuditModel(by_conversation=False)
    with TestClient(create_app(model)) as client:
        assert client.get("/v1/models").json()["data"][0]["id"] == "breadcrumbs-audit"
        answer = client.post("/v1/responses", json={})
        assert answer.status_code == 404
        assert "/v1/chat/completions" in answer.json()["error"]["message"]
    assert model.strays == {"/v1/responses"}


def status_of(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["audit", *arguments])
    return int(stopped.value.code or 0)


def test_statuses_and_json_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text('{"a": 1, "next_step": "Call x."}')
    bad.write_text('{"a": 1}')
    main(["audit", "payloads", str(good), "--json"])
    assert json.loads(capsys.readouterr().out)["findings"] == []
    assert status_of("payloads", str(bad), "--json") == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert set(finding) == {"check", "where", "finding", "mend"}
    assert status_of("payloads", str(bad)) == 1
    assert "1 finding" in capsys.readouterr().out
    assert status_of("payloads", str(tmp_path / "none.json")) == 2
    assert "cannot read" in capsys.readouterr().err
    assert status_of("prompt", str(tmp_path / "none.txt")) == 2
    assert status_of("server", "nowhere-to-be-found") == 2
    assert status_of("loop", "--port", "99999") == 2
    capsys.readouterr()
    assert status_of("loop", "--json", "--", sys.executable, AGENT, "plain") == 1
    assert len(json.loads(capsys.readouterr().out)["runs"]) == len(RUNS)


def test_every_stall_that_is_said_is_one_to_the_radar() -> None:
    """The texts come from the scripted staller; a radar that sees the schema names each."""
    schema = {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "priority": {"type": "string", "enum": ["low", "high"], "default": "low"},
        },
        "required": ["title"],
    }
    payload = json.dumps(
        {
            "layer": "2_schema_disclosure",
            "disclosed": [{"name": "create_ticket", "inputSchema": schema}],
        }
    )
    tools = [{"function": {"name": "execute_tool", "parameters": {}}}]
    for name in RUNS[:5]:
        messages = [
            Message("user", "Open a ticket titled 'Lift is stuck'."),
            Message("tool", payload),
        ]
        model = AuditModel(by_conversation=False)
        model.begin(name)
        text = model.answer(messages, tools).text
        stall = Radar().classify(text, situation_of(messages))
        assert stall is not None, (name, text)
        assert stall.kind == name, (name, text)
