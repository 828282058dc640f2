"""Rows as token ids with the decision marked, and the order in which they are met.

Twins differ in one fact and in the right answer. Met in one batch they give the gradient
that tells them apart; drawn apart, those gradients cancel and the model collapses to asking.
"""

from __future__ import annotations

import json
import random
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import DataError
from breadcrumbs.gateway.namings import OWN, Naming, naming_of
from breadcrumbs.messages import Message, json_object, messages_from_dicts

if TYPE_CHECKING:
    import torch

    from breadcrumbs.rendering import Renderer

_VERDICT = re.compile(r"; [^\s;]+( (?:ok|missing|default))\b")
_THOUGHT = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_ARGUMENTS = re.compile(r'"tool_name": "[^"]*", "arguments": (?=\{)')
GRAIN = 32
"""Packed lengths are multiples of this: shapes come back, and with them kernels and memory."""
IGNORED = -100  # the label every loss of the torch world leaves out
BEHAVIOURS = ("dispatch", "clarify", "decline", "answer", "hold")


@dataclass(frozen=True, slots=True)
class Example:
    """One row, ready for the loss. `ids` and `labels` are of one length, unshifted."""

    id: str
    twin: str
    behaviour: str
    ids: tuple[int, ...]
    labels: tuple[int, ...]
    decision: int
    """Position of the first labelled token of the decision turn."""
    decision_end: int
    """Position behind the decision turn's last labelled token."""
    deciding: tuple[int, ...]
    """Positions of the tokens that decide: `deciding_tokens`, and the first of each turn before."""


def unlearned(row: Mapping[str, Any]) -> frozenset[int]:
    """Indices of the assistant turns that are wrong and stand there only to be mended."""
    return frozenset((row.get("meta") or {}).get("unlearned", ()))


def mended(row: Mapping[str, Any]) -> frozenset[int]:
    """Indices of the wrong turns that a later one mends, learned or not: slips, nudged stalls."""
    return unlearned(row) | frozenset((row.get("meta") or {}).get("stalls", ()))


def words_of(row: Mapping[str, Any]) -> Naming:
    """The naming under which a record shows the meta-tools."""
    shape = (row.get("scenario") or {}).get("shape") or {}
    return naming_of(shape.get("naming", OWN.name))


def own_messages(row: Mapping[str, Any]) -> list[Message]:
    """A record's messages in the gateway's own words.

    Raises:
        DataError: malformed messages.
    """
    return words_of(row).hear(messages_from_dicts(row["messages"]))


def decision_message(
    messages: Sequence[Message], behaviour: str, tool: str, slips: Collection[int] = ()
) -> int:
    """Index of the assistant turn where the right behaviour is decided.

    That is the turn after the schema of `tool` was first disclosed; for `decline`, where no
    schema fits, the turn after the last search. `slips` are turns that a later one mends: the
    decision lies behind them and their answers.

    Raises:
        DataError: no payload of that kind, or no assistant turn behind it.
    """
    layer = "1_catalog" if behaviour == "decline" else "2_schema_disclosure"
    found = [
        index
        for index, message in enumerate(messages)
        if message.role == "tool" and _discloses(message.content, layer, tool)
    ]
    if not found:
        raise DataError(f"no {layer} payload for {tool!r}, so no decision point")
    after = (found[-1] if behaviour == "decline" else found[0]) + 1
    while after in slips:
        after += 2
    if after >= len(messages) or messages[after].role != "assistant":
        raise DataError(f"no assistant turn after the {layer} payload (message {after - 1})")
    return after


def _discloses(content: str, layer: str, tool: str) -> bool:
    payload = json_object(content)
    if payload.get("layer") != layer:
        return False
    return layer == "1_catalog" or any(
        spec.get("name") == tool for spec in payload.get("disclosed", ())
    )


def build_example(row: Mapping[str, Any], renderer: Renderer) -> Example:
    """Render one row with its loss mask and find its decision turn.

    Raises:
        DataError: malformed messages, no decision point, or no label in the decision turn.
    """
    messages = messages_from_dicts(row["messages"])
    behaviour = str(row["behaviour"])
    if behaviour not in BEHAVIOURS:
        raise DataError(f"behaviour {behaviour!r} is not one of {', '.join(BEHAVIOURS)}")
    slips = unlearned(row)
    decided = decision_message(own_messages(row), behaviour, str(row["tool"]), mended(row))
    rendered = renderer.training_row(messages, list(row["tools"]))
    labels = list(rendered.labels)
    for turn in rendered.turns:
        if turn.message_index in slips:
            labels[turn.start : turn.end] = [IGNORED] * (turn.end - turn.start)
    span = next((turn for turn in rendered.turns if turn.message_index == decided), None)
    if span is None or labels[span.start] == IGNORED:
        raise DataError(f"decision turn (message {decided}) is outside the loss mask")
    # To search and to read a schema are decisions too: a decline is one that ends there.
    earlier = (turn.start for turn in rendered.turns if turn.message_index < decided)
    opening = tuple(start for start in earlier if labels[start] != IGNORED)
    deciding = deciding_tokens(rendered.ids, span.start, span.end, renderer)
    return Example(
        id=str(row["id"]),
        twin=str(row.get("twin") or row["id"]),
        behaviour=behaviour,
        ids=tuple(rendered.ids),
        labels=tuple(labels),
        decision=span.start,
        decision_end=span.end,
        deciding=opening + deciding,
    )


def deciding_tokens(
    ids: Sequence[int], start: int, end: int, renderer: Renderer
) -> tuple[int, ...]:
    """The tokens of a decision turn [start, end) in which act or ask is chosen.

    A turn that drafts its arguments first (`{"date": "2026-03-05"}; date ok; title missing`)
    decides where the draft goes on or ends, at each verdict, where the verdicts go on or end, at
    the first token behind its thinking, and where the arguments of its call go on or end, so that
    none of the draft is left out. Any other turn decides at its first token.
    """
    text = str(renderer.tokenizer.decode(ids[start:end]))
    thought = _THOUGHT.match(text)
    if thought is None:
        return (start,)
    marks = [thought.start(1) + fork for fork in _forks(thought.group(1))]
    marks.append(len(text) - len(text[thought.end() :].lstrip()))
    passed = _ARGUMENTS.search(text, thought.end())
    if passed is not None:
        marks += _draft_forks(text, passed.end())

    def upto(count: int) -> int:
        return len(renderer.tokenizer.decode(ids[start : start + count]))

    counts = range(1, end - start + 1)  # the token that reaches beyond the mark is the one after it
    places = (start + bisect_right(counts, mark, key=upto) for mark in marks)
    return tuple(dict.fromkeys(places))  # one token may hold two marks


def _forks(thinking: str) -> list[int]:
    """Where a thought could go another way; nowhere if it is no JSON object with verdicts.

    Each verdict is a choice, and behind it the walk through the required arguments goes on or ends.
    """
    forks = _draft_forks(thinking, 0)
    if not forks:
        return []
    _, drafted = json.JSONDecoder().raw_decode(thinking)
    verdicts = _VERDICT.finditer(thinking, drafted)
    return forks + [place for verdict in verdicts for place in (verdict.start(1), verdict.end())]


def _draft_forks(text: str, start: int) -> list[int]:
    """Where the JSON object at `start` could go another way; nowhere if there is none.

    It goes on or ends behind its brace and behind each value; which argument comes next and which
    value it has is mostly settled by their first tokens, and a name may end too soon.
    """
    decoder = json.JSONDecoder()
    forks = [start]
    at = start + 1
    try:
        while text[at : at + 1] == '"':
            forks.append(at + 1)
            _, at = decoder.raw_decode(text, at)
            forks.append(at - 1)
            forks.append(at + 1)  # the blank before a value shares its token: text, or literal?
            if text[at + 2 : at + 3] == '"':
                forks.append(at + 3)
            _, at = decoder.raw_decode(text, at + 2)
            forks.append(at)
            at += 2  # ", "
        decoder.raw_decode(text, start)
    except ValueError:
        return []
    return forks


def twin_order(twins: Sequence[str], batch_rows: int, seed: int) -> list[int]:
    """An order of row indices whose consecutive `batch_rows` hold whole groups of twins.

    Groups are shuffled by `seed` and placed in the first open batch with room; same seed,
    same order. Only a group larger than a batch, or the rest at the end, is ever parted.
    """
    groups: dict[str, list[int]] = {}
    for index, twin in enumerate(twins):
        groups.setdefault(twin, []).append(index)
    units = [
        group[at : at + batch_rows]
        for group in groups.values()
        for at in range(0, len(group), batch_rows)
    ]
    random.Random(seed).shuffle(units)
    order: list[int] = []
    waiting: list[list[int]] = []
    for unit in units:
        batch = next((b for b in waiting if len(b) + len(unit) <= batch_rows), None)
        if batch is None:
            batch = []
            waiting.append(batch)
        batch.extend(unit)
        if len(batch) == batch_rows:
            order.extend(batch)
            waiting.remove(batch)
    for batch in sorted(waiting, key=len, reverse=True):
        order.extend(batch)
    return order


class TwinSampler:
    """`twin_order`, drawn anew for every epoch. The trainer calls `set_epoch`."""

    def __init__(self, twins: Sequence[str], batch_rows: int, seed: int) -> None:
        self._twins = tuple(twins)
        self._batch_rows = batch_rows
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of epoch `epoch`; the same number gives the same order."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(twin_order(self._twins, self._batch_rows, self._seed + 7919 * self._epoch))

    def __len__(self) -> int:
        return len(self._twins)


def to_dataset(examples: Sequence[Example]) -> Any:
    """The examples as integer columns: nothing in them can be merged or nulled by Arrow."""
    from datasets import Dataset

    return Dataset.from_dict(
        {
            "input_ids": [list(example.ids) for example in examples],
            "labels": [list(example.labels) for example in examples],
            "deciding": [list(example.deciding) for example in examples],
            "behaviour": [BEHAVIOURS.index(example.behaviour) for example in examples],
            "row": list(range(len(examples))),
        }
    )


def pad_rows(rows: Sequence[Mapping[str, Any]], pad_id: int) -> dict[str, torch.Tensor]:
    """Pad rows on the right to the longest, without an attention mask.

    With padding on the right, causal attention never lets a real token see a pad, and a mask
    only costs: without one the fused causal kernels run.

    Returns:
        `input_ids`, `position_ids` and `labels` of shape (B, T); `behaviour` and `row` of (B,);
        for the M deciding tokens `deciding` (M,), ascending indices into the flattened B x T,
        and `deciding_row` (M,), the row each belongs to.
    """
    import torch

    longest = max(len(row["input_ids"]) for row in rows)

    def padded(key: str, value: int) -> torch.Tensor:
        return torch.tensor([[*row[key], *[value] * (longest - len(row[key]))] for row in rows])

    starts = [number * longest for number in range(len(rows))]
    return {
        "input_ids": padded("input_ids", pad_id),
        "position_ids": torch.arange(longest).expand(len(rows), longest),
        "labels": padded("labels", IGNORED),
        **_facts(rows, starts),
    }


def pack_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Lay rows out as one sequence that holds their common beginning once.

    [beginning][rest of row 1][rest of row 2]…; positions start anew at the end of the beginning,
    which is how `attention.branches_of` finds the rests again. No label lies in the beginning,
    nor is the first token of a rest one, so each label's predecessor is its own row's. The
    beginning is cut and every rest filled up to a multiple of `GRAIN`; filling has no label and
    stands behind all that could see it.

    Returns:
        The keys of `pad_rows`, with shapes (1, T).
    """
    import torch

    shared = common_beginning(rows) // GRAIN * GRAIN
    ids: list[int] = []
    labels: list[int] = []
    positions: list[int] = []
    starts: list[int] = []
    for number, row in enumerate(rows):
        start, length = shared if number else 0, len(row["input_ids"])
        filling = -length % GRAIN
        starts.append(len(ids) - start)
        ids += row["input_ids"][start:] + row["input_ids"][-1:] * filling
        labels += row["labels"][start:] + [IGNORED] * filling
        positions += range(start, length + filling)
    return {
        "input_ids": torch.tensor([ids]),
        "position_ids": torch.tensor([positions]),
        "labels": torch.tensor([labels]),
        **_facts(rows, starts),
    }


def common_beginning(rows: Sequence[Mapping[str, Any]]) -> int:
    """Tokens at the front that all rows share, up to where any of them has its first label."""
    shared = 0
    for tokens in zip(*(row["input_ids"] for row in rows), strict=False):
        if any(token != tokens[0] for token in tokens):
            break
        shared += 1
    first = min(
        next((at for at, label in enumerate(row["labels"]) if label != IGNORED), shared + 1)
        for row in rows
    )
    # One less than the first label: the token that predicts it must stand in the row's own rest.
    return max(min(shared, first - 1, *(len(row["input_ids"]) - 1 for row in rows)), 0)


def _facts(rows: Sequence[Mapping[str, Any]], starts: Sequence[int]) -> dict[str, torch.Tensor]:
    """What the loss is told besides tokens; a row's own position p lies at `starts` + p."""
    import torch

    pairs = [
        (start + place, number)
        for number, (row, start) in enumerate(zip(rows, starts, strict=True))
        for place in row["deciding"]
    ]
    return {
        "behaviour": torch.tensor([row["behaviour"] for row in rows]),
        "row": torch.tensor([row["row"] for row in rows]),
        "deciding": torch.tensor([place for place, _ in pairs]),
        "deciding_row": torch.tensor([number for _, number in pairs]),
    }
