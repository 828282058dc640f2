"""What a data set holds, counted: behaviours, decisions, words that repeat, values not said.

Shares are of all rows counted, not estimates, so they carry no interval.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.shape import count_shapes, facts_of
from breadcrumbs.data_gen.templates import template_shares
from breadcrumbs.data_gen.values import spoken, words
from breadcrumbs.data_gen.verify import decided_at
from breadcrumbs.messages import Message, json_object

Decision = Literal["act", "ask", "decline"]
MOST_FREQUENT = 5
"""Templates that are listed."""
OPENING_WORDS = 3


def stats(rows: Sequence[Row]) -> dict[str, Any]:
    """All figures as plain JSON values."""
    shapes = count_shapes(facts_of(row.scenario.shape) for row in rows)
    return {
        "cells": cells(rows),
        "decisions": decisions(rows),
        "not_verbatim": not_verbatim(rows),
        **({"kinds": found} if (found := kind_counts(rows)) else {}),
        **({"shapes": shapes} if shapes else {}),
        "request_openings": _most_frequent(opening(row.scenario) for row in rows),
        "request_templates": _most_frequent(request_template(row.scenario) for row in rows),
        "system_templates": _most_frequent(system_template(row.scenario) for row in rows),
        "template_shares": template_shares(rows),
        **({"voices": found} if (found := voice_counts(rows)) else {}),
    }


def cells(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """How many rows share split, domain, behaviour and source; only what occurs, sorted."""
    found = Counter((r.split, r.scenario.domain, r.behaviour, r.source) for r in rows)
    names = ("split", "domain", "behaviour", "source")
    return [
        {**dict(zip(names, key, strict=True)), "rows": number}
        for key, number in sorted(found.items())
    ]


def kind_counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Rows of each special kind by behaviour; plain rows are none."""
    found = Counter((r.scenario.kind, r.behaviour) for r in rows if r.scenario.kind)
    counts: dict[str, dict[str, int]] = {}
    for (kind, behaviour), number in sorted(found.items()):
        counts.setdefault(kind, {})[behaviour] = number
    return counts


def voice_counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Rows by persona and language; rows that nobody in particular speaks are none."""
    found = Counter(
        (row.scenario.surface.persona, row.scenario.surface.language)
        for row in rows
        if row.scenario.surface.persona
    )
    counts: dict[str, dict[str, int]] = {}
    for (persona, language), number in sorted(found.items()):
        counts.setdefault(persona, {})[language] = number
    return counts


def decision_of(row: Row) -> Decision:
    """What the row does at its decision point: its turn is read, not its label."""
    position = decided_at(row.messages, row.scenario)
    if position < len(row.messages) and row.messages[position].tool_calls:
        return "act"
    return "decline" if row.behaviour == "decline" else "ask"


def decisions(rows: Sequence[Row]) -> dict[str, Any]:
    """Act, ask and decline by split and in all, with `act_per_ask` (None where none asks)."""
    found = Counter((row.split, decision_of(row)) for row in rows)
    splits = sorted({split for split, _ in found})
    by_split: dict[str, Any] = {
        split: _ratio({d: n for (s, d), n in found.items() if s == split}) for split in splits
    }
    return {"all": _ratio(Counter(map(decision_of, rows)))} | by_split


def _ratio(found: dict[Any, int]) -> dict[str, Any]:
    act, ask, decline = (found.get(name, 0) for name in ("act", "ask", "decline"))
    return {"act": act, "ask": ask, "decline": decline, "act_per_ask": act / ask if ask else None}


def not_verbatim(rows: Sequence[Row]) -> dict[str, Any]:
    """Dispatch rows with a required argument that does not stand in the request as it is passed.

    `why` counts rows by reason: `composed` (the assistant words it), `default` (left out, its
    default holds), `derived` (from a relative time, another unit or format), `read` (a tool shows
    it), or `said otherwise`. A row can have more than one.
    """
    dispatch = [row for row in rows if row.behaviour == "dispatch"]
    reasons = [_unsaid(row) for row in dispatch]
    why = Counter(reason for found in reasons for reason in found)
    number = sum(map(bool, reasons))
    share = number / len(dispatch) if dispatch else None
    return {
        "dispatch_rows": len(dispatch),
        "rows": number,
        "share": share,
        "why": dict(sorted(why.items())),
    }


def _unsaid(row: Row) -> set[str]:
    scenario = row.scenario
    reasons = set()
    for name in disclosed_required(row):
        if name in scenario.composed:
            reasons.add("composed")
        elif name not in scenario.gold_arguments:
            reasons.add("default")
        elif scenario.sources.get(name) in ("derived", "read"):
            reasons.add(scenario.sources[name])
        elif not verbatim(scenario.gold_arguments[name], scenario.request):
            reasons.add("said otherwise")
    return reasons


def disclosed(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The tool definitions that schema payloads hold, in their order."""
    found: list[dict[str, Any]] = []
    for message in messages:
        payload = json_object(message.content) if message.role == "tool" else {}
        if payload.get("layer") == "2_schema_disclosure":
            found.extend(payload.get("disclosed", ()))
    return found


def disclosed_required(row: Row) -> list[str]:
    """Required arguments of the row's tool, by the schema it shows."""
    for tool in disclosed(row.messages):
        if tool.get("name") == row.scenario.tool:
            return list(tool.get("inputSchema", {}).get("required", ()))
    return []


def verbatim(value: Any, text: str) -> bool:
    """Whether a value stands in a text letter by letter, as a word; lists and objects by item."""
    if isinstance(value, dict):
        return all(verbatim(item, text) for item in value.values())
    if isinstance(value, list):
        return all(verbatim(item, text) for item in value)
    said = json.dumps(value) if isinstance(value, bool) or value is None else str(value)
    return re.search(rf"(?<!\w){re.escape(said)}(?!\w)", text) is not None


def request_template(scenario: Scenario) -> str:
    """The request with every value it says replaced by its argument's name in braces."""
    slots: dict[str, str] = {}
    for name, value in (scenario.gold_arguments | scenario.withheld).items():
        if name not in scenario.composed:
            slots |= {form: f"{{{name}}}" for form in _forms(value)}
    return _filled(scenario.request, slots)


def opening(scenario: Scenario) -> str:
    """The template's first words: shuffling the arguments cannot make these look varied."""
    return " ".join(request_template(scenario).split()[:OPENING_WORDS])


def _forms(value: Any) -> set[str]:
    forms = {spoken(value, {}), str(value)}
    if isinstance(value, str):
        forms.add(words(value))
    return {form for form in forms if form.strip()}


def system_template(scenario: Scenario) -> str:
    """The system prompt with its time replaced by `{now}`."""
    return scenario.system_prompt.replace(scenario.now, "{now}")


def _filled(text: str, slots: dict[str, str]) -> str:
    if not slots:
        return text
    longest_first = sorted(slots, key=lambda form: (-len(form), form))
    pattern = "|".join(re.escape(form) for form in longest_first)
    return re.sub(rf"(?<!\w)(?:{pattern})(?!\w)", lambda found: slots[found.group()], text)


def _most_frequent(templates: Iterable[str]) -> dict[str, Any]:
    found = Counter(templates)
    rows = found.total()
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))[:MOST_FREQUENT]
    return {
        "distinct": len(found),
        "most_frequent": [
            {"template": text, "rows": number, "share": number / rows} for text, number in ordered
        ],
    }
