"""Jobs over a Ray cluster, by Ray Data. Needs the extra `ray`.

The shards come back to this process, which alone writes; the cluster needs no shared folder but
the one that holds catalogs and hints.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read at import; nothing is sent unasked
import ray
import ray.data

from breadcrumbs.data_gen.shards import Job, Made, Tried


class RayEngine:
    """Works in `workers` Ray actors: on the cluster that RAY_ADDRESS names, or on this machine."""

    def __init__(self, workers: int, opener: Callable[[], Callable[[Job], Made]]) -> None:
        self.workers = workers
        self.opener = opener
        if not ray.is_initialized():
            ray.init(logging_level="warning", log_to_driver=False)
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.WARNING)  # it tells of every stage

    def run(self, jobs: Iterable[Job]) -> Iterator[Made]:
        """All jobs as one Ray data set; results in order, as they come."""
        rows = [dataclasses.asdict(job) | {"items": list(job.items)} for job in jobs]
        if not rows:
            return
        made = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            _Worker,
            fn_constructor_args=(self.opener,),
            compute=ray.data.ActorPoolStrategy(size=self.workers),
        )
        for row in made.iter_rows():
            yield Made(
                tuple(
                    Tried(item, tuple(int(key) for key in keys.split()), tuple(dropped))
                    for item, keys, dropped in zip(
                        row["item"], row["keys"], row["dropped"], strict=True
                    )
                ),
                row["rows"],
            )


class _Worker:
    """One actor: opens catalogs and hints once."""

    def __init__(self, opener: Callable[[], Callable[[Job], Made]]) -> None:
        self.make = opener()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        job = Job(**{**row, "items": tuple(int(item) for item in row["items"])})
        made = self.make(job)
        return {
            "item": [tried.item for tried in made.tried],
            "keys": [" ".join(map(str, tried.keys)) for tried in made.tried],  # past int64
            "dropped": [list(tried.dropped) for tried in made.tried],
            "rows": made.rows,
        }
