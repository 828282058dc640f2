"""Time and names, injected: seeded in simulation, from the operating system in service."""

from __future__ import annotations

import random
import secrets
from datetime import UTC, datetime, timedelta
from typing import Protocol

SIMULATION_START = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class Clock(Protocol):
    """Says what time it is."""

    def now(self) -> datetime:
        """The current time, aware, in UTC."""
        ...

    def peek(self) -> datetime:
        """The same, without the reading moving a simulated clock on: for records only."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.now(UTC)

    def peek(self) -> datetime:
        """The current time in UTC."""
        return datetime.now(UTC)


class SimulatedClock:
    """A clock that moves `step_s` seconds each time it is read, or by `advance`."""

    def __init__(self, start: datetime = SIMULATION_START, step_s: float = 1.0) -> None:
        self._now = start
        self._step = timedelta(seconds=step_s)

    def now(self) -> datetime:
        """The simulated time; reading it moves it on."""
        self._now += self._step
        return self._now

    def peek(self) -> datetime:
        """The simulated time; nothing moves."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move time by `seconds`, which may be negative."""
        self._now += timedelta(seconds=seconds)


class Ids(Protocol):
    """Makes names that nobody can guess."""

    def new(self, prefix: str) -> str:
        """A fresh id, `prefix` then an underscore then 128 bits."""
        ...


class SystemIds:
    """128 bits from the operating system's entropy."""

    def new(self, prefix: str) -> str:
        """A fresh unguessable id."""
        return f"{prefix}_{secrets.token_urlsafe(16)}"


class SeededIds:
    """The same ids for the same seed; for simulation only."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def new(self, prefix: str) -> str:
        """The next id of the seeded sequence."""
        return f"{prefix}_{self._random.getrandbits(128):032x}"
