"""A set of 64-bit numbers that only grows, at eight bytes each."""

from __future__ import annotations

import numpy as np

_FRESH = 65_536
_SHARE = 64
"""Fresh ones are sorted in when they are this part of all: seldom, whatever the size."""


class SeenKeys:
    """Old keys in one sorted array, the newest in a set.

    Two of n different keys are equal with a chance of about n² / 2^65: 3e-8 for a million.
    """

    def __init__(self) -> None:
        self._old = np.empty(0, np.uint64)
        self._fresh: set[int] = set()

    def __len__(self) -> int:
        return len(self._old) + len(self._fresh)

    def __contains__(self, key: int) -> bool:
        if key in self._fresh:
            return True
        wanted = np.uint64(key)
        place = int(self._old.searchsorted(wanted))
        return place < len(self._old) and bool(self._old[place] == wanted)

    def add(self, key: int) -> None:
        """Take in a key that is not there yet."""
        self._fresh.add(key)
        if len(self._fresh) >= max(_FRESH, len(self._old) // _SHARE):
            fresh = np.fromiter(self._fresh, np.uint64, len(self._fresh))
            self._old = np.concatenate([self._old, fresh])
            self._old.sort(kind="stable")
            self._fresh.clear()
