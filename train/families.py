"""The model families, and what is verified of each on the chat templates that TRL ships.

`docs/families.md` holds the table that `table` writes; a test writes it again and compares.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import BreadcrumbsError
from breadcrumbs.messages import messages_from_dicts
from breadcrumbs.train.batches import build_example
from breadcrumbs.train.family_rows import EVERY_THOUGHT, FAMILY_ROWS, PLAIN
from breadcrumbs.train.row_faults import row_faults, served_text
from breadcrumbs.train.training_template import has_tags, training_template

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

CHATML = ("<|im_start|>", "<|im_end|>")
OURS = "ours"
SILENT = ", not thinking"
WITHOUT_THINKING = "{% set enable_thinking = false %}"
"""Before a template that opens a thought, so that turns without one can be trained."""
MISTRAL_FORMAT = """{{- bos_token }}
{%- set first = 1 if messages[0].role == 'system' else 0 %}
{%- for message in messages %}
{%- if message.role == 'user' %}
{%- if loop.index0 == first and tools %}{{- '[AVAILABLE_TOOLS] ' + (tools | tojson) }}
{{- '[/AVAILABLE_TOOLS]' }}{%- endif %}
{{- '[INST] ' }}
{%- if loop.index0 == first and first %}{{- messages[0].content + '\\n\\n' }}
{%- endif %}
{{- message.content + '[/INST]' }}
{%- elif message.role == 'assistant' and message.tool_calls %}
{{- message.content + '[TOOL_CALLS] [' }}
{%- for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{- raise_exception('ids of calls have nine characters') }}
{%- endif %}
{{- '{"name": ' + (call.function.name | tojson) + ', "arguments": ' }}
{{- (call.function.arguments | tojson) + ', "id": ' + (call.id | tojson) + '}' }}
{%- if not loop.last %}{{- ', ' }}{%- endif %}
{%- endfor %}
{{- ']</s>' }}
{%- elif message.role == 'assistant' %}
{{- message.content + '</s>' }}
{%- elif message.role == 'tool' %}
{{- '[TOOL_RESULTS] {"content": ' + (message.content | tojson) + ', "call_id": ' }}
{{- (message.tool_call_id | tojson) + '}[/TOOL_RESULTS]' }}
{%- endif %}
{%- endfor %}"""
"""Our own, in the format of Mistral's third tokenizer: TRL ships none of Mistral's templates."""


@dataclass(frozen=True, slots=True)
class Family:
    """One family: its templates by TRL's names, and the markers that its tokenizer has."""

    name: str
    templates: tuple[str, ...]
    markers: tuple[str, ...]
    bos: str | None = None
    line_ends: bool = False
    """Whether its tokenizer parts line ends from what follows, as SmolLM2's does not."""


_QWEN = (*CHATML, "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
_THINK = ("<think>", "</think>")
_LFM = (*CHATML, "<|tool_call_start|>", "<|tool_call_end|>", "<|startoftext|>")
FAMILIES = (
    Family("ChatML without tools (SmolLM2)", ("qwen2_5",), ()),
    Family("Qwen2.5", ("qwen2_5",), _QWEN),
    Family("Qwen3-Instruct-2507", ("qwen3_instruct_2507",), (*_QWEN, *_THINK)),
    Family("Qwen3 hybrid", ("qwen3",), (*_QWEN, *_THINK)),
    Family("Qwen3.5", ("qwen3_5_nothink", "qwen3_5_think"), (*_QWEN, *_THINK), line_ends=True),
    Family(
        "Qwen3.6, 3.8",
        ("qwen3_6", f"qwen3_6{SILENT}", "qwen3_8", f"qwen3_8{SILENT}"),
        (*_QWEN, *_THINK),
        line_ends=True,
    ),
    Family(
        "Llama 3.1, 3.2",
        ("llama3_1", "llama3_2"),
        ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|python_tag|>"),
        "<|begin_of_text|>",
        line_ends=True,
    ),
    Family(
        "Gemma 4",
        ("gemma4_v2", "gemma4_v3", "gemma4", "gemma4_v4", "gemma4_v5"),
        (
            *("<|turn>", "<turn|>", "<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>"),
            *("<|tool_response>", "<tool_response|>", "<|channel>", "<channel|>", '<|"|>'),
        ),
        "<bos>",
    ),
    Family(
        "Mistral",
        (OURS,),
        (
            *("[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]"),
            *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "</s>"),
        ),
        "<s>",
    ),
    Family(
        "gpt-oss",
        ("gptoss",),
        (
            *("<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|call|>", "<|return|>"),
            "<|constrain|>",
        ),
    ),
    Family(
        "GLM-4 MoE",
        ("glm4moe",),
        ("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
    ),
    Family("LFM2", ("lfm2_v2",), _LFM, "<|startoftext|>"),
    Family("LFM2.5", ("lfm2_2_5", "lfm2_2_5_v2"), (*_LFM, *_THINK), "<|startoftext|>"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found of one template: a reason for each check it fails, None where it passes."""

    family: str
    template: str
    calls: str
    """The kind of call format; empty where the template was refused outright."""
    faults: Mapping[str, str | None]
    trl_tags: bool
    """Whether TRL's own training template has the same text."""


def template_of(name: str) -> str:
    """A template's text: TRL's from the installed package, or our own."""
    from breadcrumbs.chat_templates import shipped_template

    if name == OURS:
        return MISTRAL_FORMAT
    return (WITHOUT_THINKING if name.endswith(SILENT) else "") + shipped_template(_base(name))


def _base(name: str) -> str:
    return name.removesuffix(SILENT)


def tokenizer_of(family: Family, tokenizer: Any) -> Any:
    """A copy of `tokenizer` that has the family's markers as single tokens.

    Where the family's own tokenizer parts line ends from what follows, as the patterns of Qwen's
    and Llama 3's do, so does the copy: a prompt that ends in one must not merge with a turn.
    """
    from tokenizers import Regex, pre_tokenizers

    own = copy.deepcopy(tokenizer)
    if family.line_ends:
        inner = own.backend_tokenizer
        parted = pre_tokenizers.Split(Regex(r"\s*[\r\n]+"), "isolated")
        inner.pre_tokenizer = pre_tokenizers.Sequence([parted, inner.pre_tokenizer])
    markers = [*family.markers, *([family.bos] if family.bos else [])]
    own.add_tokens(markers, special_tokens=True)
    if family.bos:
        own.bos_token = family.bos
    return own


def verify(family: Family, name: str, tokenizer: Any) -> Verdict:
    """Check one template of a family over `tokenizer`, which gets the family's markers."""
    from breadcrumbs.rendering import Renderer

    try:
        renderer = Renderer(tokenizer_of(family, tokenizer), template_of(name))
    except BreadcrumbsError as error:
        return Verdict(family.name, name, "", {check: str(error) for check in CHECKS}, False)
    faults: dict[str, str | None] = {
        check: next(filter(None, (_row_fault(row, renderer) for row in rows)), None)
        for check, rows in FAMILY_ROWS.items()
    }
    row = whole_row(renderer)
    faults["segments"] = _segment_fault(row, renderer)
    faults["generation tags"] = _tags_fault(row, renderer)
    return Verdict(
        family.name, name, renderer.call_format.kind, faults, _trl_agrees(row, renderer, name)
    )


def whole_row(renderer: Renderer) -> Mapping[str, Any]:
    """A row that the template is made for: one with thoughts where its prompts open them."""
    thinking = renderer.call_format.starts_thinking
    return FAMILY_ROWS[EVERY_THOUGHT if thinking else PLAIN][0]


CHECKS = (*FAMILY_ROWS, "segments", "generation tags")


def _row_fault(row: Mapping[str, Any], renderer: Renderer) -> str | None:
    try:
        reasons = row_faults(row, build_example(row, renderer), renderer, None)
    except BreadcrumbsError as error:
        return str(error)
    return reasons[0].text if reasons else None


def _segment_fault(row: Mapping[str, Any], renderer: Renderer) -> str | None:
    from breadcrumbs.segments import Segment

    messages = messages_from_dicts(row["messages"])[:6]  # up to the schema
    try:
        rendered = renderer.render(messages, list(row["tools"]))
    except BreadcrumbsError as error:
        return str(error)
    if len(rendered.segments) != len(rendered.ids):
        return "not every token has a segment"
    wanted = {
        Segment.SYSTEM: "execute_tool",
        Segment.USER: "lift",
        Segment.CATALOG: "1_catalog",
        Segment.SCHEMA: "requiresApproval",
        Segment.BREADCRUMB: "next_step",
        Segment.ASSISTANT: "get_tool_schema",
    }
    for segment, word in wanted.items():
        chosen = [i for i, s in zip(rendered.ids, rendered.segments, strict=True) if s == segment]
        if word not in renderer.tokenizer.decode(chosen):
            return f"{segment} is not where it should be"
    return None


def _tags_fault(row: Mapping[str, Any], renderer: Renderer) -> str | None:
    """Whether the training template's text is the served one, and its mask the loss mask."""
    messages = messages_from_dicts(row["messages"])
    try:
        trained = renderer.training_row(messages, list(row["tools"]))
    except BreadcrumbsError as error:
        return str(error)
    tagged = _tagged(row, renderer, training_template(renderer))
    ids, mask = list(tagged["input_ids"]), list(tagged["assistant_masks"])
    if ids != list(trained.ids[: len(ids)]) or len(trained.ids) - len(ids) > 1:
        return "the training template's text is another"
    learnt = [label != -100 for label in trained.labels[: len(ids)]]
    differing = [at for at, (a, b) in enumerate(zip(mask, learnt, strict=True)) if bool(a) != b]
    # Tags that a template brings along may take the line end behind a turn with them.
    if renderer.tokenizer.decode([ids[at] for at in differing]).strip():
        return "its mask is another"
    return None


def _trl_agrees(row: Mapping[str, Any], renderer: Renderer, name: str) -> bool:
    from breadcrumbs.chat_templates import pinned, shipped_template

    try:
        template = shipped_template(f"{_base(name)}_training")
    except BreadcrumbsError:
        return has_tags(renderer.template)
    silent = WITHOUT_THINKING if name.endswith(SILENT) else ""
    theirs = _tagged(row, renderer, pinned(silent + template))
    text = served_text(renderer, messages_from_dicts(row["messages"]), list(row["tools"]))
    ids = renderer.tokenizer(text, add_special_tokens=False)["input_ids"]
    return list(theirs["input_ids"]) == list(ids)


def _tagged(row: Mapping[str, Any], renderer: Renderer, template: str) -> Mapping[str, Any]:
    tagged: Mapping[str, Any] = renderer.tokenizer.apply_chat_template(
        [renderer.template_message(m) for m in messages_from_dicts(row["messages"])],
        tools=renderer.template_tools(row["tools"]),
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    return tagged


def table(verdicts: Sequence[Verdict]) -> str:
    """The verdicts as a Markdown table, and below it why a check fails."""
    lines = [
        f"| family | template | calls | {' | '.join(CHECKS)} | tokenizer |",
        "| --- | --- | --- |" + " --- |" * (len(CHECKS) + 1),
    ]
    notes: list[str] = []
    for verdict in verdicts:
        cells = []
        for check in CHECKS:
            reason = verdict.faults[check]
            if reason is None:
                cells.append(_TAGS[verdict.trl_tags] if check == "generation tags" else "yes")
                continue
            note = _PLACE.sub("", reason).replace("|", "\\|").replace("<", "&lt;")
            if note not in notes:
                notes.append(note)
            cells.append(f"no ({notes.index(note) + 1})")
        tokenizer = _stand_in(next(one for one in FAMILIES if one.name == verdict.family))
        first = [verdict.family, f"`{verdict.template}`", verdict.calls or "refused"]
        lines.append(f"| {' | '.join([*first, *cells, tokenizer])} |")
    return "\n".join([*lines, "", *(f"{at}. {note}" for at, note in enumerate(notes, start=1))])


def _stand_in(family: Family) -> str:
    if not family.markers:
        return "its own"
    parted = ", line ends parted" if family.line_ends else ""
    return f"SmolLM2's with the family's markers{parted}"


_PLACE = re.compile(r"^message \d+: | at character \d+ \(.*\)(?=;)", re.DOTALL)
"""What in a reason tells of the one row it was found in."""
_TAGS = MappingProxyType({True: "TRL's, ours", False: "ours"})


def verified(tokenizer: Any) -> list[Verdict]:
    """`verify` over every family and template."""
    return [verify(family, name, tokenizer) for family in FAMILIES for name in family.templates]


def write_table(path: Path, tokenizer: Any) -> None:
    """Put the table, made anew, between the marks of a documentation page."""
    before, mark, rest = path.read_text(encoding="utf-8").partition(TABLE_BEGINS)
    _, end, behind = rest.partition(TABLE_ENDS)
    text = f"{before}{mark}\n{table(verified(tokenizer))}\n{end}{behind}"
    path.write_text(text, encoding="utf-8")


TABLE_BEGINS, TABLE_ENDS = "<!-- table -->", "<!-- end of table -->"
