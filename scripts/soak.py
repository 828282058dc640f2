"""`make soak`: a server under mixed traffic for long; its memory must stay flat, its answers right.

A scripted model, so that what is measured is loop, gateway, journal and HTTP. The traffic is runs
that stall and recover, held writes that are denied, streams whose client leaves half-way, and
requests that are refused. Prints a line each tenth, writes runs/soak.json:
{runs, seconds, runs_per_s, peak_mib: [...], growth, endings, faults}. Exit 1 where memory grew or
an answer was wrong. `--minutes 30` goes on by the clock instead of a number of runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.messages import Message, ToolCall, json_object
from breadcrumbs.service import ServiceSettings, create_app
from breadcrumbs.turns import Turn, Usage

OUT = Path("runs/soak.json")
RUNS = 10_000
AT_ONCE = 8
MARKS = 10
WARM = 2
"""Marks after which everything that is kept up to a number has reached it."""
GROWTH = 1.1
"""Peak memory at the end, against the one when it was warm."""
CATALOG = """
version: 1
domain: desk
collections:
  tickets: {key: ticket_id, prefix: tkt, records: [{ticket_id: tkt_1, title: Printer jams}]}
tools:
  - name: create_ticket
    description: Open a support ticket.
    risk: write
    effect: {op: create, collection: tickets}
    parameters: {title: {type: string, description: What is wrong}}
    required: [title]
  - name: list_tickets
    description: List support tickets.
    risk: read
    effect: {op: list, collection: tickets}
    parameters: {}
    required: []
"""
STALL = "To open a ticket, please provide the following details: title. Shall I go ahead?"


class ScriptedModel:
    """Searches, reads the schema, stalls once, calls, reports; by what the conversation holds."""

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The next turn, its text a word at a time."""
        turn = self.turn(messages)
        for word in turn.text.split(" ") if turn.text else []:
            yield f"{word} "
            await asyncio.sleep(0)
        yield turn

    def turn(self, messages: Sequence[Message]) -> Turn:
        """What comes next."""
        usage = Usage(100, 10)
        asked = next(m.content for m in messages if m.role == "user")
        writes = asked.startswith("Open")
        tool = "create_ticket" if writes else "list_tickets"
        payload = json_object(messages[-1].content) if messages[-1].role == "tool" else {}
        layer = payload.get("layer")
        if messages[-1].role == "user" and not messages[-1].synthetic:
            call = ("search_tool_catalog", {"query": "support ticket"})
        elif layer == "1_catalog":
            call = ("get_tool_schema", {"tool_names": [tool]})
        elif layer == "2_schema_disclosure" and writes:
            return Turn(STALL, usage=usage)
        elif layer == "3_execution":
            return Turn("Here is how it stands. " * 10, usage=usage)
        else:
            arguments = {"title": asked} if writes else {}
            call = ("execute_tool", {"tool_name": tool, "arguments": arguments})
        made = sum(len(message.tool_calls) for message in messages)
        return Turn("", (ToolCall(f"call_{made}", *call),), usage=usage)


@dataclass(slots=True)
class Soak:
    """What was seen so far."""

    client: httpx2.AsyncClient
    endings: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    number: int = 0

    async def one(self) -> None:
        """The next run, its kind by its number."""
        number, self.number = self.number, self.number + 1
        kinds = (self._read, self._write, self._leave, self._read, self._refused)
        work = kinds[number % len(kinds)]
        try:
            await work(number)
        except Exception as error:  # a soak goes on, and tells
            self.faults.append(f"{work.__name__}: {type(error).__name__}: {error}"[:200])

    async def _read(self, number: int) -> None:
        body = await self._ask(f"List the tickets of week {number}")
        self._expect(body["x_done"] == "answered" and not body["x_pending_approvals"], "read")

    async def _write(self, number: int) -> None:
        body = await self._ask(f"Open a ticket titled 'Lift {number} is stuck'")
        nudges = [event for event in body["x_events"] if event["type"] == "nudge"]
        self._expect(len(nudges) == 1, "write: one nudge")
        (card,) = body["x_pending_approvals"]
        place = f"/v1/approvals/{card['approval_id']}"
        row = (await self.client.get(place)).json()
        decision = {"approve": False, "challenge": row.get("challenge")}
        answer = (await self.client.post(place, json=decision)).json()
        self._expect(answer.get("status") == "denied", "write: denied")

    async def _leave(self, number: int) -> None:
        request = {**_request(f"List the tickets of day {number}"), "stream": True}
        async with self.client.stream("POST", "/v1/chat/completions", json=request) as response:
            async for line in response.aiter_lines():
                if "tool_call" in line:
                    break
        self.endings["left"] += 1

    async def _refused(self, number: int) -> None:
        answer = await self.client.post("/v1/chat/completions", json={**_request("x"), "n": 2})
        self._expect(answer.status_code == 400, "refused")
        self.endings["refused"] += 1

    async def _ask(self, text: str) -> dict[str, Any]:
        answer = await self.client.post("/v1/chat/completions", json=_request(text))
        body: dict[str, Any] = answer.raise_for_status().json()
        self.endings[str(body["x_done"])] += 1
        return body

    def _expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.faults.append(what)


def _request(text: str) -> dict[str, Any]:
    return {"model": "soak-loop", "messages": [{"role": "user", "content": text}]}


def peak_mib() -> float:
    """The most memory this process has held, in MiB."""
    status = Path("/proc/self/status")
    if status.is_file():  # what Linux tells by rusage begins with the peak of who started this
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def app(folder: Path) -> Any:
    """The service over the scripted model, its journal a file."""
    catalog = folder / "desk.yaml"
    catalog.write_text(CATALOG, encoding="utf-8")
    gateway = open_gateway(load_catalog([catalog]), folder / "approvals.sqlite")
    return create_app("soak", ScriptedModel(), gateway, ServiceSettings(turns_at_once=AT_ONCE))


async def soak(served: Any, runs: int, seconds: float | None) -> dict[str, Any]:
    """The figures of a soak over an app: `runs` runs, or as many as `seconds` allow."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(served, log_level="error", ws="none"))
    serving = asyncio.create_task(server.serve([listener]))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    began, peaks = time.monotonic(), []
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        seen = Soak(client)
        for mark in range(1, MARKS + 1):
            await _until(seen, runs * mark // MARKS, seconds and began + seconds * mark / MARKS)
            peaks.append(round(peak_mib(), 1))
            print(
                f"{seen.number:>8} runs  {peaks[-1]:>8} MiB  {len(seen.faults)} faults", flush=True
            )
    took = time.monotonic() - began
    server.should_exit = True
    await serving
    return {
        "runs": seen.number,
        "seconds": round(took, 1),
        "runs_per_s": round(seen.number / took, 1),
        "peak_mib": peaks,
        "growth": round(peaks[-1] / peaks[WARM - 1], 4),
        "endings": dict(seen.endings),
        "faults": seen.faults[:20],
    }


async def _until(seen: Soak, runs: int, ends: float | None) -> None:
    """Go on up to a number of runs, or to a moment."""

    async def worker() -> None:
        while seen.number < runs if ends is None else time.monotonic() < ends:
            await seen.one()

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


def main() -> int:
    """Soak, print, write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--minutes", type=float, help="go on by the clock instead")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seconds = None if given.minutes is None else given.minutes * 60
        found = asyncio.run(soak(app(Path(folder)), given.runs, seconds))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(f"growth {found['growth']} (at most {GROWTH}); written to {given.out}")
    return 0 if found["growth"] <= GROWTH and not found["faults"] else 1


if __name__ == "__main__":
    sys.exit(main())
