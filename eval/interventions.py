"""One decision point run again with something changed, and what comes of the decision.

The prompt's tokens but the last run once, unchanged. Every trial goes on from the part of that
cache which its change cannot reach: at the decision row alone that is one token, at all later rows
the tokens behind the changed keys. Attention of changed rows is computed here in float32, in
blocks of rows. Nothing that the model holds is altered; trials do not see one another.

Shapes: L attention layers, H heads, R rows, T keys, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from breadcrumbs.decoding import common_prefix
from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attribution import Openers, gap_of
from breadcrumbs.eval.capture import capturing, rows_of
from breadcrumbs.eval.model_hooks import followed_positions, wrapped_attention
from breadcrumbs.eval.partitions import attended
from breadcrumbs.eval.prompt_run import forward

BLOCK_ROWS = 256
"""Rows at a time: bounds the memory for weights."""
UNCHANGED = {torch.float32: 1e-2}
"""Logits of gap that computing attention here may move by itself; else `ROUNDED`."""
ROUNDED = 0.5
KNOCKOUT = -float("inf")

Scope = Literal["decision", "written", "later"]


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of attention on some keys: a bias on their logits, or a share that is set."""

    keys: tuple[int, ...]
    """Positions in the prompt."""
    bias: float = 0.0
    """Nats on the logits in every layer and head; `KNOCKOUT` hides the keys."""
    rows: Scope = "decision"
    """At the decision row, from it on through what is `written`, or at all rows behind the keys."""
    masses: Mapping[int, torch.Tensor] | None = None
    """Layer -> [H]: the share of attention to set, in place of a bias."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a run came to at the decision point."""

    gap: float
    """logsumexp of the call side's logits less that of the prose side's."""
    acts: bool
    """The greedy turn opens a call."""
    masses: Mapping[int, torch.Tensor] = field(default_factory=dict)
    """Layer -> [H]: share of the decision row's attention on the keys of the edit."""

    @property
    def mass(self) -> float | None:
        """Mean of `masses` over layers and heads; None without an edit."""
        return float(torch.cat(list(self.masses.values())).mean()) if self.masses else None


class DecisionRun:
    """A prompt with its decision at the last token, ready for trials under the current weights."""

    def __init__(
        self,
        model: Any,
        ids: Sequence[int],
        openers: Openers,
        call: Sequence[int],
        segments: Sequence[int] | None = None,
    ) -> None:
        """Run the prompt; `call` are the ids that open a call in the model's own format.

        `segments` are what `stats` goes by, one for all tokens if not given.

        Raises:
            ProbeError: it has fewer than two tokens, or its attention cannot be measured or
                computed again.
        """
        if len(ids) < 2:
            raise ProbeError("a prompt of one token has nothing to look back at")
        self.model = model
        self.base = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.ids = list(ids)
        self.openers = openers
        self.tokens_run = 0
        """Tokens computed so far, all trials together."""
        self._call = list(call)
        self._cache = self._run_prefix(len(ids) - 1)
        self._cuttable = _is_plain(self._cache)
        labels = [0] * len(ids) if segments is None else list(segments)
        # The capture refuses what cannot be measured.
        with capturing(model, labels, max(labels) + 1, generated=labels[-1]) as capture:
            self.plain = self.decide()
        self.stats = capture.stats()
        """Attention by segment; the first row is the decision's, others are written tokens'."""
        everything = Edit(tuple(range(len(ids) - 1)))
        seen = _Seen(everything, len(ids))
        again = self._decide(everything, seen)
        self.token_mass: torch.Tensor = torch.stack(list(seen.rows.values())).mean(0)
        """float32 [T], share of the decision row's attention, mean over layers and heads."""
        off = abs(again.gap - self.plain.gap)
        if not off <= UNCHANGED.get(model.dtype, ROUNDED):
            raise ProbeError(
                f"attention computed again moves the gap by {off:.2g} logits by itself: this model"
                " attends in a way that cannot be changed here; load it in float32"
            )

    def decide(self, edit: Edit | None = None) -> Decided:
        """The decision under an edit, or as it is.

        Raises:
            ProbeError: the edit's keys are none, or not all before the decision row.
        """
        if edit is None:
            return self._finish(self.ids[-1:], len(self.ids) - 1, {})
        return self._decide(edit, _Seen(edit, len(self.ids)))

    def instead(self, ids: Sequence[int]) -> Decided:
        """The decision after other tokens; their common beginning is not computed again."""
        kept = common_prefix([self.ids, list(ids)])
        return self._finish(list(ids)[kept:], kept, {})

    def stretched(self, at: int, by: int) -> Decided:
        """The decision with all tokens from `at` on moved `by` positions away, nothing between.

        Distance alone: as many keys compete as before.

        Raises:
            ProbeError: that is beyond the model's positions.
        """
        limit = self.base.config.get_text_config().max_position_embeddings
        if len(self.ids) + by > limit:
            raise ProbeError(
                f"{len(self.ids)} tokens stretched by {by} are beyond the model's {limit}"
                " positions; shorten the prompt"
            )
        return self._finish(self.ids[at:], at, {}, by)

    @torch.no_grad()
    def written(
        self, is_finished: Callable[[list[int]], bool], edit: Edit | None = None
    ) -> list[int]:
        """The greedy turn until `is_finished` says so of it, under an edit or as it is.

        Raises:
            ProbeError: as `decide`; or the edit is at more rows than those from the decision on.
        """
        last = len(self.ids) - 1
        if edit is not None and edit.rows == "later":
            raise ProbeError("a turn is written under edits from the decision row on only")
        tokens: list[int] = []
        with nullcontext() if edit is None else _edited(self.base, _Seen(edit, len(self.ids))):
            cache, step = self._beginning(last), self.ids[last:]
            while not tokens or not is_finished(tokens):
                logits = self._forward(step, last + len(tokens), cache)[0]
                step = [int(logits.argmax())]
                tokens += step
        return tokens

    @torch.no_grad()
    def _decide(self, edit: Edit, seen: _Seen) -> Decided:
        last = len(self.ids) - 1
        if not edit.keys or min(edit.keys) < 0 or max(edit.keys) >= last:
            raise ProbeError(f"keys to change must lie before the decision row {last}, and be some")
        start = max(edit.keys) + 1 if edit.rows == "later" else last
        cache = self._beginning(start)
        with _edited(self.base, seen):
            return self._finish(self.ids[start:], start, seen.masses, cache=cache)

    @torch.no_grad()
    def _finish(
        self,
        rest: Sequence[int],
        start: int,
        masses: Mapping[int, torch.Tensor],
        by: int = 0,
        cache: Any = None,
    ) -> Decided:
        """Run `rest` from position `start`, then the call's opener where the turn may begin so."""
        cache = self._beginning(start) if cache is None else cache
        logits = self._forward(rest, start, cache, by=by)[0]
        acts = int(logits.argmax()) == self._call[0]
        if acts and len(self._call) > 1:
            # One forward tells whether greedy decoding would write the whole opener.
            *begun, _ = self._call
            end = start + len(rest)
            follow = self._forward(begun, end, cache, len(begun), by)
            acts = follow.argmax(-1).tolist() == self._call[1:]
        return Decided(round(float(gap_of(logits, self.openers)), 6), acts, masses)

    def _forward(
        self, ids: Sequence[int], start: int, cache: Any, keep: int = 1, by: int = 0
    ) -> torch.Tensor:
        """Logits [keep, V] behind the last of `ids`, which begin at `start`."""
        tokens = torch.tensor([list(ids)], device=self.model.device)
        end = start + len(ids)
        where = torch.arange(start + by, end + by, device=tokens.device)[None]
        moved = {"position_ids": where} if by else {}
        self.tokens_run += len(ids)
        output = forward(self.model, tokens, end, keep, cache=cache, **moved)
        logits: torch.Tensor = output.logits[0, -keep:]
        return logits

    def _beginning(self, tokens: int) -> Any:
        """A cache of the first `tokens`, to be added to."""
        surplus = len(self.ids) - 1 - tokens
        if surplus and not self._cuttable:  # windows and recurrent states cannot go back
            return self._run_prefix(tokens)
        cache = copy.deepcopy(self._cache)
        if surplus:
            cache.crop(-surplus)
        return cache

    @torch.no_grad()
    def _run_prefix(self, tokens: int) -> Any:
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        if tokens:
            self._forward(self.ids[:tokens], 0, cache)
        return cache


def _is_plain(cache: Any) -> bool:
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in cache.layers)


@dataclass(slots=True)
class _Seen:
    """Where an edited run stands, and what its decision row saw."""

    edit: Edit
    total: int
    """Tokens of the prompt."""
    span: tuple[int, int] = (0, 0)
    masses: dict[int, torch.Tensor] = field(default_factory=dict)
    rows: dict[int, torch.Tensor] = field(default_factory=dict)
    """Layer -> [T], the decision row's weights, mean over heads."""

    def enter(self, tokens: int, cached: int, limit: int | None) -> None:
        """A forward begins."""
        if limit is not None and cached + tokens > limit:
            raise ProbeError(
                f"{cached + tokens} tokens are beyond the model's {limit} positions;"
                " shorten the prompt"
            )
        self.span = (cached, cached + tokens)

    def inside(self, keys: int, device: torch.device) -> torch.Tensor:
        """Bool [T]: which of the last `keys` positions are the edit's."""
        last = self.span[1]
        found = torch.zeros(last, dtype=torch.bool)
        found[list(self.edit.keys)] = True
        return found[last - keys :].to(device)

    def changed(self, logits: torch.Tensor, sink: Any, inside: torch.Tensor, layer: int) -> Any:
        """The logits [H, R, T] with the edit on them."""
        if self.edit.masses is None:
            raised = torch.zeros(len(inside), device=logits.device)
            return logits + raised.masked_fill(inside, self.edit.bias)
        target = self.edit.masses[layer].to(logits.device).clamp(1e-12, 1 - 1e-7)
        others = logits[..., ~inside]
        if sink is not None:
            column = sink.reshape(-1, 1, 1).float().expand(*logits.shape[:2], 1)
            others = torch.cat((others, column), -1)
        odds = torch.logsumexp(logits[..., inside], -1) - torch.logsumexp(others, -1)
        bias = torch.logit(target)[:, None] - odds
        # Out of a window's reach there is nothing to raise.
        bias = torch.where(torch.isfinite(bias), bias, 0.0)
        return torch.where(inside, logits + bias[..., None], logits)


@contextmanager
def _edited(base: Any, seen: _Seen) -> Iterator[None]:
    """Compute the attention of edited rows anew, for the length of a block.

    A row behind the keys always sees itself, so that hiding them leaves it something.
    """
    own = {id(module) for module in base.modules()}
    decision = seen.total - 1

    def attend(module: Any, tensors: Any, mask: Any, output: torch.Tensor, options: Any) -> Any:
        first, last = seen.span
        if id(module) not in own or (first > decision and seen.edit.rows == "decision"):
            return None
        query, key, value = tensors
        keys = key.shape[2]
        inside = seen.inside(keys, key.device)
        mixed = torch.empty_like(output)
        for at in range(first, last, BLOCK_ROWS):
            wanted = range(at, min(at + BLOCK_ROWS, last))
            rows = rows_of(wanted, first, (query, key), mask, options)
            reach = wanted.stop - (last - keys)  # keys behind the block's last row are hidden
            logits = rows.logits(slice(0, reach))
            logits = seen.changed(logits, rows.sink, inside[:reach], module.layer_idx)
            block, weights = attended(logits, rows.sink, value[0, :, :reach])
            mixed[0, at - first : wanted.stop - first] = block.to(output.dtype)
            if decision in wanted:
                row = weights[:, decision - at]
                seen.masses[module.layer_idx] = row[:, inside[:reach]].sum(-1).cpu()
                # Keys that slid out of a window have no share.
                whole = torch.nn.functional.pad(row.mean(0), (last - keys, 0))
                seen.rows[module.layer_idx] = whole[: seen.total].cpu()
        return mixed

    with wrapped_attention(base, attend), followed_positions(base, seen.enter, lambda: None):
        yield
