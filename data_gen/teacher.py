"""An endpoint's own stalls as training rows: nudged, cut out, replayed, verified or left.

Of what the endpoint wrote, a row keeps only what was run and checked: its calls. Prose beside
them is left out, the thought is written down from the call, and the last sentence is the report
of what the gateway answered. Rows that come to nothing stay as they were.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from breadcrumbs.call_format import split_thinking
from breadcrumbs.data_gen.correction import cut_stalls, replayed, sources_before_nudge
from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.episodes import (
    Episode,
    last_payload,
    ledger,
    report,
    row_meta,
    run_episode,
)
from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.practice import DOMAIN as PRACTICE
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.verify import Verifier
from breadcrumbs.endpoint import Endpoint, EndpointPolicy, open_endpoint
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.errors import ModelError
from breadcrumbs.events import Done, Nudge
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message
from breadcrumbs.progress import Report
from breadcrumbs.turns import Turn

STEPS = ("asked", "stalled", "dispatched", "grounded", "replayed", "kept")
"""What an episode must get through to become a row, in order."""
MALFORMED = "malformed_call"
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Taught:
    """Rows after asking, in the order they came in."""

    rows: list[Row]
    dropped: Counter[str]
    """Why episodes came to nothing."""
    report: dict[str, Any]
    """The yield at each step, tokens and cost."""


async def teach(
    config: EndpointConfig,
    rows: Sequence[Row],
    share: float,
    verifier: Verifier,
    hints: Mapping[str, ToolHint],
    answers: Path,
    progress: Report,
) -> Taught:
    """Ask about a share of the training dispatch rows; `answers` holds what was asked before.

    Rows of made-up tools are not asked about. `verifier` checks against the training catalog.

    Raises:
        ModelError: the endpoint gives no usable answer; what came before is recorded.
        ConfigError: the address or the key cannot be used, or nothing can be recorded.
    """
    places = asked_places(rows, share)
    async with open_endpoint(config, answers) as endpoint:
        teacher = Teacher(endpoint, verifier, hints)

        def step(done: int) -> None:
            tokens = endpoint.used.input_tokens + endpoint.used.output_tokens
            progress(done, len(places), f"{config.model}, {tokens} tokens")

        found = await teacher.corrected([rows[place] for place in places], step)
        taught = list(rows)
        for place, row in zip(places, found, strict=True):
            taught[place] = row
        steps = {"model": config.model, "steps": teacher.lessons.steps()}
        return Taught(taught, teacher.lessons.dropped, steps | endpoint.used.to_dict(config))


def asked_places(rows: Sequence[Row], share: float) -> list[int]:
    """Positions at even distances among the training dispatch rows of real tools."""
    places = [
        position
        for position, row in enumerate(rows)
        if (row.split, row.behaviour) == ("train", "dispatch") and row.scenario.domain != PRACTICE
    ]
    return [p for n, p in enumerate(places, 1) if int(n * share) > int((n - 1) * share)]


@dataclass(slots=True)
class Lessons:
    """What came of asking."""

    reached: Counter[str] = field(default_factory=Counter)
    """Episodes by step reached."""
    dropped: Counter[str] = field(default_factory=Counter)

    def steps(self) -> dict[str, int]:
        """The yield at each step, every step named."""
        return {step: self.reached[step] for step in STEPS}


@dataclass(frozen=True, slots=True)
class Teacher:
    """Asks one endpoint about scenarios of the training catalog."""

    endpoint: Endpoint
    verifier: Verifier
    hints: Mapping[str, ToolHint]
    lessons: Lessons = field(default_factory=Lessons)

    async def corrected(self, rows: Sequence[Row], step: Callable[[int], None]) -> list[Row]:
        """The rows, those that a stall of the endpoint could be made of as `corrected`.

        Raises:
            ModelError: the endpoint gives no usable answer.
        """
        done = 0

        async def one(row: Row) -> Row:
            nonlocal done
            found = await self._lesson(row)
            done += 1
            step(done)
            return found

        width = self.endpoint.config.concurrency
        return await bounded([functools.partial(one, row) for row in rows], width)

    async def _lesson(self, row: Row) -> Row:
        found = await self._correct(row.scenario)
        if isinstance(found, str):
            self.lessons.dropped[found] += 1
            return row
        episode, meta = found
        return dataclasses.replace(
            row,
            source="corrected",
            messages=episode.messages,
            tools=episode.tools,
            meta={**meta, **row_meta(episode, row.scenario)},
        )

    async def _correct(self, scenario: Scenario) -> tuple[Episode, dict[str, Any]] | str:
        """Stall, nudge, cut, replay, verify; a text says where it ended."""
        reached, spec = self.lessons.reached, self._spec(scenario)
        hint = self.hints[scenario.tool]
        reached["asked"] += 1
        nudged = await self._nudged(scenario)
        stalls = [e for e in nudged.events if isinstance(e, Nudge) and e.kind != MALFORMED]
        if not stalls:
            return "endpoint: it did not stall"
        reached["stalled"] += 1
        called = dispatched(nudged.messages, scenario.tool)
        if called is None:
            return "endpoint: it did not dispatch after the nudge"
        reached["dispatched"] += 1
        fault = value_fault(scenario, spec, hint, nudged.messages, called)
        if fault is not None:
            return fault
        reached["grounded"] += 1
        catalog, settings = self.verifier.catalog, self.verifier.settings
        clean = restitched(scenario, spec, nudged.messages, called)
        again = await replayed(scenario, nudged, clean, catalog, settings)
        if isinstance(again, str):
            return again
        reached["replayed"] += 1
        reason = await self.verifier.reason(scenario, again, hint)
        if reason is not None:
            return f"endpoint: {reason}"
        reached["kept"] += 1
        said = said_before(nudged.messages, stalls[0])
        teacher = self.endpoint.config.model
        return again, {"stall": stalls[0].kind, "said": said, "teacher": teacher}

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

    def _spec(self, scenario: Scenario) -> ToolSpec:
        spec = self.verifier.catalog.tool(scenario.tool)
        assert spec is not None
        return spec


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


def dispatched(messages: Sequence[Message], tool: str) -> dict[str, Any] | None:
    """The arguments of the one execution, after a nudge and on the right tool; else None."""
    first = next(i for i, message in enumerate(messages) if message.synthetic)
    calls = [
        (position, call)
        for position, message in enumerate(messages)
        for call in message.tool_calls
        if call.name == "execute_tool"
    ]
    if len(calls) != 1 or calls[0][0] < first:
        return None
    asked = calls[0][1].arguments
    arguments = asked.get("arguments")
    if asked.get("tool_name") != tool or not isinstance(arguments, dict):
        return None
    return arguments


def value_fault(
    scenario: Scenario,
    spec: ToolSpec,
    hint: ToolHint,
    messages: Sequence[Message],
    called: Mapping[str, Any],
) -> str | None:
    """Why the call's values are not those that were known before the nudge."""
    sources = sources_before_nudge(scenario, spec, hint, messages, called)
    loose = [called[name] for name, source in sources.items() if source is None]
    if loose:
        nudges = normalise("\n".join(m.content for m in messages if m.synthetic))
        if any(said.strip() and said in nudges for said in map(_normal_text, loose)):
            return "endpoint: a value came from the nudge"
        return "endpoint: a value was said nowhere before the nudge"
    given, gold = check_arguments(spec, called), check_arguments(spec, scenario.gold_arguments)
    if given.errors:
        return "endpoint: the arguments do not fit the schema"
    others = [
        name
        for name in given.values.keys() | gold.values.keys()
        if name not in scenario.composed and given.values.get(name) != gold.values.get(name)
    ]
    return "endpoint: another value than the request means" if others else None


def _normal_text(value: Any) -> str:
    return normalise(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def said_before(messages: Sequence[Message], nudge: Nudge) -> str:
    """The text that a nudge answered."""
    position = next(
        i
        for i, message in enumerate(messages)
        if message.synthetic and message.content == nudge.text
    )
    return split_thinking(messages[position - 1].content)[1].strip()


def restitched(
    scenario: Scenario, spec: ToolSpec, messages: Sequence[Message], called: Mapping[str, Any]
) -> list[Message]:
    """The conversation without stalls, nudges and prose; decision and report as in other rows."""
    meant = dataclasses.replace(scenario, gold_arguments=dict(called))
    thought = ledger(meant, spec)
    clean = []
    for message in cut_stalls(messages):
        if message.role == "assistant":
            decides = any(call.name == "execute_tool" for call in message.tool_calls)
            content = Turn("", thinking=thought if decides else "").content
            if not message.tool_calls:
                content = report(spec, meant, last_payload(clean))
            message = dataclasses.replace(message, content=content)
        clean.append(message)
    return clean
