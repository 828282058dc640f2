"""What lets a server prove itself: prompts with their token ids, and a canary for the weights.

A golden conversation says what text the server must build. The canary says whether the adapter
is in use at all: one token behind one of those prompts that adapter and base rate differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from breadcrumbs.messages import Message, messages_from_dicts
from breadcrumbs.train.batches import decision_message, mended, own_messages

if TYPE_CHECKING:
    import torch

    from breadcrumbs.rendering import Renderer

GOLDEN = 20  # conversations whose token ids a server must reproduce
CANARY_PROMPTS = 4  # of these, one behaviour each, the canary is looked for in so many
CANARY_TOKENS = 16  # of the decision turn, so many are looked at


@dataclass(frozen=True, slots=True)
class Golden:
    """A conversation up to its decision point, and how the decision turn begins."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    prompt_ids: tuple[int, ...]
    target_ids: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """What is published of it: the right answer stays out."""
        return {
            "messages": [message.to_dict() for message in self.messages],
            "tools": [dict(tool) for tool in self.tools],
            "prompt_ids": list(self.prompt_ids),
        }


def golden(renderer: Renderer, rows: Sequence[Mapping[str, Any]]) -> list[Golden]:
    """Up to `GOLDEN` prompts at the decision point, the behaviours taking turns."""
    by_behaviour: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_behaviour.setdefault(str(row["behaviour"]), []).append(row)
    turns = [row for turn in zip_longest(*by_behaviour.values()) for row in turn if row is not None]
    return [_golden(renderer, row) for row in turns[:GOLDEN]]


def _golden(renderer: Renderer, row: Mapping[str, Any]) -> Golden:
    messages = messages_from_dicts(row["messages"])
    behaviour, tool, tools = str(row["behaviour"]), str(row["tool"]), list(row["tools"])
    decided = decision_message(own_messages(row), behaviour, tool, mended(row))
    prompt = messages[:decided]
    rendered = renderer.training_row(messages[: decided + 1], tools)
    turn = rendered.turns[-1]
    return Golden(
        tuple(prompt),
        tuple(tools),
        tuple(renderer.prompt_ids(prompt, tools)),
        tuple(rendered.ids[turn.start : turn.end][:CANARY_TOKENS]),
    )


def find_canary(model: Any, conversations: Sequence[Golden]) -> dict[str, Any]:
    """The token of a decision turn whose log-probability the adapter raised most.

    Every process of a distributed run must call this: a sharded model computes together.

    Returns:
        `golden` (index of the conversation), `behind` (ids of the decision turn that stand between
        its prompt and the token), `token`, and the token's log-probability in nats under
        `adapter_logprob` and `base_logprob`.
    """
    model.eval()
    best: dict[str, Any] = {}
    for number, one in enumerate(conversations[:CANARY_PROMPTS]):
        adapted = _logprobs(model, one.prompt_ids, one.target_ids, nullcontext())
        base = _logprobs(model, one.prompt_ids, one.target_ids, model.disable_adapter())
        tokens = adapted.argmax(-1, keepdim=True)  # [n, 1], what the adapter would write
        with_it, without = (
            part.gather(-1, tokens).squeeze(-1).tolist() for part in (adapted, base)
        )
        gap, at = max((a - b, at) for at, (a, b) in enumerate(zip(with_it, without, strict=True)))
        if not best or gap > best["adapter_logprob"] - best["base_logprob"]:
            best = {
                "golden": number,
                "behind": list(one.target_ids[:at]),
                "token": int(tokens[at]),
                "adapter_logprob": with_it[at],
                "base_logprob": without[at],
            }
    return best


def canary_logprobs(
    model: Any, canary: Mapping[str, Any], prompt_ids: Sequence[int]
) -> tuple[float, float]:
    """The canary token's log-probability with the adapter and without it, in nats."""
    ids, token = [*prompt_ids, *canary["behind"]], int(canary["token"])
    with_it, without = (
        float(_logprobs(model, ids, [token], context)[0, token])
        for context in (nullcontext(), model.disable_adapter())
    )
    return with_it, without


def last_logits(model: Any, ids: Sequence[int], count: int) -> torch.Tensor:
    """Logits [count, V] at the last positions of one sequence; no others are made.

    Only the head's input is narrowed, which works for every model and through PEFT and FSDP.
    """
    import torch

    def narrow(_head: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (inputs[0][:, -count:], *inputs[1:])

    place = next(model.parameters()).device
    hook = model.get_output_embeddings().register_forward_pre_hook(narrow)
    try:
        with torch.no_grad():
            logits: torch.Tensor = model(
                input_ids=torch.tensor([list(ids)], device=place), use_cache=False
            ).logits[0]
    finally:
        hook.remove()
    return logits


def _logprobs(
    model: Any,
    prompt_ids: Sequence[int],
    target_ids: Sequence[int],
    context: AbstractContextManager[Any],
) -> torch.Tensor:
    """Log-probabilities [n, V] in float32 at the places of the n target tokens, teacher-forced."""
    with context:
        logits = last_logits(model, [*prompt_ids, *target_ids[:-1]], len(target_ids))
    return logits.float().log_softmax(-1)
