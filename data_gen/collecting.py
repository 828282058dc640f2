"""Rows out of shards: which candidates are taken, and in what order their rows stand.

Candidates are judged in the order of their numbers, never in the order in which workers finish,
so neither engine nor number of workers shows in the result. In memory lie eight bytes for each
row's key and a few for each candidate; rows stay on disk.
"""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from breadcrumbs.data_gen.engines import Engine
from breadcrumbs.data_gen.seen_keys import SeenKeys
from breadcrumbs.data_gen.shards import SHARD_ITEMS, Job, Store, Tried

ATTEMPTS = 8
"""Draws per place before the place is given up."""
BLOCK, LEAST = 4096, 64
"""Of so many candidates in a row fewer than this give a row: there is hardly one left."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where candidates of one kind come from."""

    maker: str
    task: str


@dataclass(slots=True)
class Stage:
    """Shards that were given out together."""

    items: Sequence[int]
    """The candidates, in order."""
    taken: bytearray = field(default_factory=bytearray)
    """One for each candidate that was judged: whether it is in."""


@dataclass(slots=True)
class Collected:
    """What was taken of one kind."""

    source: Source
    stages: list[Stage] = field(default_factory=list)
    items: array[int] = field(default_factory=lambda: array("Q"))
    """What was taken, in the order of the rows."""
    begun: array[int] = field(default_factory=lambda: array("Q"))
    """What was taken or lost by its second row alone, in the same order: shares count these."""


def place_of(item: int) -> tuple[int, int]:
    """Candidates for places are numbered by place and attempt."""
    return divmod(item, ATTEMPTS)


@dataclass(slots=True)
class Collector:
    """Gets shards made, or from the store, and judges what is in them."""

    store: Store
    engine: Engine
    step: Callable[[int, str], None]
    """Told how many rows were taken, and of whom."""
    dropped: Counter[str] = field(default_factory=Counter)
    seen: SeenKeys = field(default_factory=SeenKeys)
    rows: int = 0

    def places(self, source: Source, count: int) -> Collected:
        """`count` places filled, or fewer where the draws run out; in the order of the places.

        A duplicate is drawn again for its own place; a place that came to nothing has another one
        follow at the end, `ATTEMPTS` times as many as asked for at most.
        """
        found = Collected(source)
        asked = count
        items: Sequence[int] = range(0, count * ATTEMPTS, ATTEMPTS)
        while items:
            lost = self._stage(found, items)
            if lost is None:
                break
            items = lost
            if not lost:
                more = min(count - len(found.items), ATTEMPTS * count - asked)
                items = range(asked * ATTEMPTS, (asked + more) * ATTEMPTS, ATTEMPTS)
                asked += more
        found.items, found.begun = _ordered(found.items), _ordered(found.begun)
        return found

    def first(self, source: Source, items: Sequence[int], count: int) -> Collected:
        """The first `count` of the candidates that come to something, in their order."""
        found = Collected(source)
        asked = 0
        while len(found.items) < count and asked < len(items):
            more = min(count - len(found.items), len(items) - asked)
            if self._stage(found, items[asked : asked + more]) is None:
                break
            asked += more
        return found

    def every(self, source: Source, items: Sequence[int]) -> Collected:
        """Whatever candidates come to something; they take the place of rows that are in."""
        found = Collected(source)
        stage = Stage(items)
        for tried in self._made(source, 0, items):
            self.dropped.update(tried.dropped)
            stage.taken.append(bool(tried.keys))
        found.stages.append(stage)
        return found

    def _stage(self, found: Collected, items: Sequence[int]) -> array[int] | None:
        """Judge the candidates; those that lost to an equal one, as what to draw next.

        None where hardly anything new is drawn any more.
        """
        stage = Stage(items)
        lost = array("Q")
        found.stages.append(stage)
        for tried in self._made(found.source, len(found.stages) - 1, items):
            self.dropped.update(tried.dropped)
            new = [key not in self.seen for key in tried.keys]
            fresh = bool(new) and all(new)
            stage.taken.append(fresh)
            if new and new[0]:
                found.begun.append(tried.item)
            if fresh:
                self._take(found, tried)
            elif tried.keys:
                self.dropped["duplicate"] += 1
                if place_of(tried.item + 1)[0] == place_of(tried.item)[0]:
                    lost.append(tried.item + 1)
            judged = len(stage.taken)
            if judged % BLOCK == 0 and sum(stage.taken[judged - BLOCK :]) < LEAST:
                return None
        return lost

    def _take(self, found: Collected, tried: Tried) -> None:
        found.items.append(tried.item)
        for key in tried.keys:
            self.seen.add(key)
        self.rows += len(tried.keys)
        self.step(self.rows, found.source.maker)

    def _made(self, source: Source, stage: int, items: Sequence[int]) -> Iterator[Tried]:
        """What came of the candidates: from the store as far as it goes, then made and kept."""
        here = 0
        for job in itertools.takewhile(self.store.holds, _jobs(source, stage, items)):
            yield from self.store.tried(job)
            here += 1
        results = self.engine.run(_jobs(source, stage, items, here))
        for job, made in zip(_jobs(source, stage, items, here), results, strict=True):
            self.store.save(job, made)
            yield from made.tried


def _ordered(items: array[int]) -> array[int]:
    return array("Q", np.sort(np.frombuffer(items, np.uint64)).tobytes())


def evenly(begun: array[int], taken: array[int], share: float, before: int) -> array[int]:
    """A share of the candidates begun, at even distances: those among them that were taken.

    `before` candidates of other kinds were counted already.
    """
    numbers = np.arange(before, before + len(begun))
    due = np.floor((numbers + 1) * share) > np.floor(numbers * share)
    return array("Q", np.frombuffer(begun, np.uint64)[due & np.isin(begun, taken)].tobytes())


def _jobs(source: Source, stage: int, items: Sequence[int], first: int = 0) -> Iterator[Job]:
    for number in range(first, -(-len(items) // SHARD_ITEMS)):
        part = tuple(items[number * SHARD_ITEMS : (number + 1) * SHARD_ITEMS])
        yield Job(source.maker, source.task, stage, number, part)


def tables(store: Store, found: Collected, *, by_place: bool = False) -> Iterator[Any]:
    """The rows of what was taken, each candidate's in a table: stage after stage, or by place."""
    stages = [_stage_tables(store, found, number) for number in range(len(found.stages))]
    merged = heapq.merge(*stages, key=itemgetter(0)) if by_place else itertools.chain(*stages)
    return (table for _, table in merged)


def _stage_tables(store: Store, found: Collected, number: int) -> Iterator[tuple[int, Any]]:
    stage = found.stages[number]
    taken = iter(stage.taken)
    for job in _jobs(found.source, number, stage.items[: len(stage.taken)]):
        table, row = store.table(job), 0
        for tried, is_in in zip(store.tried(job), taken, strict=False):
            if is_in:
                yield tried.item, table.slice(row, len(tried.keys))
            row += len(tried.keys)


def replaced(batches: Iterator[Any], others: Iterator[Any]) -> Iterator[Any]:
    """Batches with their first row replaced where there is another one of the same id."""
    import pyarrow

    other = next(others, None)
    for batch in batches:
        if other is not None and other["id"][0] == batch["id"][0]:
            batch = pyarrow.concat_tables([other, batch.slice(1)])
            other = next(others, None)
        yield batch


def spread(
    batches: Iterator[Any], count: int, extras: Iterator[Any], extra_count: int
) -> Iterator[Any]:
    """All batches in order, with the extra ones at even distances among them."""
    placed = (((i + 0.5) / count, 0, batch) for i, batch in enumerate(batches))
    others = (((i + 0.5) / extra_count, 1, batch) for i, batch in enumerate(extras))
    return (batch for _, _, batch in heapq.merge(placed, others, key=lambda item: item[:2]))


def by_two(rows: Iterator[Any]) -> Iterator[Any]:
    """Tables of one row as tables of two; the last may have one."""
    import pyarrow

    while two := list(itertools.islice(rows, 2)):
        yield pyarrow.concat_tables(two)
