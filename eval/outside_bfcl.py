"""BFCL v4 turn by turn: multi-turn base and miss_param, and single-turn relevance.

Reads a folder laid out as `bfcl_eval/data` is. Its gold calls are text; they are parsed as literals
and nothing of them is run. The package's environments are not needed: only the turn after the
user's words is scored, so earlier calls go through the gateway and answer that they were done.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from breadcrumbs.errors import DataError
from breadcrumbs.eval.outside_items import (
    AS_WRITTEN,
    Exchange,
    GoldCall,
    Item,
    Loaded,
    Side,
    import_tools,
    read_lines,
)
from breadcrumbs.gateway.catalog import Catalog, ToolSpec

BASE, MISS_PARAM, SINGLE = "bfcl_base", "bfcl_miss_param", "bfcl_single_turn"
DOCS = "multi_turn_func_doc"
ANSWERS = "possible_answer"
CLASSES: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
"""The file that documents each class's functions."""
MAX_CALL = 20_000
"""Characters of one gold call."""
NO_CALL = "no gold call in the base set"


@dataclass(config=AS_WRITTEN)
class _Said:
    role: str
    content: str


@dataclass(config=AS_WRITTEN)
class _Entry:
    id: str
    question: list[list[_Said]]
    involved_classes: list[str]
    excluded_function: list[str] | None = None


@dataclass(config=AS_WRITTEN)
class _Answer:
    id: str
    ground_truth: list[list[str]]


@dataclass(config=AS_WRITTEN)
class _Single:
    id: str
    question: list[list[_Said]]
    function: list[dict[str, Any]]


def load_bfcl(folder: Path) -> Loaded:
    """All three sets of a folder.

    Raises:
        DataError: a file is missing or is not BFCL's.
    """
    files = [_questions(folder, name) for name in ("irrelevance", "live_relevance")]
    items: list[Item] = []
    left_out: dict[str, Counter[str]] = {}
    tools = _Tools(folder)
    for group, name in ((BASE, "multi_turn_base"), (MISS_PARAM, "multi_turn_miss_param")):
        turns, left_out[group] = _multi_turn(folder, group, name, tools)
        items += turns
        files += [_questions(folder, name), _answers(folder, name)]
    single, left_out[SINGLE] = _single_turn(folder)
    return Loaded((*items, *single), left_out, (*files, *tools.files))


def _questions(folder: Path, name: str) -> Path:
    return folder / f"BFCL_v4_{name}.json"


def _answers(folder: Path, name: str) -> Path:
    return folder / ANSWERS / f"BFCL_v4_{name}.json"


class _Tools:
    """The documented functions of classes, each file read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._specs: dict[str, Mapping[str, ToolSpec]] = {}
        self._catalogs: dict[tuple[str, ...], Catalog] = {}
        self.files: list[Path] = []

    def catalog(self, classes: Sequence[str], where: str) -> Catalog:
        """All functions of some classes; entries with the same classes share one index."""
        key = tuple(sorted(set(classes)))
        if key not in self._catalogs:
            tools: dict[str, ToolSpec] = {}
            for name in key:
                tools |= self._of(name, where)
            self._catalogs[key] = Catalog(tools)
        return self._catalogs[key]

    def _of(self, name: str, where: str) -> Mapping[str, ToolSpec]:
        if name not in CLASSES:
            raise DataError(f"{where}: class {name[:80]!r} is unknown; {', '.join(CLASSES)} are")
        if name not in self._specs:
            path = self._folder / DOCS / f"{CLASSES[name]}.json"
            self.files.append(path)
            found = import_tools(read_lines(path, dict[str, Any]), str(path), CLASSES[name])
            if found.refused:
                raise DataError(f"{path}: {found.refused[0].reason}")
            self._specs[name] = found.catalog().tools
        return self._specs[name]


def _multi_turn(
    folder: Path, group: str, name: str, tools: _Tools
) -> tuple[list[Item], Counter[str]]:
    path = _questions(folder, name)
    answers = {answer.id: answer for answer in read_lines(_answers(folder, name), _Answer)}
    items: list[Item] = []
    left_out: Counter[str] = Counter()
    for entry in read_lines(path, _Entry):
        where = f"{path}, {entry.id}"
        answer = answers.get(entry.id)
        if answer is None or len(answer.ground_truth) != len(entry.question):
            raise DataError(f"{where}: {ANSWERS} has no answer of as many turns; copy both files")
        catalog = tools.catalog(entry.involved_classes, where)
        exchanges = [
            Exchange(_words(said, "user"), tuple(read_call(c, catalog, where) for c in calls))
            for said, calls in zip(entry.question, answer.ground_truth, strict=True)
        ]
        used = {call.tool for exchange in exchanges for call in exchange.calls}
        hidden = set(entry.excluded_function or ()) - used
        cut = catalog.without(hidden) if hidden else catalog
        for item in _turns(entry.id, group, exchanges, cut):
            if item.side == "clarify" and group == BASE:
                left_out[NO_CALL] += 1
            else:
                items.append(item)
    return items, left_out


def _turns(
    entry: str, group: str, exchanges: Sequence[Exchange], catalog: Catalog
) -> Iterator[Item]:
    """Every turn of an entry. One without gold calls reads the schemas that the next call needs."""
    number = entry.rsplit("_", 1)[-1]
    for place, exchange in enumerate(exchanges):
        nearest = [*exchanges[place:], *reversed(exchanges[:place])]
        calls = next((one.calls for one in nearest if one.calls), ())
        side: Side = "dispatch" if exchange.calls else "clarify"
        yield Item(
            id=f"{entry}#{place}",
            group=group,
            cluster=f"multi_turn_{number}",
            side=side,
            request=exchange.request,
            catalog=catalog,
            read=tuple(dict.fromkeys(call.tool for call in calls)),
            calls=calls,
            history=tuple(exchanges[:place]),
        )


def read_call(text: str, catalog: Catalog, where: str) -> GoldCall:
    """A gold call such as `mv(source='a', destination='b')`: a name and literals, nothing else.

    Values without a name take the parameters' names in their order.

    Raises:
        DataError: it is anything else, or names a function that is not documented.
    """
    fault = DataError(f"{where}: {text[:80]!r} is no plain call of a documented function")
    if len(text) > MAX_CALL:
        raise fault
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise fault from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise fault
    spec = catalog.tool(call.func.id)
    if spec is None:
        raise fault
    names = list(spec.input_schema["properties"])
    if len(call.args) > len(names):
        raise fault
    given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
    try:
        values = {name: ast.literal_eval(node) for name, node in given if name is not None}
        plain = json.loads(json.dumps(values, allow_nan=False))
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise fault from None
    if len(values) != len(given):
        raise fault
    return GoldCall(spec.name, plain)


def _single_turn(folder: Path) -> tuple[list[Item], Counter[str]]:
    items: list[Item] = []
    left_out: Counter[str] = Counter()
    sets: tuple[tuple[str, Side], ...] = (
        ("live_relevance", "dispatch"),
        ("irrelevance", "decline"),
    )
    for name, side in sets:
        path = _questions(folder, name)
        for entry in read_lines(path, _Single):
            found = import_tools(entry.function, f"{path}, {entry.id}", name)
            if found.refused:
                left_out["a tool cannot be imported"] += 1
                continue
            said = [one for turn in entry.question for one in turn]
            items.append(
                Item(
                    id=entry.id,
                    group=SINGLE,
                    cluster=entry.id,
                    side=side,
                    request=_words(said, "user"),
                    catalog=found.catalog(),
                    read=tuple(tool.spec.name for tool in found.tools),
                    system=_words(said, "system"),
                )
            )
    return items, left_out


def _words(said: Sequence[_Said], role: str) -> str:
    return "\n".join(one.content for one in said if one.role == role)
