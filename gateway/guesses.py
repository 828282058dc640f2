"""How often a principal may name an approval that is none of its own.

An id has 128 random bits, so guessing is hopeless; the limit keeps a guesser from reading the
journal as fast as it can.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from breadcrumbs.gateway.identity import Clock

MAX_WRONG = 20
WINDOW_S = 60.0


class GuessLimit:
    """Wrong ids of each principal within the last `WINDOW_S` seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: dict[str, deque[datetime]] = {}

    def is_spent(self, principal: str) -> bool:
        """Whether the principal has to wait before another id is looked up."""
        return len(self._recent(principal)) >= MAX_WRONG

    def count(self, principal: str) -> None:
        """Note one wrong id."""
        self._wrong.setdefault(principal, deque()).append(self._clock.peek())

    def _recent(self, principal: str) -> deque[datetime]:
        times = self._wrong.get(principal, deque())
        since = self._clock.peek() - timedelta(seconds=WINDOW_S)
        while times and times[0] <= since:
            times.popleft()
        if not times:
            self._wrong.pop(principal, None)
        return times
