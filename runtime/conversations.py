"""Many conversations with one model in this process, written together, each watched as it grows.

One forward pass writes a token of every turn under way. Who comes joins after the present token,
who leaves is gone after it. Each turn has rows of its own in the cache and never reads another's;
what a conversation computed is kept for its next turn, as far as the ids agree. All tensors are
touched by one thread at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from breadcrumbs.decoding import (
    CachedRow,
    common_prefix,
    copy_beginning,
    forward_last,
    is_plain,
    joined,
    new_cache,
)
from breadcrumbs.local_model import MAX_NEW_TOKENS, LocalModel
from breadcrumbs.messages import Message
from breadcrumbs.turns import Turn, Wishes
from breadcrumbs.writing import Choice, Writing

logger = logging.getLogger(__name__)
AT_ONCE = 8
KEPT = 8
"""Conversations whose keys and values are kept after their turn."""
MOVED_SHARE = 0.5
"""Share of a kept conversation that must be wanted again for it to be taken over, not copied."""


@dataclass(eq=False, slots=True)
class _Row:
    """One turn under way."""

    prompt: list[int]
    writing: Writing
    choose: Choice
    pieces: asyncio.Queue[str | Exception | None] = field(default_factory=asyncio.Queue)
    """Text as it is written; None at the end, or why it broke."""
    ids: list[int] = field(default_factory=list)
    """The ids whose keys and values are in the cache."""
    token: int = 0
    """Chosen, but not in the cache yet."""
    left: bool = False
    """Whether nobody reads it any more, or it is done."""


Told = list[tuple[_Row, str | Exception | None]]


@dataclass(frozen=True, slots=True)
class _Kept:
    ids: list[int]
    cache: DynamicCache


class Conversations:
    """A policy for any number of conversations; up to `at_once` turns are written together."""

    def __init__(
        self, model: LocalModel, *, at_once: int = AT_ONCE, max_new_tokens: int = MAX_NEW_TOKENS
    ) -> None:
        self._model = model
        self.at_once = at_once
        self._max_new_tokens = max_new_tokens
        self._waiting: deque[_Row] = deque()
        self._rows: list[_Row] = []
        self._cache: DynamicCache | None = None
        self._mask = torch.empty(0)
        self._kept: list[_Kept] = []
        self._just_admitted = False
        self._driver: asyncio.Task[None] | None = None

    @staticmethod
    def can_serve(model: LocalModel) -> bool:
        """Whether the rows of this model's cache can be put together and taken apart."""
        return is_plain(new_cache(model.model))

    def wishing(self, wishes: Wishes) -> _Wishing:
        """The same conversations, a turn written as wished."""
        return _Wishing(self, wishes)

    def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """Text as it is generated, then the turn; closing it stops within one token.

        Raises:
            ModelError: the conversation fills the model's context.
        """
        return self.write(messages, tools, Wishes())

    async def write(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], wishes: Wishes
    ) -> AsyncGenerator[str | Turn, None]:
        """`stream`, as wished."""
        limit = wishes.max_tokens or self._max_new_tokens
        writing, prompt = self._model.begin(messages, tools, replace(wishes, max_tokens=limit))
        row = _Row(prompt, writing, Choice(wishes))
        self._waiting.append(row)
        if self._driver is None:
            self._driver = asyncio.create_task(self._drive())
        try:
            while (piece := await row.pieces.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            row.left = True
        rest, turn = writing.finish()
        if rest:
            yield rest
        yield turn

    async def _drive(self) -> None:
        try:
            while self._waiting or self._rows:
                for row, piece in await asyncio.to_thread(self._step):
                    row.pieces.put_nowait(piece)
        finally:
            self._driver = None

    @torch.inference_mode()
    def _step(self) -> Told:
        """Let go who left, then let one in or write one token of every turn."""
        try:
            self._let_go()
            waiting = None if self._just_admitted else self._next_waiting()
            self._just_admitted = waiting is not None
            return self._advance() if waiting is None else self._admit_safely(waiting)
        except Exception as error:  # whatever a model's library raises
            logger.exception("the model broke")
            broken, self._rows, self._cache = self._rows, [], None
            return [(row, error) for row in broken]

    def _next_waiting(self) -> _Row | None:
        """The turn that has waited longest, where there is room for it."""
        while self._waiting and len(self._rows) < self.at_once:
            row = self._waiting.popleft()
            if not row.left:
                return row
        return None

    def _admit_safely(self, row: _Row) -> Told:
        """`_admit`; what breaks there, such as memory running out, is this turn's alone."""
        try:
            return self._admit(row)
        except Exception as error:
            logger.exception("the model broke")
            return [(row, error)]

    def _admit(self, row: _Row) -> Told:
        """Compute the prompt, its first token, and put it beside the others."""
        cache = self._known(row)
        step = row.prompt[len(row.ids) :]
        logits = self._forward(cache, [step], [len(row.ids)], torch.ones(1, len(row.prompt)))
        row.ids = list(row.prompt)
        told = self._take(row, logits[0])
        parts = [*self._parts(), CachedRow(cache, 0, len(row.ids))]
        self._put_together([*self._rows, row], parts)
        return told

    def _advance(self) -> Told:
        """Feed the token that each turn chose last; the next one of each."""
        if self._cache is None:
            return []
        rows = self._rows
        steps, begins = [[row.token] for row in rows], [len(row.ids) for row in rows]
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(rows), 1)], 1)
        logits = self._forward(self._cache, steps, begins, self._mask)
        told: Told = []
        for row, line in zip(rows, logits, strict=True):
            row.ids.append(row.token)
            told += self._take(row, line)
        return told

    def _forward(
        self,
        cache: DynamicCache,
        steps: Sequence[Sequence[int]],
        begins: Sequence[int],
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Logits [B, V] behind steps of one length, which begin at these positions."""
        model = self._model.model
        ids = torch.tensor(steps, device=model.device)
        first = torch.tensor(begins, device=model.device)[:, None]
        positions = first + torch.arange(ids.shape[1], device=model.device)[None]
        alone = ids.shape[1] > 1
        mask = mask.to(ids)
        return forward_last(model, ids, mask, positions, cache, alone=alone)

    def _take(self, row: _Row, logits: torch.Tensor) -> Told:
        row.token = row.choose(logits)
        told: Told = []
        if piece := row.writing.push(row.token):
            told.append((row, piece))
        if row.writing.done:
            row.left = True
            told.append((row, None))
        return told

    def _known(self, row: _Row) -> DynamicCache:
        """A cache of its own with what is known of the prompt; `row.ids` says how much."""
        model = self._model.model
        best, known = None, 0
        for kept in self._kept:
            common = common_prefix([kept.ids, row.prompt])
            if common > known:
                best, known = kept, common
        cache = new_cache(model)
        if best is None:
            return cache
        row.ids = row.prompt[:known]
        if known < MOVED_SHARE * len(best.ids):
            copy_beginning(best.cache, cache, known)
            return cache
        self._kept.remove(best)
        if surplus := len(best.ids) - known:
            best.cache.crop(-surplus)
        return best.cache

    def _let_go(self) -> None:
        """Take out the turns that are done or unread; what they computed is kept."""
        if not any(row.left for row in self._rows):
            return
        parts = self._parts()
        stay = [(row, part) for row, part in zip(self._rows, parts, strict=True) if not row.left]
        for row, part in zip(self._rows, parts, strict=True):
            if row.left:
                cache, _ = joined(self._model.model, [part])
                self._kept.append(_Kept(row.ids, cache))
        del self._kept[:-KEPT]
        self._put_together([row for row, _ in stay], [part for _, part in stay])

    def _parts(self) -> list[CachedRow]:
        if self._cache is None:
            return []
        cache = self._cache
        return [CachedRow(cache, place, len(row.ids)) for place, row in enumerate(self._rows)]

    def _put_together(self, rows: list[_Row], parts: list[CachedRow]) -> None:
        cache, mask = joined(self._model.model, parts) if rows else (None, self._mask)
        self._rows, self._cache, self._mask = rows, cache, mask


@dataclass(frozen=True, slots=True)
class _Wishing:
    """Conversations, a turn written as a caller wishes."""

    inner: Conversations
    wishes: Wishes

    def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """A turn as wished."""
        return self.inner.write(messages, tools, self.wishes)
