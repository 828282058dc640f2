"""Many jobs at once, so many and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Made = TypeVar("Made")


async def bounded(jobs: Sequence[Callable[[], Awaitable[Made]]], width: int) -> list[Made]:
    """Results in order, at most `width` jobs under way; after a failure no other one begins."""
    results: dict[int, Made] = {}
    queue = iter(enumerate(jobs))

    async def work() -> None:
        for place, job in queue:
            results[place] = await job()

    workers = [asyncio.create_task(work()) for _ in range(min(width, len(jobs)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[place] for place in range(len(jobs))]
