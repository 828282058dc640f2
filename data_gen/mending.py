"""A policy's own stall, nudged and then mended, as a row: what must hold, and how it is written.

Of what the policy wrote, a row keeps only what was run and checked: its calls, and where the stall
stays, the stall. Prose beside the calls is left out, the thought is written down from the call, and
the last sentence is the report of what the gateway answered.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breadcrumbs.call_format import split_thinking
from breadcrumbs.data_gen.correction import (
    cut_stalls,
    reissue_ids,
    replayed,
    sources_before_nudge,
)
from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.episodes import Episode, last_payload, ledger, row_meta
from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.nudged import Nudged, nudged_meta, source_of, stalled_turns, without_marks
from breadcrumbs.data_gen.reports import report
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.verify import Verifier
from breadcrumbs.events import Nudge
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import Message
from breadcrumbs.turns import Turn
from breadcrumbs.visible import plain

MALFORMED = "malformed_call"
MAX_QUERY_CHARS = 200
MAX_STALL_CHARS = 4000
_MARKS = ("<|", "|>", "<tool_", "</tool_", "<think", "</think")
"""What templates and call formats are made of."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What is left of a nudged episode, run again and verified."""

    kind: str
    said: str
    """The first stall, as it was said."""
    episode: Episode

    def row(self, row: Row, mode: Nudged, meta: Mapping[str, Any]) -> Row:
        """The row of the same scenario, made of this."""
        return dataclasses.replace(
            row,
            source=source_of(mode),
            messages=self.episode.messages,
            tools=self.episode.tools,
            meta={
                **without_marks(row.meta),
                "stall": self.kind,
                "said": self.said,
                **meta,
                **nudged_meta(mode, self.episode.messages),
                **row_meta(self.episode, row.scenario),
            },
        )


def in_mode(row: Row, mode: Nudged) -> Row:
    """A row that holds its stalls, with them as `mode` says; any other row as it is."""
    if row.source != "nudged":
        return row
    messages = row.messages
    if mode == "remove":
        messages = tuple(reissue_ids(cut_stalls(messages)))
    meta = {**without_marks(row.meta), **nudged_meta(mode, messages)}
    return dataclasses.replace(row, source=source_of(mode), messages=messages, meta=meta)


@dataclass(frozen=True, slots=True)
class Mender:
    """Makes rows of nudged episodes, against one catalog; counts how far they get."""

    who: str
    """Whose episodes they are; reasons begin with it."""
    verifier: Verifier
    mode: Nudged
    reached: Counter[str]
    """Episodes by step: `stalled`, `dispatched`, `grounded`, `replayed`, `kept`."""

    async def mend(self, scenario: Scenario, hint: ToolHint, nudged: Episode) -> Mended | str:
        """Cut, replay, verify; a text says where it ended."""
        reached, who = self.reached, self.who
        spec = self.verifier.catalog.tool(scenario.tool)
        assert spec is not None
        stalls = [e for e in nudged.events if isinstance(e, Nudge) and e.kind != MALFORMED]
        if not stalls:
            return f"{who}: it did not stall"
        reached["stalled"] += 1
        called = dispatched(nudged.messages, scenario.tool)
        if called is None:
            return f"{who}: it did not dispatch after the nudge"
        reached["dispatched"] += 1
        if scenario.behaviour != "dispatch":
            return f"{who}: it dispatched where that was not right"
        said = said_before(nudged.messages, stalls[0])
        fault = value_fault(scenario, spec, hint, nudged.messages, called)
        fault = fault or text_fault(scenario, nudged.messages)
        if fault is None and self.mode != "remove":
            fault = stall_fault(nudged.messages)
        if fault is not None:
            return f"{who}: {fault}"
        reached["grounded"] += 1
        kept = {stall.text for stall in stalls} if self.mode != "remove" else set()
        clean = restitched(scenario, spec, nudged.messages, called, kept)
        catalog, settings = self.verifier.catalog, self.verifier.settings
        again = await replayed(scenario, nudged, clean, catalog, settings)
        if isinstance(again, str):
            return again
        reached["replayed"] += 1
        reason = await self.verifier.reason(scenario, again, hint)
        if reason is not None:
            return f"{who}: {reason}"
        reached["kept"] += 1
        return Mended(stalls[0].kind, said, again)


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
            return "a value came from the nudge"
        return "a value was said nowhere before the nudge"
    given, gold = check_arguments(spec, called), check_arguments(spec, scenario.gold_arguments)
    if given.errors:
        return "the arguments do not fit the schema"
    others = [
        name
        for name in given.values.keys() | gold.values.keys()
        if name not in scenario.composed and given.values.get(name) != gold.values.get(name)
    ]
    return "another value than the request means" if others else None


def text_fault(scenario: Scenario, messages: Sequence[Message]) -> str | None:
    """Why the calls' texts must not be learnt; search words and worded texts are free otherwise."""
    longest = max([0, *(len(part.write) for part in scenario.composed.values())])
    for message in messages:
        for call in message.tool_calls:
            for text in _texts(call.arguments):
                if _marked(text):
                    return "a text of its calls holds marks or hidden characters"
                known = text in scenario.gold_arguments.values()
                if len(text) > MAX_QUERY_CHARS + 3 * longest and not known:
                    return "a text of its calls is too long"
    return None


def stall_fault(messages: Sequence[Message]) -> str | None:
    """Why a stall must not stay in the conversation."""
    for place in stalled_turns(messages):
        said = split_thinking(messages[place].content)[1]
        if _marked(said):
            return "its stall holds marks or hidden characters"
        if len(said) > MAX_STALL_CHARS:
            return "its stall is too long"
    return None


def _marked(text: str) -> bool:
    return plain(text) != text or any(mark in text for mark in _MARKS)


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
    scenario: Scenario,
    spec: ToolSpec,
    messages: Sequence[Message],
    called: Mapping[str, Any],
    kept: Collection[str] = frozenset(),
) -> list[Message]:
    """The conversation without prose, stalls and nudges; decision and report as in other rows.

    Stalls that were answered by one of the nudges `kept` stay, without what was thought.
    """
    meant = dataclasses.replace(scenario, gold_arguments=dict(called))
    thought = ledger(meant, spec)
    left = cut_stalls(messages, kept)
    stalls = stalled_turns(left)
    clean: list[Message] = []
    for place, message in enumerate(left):
        if place in stalls:
            message = dataclasses.replace(
                message, content=split_thinking(message.content)[1].strip()
            )
        elif message.role == "assistant":
            decides = any(call.name == "execute_tool" for call in message.tool_calls)
            content = Turn("", thinking=thought if decides else "").content
            if not message.tool_calls:
                content = report(spec, meant, last_payload(clean))
            message = dataclasses.replace(message, content=content)
        clean.append(message)
    return clean
