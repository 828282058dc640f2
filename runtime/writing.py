"""One turn while a model in this process writes it: which token next, what of it is shown.

Knows a renderer and logits, nothing of caches. V is the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from breadcrumbs.call_format import TextStream
from breadcrumbs.rendering import Renderer
from breadcrumbs.turns import Turn, Usage, Wishes

COLDEST = 1e-4
"""A temperature below it takes the likeliest token: logits divided by it would overflow."""
HALF_CHARACTER = "\ufffd"


class Choice:
    """Which token comes next: the likeliest, or one drawn as a caller wishes."""

    def __init__(self, wishes: Wishes) -> None:
        self._temperature = 1.0 if wishes.temperature is None else wishes.temperature
        self._top_p = 1.0 if wishes.top_p is None else wishes.top_p
        self._draw: torch.Generator | None = None
        if wishes.samples and self._temperature >= COLDEST:
            self._draw = torch.Generator()
            if wishes.seed is None:
                self._draw.seed()
            else:
                self._draw.manual_seed(wishes.seed)

    def __call__(self, logits: torch.Tensor) -> int:
        """The next token by its logits [V].

        With `top_p` p a token is drawn from the fewest likeliest ones that have a share of at
        least p (nucleus sampling, Holtzman et al. 2020), after the temperature.
        """
        if self._draw is None:
            return int(logits.argmax(-1))
        shares, tokens = (
            (logits.float().cpu() / self._temperature).softmax(-1).sort(descending=True)
        )
        before = shares.cumsum(-1) - shares
        kept = shares * (before < self._top_p)
        return int(tokens[torch.multinomial(kept, 1, generator=self._draw)])


class Writing:
    """A turn under way: takes tokens, gives the text to show, ends with the turn."""

    def __init__(
        self,
        renderer: Renderer,
        first_id: int,
        tools: Sequence[Mapping[str, Any]],
        prompt_tokens: int,
        limit: int,
        stop: tuple[str, ...] = (),
    ) -> None:
        self._renderer = renderer
        self._prompt_tokens = prompt_tokens
        self._limit = limit
        self._stop = stop
        self._shown = TextStream(renderer.call_format, first_id, tools)
        self._tokens: list[int] = []
        self._pushed = 0
        self._cut = False
        self.done = False
        """Whether no further token is wanted."""

    def push(self, token: int) -> str:
        """Take a token; the text that can be shown now."""
        if token in self._renderer.stop_ids:
            self.done = True
            return ""
        self._tokens.append(token)
        self.done = self._cut = len(self._tokens) >= self._limit
        text = self._text()
        if text.endswith(HALF_CHARACTER):
            return ""
        end = self._stopped_at(text)
        if end is not None:
            self.done, self._cut = True, False
        return self._show(text, _sure(text, self._stop) if end is None else end)

    def finish(self) -> tuple[str, Turn]:
        """The rest of the text, and the turn with its tokens counted."""
        text = self._text()
        end = self._stopped_at(text)
        rest = self._show(text, len(text) if end is None else end)
        tail, turn = self._shown.finish()
        usage = Usage(self._prompt_tokens, len(self._tokens))
        return rest + tail, replace(turn, usage=usage, cut=self._cut)

    def _show(self, text: str, end: int) -> str:
        if end <= self._pushed:
            return ""
        before, self._pushed = self._pushed, end
        return self._shown.push(text[before:end])

    def _stopped_at(self, text: str) -> int | None:
        found = [at for at in map(text.find, self._stop) if at >= 0]
        return min(found, default=None)

    def _text(self) -> str:
        return str(self._renderer.tokenizer.decode(self._tokens, skip_special_tokens=False))


def _sure(text: str, stops: tuple[str, ...]) -> int:
    """How much of a text is no beginning of a stop text."""
    longest = min(max(map(len, stops), default=1) - 1, len(text))
    for size in range(longest, 0, -1):
        if any(stop.startswith(text[-size:]) for stop in stops):
            return len(text) - size
    return len(text)
