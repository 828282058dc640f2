"""Why one row would not train what it says: served text against trained ids, turn by turn.

Nothing here trusts the renderer's own checks: the text is rendered again as a server renders
it, the trained ids are decoded, and every trained turn is read back through the serving parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from breadcrumbs.data_gen.nudged import stalled_turns
from breadcrumbs.errors import DataError
from breadcrumbs.messages import Message, ToolCall, compact_json, messages_from_dicts
from breadcrumbs.train.batches import IGNORED, Example, unlearned, words_of
from breadcrumbs.train.nulls import injected_nulls

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

_NULL = re.compile(r"\bnull\b")


class Check(StrEnum):
    """What is proved of every row before the first step."""

    NULLS = "no null that the data does not have"
    LENGTH = "whole, within max_tokens"
    SCHEMA = "calls fit the declared tools"
    SERVED = "what is trained is what is served, at every turn"
    MASK = "loss on the assistant's turns alone"
    END = "every turn's end-of-turn token inside the loss mask"
    PARSED = "targets read back as the same calls and text"
    DECISION = "decision turn whole and inside the loss mask"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a row would not train what it says, and which check found it."""

    check: Check
    text: str


def row_faults(
    row: Mapping[str, Any], example: Example, renderer: Renderer, max_tokens: int | None
) -> list[Reason]:
    """Every reason why `example` is not what `row` says; empty where it is."""
    messages = messages_from_dicts(row["messages"])
    tools = list(row["tools"])
    words = words_of(row)
    nulls = injected_nulls(words.hear(messages), words.hear_tools(tools))
    reasons = [Reason(Check.NULLS, f"injected null at {where}") for where in nulls]
    if max_tokens is not None and len(example.ids) > max_tokens:
        too_long = f"{len(example.ids)} tokens, over max_tokens {max_tokens}, and rows are not cut"
        reasons.append(Reason(Check.LENGTH, too_long))
    reasons += _schema_faults(messages, tools)
    text = closed_text(renderer, messages, tools)
    reasons += _null_faults(text, messages, tools)
    reasons += _label_faults(example)
    spans = labelled_spans(example.labels)
    pieces = decoded(renderer, example.ids, spans)
    if "".join(pieces) != text:
        reasons.append(Reason(Check.SERVED, "trained text differs from served text"))
    reasons += _stall_faults(row, messages)
    slips = unlearned(row)
    turns = [i for i, m in enumerate(messages) if m.role == "assistant" and i not in slips]
    if len(spans) != len(turns):
        spans_found = f"{len(spans)} labelled spans for {len(turns)} assistant turns"
        return [*reasons, Reason(Check.MASK, spans_found)]
    for number, index in enumerate(turns):
        prompt = served_text(renderer, messages[:index], tools, prompt=True)
        before, sampled = "".join(pieces[: 2 * number + 1]), pieces[2 * number + 1]
        where = f"message {index}: "
        if before != prompt:
            reasons.append(
                Reason(Check.MASK, where + "labels do not start behind the served prompt")
            )
        if not text.startswith(prompt + sampled):
            reasons.append(Reason(Check.SERVED, where + "trained turn differs from the served one"))
        if example.ids[spans[number][1] - 1] not in renderer.stop_ids:
            reasons.append(
                Reason(Check.END, where + "its end-of-turn token is outside the loss mask")
            )
        reasons += [
            Reason(Check.PARSED, where + fault)
            for fault in _parse_faults(messages[index], sampled, tools, renderer)
        ]
    if (example.decision, example.decision_end) not in spans:
        reasons.append(Reason(Check.DECISION, "decision turn is cut or outside the loss mask"))
    learnt = (
        at < example.decision_end and example.labels[at] != IGNORED for at in example.deciding
    )
    if not all(learnt):
        reasons.append(
            Reason(
                Check.DECISION, "a deciding token is not learnt, or lies behind the decision turn"
            )
        )
    return reasons


def _stall_faults(row: Mapping[str, Any], messages: Sequence[Message]) -> list[Reason]:
    """A stall is learned only where the row says so, and what it says to leave out is left out."""
    stalls = stalled_turns(messages)
    says = (row.get("meta") or {}).get("nudged")
    if stalls and says not in ("mask", "keep"):
        fault = f"message {stalls[0]}: a nudged stall, and the row does not say what it is for"
        return [Reason(Check.MASK, fault)]
    if says == "mask" and (learned := set(stalls) - unlearned(row)):
        fault = f"message {min(learned)}: a stall that is to be masked is in the loss"
        return [Reason(Check.MASK, fault)]
    return []


def served_text(
    renderer: Renderer, messages: Sequence[Message], tools: Sequence[Any], prompt: bool = False
) -> str:
    """The text a server builds: the chat template as text, with the generation prompt or not.

    Raises:
        DataError: the template refuses the conversation.
    """
    from jinja2 import TemplateError

    try:
        return str(
            renderer.tokenizer.apply_chat_template(
                [renderer.template_message(message) for message in messages],
                tools=renderer.template_tools(tools),
                chat_template=renderer.template,
                add_generation_prompt=prompt,
                tokenize=False,
            )
        )
    except (TemplateError, TypeError, ValueError) as error:
        raise DataError(f"the chat template refuses the conversation: {error}") from error


def closed_text(renderer: Renderer, messages: Sequence[Message], tools: Sequence[Any]) -> str:
    """`served_text`, with the end-of-turn token that the next message would begin with.

    Raises:
        DataError: the template refuses the conversation, or never closes its last turn.
    """
    text = served_text(renderer, messages, tools)
    last = messages[-1]
    if last.role != "assistant" or text.rstrip().endswith(renderer.call_format.stops):
        return text
    return text + renderer.closing(last)


def labelled_spans(labels: Sequence[int]) -> list[tuple[int, int]]:
    """Runs of positions that carry a label, as (start, end) with end exclusive."""
    spans: list[tuple[int, int]] = []
    for position, label in enumerate(labels):
        if label == IGNORED:
            continue
        if spans and spans[-1][1] == position:
            spans[-1] = (spans[-1][0], position + 1)
        else:
            spans.append((position, position + 1))
    return spans


def decoded(renderer: Renderer, ids: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[str]:
    """The ids as text in pieces: outside, inside, outside… the labelled spans."""
    bounds = [0, *(bound for span in spans for bound in span), len(ids)]
    return [
        str(
            renderer.tokenizer.decode(
                list(ids[start:end]), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )
        for start, end in zip(bounds, bounds[1:], strict=False)
    ]


def _schema_faults(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Reason]:
    """Calls that the declared tools would refuse, such as arguments given as JSON text."""
    import jsonschema_rs

    declared = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    found = []
    for index, message in enumerate(messages):
        for call in message.tool_calls:
            if call.name not in declared:
                found.append(f"message {index}: calls undeclared tool {call.name!r}")
                continue
            validator = jsonschema_rs.validator_for(declared[call.name])
            for error in validator.iter_errors(dict(call.arguments)):
                where = ".".join(str(part) for part in error.instance_path) or "arguments"
                found.append(f"message {index}: {call.name}: {where}: {error.message}")
    return [Reason(Check.SCHEMA, text) for text in found]


def _null_faults(text: str, messages: Sequence[Message], tools: Sequence[Any]) -> list[Reason]:
    source = [message.content for message in messages] + [compact_json(tools)]
    source += [compact_json(c.arguments) for message in messages for c in message.tool_calls]
    if len(_NULL.findall(text)) > sum(len(_NULL.findall(part)) for part in source):
        return [Reason(Check.NULLS, "the template writes a null that the row does not have")]
    return []


def _label_faults(example: Example) -> list[Reason]:
    pairs = zip(example.labels, example.ids, strict=False)
    if len(example.labels) != len(example.ids) or any(
        label not in (IGNORED, token) for label, token in pairs
    ):
        return [Reason(Check.MASK, "labels do not lie on their own tokens")]
    return []


def _written(calls: Sequence[ToolCall], sort_keys: bool) -> list[tuple[str, str]]:
    """Calls as JSON text, in which 1 is not true and one order of keys is not another."""
    return [(call.name, json.dumps(dict(call.arguments), sort_keys=sort_keys)) for call in calls]


def _parse_faults(
    message: Message, sampled: str, tools: Sequence[Mapping[str, Any]], renderer: Renderer
) -> list[str]:
    turn = renderer.call_format.parse_turn(sampled, tools=tools)
    if turn.problems:
        return [f"target does not parse: {turn.problems[0]}"]
    sort_keys = renderer.call_format.sorts_keys
    parsed, wanted = _written(turn.calls, sort_keys), _written(message.tool_calls, sort_keys)
    if parsed != wanted:
        moved = _written(turn.calls, True) == _written(message.tool_calls, True)
        what = "with its arguments in another order" if moved else "to another call"
        return [f"target parses back {what}"]
    if turn.content.strip() != message.content.strip():
        return ["target parses back to other text"]
    return []
