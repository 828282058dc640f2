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
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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
from breadcrumbs.data_gen.rewording import STEPS as REWORDING_STEPS
from breadcrumbs.data_gen.rewording import Reworder, twin_places
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
from breadcrumbs.visible import plain

STEPS = ("asked", "stalled", "dispatched", "grounded", "replayed", "kept")
"""What an episode must get through to become a row, in order."""
MALFORMED = "malformed_call"
MAX_QUERY_CHARS = 200
_MARKS = ("<|", "|>", "<tool_", "</tool_", "<think", "</think")
"""What templates and call formats are made of."""
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
    answers: Path,
    progress: Report,
) -> Taught:
    """Ask about shares of the training rows; `answers` holds what was asked before.

    Requests are reworded first, so that stalls answer the request that is kept. Rows of made-up
    tools are not asked about. `verifier` checks against the training catalog.

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
        teacher = Teacher(endpoint, verifier, hints)
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
    reached: Counter[str] = field(default_factory=Counter)
    """Episodes by step reached."""
    dropped: Counter[str] = field(default_factory=Counter)

    async def corrected(self, row: Row) -> Row:
        """The row made of a stall of the endpoint; the row as it is where that came to nothing.

        Raises:
            ModelError: the endpoint gives no usable answer.
        """
        found = await self._correct(row.scenario)
        if isinstance(found, str):
            self.dropped[found] += 1
            return row
        episode, meta = found
        return dataclasses.replace(
            row,
            source="corrected",
            messages=episode.messages,
            tools=episode.tools,
            meta={**row.meta, **meta, **row_meta(episode, row.scenario)},
        )

    async def _correct(self, scenario: Scenario) -> tuple[Episode, dict[str, Any]] | str:
        """Stall, nudge, cut, replay, verify; a text says where it ended."""
        reached, spec = self.reached, self._spec(scenario)
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
        fault = fault or text_fault(scenario, nudged.messages)
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
    if asked.keys() != {"tool_name", "arguments"} or asked["tool_name"] != tool:
        return None
    if not isinstance(arguments, dict):
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


def text_fault(scenario: Scenario, messages: Sequence[Message]) -> str | None:
    """Why the calls' texts must not be learnt; search words and worded texts are free otherwise."""
    longest = max([0, *(len(part.write) for part in scenario.composed.values())])
    for message in messages:
        for call in message.tool_calls:
            for text in _texts(call.arguments):
                if plain(text) != text or any(mark in text for mark in _MARKS):
                    return "endpoint: a text of its calls holds marks or hidden characters"
                known = text in scenario.gold_arguments.values()
                if len(text) > MAX_QUERY_CHARS + 3 * longest and not known:
                    return "endpoint: a text of its calls is too long"
    return None


def _texts(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


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
    clean: list[Message] = []
    for message in cut_stalls(messages):
        if message.role == "assistant":
            decides = any(call.name == "execute_tool" for call in message.tool_calls)
            content = Turn("", thinking=thought if decides else "").content
            if not message.tool_calls:
                content = report(spec, meant, last_payload(clean))
            message = dataclasses.replace(message, content=content)
        clean.append(message)
    return clean
