"""Recorded runs in, a data set out: real stalls become rows to learn from.

    file ─ trace_reading ─► runs ─ secrets, shape ─► requests ─ trace_judging ─► candidates
         ─ format, protocol, grounding ─► rows (source `imported`) ─ dataset ─► folder

The rules are those of generated rows, with one left out: there is no world to run a recorded tool
in again, so no row is replayed. Its `meta` says so, and so do the card and the manifest, which has
the summary under `imported`. Every argument that was passed must have its source before the
decision, which for a corrected row means: before the nudge. Texts that the model worded itself have
none and drop their row. A run with something like a credential in it is left out whole.

Nothing that stands in a file becomes a reason, a row's id or a place: these are our own words and
numbers. A tool's name does become a column, so it must be plain.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadcrumbs import __version__
from breadcrumbs.asking import asked_parameters, parameters_of
from breadcrumbs.data_gen.dataset import Row, already_complete, read_manifest, write_dataset
from breadcrumbs.data_gen.episodes import Episode
from breadcrumbs.data_gen.grounding import ground
from breadcrumbs.data_gen.hints import ArgumentHint, ToolHint
from breadcrumbs.data_gen.scenarios import ApprovalPlan, Behaviour, Scenario
from breadcrumbs.data_gen.trace_judging import (
    ANSWERED_BY,
    META,
    Candidate,
    candidate,
    judge,
    requests,
    run_fault,
)
from breadcrumbs.data_gen.trace_reading import Reading, Recorded, read_runs, spoken_text
from breadcrumbs.data_gen.values import words
from breadcrumbs.data_gen.verify import (
    STATUS,
    decision_messages,
    duplicate_key,
    format_fault,
    grounding_fault,
    protocol_fault,
)
from breadcrumbs.errors import CatalogError
from breadcrumbs.events import Done
from breadcrumbs.gateway.catalog import Risk, ToolSpec
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.gateway.imports.schemas import normalise
from breadcrumbs.gateway.imports.secret_scan import scan
from breadcrumbs.messages import Message, compact_json, json_object
from breadcrumbs.progress import Report
from breadcrumbs.radar import Radar

DOMAIN = "imported"
VERIFIED = ("format", "protocol", "grounding")
CREDENTIAL = "it holds what looks like a credential"
ODD_NAME = "protocol: the tool's name is not plain"
ODD_SCHEMA = "protocol: the disclosed schema is beyond the bounds of a catalog"
NOT_DISCLOSED = "protocol: the tool that was called is not the one that was disclosed"
OTHER_LAYER = "protocol: other calls than search, schema, execution, or answers of other layers"
NOT_DONE = "protocol: the call did not succeed"
ASKED_OTHERWISE = "question: it asks for something else than the one value that is missing"
NO_SYSTEM = "format: no system prompt in front"
UNGROUNDED = "grounding: a value has no source"
"""As `verify.grounding_fault` words it."""
DUPLICATE = "duplicate"
_NAME = re.compile(r"[\w.:/-]{1,128}")


@dataclass(slots=True)
class Imported:
    """What came of a file."""

    runs: int = 0
    """Whole ones that were read; refused ones count too."""
    parts: int = 0
    requests: int = 0
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Places by reason: what is no run, and runs that cannot be judged."""
    stalls: Counter[str] = field(default_factory=Counter)
    """By kind, in all runs that were judged."""
    reckless: int = 0
    """Calls at once that passed a value that stands nowhere: the twin of a stall."""
    endings: Counter[str] = field(default_factory=Counter)
    """Rows by what they show: `at_once`, `corrected`, `question`."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Requests by reason."""
    rows: list[Row] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, without the rows."""
        return {
            "runs": self.runs,
            "parts_of_longer_runs": self.parts,
            "refused": {reason: len(places) for reason, places in sorted(self.refused.items())},
            "refused_at": dict(sorted(self.refused.items())),
            "requests": self.requests,
            "stalls": dict(sorted(self.stalls.items())),
            "called_with_a_value_from_nowhere": self.reckless,
            "corrected": self.endings["corrected"],
            "kept_as_they_were": {
                "dispatched_at_once": self.endings["at_once"],
                "asked_for_a_missing_value": self.endings["question"],
            },
            "dropped": dict(sorted(self.dropped.items())),
            "rows": len(self.rows),
        }


def import_traces(source: Path, out: Path, progress: Report) -> dict[str, Any]:
    """Make a data set of a file's runs, unless it is there already; returns the summary.

    Where no row is left, nothing is written.

    Raises:
        DataError: the file cannot be used, or `out` holds something else or cannot be written.
    """
    reading = read_runs(source)
    digest = hashlib.sha256(f"{__version__} import\n".encode() + source.read_bytes()).hexdigest()
    if already_complete(out, digest):
        progress(1, 1, "already done")
        found: dict[str, Any] = read_manifest(out)["imported"]
        return found
    imported = import_reading(reading, progress)
    summary = imported.to_dict()
    if imported.rows:
        manifest = {
            "inputs_hash": digest,
            "version": __version__,
            "config": {"source": source.name},
            "tools": {"train": sorted({row.scenario.tool for row in imported.rows})},
            "dropped": summary["dropped"],
            "imported": summary,
        }
        write_dataset(out, imported.rows, manifest)
    return summary


def import_reading(reading: Reading, progress: Report) -> Imported:
    """Judge, correct and check what was read."""
    imported = Imported(parts=reading.parts)
    for refused in reading.refused:
        imported.refused.setdefault(refused.reason, []).append(refused.where)
    seen: set[str] = set()
    radar = Radar()
    for number, run in enumerate(reading.runs, 1):
        imported.runs += 1
        reason = run_fault(run) or (CREDENTIAL if holds_credential(run) else None)
        if reason is not None:
            imported.refused.setdefault(reason, []).append(run.where)
        else:
            _take(imported, run, seen, radar)
        progress(number, len(reading.runs))
    return imported


def holds_credential(run: Recorded) -> bool:
    """Whether any text of a run, or an argument beside its name, looks like a credential."""
    texts: list[Any] = [message.content for message in run.messages]
    texts += [compact_json(c.arguments) for message in run.messages for c in message.tool_calls]
    return any(True for _ in scan("run", [*texts, *run.tools]))


def _take(imported: Imported, run: Recorded, seen: set[str], radar: Radar) -> None:
    for number, messages in enumerate(requests(run.messages), 1):
        imported.requests += 1
        judged = judge(messages, radar)
        imported.stalls.update(judged.kinds)
        found = candidate(judged)
        if isinstance(found, str):
            imported.dropped[found] += 1
            continue
        meta = {"where": run.where, "request": number, "stalls": list(judged.kinds)}
        row = _row(f"{DOMAIN}-{len(imported.rows) + 1:04d}", found, run.tools, meta)
        if isinstance(row, Row) and duplicate_key(row.scenario) in seen:
            row = DUPLICATE
        if isinstance(row, str):
            imported.dropped[row] += 1
            imported.reckless += row == UNGROUNDED and found.ending == "at_once"
            continue
        seen.add(duplicate_key(row.scenario))
        imported.endings[found.ending] += 1
        imported.rows.append(row)


def _row(
    row_id: str,
    found: Candidate,
    tools: Sequence[Mapping[str, Any]],
    meta: Mapping[str, Any],
) -> Row | str:
    """The checked row, or the first reason against it."""
    fault = _shape_fault(found.messages)
    spec = fault or _spec(found)
    if not isinstance(spec, ToolSpec):
        return spec
    asks = found.ending == "question"
    scenario = _scenario(row_id, found, spec)
    hint = ToolHint(arguments={n: ArgumentHint(words(n)) for n in spec.input_schema["properties"]})
    calls = tuple(call.name for message in found.messages for call in message.tool_calls)
    # Neither world nor journal was recorded: what is read of an episode here is its calls and end.
    episode = Episode(found.messages, (), (Done("answered"),), calls, "", ())
    fault = (
        format_fault(found.messages)
        or protocol_fault(scenario, episode, spec)
        or (ASKED_OTHERWISE if asks and not _asks_for_missing(found, scenario, spec) else None)
        or grounding_fault(scenario, spec, hint, found.messages)
    )
    if fault is not None:
        return fault
    offered, whose = _offered(tools)
    body = {
        **meta,
        "source": DOMAIN,
        "ending": found.ending,
        "verified": list(VERIFIED),
        "not_verified": ["replay"],
        "tools": whose,
        "outcome": episode.outcome,
    }
    return Row(row_id, scenario, "imported", found.messages, offered, body)


def _shape_fault(messages: Sequence[Message]) -> str | None:
    """Whether a system prompt stands in front, and each call is answered in its own layer."""
    if messages[0].role != "system":
        return NO_SYSTEM
    answers = {m.tool_call_id: json_object(m.content) for m in messages if m.role == "tool"}
    for message in messages:
        for call in message.tool_calls:
            layer = answers.get(call.id, {}).get("layer")
            if call.name not in META or layer != ANSWERED_BY[call.name]:
                return OTHER_LAYER
            arguments = call.arguments
            if call.name == "execute_tool" and not (
                isinstance(arguments.get("tool_name"), str)
                and isinstance(arguments.get("arguments"), Mapping)
            ):
                return OTHER_LAYER
            if layer == "3_execution" and answers[call.id]["status"] not in STATUS.values():
                return NOT_DONE
    if len(answers) != sum(len(message.tool_calls) for message in messages):
        return OTHER_LAYER
    return None


def _spec(found: Candidate) -> ToolSpec | str:
    """The tool that was called, as its disclosure describes it."""
    name = found.call.arguments.get("tool_name")
    passed = found.call.arguments.get("arguments")
    if not isinstance(name, str) or not isinstance(passed, Mapping):
        return OTHER_LAYER
    if not _NAME.fullmatch(name):
        return ODD_NAME
    shown = [
        tool
        for message in found.messages
        if message.role == "tool"
        for tool in json_object(message.content).get("disclosed", ())
        if tool["name"] == name
    ]
    if not shown:
        return NOT_DISCLOSED
    try:
        schema = normalise(shown[0]["inputSchema"]).schema
    except CatalogError:
        return ODD_SCHEMA
    return ToolSpec(
        name=name,
        description=shown[0].get("description", ""),
        input_schema=schema,
        risk=Risk(shown[0]["risk"]),
        domain=DOMAIN,
        requires_approval=shown[0]["requiresApproval"],
    )


def _scenario(row_id: str, found: Candidate, spec: ToolSpec) -> Scenario:
    """The ground truth that can be read off a run: what was passed, and where it came from."""
    behaviour: Behaviour = "clarify" if found.ending == "question" else "dispatch"
    passed = dict(found.call.arguments["arguments"])
    before = decision_messages(found.messages, spec.name)
    sources = ground(spec, passed, before)
    missing: tuple[str, ...] = ()
    if behaviour == "clarify":
        properties = spec.input_schema["properties"]
        missing = tuple(
            n
            for n in spec.required
            if sources.get(n) is None and "default" not in properties.get(n, {})
        )
        sources = {name: source for name, source in sources.items() if source is not None}
    return Scenario(
        id=row_id,
        blueprint=row_id,
        twin=row_id,
        split="train",
        domain=DOMAIN,
        tool=spec.name,
        behaviour=behaviour,
        request=next(m.content for m in found.messages if m.role == "user"),
        system_prompt=found.messages[0].content,
        now="",
        seed=0,
        search_query=_query(found.messages),
        gold_arguments={name: passed[name] for name in sources},
        missing=missing,
        withheld={name: passed[name] for name in missing if name in passed},
        question=spoken_text(found.messages[-1]) if missing else "",
        sources={name: source for name, source in sources.items() if source is not None},
        approval=_approval(found.messages),
    )


def _query(messages: Sequence[Message]) -> str:
    queries = (
        call.arguments.get("query")
        for message in messages
        for call in message.tool_calls
        if call.name == "search_tool_catalog"
    )
    return next((query for query in queries if isinstance(query, str)), "")


def _approval(messages: Sequence[Message]) -> ApprovalPlan:
    statuses = [json_object(m.content).get("status") for m in messages if m.role == "tool"]
    plans: dict[str, ApprovalPlan] = {
        "done": "approve",
        "denied": "deny",
        "approval_required": "wait",
    }
    return next((plans[status] for status in statuses if status in plans), "approve")


def _asks_for_missing(found: Candidate, scenario: Scenario, spec: ToolSpec) -> bool:
    asked = asked_parameters(spoken_text(found.messages[-1]), parameters_of(spec.input_schema))
    names = tuple(parameter.name for parameter in asked)
    return len(names) == 1 and names == scenario.missing == tuple(scenario.withheld)


def _offered(tools: Sequence[Mapping[str, Any]]) -> tuple[tuple[Mapping[str, Any], ...], str]:
    """The tools of a row, and whose words they are: recorded ones where they say all."""
    functions = [tool["function"] for tool in tools if isinstance(tool.get("function"), dict)]
    whole = [f.get("name") for f in functions if isinstance(f.get("parameters"), dict)]
    if len(functions) == len(tools) and all(name in whole for name in META):
        return tuple(tools), "recorded"
    return META_TOOLS, "not recorded; the gateway's own stand here"
