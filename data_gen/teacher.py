"""An endpoint's own stalls as training rows: nudged, mended, verified or left.

`mending` says what is kept of an episode. Rows that come to nothing stay as they were.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.episodes import Episode, run_episode
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.mending import Mender
from breadcrumbs.data_gen.nudged import Nudged
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.rewording import STEPS as REWORDING_STEPS
from breadcrumbs.data_gen.rewording import Reworder, twin_places
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.side_by_side import bounded
from breadcrumbs.data_gen.verify import Verifier
from breadcrumbs.endpoint import Endpoint, EndpointPolicy, open_endpoint
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.errors import ModelError
from breadcrumbs.events import Done
from breadcrumbs.loop import LoopSettings
from breadcrumbs.progress import Report

STEPS = ("asked", "stalled", "dispatched", "grounded", "replayed", "kept")
"""What an episode must get through to become a row, in order."""
Made = TypeVar("Made")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Taught:
    """Rows after asking, in the order they came in."""

    rows: list[Row]
    dropped: Counter[str]
    """Why episodes came to nothing."""
    report: dict[str, Any]
    """The yield at each step, tokens and cost."""


class Shares(NamedTuple):
    """How much of the training rows is asked about."""

    corrected: float
    """Of the dispatch rows: an episode of the endpoint's, for its stalls."""
    reworded: float
    """Of the twins: their requests in other words."""


async def teach(
    config: EndpointConfig,
    rows: Sequence[Row],
    shares: Shares,
    verifier: Verifier,
    hints: Mapping[str, ToolHint],
    nudged: Nudged,
    answers: Path,
    progress: Report,
) -> Taught:
    """Ask about shares of the training rows; `answers` holds what was asked before.

    Requests are reworded first, so that stalls answer the request that is kept. Rows of made-up
    tools are not asked about. `verifier` checks against the training catalog.

    `nudged` says what becomes of stalls and nudges.

    Raises:
        ModelError: the endpoint gives no usable answer; what came before is recorded.
        ConfigError: the address or the key cannot be used, or nothing can be recorded.
    """
    async with open_endpoint(config, answers) as endpoint:
        reworder = Reworder(endpoint, verifier, hints)
        twins = evenly(twin_places(rows, outside=PRACTICE), shares.reworded)
        made = await _each(
            endpoint,
            [functools.partial(reworder.reworded, [rows[at] for at in places]) for places in twins],
            progress,
        )
        taught = reworder.place(rows, zip(twins, made, strict=True))
        teacher = Teacher(endpoint, verifier, hints, nudged)
        places = evenly(_dispatch_places(rows), shares.corrected)
        lessons = [functools.partial(teacher.corrected, taught[place]) for place in places]
        for place, row in zip(places, await _each(endpoint, lessons, progress), strict=True):
            taught[place] = row
        report: dict[str, Any] = {"model": config.model, "steps": _steps(teacher.reached, STEPS)}
        if shares.reworded:
            report["reworded"] = _steps(reworder.reached, REWORDING_STEPS)
        report |= endpoint.used.to_dict(config)
    return Taught(taught, reworder.dropped + teacher.dropped, report)


def _steps(reached: Counter[str], names: Sequence[str]) -> dict[str, int]:
    return {name: reached[name] for name in names}


def _dispatch_places(rows: Sequence[Row]) -> list[int]:
    """Positions of the plain training dispatch rows of real tools."""
    return [
        position
        for position, row in enumerate(rows)
        if (row.split, row.behaviour) == ("train", "dispatch")
        and row.scenario.domain != PRACTICE
        and not row.scenario.kind
        and not row.scenario.shape.history
    ]


def evenly(items: Sequence[Item], share: float) -> list[Item]:
    """A share of the items, at even distances."""
    return [item for n, item in enumerate(items, 1) if int(n * share) > int((n - 1) * share)]


async def _each(
    endpoint: Endpoint, jobs: Sequence[Callable[[], Awaitable[Made]]], progress: Report
) -> list[Made]:
    """Do all jobs, as many at a time as requests may be under way."""
    done = 0

    async def one(job: Callable[[], Awaitable[Made]]) -> Made:
        nonlocal done
        found = await job()
        done += 1
        tokens = endpoint.used.input_tokens + endpoint.used.output_tokens
        progress(done, len(jobs), f"{endpoint.config.model}, {tokens} tokens")
        return found

    width = endpoint.config.concurrency
    return await bounded([functools.partial(one, job) for job in jobs], width)


@dataclass(frozen=True, slots=True)
class Teacher:
    """Asks one endpoint about scenarios of the training catalog."""

    endpoint: Endpoint
    verifier: Verifier
    hints: Mapping[str, ToolHint]
    mode: Nudged
    reached: Counter[str] = field(default_factory=Counter)
    """Episodes by step reached."""
    dropped: Counter[str] = field(default_factory=Counter)

    async def corrected(self, row: Row) -> Row:
        """The row made of a stall of the endpoint; the row as it is where that came to nothing.

        Raises:
            ModelError: the endpoint gives no usable answer.
        """
        self.reached["asked"] += 1
        mender = Mender("endpoint", self.verifier, self.mode, self.reached)
        nudged = await self._nudged(row.scenario)
        found = await mender.mend(row.scenario, self.hints[row.scenario.tool], nudged)
        if isinstance(found, str):
            self.dropped[found] += 1
            return row
        return found.row(row, self.mode, {"teacher": self.endpoint.config.model})

    async def _nudged(self, scenario: Scenario) -> Episode:
        episode = await run_episode(
            scenario,
            self.verifier.catalog,
            self.verifier.settings,
            EndpointPolicy(self.endpoint, scenario.seed),
            loop_settings=LoopSettings(nudge=True),
        )
        last = episode.events[-1]
        if isinstance(last, Done) and last.reason == "model_error":
            raise ModelError(last.text)
        return episode
