"""SIGKILL while a card waits: after a restart it is still there, and runs once when approved."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

SERVER = str(Path(__file__).parent / "restarted_server.py")


@contextmanager
def process(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, SERVER, str(folder), str(port)])
    try:
        deadline = time.monotonic() + 120
        while True:
            assert started.poll() is None
            assert time.monotonic() < deadline
            try:
                httpx.get(f"http://127.0.0.1:{port}/v1/models")
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield started
    finally:
        started.kill()
        started.wait()


@pytest.fixture
def begin(desk: Any, tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[bytes], str]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with ExitStack() as stack:
        yield lambda: (
            stack.enter_context(process(tmp_path, port)),
            f"http://127.0.0.1:{port}",
        )


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def pending(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/v1/approvals").json()["data"]
    return found


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_G36_a_card_survives_kill_and_restart_and_runs_once(begin: Any, tmp_path: Path) -> None:
    first, url = begin()
    run = httpx.post(f"{url}/v1/runs", json={"input": "Open a ticket: Lift is stuck"}).json()["id"]
    until(lambda: pending(url))
    (before,) = pending(url)
    first.send_signal(signal.SIGKILL)
    first.wait()

    _, url = begin()
    (card,) = pending(url)
    for same in ("approval_id", "tool", "arguments", "principal", "expires_at"):
        assert card[same] == before[same]
    assert httpx.get(f"{url}/v1/runs/{run}").status_code == 404
    place = f"{url}/v1/approvals/{card['approval_id']}"
    old = {"approve": True, "challenge": before["challenge"]}
    assert httpx.post(place, json=old).status_code == 403  # minted by a process that is gone
    assert effects(tmp_path) == []
    new = {"approve": True, "challenge": card["challenge"]}
    for _ in range(3):
        assert httpx.post(place, json=new).json()["status"] == "done"
    assert effects(tmp_path) == ["create_ticket Lift is stuck"]
    assert pending(url) == []
