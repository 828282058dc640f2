"""Preference pairs from verified rows: the right decision over the wrong one, in both directions.

A row where dispatch is right prefers its call to a stall; a row where asking is right prefers its
question to its twin's call, whose value stands nowhere in this conversation, and one where holding
is right its words to the call. One direction alone would teach to call always, or to ask always.
"""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from breadcrumbs.call_format import THINK_CLOSER
from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.grounding import normalise, says
from breadcrumbs.data_gen.stalls import StallKind, stall_text, subject_of
from breadcrumbs.data_gen.stats import disclosed
from breadcrumbs.data_gen.verify import decided_at, decision_place
from breadcrumbs.files import write_json_lines
from breadcrumbs.messages import Message
from breadcrumbs.openai_wire import message_out
from breadcrumbs.radar import Radar, situation_of

INVENTED, HASTY = "invented_value", "called_anyway"
"""The wrong sides of pairs whose right side asks or holds."""
_TRIES = 4
"""Stalls drawn until the radar sees one as a stall."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One decision and its opposite, after the same conversation."""

    row: Row
    prompt: tuple[Message, ...]
    """Everything before the decision turn."""
    chosen: Message
    rejected: Message
    fault: str
    """What is wrong with `rejected`: a kind of stall, `invented_value` or `called_anyway`."""


def pairs_of(rows: Sequence[Row]) -> tuple[list[Pair], dict[str, int]]:
    """A pair for every row that has one, in stored order; why the others have none, counted."""
    calls = {row.twin: row for row in rows if row.behaviour == "dispatch" and not row.scenario.slip}
    pairs: list[Pair] = []
    without: Counter[str] = Counter()
    for row in rows:
        pair = _pair(row, calls)
        if isinstance(pair, Pair):
            pairs.append(_shown(pair))
        else:
            without[pair] += 1
    return pairs, dict(sorted(without.items()))


def _shown(pair: Pair) -> Pair:
    """The pair as a model sees it, under the row's naming."""
    show = pair.row.scenario.shape.words().show
    chosen, rejected = show((pair.chosen, pair.rejected))
    return dataclasses.replace(
        pair, prompt=tuple(show(pair.prompt)), chosen=chosen, rejected=rejected
    )


def _pair(row: Row, calls: Mapping[str, Row]) -> Pair | str:
    if row.scenario.slip:
        return "dispatch: its first call is a slip"
    prompt = row.messages[: decision_place(row.messages, row.scenario)]
    if len(prompt) == len(row.messages):
        return "no decision turn"
    chosen = row.messages[decided_at(row.messages, row.scenario)]
    if row.source == "nudged":
        return Pair(row, prompt, chosen, row.messages[len(prompt)], str(row.meta["stall"]))
    if row.behaviour == "dispatch":
        return _over_stall(row, prompt, chosen)
    if row.behaviour == "clarify":
        return _over_invention(row, prompt, chosen, calls.get(row.twin))
    if row.behaviour == "hold":
        return _over_haste(row, prompt, chosen, calls.get(row.twin))
    return f"{row.behaviour}: has no opposite"


def _over_stall(row: Row, prompt: tuple[Message, ...], chosen: Message) -> Pair | str:
    """The stall that was corrected where it was kept, or a scripted one the radar knows."""
    said = row.meta.get("said")
    if isinstance(said, str) and said.strip():
        rejected = Message("assistant", said)
        return Pair(row, prompt, chosen, rejected, str(row.meta.get("stall", "stall")))
    situation = situation_of(prompt)
    schema = _schema(prompt, row.scenario.tool)
    if situation is None or schema is None:
        return "dispatch: no schema was disclosed"
    subject = subject_of(row.scenario, schema)
    rng = random.Random(f"{row.scenario.seed}/rejected")
    for attempt in range(_TRIES):
        kind = rng.choice(get_args(StallKind))
        if attempt < _TRIES // 2:
            kind = row.meta.get("stall", kind)  # of the kind that was cut out of this row
        text = stall_text(kind, subject, rng)
        stall = Radar().classify(text, situation)
        if stall is not None:
            # The same thought, so that the two sides part where acting or asking is chosen.
            return Pair(row, prompt, chosen, _after_thought(chosen, text), stall.kind)
    return "dispatch: no stall that the radar knows"


def _after_thought(chosen: Message, text: str) -> Message:
    thought, end, _ = chosen.content.partition(THINK_CLOSER)
    return Message("assistant", f"{thought}{end}\n{text}" if end else text)


def _over_invention(
    row: Row, prompt: tuple[Message, ...], chosen: Message, twin: Row | None
) -> Pair | str:
    """The twin's call, which here passes a value that nobody gave."""
    if twin is None:
        return "clarify: its twin is not among the rows"
    call = twin.messages[decided_at(twin.messages, twin.scenario)]
    schema = _schema(prompt, row.scenario.tool)
    passed = call.tool_calls[0].arguments.get("arguments", {}) if call.tool_calls else {}
    missing = [name for name in row.scenario.missing if name in passed]
    if schema is None or not missing:
        return "clarify: its twin's call passes nothing that is missing here"
    said = normalise("\n".join(m.content for m in prompt if m.role in ("system", "user")))
    properties = schema.get("properties", {})
    if any(says(said, passed[name], properties.get(name, {})) for name in missing):
        return "clarify: the missing value is said"
    return Pair(row, prompt, chosen, dataclasses.replace(call, synthetic=False), INVENTED)


def _over_haste(
    row: Row, prompt: tuple[Message, ...], chosen: Message, twin: Row | None
) -> Pair | str:
    """The twin's call, which here goes against what somebody said."""
    if twin is None:
        return "hold: its twin is not among the rows"
    call = twin.messages[decided_at(twin.messages, twin.scenario)]
    return Pair(row, prompt, chosen, call, HASTY)


def _schema(messages: Sequence[Message], name: str) -> Mapping[str, Any] | None:
    """The tool's input schema as it was disclosed last."""
    latest = reversed(disclosed(messages))
    return next((tool["inputSchema"] for tool in latest if tool.get("name") == name), None)


def exported_pair(pair: Pair) -> dict[str, Any]:
    """The columns of TRL's preference trainers, messages in OpenAI's shape.

    `chosen` and `rejected` hold one assistant turn each: trainers put their loss on all of it.
    """
    return {
        "id": pair.row.id,
        "twin": pair.row.twin,
        "behaviour": pair.row.behaviour,
        "fault": pair.fault,
        "prompt": [message_out(message) for message in pair.prompt],
        "chosen": [message_out(pair.chosen)],
        "rejected": [message_out(pair.rejected)],
        "tools": pair.row.shown_tools,
    }


def export_pairs(pairs: Sequence[Pair], path: Path) -> None:
    """Write one line a pair; the file appears whole or not at all.

    Raises:
        ConfigError: the place cannot be written.
    """
    write_json_lines(path, map(exported_pair, pairs))
