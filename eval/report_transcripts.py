"""The turns and episodes behind the page's numbers: each number opens those that it counts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from breadcrumbs.data_gen.scenarios import scenario_from_dict
from breadcrumbs.errors import DataError
from breadcrumbs.eval.records import CELLS
from breadcrumbs.eval.transcripts import decision_place
from breadcrumbs.eval.turn_figures import TURN_FIGURES
from breadcrumbs.messages import Message, json_object, messages_from_dicts

CHARS = 1_500
"""Of one text on the page; the rest lies in the cell's file."""
MODELS = ("base", "adapter")
_LAYERS = {"1_catalog": "catalog", "2_schema_disclosure": "schema"}


def box_id(*parts: str) -> str:
    """Names a box of transcripts on the page."""
    return "t-" + "-".join(part.replace(" ", "_") for part in parts)


def opener(value: str, box: str, figure: str) -> str:
    """A number that opens what is behind it."""
    return (
        f'<button type="button" class="open" data-open="{escape(box)}"'
        f' data-figure="{escape(figure)}">{value}</button>'
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file, without a head that is none; nothing where there is no file."""
    try:
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []
    return [row for row in rows if isinstance(row, dict) and "scenario" in row]


def turn_boxes(folder: Path, results: Mapping[str, Any]) -> dict[str, str]:
    """Boxes of the models' decision turns, by their id; cells without a file have none."""
    boxes = {}
    for system in MODELS:
        for tier, splits in results["eval"].get(system, {}).items():
            for split in splits:
                rows = read_lines(folder / CELLS / f"{system}-{tier}-{split}.jsonl")
                if rows:
                    name = f"{system}, {tier.replace('_', ' ')}, {split.replace('_', ' ')}"
                    key = box_id(system, tier, split)
                    boxes[key] = box(key, f"{name}: {len(rows)} turns", map(_turn, rows))
    return boxes


def section(boxes: Mapping[str, str]) -> str:
    """The part of the page that holds the boxes; nothing where there is none."""
    if not boxes:
        return ""
    return (
        "<section><h2>The transcripts</h2><p>Choose a number in a table to see the turns that it"
        " counts, the rarer answer first.</p>"
        f"{''.join(boxes.values())}</section>"
    )


def box(key: str, title: str, items: Iterable[str]) -> str:
    """A box of transcripts, closed until a number or a reader opens it."""
    return (
        f'<details class="box" id="{escape(key)}"><summary>{escape(title)}</summary>'
        '<p class="note filter" aria-live="polite"></p>'
        f"{''.join(items)}</details>"
    )


def _turn(record: Mapping[str, Any]) -> str:
    counts = {
        name: part.numerator > 0
        for name, (_, read) in TURN_FIGURES.items()
        if (part := read(record)) is not None
    }
    said = record["text"] or "\n".join(
        f"{call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}"
        for call in record["calls"]
    )
    score = record["score"]
    found = score["stall"] or "; ".join(score["faults"]) or ", ".join(score["asked"])
    body = segment("user", "user", record["request"]) + segment("decides", "decides", said)
    return item(
        record["tool"], record["behaviour"], record["request"], counts, _right(record), found, body
    )


def _right(record: Mapping[str, Any]) -> bool:
    score = record["score"]
    if record["behaviour"] == "dispatch":
        return bool(score["dispatched"])
    if record["behaviour"] == "clarify":
        return not score["executed"] and set(score["asked"]) == set(record["missing"])
    return bool(score["declined"])


def item(
    tool: str,
    behaviour: str,
    request: str,
    counts: Mapping[str, bool],
    right: bool,
    found: str,
    body: str,
) -> str:
    """One transcript; `counts` says which figures count it, as a yes or as a no."""
    yes = " ".join(name for name, counted in counts.items() if counted)
    no = " ".join(name for name, counted in counts.items() if not counted)
    mark = '<b class="good">right</b>' if right else '<b class="bad">wrong</b>'
    note = f'<p class="note">{escape(_cut(found))}</p>' if found else ""
    return (
        f'<details class="transcript" data-yes="{escape(yes)}" data-no="{escape(no)}"><summary>'
        f"{mark} {escape(behaviour)}, <code>{escape(tool)}</code>: {escape(request[:120])}"
        f"</summary>{body}{note}</details>"
    )


def segment(kind: str, who: str, text: str) -> str:
    """One segment of a transcript, in its colour."""
    return (
        f'<div class="seg seg-{kind}"><span class="who">{escape(who)}</span>'
        f"<pre>{escape(_cut(text))}</pre></div>"
    )


def _cut(text: str) -> str:
    return text if len(text) <= CHARS else f"{text[:CHARS]}... ({len(text)} characters)"


def episode_box(
    key: str, title: str, rows: Sequence[Mapping[str, Any]], scores: Sequence[Mapping[str, Any]]
) -> str:
    """Whole episodes, every segment in its colour and the turn that decides marked."""
    by_run = {(score["scenario"], score["run"]): score for score in scores}
    items = (_episode(row, by_run.get((row["scenario"]["id"], row["run"]), {})) for row in rows)
    return box(key, title, items)


def _episode(record: Mapping[str, Any], score: Mapping[str, Any]) -> str:
    counts = {name: top > 0 for name, (top, _) in score.get("parts", {}).items()}
    try:
        scenario = scenario_from_dict(record["scenario"])
        messages = messages_from_dicts(record["messages"])
    except DataError as error:
        return f'<p class="missing">Not shown: {escape(str(error))}</p>'
    kind = f"{scenario.kind} " if scenario.kind else ""
    return item(
        scenario.tool,
        f"{kind}{scenario.behaviour}",
        scenario.request,
        counts,
        bool(score.get("success")),
        record["outcome"] if record["outcome"] != "answered" else "",
        "".join(_segments(messages, decision_place(messages, scenario))),
    )


def _segments(messages: Sequence[Message], decision: int | None) -> Iterator[str]:
    for place, message in enumerate(messages):
        if message.role == "system":
            steering, _, rest = message.content.partition("\n")
            yield segment("steering", "steering", steering)
            yield segment("system", "system", rest)
        elif message.role == "user":
            kind = "nudge" if message.synthetic else "user"
            yield segment(kind, kind, message.content)
        elif message.role == "assistant":
            calls = (
                f"{call.name} {json.dumps(dict(call.arguments), ensure_ascii=False)}"
                for call in message.tool_calls
            )
            text = "\n".join((message.content, *calls)).strip()
            kind = "decides" if place == decision else "assistant"
            yield segment(kind, kind, text)
        else:
            yield from _payload(message.content)


def _payload(content: str) -> Iterator[str]:
    payload = json_object(content)
    step = payload.pop("next_step", None)
    kind = _LAYERS.get(str(payload.get("layer")), "tool_result")
    body = json.dumps(payload, indent=1, ensure_ascii=False) if payload else content
    yield segment(kind, kind.replace("_", " "), body)
    if step is not None:
        yield segment("breadcrumb", "breadcrumb", str(step))
