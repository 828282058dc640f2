"""When2Call's judge set without its judge: a call, a question, or neither, in this gateway.

An item that asks for a value which its own question still holds, word for word or within one, is
faulty: asking is not right there. Such items are counted in a set of their own.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from breadcrumbs.errors import CatalogError, DataError
from breadcrumbs.eval.outside_items import (
    AS_WRITTEN,
    GoldCall,
    Item,
    Loaded,
    Side,
    import_tools,
    read_lines,
)
from breadcrumbs.gateway.imports.reading import parse_json

SET, FAULTY = "when2call", "when2call_faulty"
ANSWERS: Mapping[str, Side] = {
    "tool_call": "dispatch",
    "request_for_info": "clarify",
    "cannot_answer": "decline",
}
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(config=AS_WRITTEN)
class _Entry:
    uuid: str
    question: str
    correct_answer: str
    answers: dict[str, str]
    tools: list[str]
    held_out_param: str | None = None


def load_when2call(path: Path) -> Loaded:
    """The items of `when2call_test_llm_judge.jsonl`.

    Raises:
        DataError: the file is missing or is not When2Call's.
    """
    items: list[Item] = []
    left_out: Counter[str] = Counter()
    for entry in read_lines(path, _Entry):
        item = _item(entry, f"{path}, {entry.uuid}")
        if item is None:
            left_out["a tool cannot be imported"] += 1
        else:
            items.append(item)
    return Loaded(tuple(items), {SET: left_out}, (path,))


def _item(entry: _Entry, where: str) -> Item | None:
    """None where a tool cannot be imported."""
    side = ANSWERS.get(entry.correct_answer)
    if side is None:
        raise DataError(
            f"{where}: correct_answer {entry.correct_answer[:40]!r}; {', '.join(ANSWERS)} are known"
        )
    definitions = [_object(text, where) for text in entry.tools]
    found = import_tools(definitions, where, "when2call")
    if found.refused:
        return None
    catalog = found.catalog()
    call = _gold(entry, where) if side != "decline" else None
    if call is not None and catalog.tool(call.tool) is None:
        raise DataError(f"{where}: the right call is of {call.tool[:80]!r}, which is not offered")
    is_faulty = side == "clarify" and call is not None and asks_for_what_was_said(entry, call)
    return Item(
        id=entry.uuid,
        group=FAULTY if is_faulty else SET,
        cluster=entry.uuid,
        side=side,
        request=entry.question,
        catalog=catalog,
        read=tuple(tool.spec.name for tool in found.tools),
        calls=() if call is None else (call,),
    )


def _gold(entry: _Entry, where: str) -> GoldCall:
    call = _object(entry.answers.get("tool_call", ""), where)
    name, arguments = call.get("name"), call.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise DataError(f"{where}: answers.tool_call has no name and arguments")
    return GoldCall(name, arguments)


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        value = parse_json(text, where)
    except CatalogError as error:
        raise DataError(str(error)) from error
    if not isinstance(value, dict):
        raise DataError(f"{where}: {text[:40]!r} is no JSON object")
    return value


def asks_for_what_was_said(entry: _Entry, call: GoldCall) -> bool:
    """Whether the question holds the letters of the value that is said to be held out.

    Case and punctuation do not count. Letters inside a longer word or number do: the test is the
    plainest one, and finds what a reader would call faulty and a little more.
    """
    if entry.held_out_param is None or entry.held_out_param not in call.arguments:
        return False
    value = call.arguments[entry.held_out_param]
    held = _letters(value if isinstance(value, str) else json.dumps(value))
    return bool(held) and held in _letters(entry.question)


def _letters(text: str) -> str:
    return _NO_LETTERS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()
