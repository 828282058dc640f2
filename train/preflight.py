"""Proof, before the first step, that every row trains what it says.

Template, adapter, then each row (`row_faults`); a failing row is named with its reason, and the
run stops. Row count and ids are checked once more on the dataset that the trainer holds.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from breadcrumbs.errors import DataError, PreflightError
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.train.adapter import lora, lora_fault
from breadcrumbs.train.batches import IGNORED, Example, build_example, to_dataset
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.row_faults import Check, decoded, labelled_spans, row_faults, served_text

if TYPE_CHECKING:
    from breadcrumbs.rendering import Renderer

FAULTS = "preflight_faults.jsonl"
NAMED = 8  # faults told on the error's one line
_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"probe_key": {"type": "string"}}},
    },
}


ShownAs = Literal["prompt", "trained", "decision"]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why one row cannot be trained on, and which check found it."""

    row: str
    reason: str
    check: str = "readable, with a decision turn"


@dataclass(frozen=True, slots=True)
class Preflight:
    """What passed: the examples, counts worth seeing before a run, and one row in pieces."""

    examples: tuple[Example, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    preview: tuple[tuple[str, ShownAs], ...] = ()
    rollouts: str | None = None
    """Why stock GRPO could not read this model's calls; None where it can."""

    def lines(self) -> list[str]:
        """For a person: each check with the rows that passed it, then counts."""
        rows = len(self.examples)
        checks = [f"  {rows} of {rows} rows: {check}" for check in Check]
        counts = [f"  {name}: {count}" for name, count in self.counts.items()]
        return [
            "preflight passed",
            "  the chat template shows tools and calls; servers load the adapter",
            f"  {rows} of {rows} rows are in the trainer's dataset, none altered",
            *checks,
            *counts,
            f"  GRPO with TRL: {self.rollouts or 'its parser reads the calls'}",
        ]


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
        raise refusal(faults, len(rows), _write_faults(faults, Path(config.out)))
    verify_dataset(rows, examples, to_dataset(examples))
    return Preflight(
        tuple(examples), _counts(examples), _preview(examples, renderer), rollout_fault(renderer)
    )


def examine(
    rows: Sequence[Mapping[str, Any]], renderer: Renderer, config: TrainConfig
) -> tuple[list[Example], list[Fault]]:
    """Every row as an example, and every fault of every row."""
    if reason := template_fault(renderer) or lora_fault(lora(config.adapter)):
        return [], [Fault("every row", reason, "template and adapter")]
    examples: list[Example] = []
    faults: list[Fault] = []
    for row in rows:
        try:
            example = build_example(row, renderer)
            reasons = row_faults(row, example, renderer, config.max_tokens)
        except DataError as error:
            faults.append(Fault(str(row.get("id", "?")), str(error)))
            continue
        faults.extend(Fault(example.id, reason.text, reason.check) for reason in reasons)
        examples.append(example)
    return examples, faults


def refusal(faults: Sequence[Fault], rows: int, listed: Path | None = None) -> PreflightError:
    """The error that ends a run: one line with the first failing rows, and where all are listed.

    It counts the rows that failed each check.
    """
    names = len({fault.row for fault in faults})
    failed = Counter(check for check, _ in {(fault.check, fault.row) for fault in faults})
    checks = ", ".join(f"{check}: {count}" for check, count in failed.most_common())
    shown = "; ".join(f"{fault.row}: {fault.reason}" for fault in faults[:NAMED])
    more = f"; all in {listed}" if listed and len(faults) > NAMED else ""
    return PreflightError(
        f"preflight: {names} of {rows} rows would not train what they say: {shown}{more}; "
        f"rows that failed by check: {checks}; mend or leave out these rows, then train"
    )


def _write_faults(faults: Sequence[Fault], out: Path) -> Path | None:
    """List every failing row in the run's folder, where there is one."""
    if not out.is_dir():
        return None
    path = out / FAULTS
    lines = [json.dumps(asdict(fault)) + "\n" for fault in faults]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def template_fault(renderer: Renderer) -> str | None:
    """Why this chat template cannot be trained on calls; None where it can."""
    call = ToolCall("probe0001", "probe_tool", {"probe_key": "probe_value"})
    messages = [Message("user", "probe"), Message("assistant", "", (call,))]
    try:
        text = served_text(renderer, messages, [_PROBE_TOOL])
    except DataError as error:
        return str(error)
    # The tool's name must stand twice: once where tools are declared, once in the call.
    if text.count("probe_tool") < 2 or "probe_value" not in text:
        return "the chat template drops tools or tool calls; use one that supports them"
    return renderer.training_fault()


def rollout_fault(renderer: Renderer) -> str | None:
    """Why TRL's GRPO could not read this model's calls; None where it can.

    TRL knows templates by their exact text. One it does not know leaves the tokenizer without a
    parser, and GRPO then stops at the first batch or takes every call for plain text.
    """
    if getattr(renderer.tokenizer, "response_template", None) is not None:
        return None
    from trl.chat_template_utils import add_response_schema

    tokenizer = copy.copy(renderer.tokenizer)
    tokenizer.chat_template = renderer.template
    try:
        add_response_schema(tokenizer)
    except ValueError:
        return "it does not know this chat template; set the tokenizer's response_template"
    return None


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


def _preview(examples: Sequence[Example], renderer: Renderer) -> tuple[tuple[str, ShownAs], ...]:
    """The first row, cut where the loss mask begins and ends and around its decision's token."""
    if not examples:
        return ()
    example = examples[0]
    spans = labelled_spans(example.labels)
    pieces: list[tuple[str, ShownAs]] = [(f"{example.id}:\n", "prompt")]
    for number, piece in enumerate(decoded(renderer, example.ids, spans)):
        if number % 2 == 0:
            pieces.append((piece, "prompt"))
            continue
        if spans[number // 2][0] == example.decision:
            first = decoded(renderer, example.ids[example.decision : example.decision + 1], [])[0]
            pieces.append((first, "decision"))
            piece = piece.removeprefix(first)
        pieces.append((piece, "trained"))
    return tuple(pieces)
