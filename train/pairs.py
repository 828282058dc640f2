"""Preference pairs as token ids: the prompt a server builds, and one finished turn a side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from breadcrumbs.data_gen.pairs import Pair, pairs_of
from breadcrumbs.errors import DataError
from breadcrumbs.messages import Message
from breadcrumbs.train.batches import build_example
from breadcrumbs.train.config import PairsConfig
from breadcrumbs.train.preflight import Fault, refusal, template_fault
from breadcrumbs.train.row_faults import (
    Check,
    Reason,
    closed_text,
    decoded,
    row_faults,
    served_text,
)

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer


@dataclass(frozen=True, slots=True)
class PairExample:
    """One pair, ready for the loss; each side ends with its end-of-turn token."""

    id: str
    twin: str
    fault: str
    """What is wrong with the rejected side."""
    prompt_ids: tuple[int, ...]
    chosen_ids: tuple[int, ...]
    rejected_ids: tuple[int, ...]


def read_pairs(config: PairsConfig) -> list[Pair]:
    """The pairs of the data set's split.

    Raises:
        DataError: no complete data set there, or pairs of one direction only.
    """
    from breadcrumbs.data_gen.dataset import training_rows

    pairs, _ = pairs_of(training_rows(config.data, config.split))
    behaviours = {pair.row.behaviour for pair in pairs}
    for behaviour in ("dispatch", "clarify"):
        if behaviour not in behaviours:
            raise DataError(
                f"{config.data}: split {config.split!r} gives no {behaviour} pair, and pairs of "
                "one direction teach one answer for all; generate twins"
            )
    return pairs


def preflight_pairs(
    pairs: Sequence[Pair], renderer: Renderer, config: PairsConfig
) -> list[PairExample]:
    """Every pair as an example, once nothing is wrong with any.

    The chosen side passes what a supervised row passes; both must begin with the prompt that a
    server builds, and end within `max_tokens`.

    Raises:
        PreflightError: naming the pairs with their reasons.
    """
    if reason := template_fault(renderer):
        raise refusal([Fault("every pair", reason)], len(pairs))
    examples: list[PairExample] = []
    faults: list[Fault] = []
    for pair in pairs:
        try:
            example = build_pair(pair, renderer)
            reasons = _faults(pair, example, renderer, config.max_tokens)
        except DataError as error:
            faults.append(Fault(pair.row.id, str(error)))
            continue
        examples.append(example)
        faults += [Fault(pair.row.id, reason.text, reason.check) for reason in reasons]
    if faults:
        raise refusal(faults, len(pairs))
    return examples


def build_pair(pair: Pair, renderer: Renderer) -> PairExample:
    """Render both sides behind the served prompt.

    Raises:
        DataError: a side does not begin with that prompt, or has nothing to learn.
    """
    tools = pair.row.shown_tools
    prompt = renderer.prompt_ids(pair.prompt, tools)
    chosen, rejected = (
        _side(pair.prompt, turn, tools, prompt, renderer) for turn in (pair.chosen, pair.rejected)
    )
    return PairExample(
        pair.row.id, pair.row.twin, pair.fault, tuple(prompt), tuple(chosen), tuple(rejected)
    )


def _side(
    prompt: Sequence[Message],
    turn: Message,
    tools: Sequence[Mapping[str, Any]],
    prompt_ids: Sequence[int],
    renderer: Renderer,
) -> Sequence[int]:
    row = renderer.training_row([*prompt, turn], tools)
    span = row.turns[-1]
    if span.start != len(prompt_ids) or list(row.ids[: span.start]) != list(prompt_ids):
        raise DataError("its decision turn does not begin behind the served prompt")
    return row.ids[span.start : span.end]


def _faults(
    pair: Pair, example: PairExample, renderer: Renderer, max_tokens: int | None
) -> list[Reason]:
    # Without `meta`: a stall it names stands on the other side of the pair.
    row = {**pair.row.to_record(), "messages": _dicts([*pair.prompt, pair.chosen]), "meta": {}}
    reasons = row_faults(row, build_example(row, renderer), renderer, max_tokens)
    longest = len(example.prompt_ids) + len(example.rejected_ids)
    if max_tokens is not None and longest > max_tokens:
        too_long = f"{longest} tokens with its rejected side, over max_tokens {max_tokens}"
        reasons.append(Reason(Check.LENGTH, too_long))
    if example.chosen_ids == example.rejected_ids:
        reasons.append(Reason(Check.PARSED, "both sides are the same"))
    sides = (
        ("chosen", pair.chosen, example.chosen_ids),
        ("rejected", pair.rejected, example.rejected_ids),
    )
    for side, turn, ids in sides:
        if ids[-1] not in renderer.stop_ids:
            reasons.append(Reason(Check.END, f"its {side} side has no end-of-turn token"))
        reasons += _side_faults(pair, side, turn, ids, renderer)
    return reasons


def _side_faults(
    pair: Pair, side: str, turn: Message, ids: Sequence[int], renderer: Renderer
) -> list[Reason]:
    """Trainers learn every token of a side: it must be that one turn, and no tool's answer."""
    tools = [dict(tool) for tool in pair.row.tools]
    prompt = served_text(renderer, pair.prompt, tools, prompt=True)
    whole = closed_text(renderer, [*pair.prompt, turn], tools)
    text = decoded(renderer, ids, [])[0]
    if turn.role != "assistant" or not whole.startswith(prompt + text):
        return [Reason(Check.MASK, f"its {side} side is more than one served assistant turn")]
    if sum(token in renderer.stop_ids for token in ids) > 1:
        return [Reason(Check.MASK, f"its {side} side goes on behind its end-of-turn token")]
    return []


def _dicts(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]
