"""Who does the jobs: this process, further processes, or Ray. The results are the same bytes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Literal, Protocol

from breadcrumbs.data_gen.shards import Job, Made
from breadcrumbs.errors import ConfigError, DataError

EngineName = Literal["local", "ray"]
Make = Callable[[Job], Made]
AHEAD = 3
"""Jobs given out for each worker: enough that none waits for this process to write."""


class Engine(Protocol):
    """Does jobs; results come in the order of the jobs."""

    def run(self, jobs: Iterable[Job]) -> Iterator[Made]:
        """The results, one by one. Jobs whose results nobody asks for may be done or not."""


@contextmanager
def open_engine(
    name: EngineName, workers: int, make: Make, opener: Callable[[], Make]
) -> Iterator[Engine]:
    """The engine for a run.

    Args:
        name: `local` for processes on this machine, `ray` for a Ray cluster.
        workers: how many; with one, `local` works in this process.
        make: does a job here.
        opener: makes another such function, in a worker.

    Raises:
        ConfigError: Ray is not installed.
    """
    if name == "ray":
        try:
            from breadcrumbs.data_gen.ray_engine import RayEngine
        except ModuleNotFoundError as error:
            raise ConfigError(
                "--engine ray: install it with pip install 'breadcrumbs[ray]'"
            ) from error
        yield RayEngine(workers, opener)
    elif workers == 1:
        yield Here(make)
    else:
        with _pool(workers, opener) as pool:
            yield Processes(pool, workers)


class Here:
    """Works in this process."""

    def __init__(self, make: Make) -> None:
        self.make = make

    def run(self, jobs: Iterable[Job]) -> Iterator[Made]:
        """One after the other."""
        return map(self.make, jobs)


class Processes:
    """Works in a pool of processes."""

    def __init__(self, pool: ProcessPoolExecutor, workers: int) -> None:
        self.pool = pool
        self.ahead = AHEAD * workers

    def run(self, jobs: Iterable[Job]) -> Iterator[Made]:
        """A few jobs ahead of the results.

        Raises:
            DataError: a worker was ended from outside.
        """
        waiting: deque[Future[Made]] = deque()
        try:
            for job in jobs:
                waiting.append(self.pool.submit(_work, job))
                if len(waiting) == self.ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BrokenProcessPool as error:
            raise DataError(
                "a worker was ended from outside, perhaps for want of memory; finished shards are"
                " kept: run the same command again, with fewer --workers"
            ) from error
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def _pool(workers: int, opener: Callable[[], Make]) -> Iterator[ProcessPoolExecutor]:
    # Fresh interpreters: a fork would copy locks that other threads hold.
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, spawn, initializer=_begin, initargs=(opener,))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


_opened: list[Make] = []
"""What this worker works with; opened at its first job, so that its errors are the job's."""
_openers: list[Callable[[], Make]] = []


def _begin(opener: Callable[[], Make]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the work, in order
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _openers.append(opener)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(job: Job) -> Made:
    if not _opened:
        _opened.append(_openers[0]())
    return _opened[0](job)
