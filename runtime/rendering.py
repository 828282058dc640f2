"""The one place where messages and tools become token ids: for training, probing and serving.

Every token of a rendered prompt belongs to exactly one segment, and every trained turn is
checked to stand behind the very prompt that serving would send.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from breadcrumbs.call_format import CallFormat, find_format, probe_call, split_thinking
from breadcrumbs.chat_templates import (
    PINNED_CLOCK,
    PROBE_TOOL,
    pinned,
    render_probe,
    shipped_template,
)
from breadcrumbs.errors import DataError, ModelError
from breadcrumbs.messages import Message
from breadcrumbs.models import first_line
from breadcrumbs.segments import (
    Rendered,
    Segment,
    Span,
    label_parts,
    label_tokens,
    locate_spans,
)

__all__ = ["Rendered", "Renderer", "Segment", "TrainingRow", "TurnSpan", "load_renderer"]

IGNORED = -100
Tools = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """Where one assistant turn lies in a row's ids: from `start` up to, without, `end`."""

    message_index: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """A conversation as ids with the loss mask.

    `ids` and `labels` are of one length, unshifted; labels are -100 outside assistant turns.
    A turn ends with its end-of-turn token.
    """

    ids: list[int]
    labels: list[int]
    turns: list[TurnSpan]


class Renderer:
    """Renders conversations with one tokenizer and one chat template."""

    def __init__(self, tokenizer: Any, template: str) -> None:
        """Probe the template.

        Raises:
            ModelError: the template drops tools or calls, or writes calls in an unknown format.
        """
        self.tokenizer = tokenizer
        original = template.removeprefix(PINNED_CLOCK)
        self.template = pinned(original)
        self.template_hash = hashlib.sha256(self.template.encode()).hexdigest()
        prompt, turn, exact = self._probe()
        form = find_format(hashlib.sha256(original.encode()).hexdigest(), turn, exact)
        if form is None:
            raise ModelError(
                "the chat template writes tool calls in a format that is not known here; "
                "use a model of one of the families in docs/families.md"
            )
        opened = prompt.rstrip().endswith(form.thinks[0].strip())
        self.call_format: CallFormat = replace(form, starts_thinking=opened)
        self._stops = {stop: self._one_token(stop) for stop in form.stops}
        eos = tokenizer.eos_token_id
        ends = [*self._stops.values(), *([] if eos is None else [int(eos)])]
        self.stop_ids: tuple[int, ...] = tuple(dict.fromkeys(ends))
        self._added = {
            number: token.content
            for number, token in tokenizer.added_tokens_decoder.items()
            if token.special
        }
        self._tail_ids = lru_cache(maxsize=1024)(lambda tail: tuple(self._encode(tail)))

    def count(self, text: str) -> int:
        """Tokens in a text by itself, without special tokens around it."""
        return len(self._encode(text))

    def prompt_text(self, messages: Sequence[Message], tools: Tools) -> str:
        """The prompt as text, up to and including the generation prompt."""
        return self._text(messages, tools, generation_prompt=True)

    def prompt_ids(self, messages: Sequence[Message], tools: Tools) -> list[int]:
        """The prompt as ids, up to and including the generation prompt."""
        return self._encode(self.prompt_text(messages, tools))

    def render(
        self,
        messages: Sequence[Message],
        tools: Tools,
        generation_prompt: bool = True,
        steering: str | None = None,
    ) -> Rendered:
        """Render with the segment of every token.

        `steering` is the text at the very start of the system message that counts as steering.

        Raises:
            ModelError: the template changes contents or earlier turns, or the tokenizer's
                offsets do not tile the text: the segments would be guesses.
            DataError: the system message does not begin with `steering`.
        """
        text = self._text(messages, tools, generation_prompt)

        def again(dicts: list[dict[str, Any]], tools: Tools) -> str:
            return self._template_text(dicts, tools, generation_prompt)

        spans, inside = locate_spans(messages, tools, text, again, self.template_message, steering)
        spans += self._assistant_spans(messages, tools, text)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = list(encoded["input_ids"])
        served = self.tokenizer.apply_chat_template(
            [self.template_message(m) for m in messages],
            tools=self.template_tools(tools),
            chat_template=self.template,
            add_generation_prompt=generation_prompt,
            tokenize=True,
            return_dict=False,
        )
        if ids != list(served):
            raise ModelError(
                "the tokenizer gives other ids with offsets than in its own chat template; "
                "use a fast tokenizer"
            )
        offsets = encoded["offset_mapping"]
        segments, straddling = label_tokens(len(text), offsets, spans)
        parts, straddling_parts = label_parts(len(text), offsets, inside)
        return Rendered(text, ids, segments, straddling, parts, straddling_parts)

    def training_row(self, messages: Sequence[Message], tools: Tools) -> TrainingRow:
        """Ids and loss mask of a finished conversation.

        Every assistant turn is labelled, from the first token after the generation prompt
        through the end-of-turn token.

        Raises:
            DataError: a turn would be trained behind another prompt than the one served, or
                holds the end-of-turn token as text. The message names the turn.
        """
        text = self._text(messages, tools, generation_prompt=False)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids: list[int] = encoded["input_ids"]
        starts = [start for start, _ in encoded["offset_mapping"]]
        turns: list[TurnSpan] = []
        for index, message in enumerate(messages):
            if message.role != "assistant":
                continue
            start = self._turn_start(messages, tools, index, text, ids, starts)
            if turns and turns[-1].end > start:
                raise DataError(
                    f"message {turns[-1].message_index}: no end-of-turn token behind the assistant "
                    "turn; the chat template does not close turns there: use another template"
                )
            end = self._turn_end(ids, start, message, index)
            if end is None and index + 1 == len(messages):
                ids.append(self._stops[self.closing(message)])
                end = len(ids)
            if (
                end is None
                or ids[end - 1]
                != self._stops[self.call_format.stop_behind(bool(message.tool_calls))]
            ):
                raise DataError(
                    f"message {index}: no end-of-turn token behind the assistant turn; "
                    "the chat template does not close turns: use another template"
                )
            turns.append(TurnSpan(index, start, end))
        if not turns:
            raise DataError("no assistant turn to train on; add one or drop the row")
        labels = [IGNORED] * len(ids)
        for turn in turns:
            labels[turn.start : turn.end] = ids[turn.start : turn.end]
        return TrainingRow(ids, labels, turns)

    def template_message(self, message: Message) -> dict[str, Any]:
        """A message in the shape the template reads, its reasoning and ids as it takes them."""
        form = self.call_format
        shape = message.to_template()
        if message.tool_call_id is not None:
            shape["tool_call_id"] = form.shown_id(message.tool_call_id)
        for call in shape.get("tool_calls", ()):
            call["id"] = form.shown_id(call["id"])
        key = form.thought_key
        if key is not None and message.role == "assistant":
            thought, said = split_thinking(message.content)
            if thought:
                shape |= {key: thought, "content": said.strip()}
        return shape

    def template_tools(self, tools: Tools) -> list[dict[str, Any]] | None:
        """Tool definitions in the shape the template reads; None where there are none."""
        dicts = [dict(tool) for tool in tools]
        if self.call_format.wants_description:
            dicts = [
                {**tool, "function": {"description": "", **tool["function"]}} for tool in dicts
            ]
        return dicts or None

    def training_fault(self) -> str | None:
        """Why no conversation with a call can be trained with this template; None where one can.

        Tried with reasoning before the call and without: some templates want it, some lose it.
        """
        call = probe_call()
        faults = []
        for thought in ("", "<think>probe_thought</think>"):
            conversation = [
                Message("system", "probe_system"),
                Message("user", "probe_user"),
                Message("assistant", thought, (call,)),
            ]
            try:
                self.training_row(conversation, [PROBE_TOOL])
            except DataError as error:
                faults.append(str(error))
                continue
            return None
        return faults[0]

    def closing(self, message: Message) -> str:
        """What ends a turn that the template leaves open at the end of a conversation.

        Some models stop by beginning the next message: their templates write that token only
        once there is one.

        Raises:
            DataError: the template does not go on with such a token either.
        """
        stop = self.call_format.stop_behind(bool(message.tool_calls))
        call = probe_call()
        asked = [Message("system", "probe_system"), Message("user", "probe_user")]
        said, answer = (
            (Message("assistant", "", (call,)), Message("tool", "{}", tool_call_id=call.id))
            if message.tool_calls
            else (Message("assistant", "probe_text"), Message("user", "probe_user"))
        )
        before = self._text([*asked, said], [PROBE_TOOL], False)
        if not self._text([*asked, said, answer], [PROBE_TOOL], False).startswith(before + stop):
            raise DataError(
                "the chat template does not close the last assistant turn: use another template"
            )
        return stop

    def _turn_start(
        self,
        messages: Sequence[Message],
        tools: Tools,
        index: int,
        text: str,
        ids: list[int],
        starts: list[int],
    ) -> int:
        """Position of the turn's first token; proves that what stands before it is served."""
        if index == 0:
            raise DataError("message 0 is an assistant turn: no prompt leads to it")
        prompt = self._text(messages[:index], tools, generation_prompt=True)
        if not text.startswith(prompt):
            at = next(
                (i for i, (a, b) in enumerate(zip(text, prompt, strict=False)) if a != b),
                min(len(text), len(prompt)),
            )
            raise DataError(
                f"message {index}: the training text differs from the served prompt at character "
                f"{at} ({text[at : at + 30]!r}, served {prompt[at : at + 30]!r}); "
                "the chat template rewrites earlier turns: use another template"
            )
        start = bisect_left(starts, len(prompt))
        if not self._same_prefix(text, prompt, ids, starts, start):
            if self.call_format.starts_thinking and not split_thinking(messages[index].content)[0]:
                raise DataError(
                    f"message {index}: the chat template's prompt opens a thought, and the turn "
                    "has none; give every turn one, or set enable_thinking to false in the template"
                )
            raise DataError(
                f"message {index}: its text merges with the generation prompt into other tokens "
                "than are served; remove white space at its beginning, or use the tokenizer of "
                "the template's own family"
            )
        return start

    def _same_prefix(
        self, text: str, prompt: str, ids: list[int], starts: list[int], start: int
    ) -> bool:
        """Whether `ids[:start]` are the prompt's own ids.

        A tokenizer never merges across an added token, so it is enough to compare what stands
        behind the last one; without one, the whole prompt.
        """
        if start < len(starts) and starts[start] != len(prompt):
            return False
        last = start - 1
        while last >= 0 and ids[last] not in self._added:
            last -= 1
        if last < 0:
            return self._encode(prompt) == ids[:start]
        content = self._added[ids[last]]
        behind = starts[last] + len(content)
        if text[starts[last] : behind] != content:  # the token took white space with it
            return self._encode(prompt) == ids[:start]
        return list(self._tail_ids(prompt[behind:])) == ids[last + 1 : start]

    def _turn_end(self, ids: list[int], start: int, message: Message, index: int) -> int | None:
        """The position behind the first token from `start` on that ends a turn."""
        calls = [json.dumps(dict(c.arguments), ensure_ascii=False) for c in message.tool_calls]
        written = "".join([message.content, *calls])
        if early := [stop for stop in self._stops if stop in written]:
            raise DataError(
                f"message {index}: holds {early[0]} as text, which would end "
                "the turn early; remove it"
            )
        ends = set(self._stops.values())
        return next((at + 1 for at in range(start, len(ids)) if ids[at] in ends), None)

    def _assistant_spans(self, messages: Sequence[Message], tools: Tools, text: str) -> list[Span]:
        spans: list[Span] = []
        for index, message in enumerate(messages):
            if message.role != "assistant":
                continue
            prompt = self._text(messages[:index], tools, True) if index else ""
            places = [(text.find(stop, len(prompt)), len(stop)) for stop in self._stops]
            ends = [at + length for at, length in places if at >= 0]
            if not ends and index + 1 == len(messages):
                ends = [len(text)]
            if not index or not text.startswith(prompt) or not ends:
                raise ModelError(
                    f"message {index}: the chat template rewrites earlier assistant turns, so "
                    "segments cannot be told apart; use another template"
                )
            spans.append((len(prompt), min(ends), Segment.ASSISTANT))
        return spans

    def _text(self, messages: Sequence[Message], tools: Tools, generation_prompt: bool) -> str:
        dicts = [self.template_message(message) for message in messages]
        return self._template_text(dicts, tools, generation_prompt)

    def _template_text(
        self, dicts: list[dict[str, Any]], tools: Tools, generation_prompt: bool
    ) -> str:
        from jinja2 import TemplateError

        try:
            text: str = self.tokenizer.apply_chat_template(
                dicts,
                tools=self.template_tools(tools),
                chat_template=self.template,
                add_generation_prompt=generation_prompt,
                tokenize=False,
            )
        except (TemplateError, ValueError, TypeError, KeyError) as error:
            raise DataError(
                f"the chat template refuses the conversation ({first_line(error)}); "
                "use another template, or leave such rows out"
            ) from error
        return text

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _one_token(self, text: str) -> int:
        ids = self._encode(text)
        if len(ids) != 1:
            raise ModelError(
                f"the tokenizer has no token {text}, which the chat template ends turns with; "
                "use the template of the tokenizer's own family"
            )
        return ids[0]

    def _probe(self) -> tuple[str, str, bool]:
        """The prompt, how a call with its result is rendered behind it, and whether just there.

        A template that rewrites its prompts is told from what stands behind the user's words.

        Raises:
            ModelError: it fails, or drops the system message, the tools, the call or the result.
        """
        probe = render_probe(self.tokenizer, self.template)
        if probe.fault is not None:
            raise ModelError(
                f"the chat template has no tool support to rely on ({probe.fault}); use a model "
                "whose template has it"
            )
        prompt, whole = probe.prompt, probe.whole
        if whole.startswith(prompt):
            return prompt, whole[len(prompt) :], True
        return prompt, whole.rpartition("probe_user")[2], False


def load_renderer(source: str | Path | Any) -> Renderer:
    """The renderer of a model folder, or of a tokenizer that is loaded already.

    The tokenizer's own chat template is used where it supports tools; ChatML tokenizers
    without such a template get the Qwen2.5 template that TRL ships.

    Raises:
        ModelError: no tokenizer there, or no template fits it.
    """
    tokenizer = _load_tokenizer(Path(source)) if isinstance(source, (str, Path)) else source
    template = tokenizer.chat_template
    if isinstance(template, dict):  # by name: transformers takes this one where there are tools
        template = template.get("tool_use", template.get("default"))
    if isinstance(template, str) and render_probe(tokenizer, template).fault is None:
        return Renderer(tokenizer, template)
    vocabulary = tokenizer.get_vocab()
    if "<|im_start|>" not in vocabulary or "<|im_end|>" not in vocabulary:
        raise ModelError(
            "the model's chat template has no tool support and its tokenizer is not ChatML; "
            "use a model whose template supports tools"
        )
    return Renderer(tokenizer, shipped_template("qwen2_5"))


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"{folder}: no usable tokenizer here ({first_line(error)}); "
            "give a complete model folder"
        ) from error
