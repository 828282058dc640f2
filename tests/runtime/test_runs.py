"""`/v1/runs`: numbered events, watched, left, and come back to."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from breadcrumbs import runs as runs_module
from breadcrumbs.events import Done, Nudge, Text
from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message
from breadcrumbs.monitoring import Monitor
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.runs import Run, Runs, TooManyRuns, saved
from breadcrumbs.turns import Turn, Usage

Start = Callable[..., str]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def begin(url: str, text: str = "hi", previous: str | None = None) -> dict[str, Any]:
    answer = httpx.post(f"{url}/v1/runs", json={"input": text, "previous_run_id": previous})
    assert answer.status_code == 201, answer.text
    run: dict[str, Any] = answer.json()
    return run


def events(url: str, run: str, after: int = 0, **headers: str) -> Iterator[dict[str, Any]]:
    place = f"{url}/v1/runs/{run}/events"
    with httpx.stream("GET", place, params={"after": after}, headers=headers, timeout=60) as got:
        assert got.status_code == 200
        number = None
        for line in got.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            elif line.startswith("data: "):
                event = json.loads(line[6:])
                assert event["seq"] == number
                yield event


def test_a_run_tells_everything_in_numbered_events(start: Start, script: Any) -> None:
    url = start(*script.prelude, Turn(script.stall), script.call("list_tickets"), Turn("Done."))
    run = begin(url, script.request)
    told = list(events(url, run["id"]))
    assert [event["seq"] for event in told] == list(range(1, len(told) + 1))
    kinds = [event["type"] for event in told]
    assert kinds == [
        *["tool_call", "tool_result"] * 2,
        *["think", "nudge"],
        *["tool_call", "tool_result"],
        *["text", "done"],
    ]
    assert told[-1]["reason"] == "answered"
    card = httpx.get(f"{url}/v1/runs/{run['id']}").json()
    assert (card["status"], card["events"]) == ("answered", len(told))


def test_G51_a_watcher_that_comes_back_misses_nothing_and_sees_nothing_twice(
    start: Start, dripping: Any
) -> None:
    url = start(dripping)
    run = begin(url)["id"]
    first = events(url, run)
    seen = [next(first) for _ in range(3)]
    first.close()
    until(lambda: dripping.words > 8)  # nobody watches: it goes on
    back = events(url, run, seen[-1]["seq"])
    seen += [next(back) for _ in range(4)]
    back.close()
    browser = events(url, run, **{"Last-Event-ID": str(seen[-1]["seq"])})
    seen.append(next(browser))
    browser.close()
    assert [event["seq"] for event in seen] == list(range(1, 9))
    assert [event["text"] for event in seen] == [f"word{n} " for n in range(1, 9)]
    assert httpx.post(f"{url}/v1/runs/{run}/cancel").json()["status"] == "cancelled"


def test_G47_a_cancelled_run_stops_writing_and_says_so(start: Start, dripping: Any) -> None:
    url = start(dripping)
    run = begin(url)["id"]
    watching = events(url, run)
    next(watching)
    assert httpx.post(f"{url}/v1/runs/{run}/cancel").json()["status"] == "cancelled"
    assert [*watching][-1]["reason"] == "cancelled"
    assert dripping.writing == 0
    written = dripping.words
    time.sleep(0.2)
    assert dripping.words == written
    other = begin(url)["id"]  # the slot is free
    next(events(url, other))
    httpx.post(f"{url}/v1/runs/{other}/cancel")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("model", ["small", "small-loop"])
def test_G47_an_openai_client_that_leaves_stops_its_run(
    model: str, stream: bool, start: Start, dripping: Any
) -> None:
    url = start(dripping)
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    with httpx.Client() as client:
        if stream:
            with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
                lines = answer.iter_lines()  # kept: an iterator that is dropped shuts the stream
                next(lines)
                until(lambda: dripping.writing == 1)
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post(f"{url}/v1/chat/completions", json=body, timeout=1.0)
            assert dripping.words
    until(lambda: dripping.writing == 0)


def test_a_run_waits_for_the_decision_and_tells_how_it_ended_G55(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    url = start(*script.prelude, script.execute, Turn("The ticket is open."), Turn("Free."))
    run = begin(url, script.request)["id"]
    watching = events(url, run)
    card = next(event for event in watching if event["type"] == "approval")
    until(lambda: httpx.get(f"{url}/v1/runs/{run}").json()["status"] == "waiting")
    answer = httpx.post(f"{url}/v1/runs", json={"input": "x", "previous_run_id": run})
    assert answer.status_code == 409
    journal = gateway.gateway.journal
    assert journal.decide(card["approval_id"], approve=True, by="ann")  # elsewhere
    rest = list(watching)
    assert [event["type"] for event in rest] == ["tool_result", "text", "done"]
    assert rest[0]["payload"]["status"] == "done"
    assert rest[1]["text"] == "The ticket is open."
    assert httpx.get(f"{url}/v1/runs/{run}").json()["held"] == []


def test_G55_a_run_that_waits_holds_up_no_other(start: Start, script: Any) -> None:
    url = start(*script.prelude, script.execute, Turn("Meanwhile."), Turn("Denied."))
    waiting = begin(url, script.request)["id"]
    until(lambda: httpx.get(f"{url}/v1/runs/{waiting}").json()["status"] == "waiting")
    assert [*events(url, begin(url)["id"])][0]["text"] == "Meanwhile."
    (card,) = httpx.get(f"{url}/v1/approvals").json()["data"]
    httpx.post(f"{url}/v1/approvals/{card['approval_id']}", json={"approve": False})
    assert [*events(url, waiting)][-2]["text"] == "Denied."


def test_a_run_goes_on_from_another_with_its_session_and_saves_no_nudge_G65(
    start: Start, script: Any
) -> None:
    url = start(*script.prelude, Turn(script.stall), Turn("No call is needed."), Turn("Yes."))
    first = begin(url, script.request)["id"]
    assert "nudge" in [event["type"] for event in events(url, first)]
    second = begin(url, "Sure?", first)["id"]
    assert [*events(url, second)][0]["text"] == "Yes."
    card = httpx.get(f"{url}/v1/runs/{second}").json()
    kept = [(message["role"], message["content"]) for message in card["messages"][1:]]
    said = [text for role, text in kept if role in ("user", "assistant") and text]
    assert said == [script.request, "No call is needed.", "Sure?", "Yes."]
    assert not any(message["synthetic"] for message in card["messages"])
    assert card["previous_run_id"] == first
    listed = httpx.get(f"{url}/v1/runs").json()["data"]
    assert [each["id"] for each in listed] == [first, second]


class Slow:
    """An executor whose tools take a while."""

    def __init__(self, inner: Any, takes_s: float) -> None:
        self.inner, self.takes_s = inner, takes_s
        self.begun = threading.Event()

    async def run(self, spec: Any, arguments: Any) -> Any:
        self.begun.set()
        await asyncio.sleep(self.takes_s)
        return await self.inner.run(spec, arguments)


def test_G48_a_write_that_runs_goes_to_its_end_whoever_leaves(
    start: Start, script: Any, gateway: SimulatedGateway
) -> None:
    slow = gateway.gateway.executor = Slow(gateway.gateway.executor, 1.5)
    url = start(*script.prelude, script.execute, Turn("Never said."))
    run = begin(url, script.request)["id"]
    until(lambda: httpx.get(f"{url}/v1/approvals").json()["data"])
    (card,) = httpx.get(f"{url}/v1/approvals").json()["data"]
    place = f"{url}/v1/approvals/{card['approval_id']}"
    with pytest.raises(httpx.ReadTimeout):  # who decides leaves
        httpx.post(place, json={"approve": True}, timeout=0.5)
    assert slow.begun.wait(30)
    cancelled = httpx.post(f"{url}/v1/runs/{run}/cancel").json()  # and the run that waits too
    until(lambda: gateway.gateway.journal.rows()[0].state == "done")
    assert cancelled["status"] == "cancelled"
    calls = [call["id"] for message in cancelled["messages"] for call in message["tool_calls"]]
    answers = [message["tool_call_id"] for message in cancelled["messages"]]
    assert [each for each in answers if each] == calls  # G66: one tool message for each


def test_another_callers_run_looks_like_none(start: Start) -> None:
    url = start(Turn("Hi."), api_keys=("ann", "bob"))
    ann, bob = ({"authorization": f"Bearer {key}"} for key in ("ann", "bob"))
    run = httpx.post(f"{url}/v1/runs", json={"input": "hi"}, headers=ann).json()["id"]
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
        answer = httpx.request(method, f"{url}/v1/runs/{run}{path}", headers=bob)
        assert answer.status_code == 404
    body = {"input": "hi", "previous_run_id": run}
    assert httpx.post(f"{url}/v1/runs", json=body, headers=bob).status_code == 404
    assert httpx.get(f"{url}/v1/runs", headers=bob).json()["data"] == []
    assert len(httpx.get(f"{url}/v1/runs", headers=ann).json()["data"]) == 1


def test_G53_many_idle_watchers_leave_one_active_run_alone(start: Start, script: Any) -> None:
    url = start(*script.prelude, script.execute, *[Turn("Hi.")] * 3)
    waiting = begin(url, script.request)["id"]
    until(lambda: httpx.get(f"{url}/v1/runs/{waiting}").json()["status"] == "waiting")

    async def watch() -> float:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
            opened = [
                await client.send(
                    client.build_request("GET", f"/v1/runs/{waiting}/events"), stream=True
                )
                for _ in range(100)
            ]
            began = time.monotonic()
            body = {"model": "small", "messages": [{"role": "user", "content": "hi"}]}
            answer = await client.post("/v1/chat/completions", json=body)
            took = time.monotonic() - began
            assert answer.json()["choices"][0]["message"]["content"] == "Hi."
            for response in opened:
                await response.aclose()
            return took

    assert asyncio.run(watch()) < 5
    httpx.post(f"{url}/v1/runs/{waiting}/cancel")


async def _ended(run: Run) -> list[Any]:
    return [event async for _, event in run.follow()]


async def test_memory_stays_flat_and_live_runs_are_bounded(
    gateway: SimulatedGateway, monkeypatch: pytest.MonkeyPatch, dripping: Any
) -> None:
    monkeypatch.setattr(runs_module, "KEPT_RUNS", 5)
    kept = Runs(
        ScriptedPolicy([Turn("Hi.")] * 20), gateway.gateway, LoopSettings(), Monitor("small")
    )
    for _ in range(20):
        await _ended(kept.start([Message("user", "hi")], "ann"))
    assert len(kept.of("ann")) == 5
    monkeypatch.setattr(runs_module, "MAX_LIVE_RUNS", 2)
    live = Runs(dripping, gateway.gateway, LoopSettings(), Monitor("small"))
    for _ in range(2):
        live.start([Message("user", "hi")], "ann")
    with pytest.raises(TooManyRuns):
        live.start([Message("user", "hi")], "ann")
    assert live.count() == {"running": 2, "waiting": 0}
    await live.close()
    assert dripping.writing == 0
    assert {run.status for run in live.of("ann")} == {"cancelled"}


async def test_G50_a_run_that_says_too_much_is_stopped(
    gateway: SimulatedGateway, monkeypatch: pytest.MonkeyPatch, dripping: Any
) -> None:
    monkeypatch.setattr(runs_module, "MAX_EVENTS", 10)
    dripping.every_s = 0
    runs = Runs(dripping, gateway.gateway, LoopSettings(), Monitor("small"))
    told = await _ended(runs.start([Message("user", "hi")], "ann"))
    assert len(told) == 11
    assert told[-1] == Done("out_of_tokens")
    assert dripping.writing == 0


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (LoopSettings(max_tokens=10), "out_of_tokens"),
        (LoopSettings(max_s=0.0), "out_of_time"),
        (LoopSettings(max_rounds=2), "max_rounds"),
        (LoopSettings(), "repeated_call"),
    ],
)
async def test_G69_a_run_ends_by_tokens_time_rounds_or_repetition(
    limits: LoopSettings, reason: str, gateway: SimulatedGateway, script: Any
) -> None:
    calls = script.call("list_tickets").calls
    turns = [Turn("", calls, usage=Usage(50, 6))] * 12
    runs = Runs(ScriptedPolicy(turns), gateway.gateway, limits, Monitor("small"))
    run = runs.start([Message("user", "hi")], "ann")
    assert (await _ended(run))[-1].reason == reason
    if reason == "out_of_tokens":
        assert run.usage == Usage(100, 12)


async def test_a_person_who_thinks_for_long_is_no_reason_to_stop(
    gateway: SimulatedGateway, script: Any
) -> None:
    turns = [*script.prelude, script.execute, Turn("Open.")]
    runs = Runs(ScriptedPolicy(turns), gateway.gateway, LoopSettings(max_s=0.8), Monitor("small"))
    run = runs.start([Message("user", script.request)], "ann", until_decided=True)
    while not run.waits:
        await asyncio.sleep(0.01)
    await asyncio.sleep(1.0)
    (card,) = gateway.gateway.journal.pending()
    await gateway.gateway.decide(card.id, approve=True, by="ann")
    assert (await _ended(run))[-1] == Done("answered", "Open.")


async def test_G62_a_model_that_always_stalls_is_nudged_twice_and_its_words_are_given(
    gateway: SimulatedGateway, script: Any
) -> None:
    turns = [*script.prelude, *[Turn(script.stall)] * 5]
    runs = Runs(ScriptedPolicy(turns), gateway.gateway, LoopSettings(), Monitor("small"))
    run = runs.start([Message("user", script.request)], "ann")
    told = await _ended(run)
    assert sum(isinstance(event, Nudge) for event in told) == 2
    assert told[-2:] == [Text(script.stall), Done("stalled", script.stall)]
    assert [m.content for m in saved(run.conversation) if m.role == "user"] == [script.request]
