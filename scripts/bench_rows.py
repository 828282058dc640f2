"""What every bench row is made with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

REPEATS = 5


def seconds(work: Callable[[], Any]) -> float:
    """Wall seconds of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def row(value: float, unit: str, baseline: str, n: int = REPEATS) -> dict[str, Any]:
    """One bench row."""
    return {"value": round(value, 4), "unit": unit, "baseline": baseline, "n": n}
