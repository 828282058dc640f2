"""Why one row would not train what it says: served text against trained ids, turn by turn.

Nothing here trusts the renderer's own checks: the text is rendered again as a server renders
it, the trained ids are decoded, and every trained turn is read back through the serving parser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from breadcrumbs.messages import Message, compact_json, messages_from_dicts
from breadcrumbs.train.batches import IGNORED, Example, unlearned, words_of
from breadcrumbs.train.nulls import injected_nulls

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

_NULL = re.compile(r"\bnull\b")


def row_faults(
    row: Mapping[str, Any], example: Example, renderer: Renderer, max_tokens: int | None
) -> list[str]:
    """Every reason why `example` is not what `row` says; empty where it is."""
    messages = messages_from_dicts(row["messages"])
    tools = list(row["tools"])
    words = words_of(row)
    nulls = injected_nulls(words.hear(messages), words.hear_tools(tools))
    reasons = [f"injected null at {where}" for where in nulls]
    if max_tokens is not None and len(example.ids) > max_tokens:
        reasons.append(
            f"{len(example.ids)} tokens, over max_tokens {max_tokens}, and rows are not cut"
        )
    reasons += _schema_faults(messages, tools)
    text = served_text(renderer, messages, tools)
    reasons += _null_faults(text, messages, tools)
    reasons += _label_faults(example)
    spans = labelled_spans(example.labels)
    pieces = decoded(renderer, example.ids, spans)
    if "".join(pieces) != text:
        reasons.append("trained text differs from served text")
    slips = unlearned(row)
    turns = [i for i, m in enumerate(messages) if m.role == "assistant" and i not in slips]
    if len(spans) != len(turns):
        return [*reasons, f"{len(spans)} labelled spans for {len(turns)} assistant turns"]
    for number, index in enumerate(turns):
        prompt = served_text(renderer, messages[:index], tools, prompt=True)
        before, sampled = "".join(pieces[: 2 * number + 1]), pieces[2 * number + 1]
        if before != prompt:
            reasons.append(f"message {index}: labels do not start behind the served prompt")
        if not text.startswith(prompt + sampled):
            reasons.append(f"message {index}: trained turn differs from the served one")
        if example.ids[spans[number][1] - 1] not in renderer.stop_ids:
            reasons.append(f"message {index}: its end-of-turn token is outside the loss mask")
        reasons += _parse_faults(index, messages[index], sampled, renderer)
    if (example.decision, example.decision_end) not in spans:
        reasons.append("decision turn is cut or outside the loss mask")
    learnt = (
        at < example.decision_end and example.labels[at] != IGNORED for at in example.deciding
    )
    if not all(learnt):
        reasons.append("a deciding token is not learnt, or lies behind the decision turn")
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


def _null_faults(text: str, messages: Sequence[Message], tools: Sequence[Any]) -> list[str]:
    source = [message.content for message in messages] + [compact_json(tools)]
    source += [compact_json(c.arguments) for message in messages for c in message.tool_calls]
    if len(_NULL.findall(text)) > sum(len(_NULL.findall(part)) for part in source):
        return ["the template writes a null that the row does not have"]
    return []


def _label_faults(example: Example) -> list[str]:
    pairs = zip(example.labels, example.ids, strict=False)
    if len(example.labels) != len(example.ids) or any(
        label not in (IGNORED, token) for label, token in pairs
    ):
        return ["labels do not lie on their own tokens"]
    return []


def _parse_faults(index: int, message: Message, sampled: str, renderer: Renderer) -> list[str]:
    turn = renderer.call_format.parse_turn(sampled.removesuffix(renderer.call_format.stop_text))
    if turn.problems:
        return [f"message {index}: target does not parse: {turn.problems[0]}"]
    parsed = [(call.name, dict(call.arguments)) for call in turn.calls]
    if parsed != [(call.name, dict(call.arguments)) for call in message.tool_calls]:
        return [f"message {index}: target parses back to another call"]
    if turn.content.strip() != message.content.strip():
        return [f"message {index}: target parses back to other text"]
    return []
