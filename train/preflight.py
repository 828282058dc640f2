"""Proof, before the first step, that every row trains what it says.

Nothing here trusts the renderer's own checks: served text is rendered again as text, the
trained ids are decoded and compared with it, and the trained turn is read back through the
parser that serves. A failing row is named with its reason, and the run stops.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import DataError, PreflightError
from breadcrumbs.messages import Message, ToolCall, compact_json, messages_from_dicts
from breadcrumbs.train.adapter import lora, lora_fault
from breadcrumbs.train.batches import IGNORED, Example, build_example, to_dataset
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.nulls import injected_nulls

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

NAMED = 8  # faults told in full on the error's one line; the other rows are named
_NULL = re.compile(r"\bnull\b")
_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"probe_key": {"type": "string"}}},
    },
}


@dataclass(frozen=True, slots=True)
class Fault:
    """Why one row cannot be trained on."""

    row: str
    reason: str


@dataclass(frozen=True, slots=True)
class Preflight:
    """What passed: the examples, and counts worth seeing before a run."""

    examples: tuple[Example, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    preview: str = ""

    def lines(self) -> list[str]:
        """For a person: counts, then one row with what is trained in ⟦…⟧, the decision in «…»."""
        counts = [f"  {name}: {count}" for name, count in self.counts.items()]
        return ["preflight passed", *counts, "", self.preview]


def check(config: TrainConfig) -> Preflight:
    """Preflight alone, without training.

    Raises:
        PreflightError: see `preflight`.
        DataError: the rows are missing. ModelError: the model is.
    """
    from breadcrumbs.models import resolve_model
    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train.rows import read_rows

    return preflight(read_rows(config), load_renderer(resolve_model(config.model)), config)


def preflight(
    rows: Sequence[Mapping[str, Any]], renderer: Renderer, config: TrainConfig
) -> Preflight:
    """Check template, adapter and every row.

    Raises:
        PreflightError: anything fails; the message names the failing rows with their reasons.
    """
    examples, faults = examine(rows, renderer, config)
    if faults:
        raise refusal(faults, len(rows))
    verify_dataset(rows, examples, to_dataset(examples))
    return Preflight(tuple(examples), _counts(examples), _preview(examples, renderer))


def examine(
    rows: Sequence[Mapping[str, Any]], renderer: Renderer, config: TrainConfig
) -> tuple[list[Example], list[Fault]]:
    """Every row as an example, and every fault of every row."""
    if reason := template_fault(renderer) or lora_fault(lora(config.adapter)):
        return [], [Fault("every row", reason)]
    examples: list[Example] = []
    faults: list[Fault] = []
    for row in rows:
        try:
            example = build_example(row, renderer)
            reasons = row_faults(row, example, renderer, config.max_tokens)
        except DataError as error:
            faults.append(Fault(str(row.get("id", "?")), str(error)))
            continue
        faults.extend(Fault(example.id, reason) for reason in reasons)
        examples.append(example)
    return examples, faults


def refusal(faults: Sequence[Fault], rows: int) -> PreflightError:
    """The error that ends a run, naming the first failing rows on one line."""
    names = len({fault.row for fault in faults})
    kinds = Counter(fault.reason for fault in faults)
    shown = "; ".join(f"{fault.row}: {fault.reason}" for fault in faults[:NAMED])
    more = ""
    if len(faults) > NAMED:
        common = ", ".join(f"{count} × {reason}" for reason, count in kinds.most_common(3))
        rest = ", ".join(dict.fromkeys(fault.row for fault in faults[NAMED:]))
        more = f"; most often {common}; and in rows {rest}"
    return PreflightError(
        f"preflight: {names} of {rows} rows would not train what they say: {shown}{more}; "
        "mend or leave out these rows, then train"
    )


def template_fault(renderer: Renderer) -> str | None:
    """Why this chat template cannot show tools and calls; None where it can."""
    call = ToolCall("probe_id", "probe_tool", {"probe_key": "probe_value"})
    messages = [Message("user", "probe"), Message("assistant", "", (call,))]
    text = served_text(renderer, messages, [_PROBE_TOOL])
    # The tool's name must stand twice: once where tools are declared, once in the call.
    if text.count("probe_tool") < 2 or "probe_value" not in text:
        return "the chat template drops tools or tool calls; use one that supports them"
    return None


def row_faults(
    row: Mapping[str, Any], example: Example, renderer: Renderer, max_tokens: int | None
) -> list[str]:
    """Every reason why `example` is not what `row` says; empty where it is."""
    messages = messages_from_dicts(row["messages"])
    tools = list(row["tools"])
    reasons = [f"injected null at {where}" for where in injected_nulls(messages, tools)]
    if max_tokens is not None and len(example.ids) > max_tokens:
        reasons.append(
            f"{len(example.ids)} tokens, over max_tokens {max_tokens}, and rows are not cut"
        )
    reasons += _schema_faults(messages, tools)
    text = served_text(renderer, messages, tools)
    reasons += _text_faults(text, messages, tools, example, renderer)
    reasons += _turn_faults(text, messages, tools, example, renderer)
    return reasons


def _schema_faults(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """Calls that the declared tools would refuse, such as arguments given as JSON text."""
    import jsonschema_rs

    declared = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools}
    reasons = []
    for index, message in enumerate(messages):
        for call in message.tool_calls:
            if call.name not in declared:
                reasons.append(f"message {index}: calls undeclared tool {call.name!r}")
                continue
            validator = jsonschema_rs.validator_for(declared[call.name])
            for error in validator.iter_errors(dict(call.arguments)):
                where = ".".join(str(part) for part in error.instance_path) or "arguments"
                reasons.append(f"message {index}: {call.name}: {where}: {error.message}")
    return reasons


def served_text(
    renderer: Renderer, messages: Sequence[Message], tools: Sequence[Any], prompt: bool = False
) -> str:
    """The text a server builds: the chat template as text, with the generation prompt or not."""
    return str(
        renderer.tokenizer.apply_chat_template(
            [message.to_template() for message in messages],
            tools=list(tools) or None,
            chat_template=renderer.template,
            add_generation_prompt=prompt,
            tokenize=False,
        )
    )


def _text_faults(
    text: str,
    messages: Sequence[Message],
    tools: Sequence[Any],
    example: Example,
    renderer: Renderer,
) -> list[str]:
    reasons = []
    if _decode(renderer, example.ids) != text:
        reasons.append("trained text differs from served text")
    if any(
        label not in (IGNORED, token)
        for label, token in zip(example.labels, example.ids, strict=False)
    ) or len(example.labels) != len(example.ids):
        reasons.append("labels do not lie on their own tokens")
    source = [message.content for message in messages] + [compact_json(tools)]
    source += [compact_json(c.arguments) for message in messages for c in message.tool_calls]
    if len(_NULL.findall(text)) > sum(len(_NULL.findall(part)) for part in source):
        reasons.append("the template writes a null that the row does not have")
    return reasons


def _turn_faults(
    text: str,
    messages: Sequence[Message],
    tools: Sequence[Any],
    example: Example,
    renderer: Renderer,
) -> list[str]:
    """Compare each run of labels with the assistant turn that a server would have sampled."""
    turns = [i for i, message in enumerate(messages) if message.role == "assistant"]
    spans = labelled_spans(example.labels)
    if len(spans) != len(turns):
        return [f"{len(spans)} labelled spans for {len(turns)} assistant turns"]
    reasons = []
    for index, (start, end) in zip(turns, spans, strict=True):
        prompt = served_text(renderer, messages[:index], tools, prompt=True)
        if _decode(renderer, example.ids[:start]) != prompt:
            reasons.append(f"message {index}: labels do not start behind the served prompt")
        if example.ids[end - 1] not in renderer.stop_ids:
            reasons.append(f"message {index}: its end-of-turn token is outside the loss mask")
        sampled = _decode(renderer, example.ids[start:end])
        if not text.startswith(prompt + sampled):
            reasons.append(f"message {index}: trained turn differs from the served one")
        reasons += _parse_faults(index, messages[index], sampled, renderer)
    if (example.decision, example.decision_end) not in spans:
        reasons.append("decision turn is cut or outside the loss mask")
    return reasons


def _parse_faults(index: int, message: Message, sampled: str, renderer: Renderer) -> list[str]:
    turn = renderer.call_format.parse_turn(sampled.removesuffix(renderer.call_format.stop_text))
    if turn.problems:
        return [f"message {index}: target does not parse: {turn.problems[0]}"]
    parsed = [(call.name, dict(call.arguments)) for call in turn.calls]
    if parsed != [(call.name, dict(call.arguments)) for call in message.tool_calls]:
        return [f"message {index}: target parses back to another call"]
    if turn.text.strip() != message.content.strip():
        return [f"message {index}: target parses back to other text"]
    return []


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


def verify_dataset(
    rows: Sequence[Mapping[str, Any]], examples: Sequence[Example], data: Any
) -> None:
    """Check that the trainer's dataset still holds every row, whole and in order.

    Raises:
        PreflightError: a row was dropped, cut or altered on the way.
    """
    if not len(rows) == len(examples) == len(data):
        raise PreflightError(
            f"preflight: {len(rows)} rows became {len(data)} in the dataset; rows were lost"
        )
    altered = [
        Fault(example.id, "altered while the dataset was built")
        for example, ids, labels in zip(examples, data["input_ids"], data["labels"], strict=True)
        if tuple(ids) != example.ids or tuple(labels) != example.labels
    ]
    if altered:
        raise refusal(altered, len(rows))


def _decode(renderer: Renderer, ids: Sequence[int]) -> str:
    return str(
        renderer.tokenizer.decode(
            list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
    )


def _counts(examples: Sequence[Example]) -> dict[str, int]:
    behaviours = Counter(example.behaviour for example in examples)
    lengths = sorted(len(example.ids) for example in examples)
    return {
        "rows": len(examples),
        **dict(sorted(behaviours.items())),
        "groups of twins": len({example.twin for example in examples}),
        "tokens": sum(lengths),
        "tokens in the loss": sum(
            label != IGNORED for example in examples for label in example.labels
        ),
        "median tokens a row": lengths[len(lengths) // 2] if lengths else 0,
        "longest row": lengths[-1] if lengths else 0,
    }


def _preview(examples: Sequence[Example], renderer: Renderer) -> str:
    if not examples:
        return ""
    example, at, parts = examples[0], 0, []
    for start, end in labelled_spans(example.labels):
        parts.append(_decode(renderer, example.ids[at:start]))
        inside = _decode(renderer, example.ids[start:end])
        if start == example.decision:
            first = _decode(renderer, example.ids[start : start + 1])
            inside = f"«{first}»" + _decode(renderer, example.ids[start + 1 : end])
        parts.append(f"⟦{inside}⟧")
        at = end
    return f"{example.id}:\n" + "".join(parts) + _decode(renderer, example.ids[at:])
