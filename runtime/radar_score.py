"""Scores the radar on labelled agent turns: precision and recall, whole and by part.

A case is one line of JSON: the turn's `text`, its `context` (what the user said, the disclosed
tool and its parameters, what happened before), and a `label`. The radar is shown text and context
alone; label, language and kind only sort the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from breadcrumbs.asking import Parameter
from breadcrumbs.errors import DataError
from breadcrumbs.radar import LAYERS, MARKERS, Disclosed, Layer, Radar, Since

MAX_LINE_BYTES = 4_000_000
_NONE = object()


class _Parameter(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    name: str
    type: str | list[str] = "string"
    required: bool = False
    description: str = ""
    default: Any = Field(default=_NONE)
    format: str = ""
    enum: list[Any] = Field(default_factory=list)


class _Context(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    user: str
    tool: str
    parameters: list[_Parameter]
    history: list[str]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    text: str
    context: _Context
    label: Literal["stall", "legitimate"]
    language: str = "unknown"
    kind: str = "unknown"


@dataclass(frozen=True, slots=True)
class Case:
    """One labelled turn, ready for the radar."""

    text: str
    situation: Disclosed
    is_stall: bool
    language: str
    kind: str


def read_cases(path: Path) -> list[Case]:
    """The cases of a JSONL file, empty lines left out.

    Raises:
        DataError: the file cannot be read, holds no case, or a line is no case.
    """
    cases: list[Case] = []
    try:
        with path.open("rb") as lines:
            number = 0
            while line := lines.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise DataError(f"{path}:{number}: longer than {MAX_LINE_BYTES} bytes")
                if line.strip():
                    cases.append(_case(line, f"{path}:{number}"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    if not cases:
        raise DataError(f"{path} holds no case; see docs/radar.md for what a line looks like")
    return cases


def _case(line: bytes, where: str) -> Case:
    try:
        read = _Line.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(str(part) for part in first["loc"])
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise DataError(f"{where}: {at or 'line'}: {first['msg']}{more}") from error
    return Case(
        read.text,
        situation_from(
            read.context.user, read.context.tool, _parameters(read), read.context.history
        ),
        read.label == "stall",
        read.language,
        read.kind,
    )


def _parameters(read: _Line) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            one.name,
            one.required,
            one.default is not _NONE,
            one.type if isinstance(one.type, str) else next(iter(one.type), "string"),
            one.format,
            one.description,
            tuple(str(choice) for choice in one.enum),
        )
        for one in read.context.parameters
    )


def situation_from(
    user: str, tool: str, parameters: tuple[Parameter, ...], history: Sequence[str]
) -> Disclosed:
    """The situation that a history of steps (`search`, `schema`, `read_ok`, ...) leads to."""
    if "schema" not in history:
        return Disclosed(tool, parameters, user, executed=True)
    after = history[len(history) - list(history)[::-1].index("schema") :]
    held = any(step.startswith("approval") for step in after)
    done = bool(after) and after[-1] == "execute_ok"
    since: Since = "nothing"
    if after:
        since = "work" if any(step.startswith("execute") for step in after) else "read"
    return Disclosed(tool, parameters, user, held or done, since=since)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts over some cases."""

    n: int
    stalls: int
    flagged: int
    hits: int

    def to_dict(self) -> dict[str, float | int | None]:
        """Shares and counts; a share of nothing is None."""
        both = self.flagged + self.stalls
        return {
            "precision": self.hits / self.flagged if self.flagged else None,
            "recall": self.hits / self.stalls if self.stalls else None,
            "f1": 2 * self.hits / both if self.stalls and both else None,
            "n": self.n,
            "stalls": self.stalls,
            "flagged": self.flagged,
            "hits": self.hits,
        }


def tally(cases: Sequence[Case], flags: Iterable[bool]) -> Tally:
    """Counts of what was flagged and what should have been."""
    pairs = [(case.is_stall, flag) for case, flag in zip(cases, flags, strict=True)]
    return Tally(
        len(pairs),
        sum(stall for stall, _ in pairs),
        sum(flag for _, flag in pairs),
        sum(stall and flag for stall, flag in pairs),
    )


def score(cases: Sequence[Case], without: Collection[Layer] = ()) -> dict[str, Any]:
    """Precision, recall and F1: whole, by language, by kind, by layer, and of the markers.

    `layers` shows each layer behind the gate by itself (`gate`: everything that passes it), and
    under `without` the radar with all others. `markers` is the original substring list on the
    text alone.
    """
    used = tuple(layer for layer in LAYERS if layer not in without)
    flags = _flags(cases, used)
    foreign = [i for i, case in enumerate(cases) if case.language != "en"]
    overall = tally(cases, flags).to_dict()
    return {
        "overall": {
            **overall,
            "non_english": tally(
                [cases[i] for i in foreign], [flags[i] for i in foreign]
            ).to_dict(),
        },
        "by_language": _by(cases, flags, lambda case: case.language),
        "by_kind": _by(cases, flags, lambda case: case.kind),
        "layers": {layer: _layer(cases, used, layer) for layer in used},
        "markers": tally(cases, [_marked(case.text) for case in cases]).to_dict(),
    }


def _flags(cases: Sequence[Case], layers: Sequence[Layer]) -> list[bool]:
    radar = Radar(layers=layers)
    return [radar.classify(case.text, case.situation) is not None for case in cases]


def _layer(cases: Sequence[Case], used: Sequence[Layer], layer: Layer) -> dict[str, Any]:
    if layer == "gate":
        radar = Radar()
        alone = [radar.passes_gate(case.situation) for case in cases]
    else:
        alone = _flags(cases, [one for one in used if one in ("gate", layer)])
    others = _flags(cases, [one for one in used if one != layer])
    return {**tally(cases, alone).to_dict(), "without": tally(cases, others).to_dict()}


def _by(
    cases: Sequence[Case], flags: Sequence[bool], key: Callable[[Case], str]
) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[int]] = {}
    for i, case in enumerate(cases):
        groups.setdefault(key(case), []).append(i)
    return {
        name: tally([cases[i] for i in group], [flags[i] for i in group]).to_dict()
        for name, group in sorted(groups.items())
    }


def _marked(text: str) -> bool:
    lowered = text.lower()
    return any(marker in lowered for marker in MARKERS)


def table(result: dict[str, Any]) -> list[str]:
    """A result for people, one line each."""
    lines = [f"{'':28}{'precision':>10}{'recall':>8}{'f1':>7}{'n':>6}{'flagged':>9}"]
    lines.append(_row("overall", result["overall"]))
    lines.append(_row("not English", result["overall"]["non_english"]))
    for part in ("by_language", "by_kind", "layers"):
        lines.append(part.replace("_", " "))
        for name, block in result[part].items():
            lines.append(_row(f"  {name}", block))
            if "without" in block:
                lines.append(_row("    all but it", block["without"]))
    lines.append(_row("markers", result["markers"]))
    return lines


def _row(name: str, block: dict[str, Any]) -> str:
    shares = (block["precision"], block["recall"], block["f1"])
    shown = ["-" if share is None else f"{share:.2f}" for share in shares]
    return f"{name:28}{shown[0]:>10}{shown[1]:>8}{shown[2]:>7}{block['n']:>6}{block['flagged']:>9}"
