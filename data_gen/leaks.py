"""Does a data set hold what a benchmark holds: the same or nearly the same requests and tools?

The same: equal hashes of the normalised words of a request, or of a tool's name, description and
schema. Nearly: sets of words that overlap by a Jaccard share of at least `NEAR`; MinHash finds the
candidates, the sets themselves decide.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.outside import Tool, parts, read_outside, tool_of
from breadcrumbs.data_gen.stats import disclosed
from breadcrumbs.progress import Report

NEAR = 0.8
CANDIDATE = 0.6
"""MinHash's own threshold: lower, since it misses half of the pairs that lie just at its own."""
PERMUTATIONS = 128
SHINGLE_WORDS = 3
Kind = Literal["request", "tool"]
KINDS: tuple[Kind, ...] = ("request", "tool")


@dataclass(frozen=True, slots=True)
class Overlap:
    """One request or tool of the data set and what is most like it outside."""

    kind: Kind
    similarity: float
    """1.0 with equal hashes, else the Jaccard share."""
    exact: bool
    rows: tuple[str, ...]
    """Ids of the rows that hold it."""
    text: str
    file: str
    where: str
    found: str


@dataclass(frozen=True, slots=True)
class Leaks:
    """What was compared and what overlaps."""

    compared: Mapping[Kind, int]
    """Distinct requests and tools of the data set."""
    outside: Mapping[str, Mapping[Kind, int]]
    """Distinct texts and tools by file."""
    overlaps: tuple[Overlap, ...]

    def number(self, kind: Kind, *, exact: bool) -> int:
        """How many requests or tools of the data set overlap in this way."""
        return sum(o.kind == kind and o.exact == exact for o in self.overlaps)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        found: dict[str, Any] = {
            kind: {
                "compared": self.compared[kind],
                "exact": self.number(kind, exact=True),
                "near": self.number(kind, exact=False),
            }
            for kind in KINDS
        }
        outside = {path: dict(numbers) for path, numbers in self.outside.items()}
        overlaps = [asdict(overlap) for overlap in self.overlaps]
        return {"near_from": NEAR, **found, "outside": outside, "overlaps": overlaps}


@dataclass(slots=True)
class _Item:
    """A request or tool of the data set."""

    kind: Kind
    text: str
    words: frozenset[str]
    rows: dict[str, None] = field(default_factory=dict)
    best: Overlap | None = None

    def take(self, similarity: float, exact: bool, place: tuple[str, str], found: str) -> None:
        if self.best is None or (exact, similarity) > (self.best.exact, self.best.similarity):
            rows = tuple(self.rows)
            args = (self.kind, similarity, exact, rows, self.text, *place, found)
            self.best = Overlap(*args)


def leaks(rows: Sequence[Row], files: Sequence[Path], progress: Report) -> Leaks:
    """Compare the requests and tools of some rows with everything in some files.

    Raises:
        DataError: a file cannot be read.
    """
    indexes = {kind: _Index(kind) for kind in KINDS}
    for row in rows:
        for kind, text, key, words in _of_row(row):
            indexes[kind].add(text, key, words, row.id)
    outside = {str(path): _search(path, indexes, progress) for path in files}
    items = [item for kind in KINDS for item in indexes[kind].items.values()]
    return Leaks(
        {kind: len(indexes[kind].items) for kind in KINDS},
        outside,
        tuple(item.best for item in items if item.best is not None),
    )


class _Index:
    """The requests or the tools of a data set, by hash and by MinHash."""

    def __init__(self, kind: Kind) -> None:
        from datasketch import MinHashLSH

        self.kind = kind
        self.items: dict[str, _Item] = {}
        self.near = MinHashLSH(threshold=CANDIDATE, num_perm=PERMUTATIONS)
        self.longest = 0

    def add(self, text: str, key: str, words: frozenset[str], row_id: str) -> None:
        if key not in self.items:
            self.items[key] = _Item(self.kind, text, words)
            self.longest = max(self.longest, len(words))
            if words:
                self.near.insert(key, _sketch(words))
        self.items[key].rows[row_id] = None

    def look_up(self, text: str, key: str, words: frozenset[str], place: tuple[str, str]) -> None:
        """Note on every item that it is, or is nearly, this text."""
        if key in self.items:
            self.items[key].take(1.0, True, place, text)
        if not words or NEAR * len(words) > self.longest:
            return  # longer than any near one can be
        for candidate in self.near.query(_sketch(words)):
            item = self.items[candidate]
            share = len(words & item.words) / len(words | item.words)
            if share >= NEAR and candidate != key:
                item.take(share, False, place, text)


def _search(path: Path, indexes: Mapping[Kind, _Index], progress: Report) -> dict[Kind, int]:
    """Look up everything in a file; returns how many texts and tools it was."""
    documents = read_outside(path)
    seen: dict[Kind, set[str]] = {kind: set() for kind in KINDS}
    for number, (where, document) in enumerate(documents, 1):
        for part in parts(document):
            for kind, text, key, words in _of_part(part):
                if key not in seen[kind]:
                    seen[kind].add(key)
                    indexes[kind].look_up(text, key, words, (str(path), where))
        progress(number, len(documents), path.name)
    return {kind: len(keys) for kind, keys in seen.items()}


_Entry = tuple[Kind, str, str, frozenset[str]]
"""Kind, the text as it stands, its hash, and the words or runs of words it is compared by."""


def _of_row(row: Row) -> Iterator[_Entry]:
    for message in row.messages:
        if message.role == "user" and not message.synthetic:
            yield _request(message.content)
    for definition in disclosed(row.messages):
        tool = tool_of(definition)
        if tool is not None:
            yield _tool(tool)


def _of_part(part: str | Tool) -> Iterator[_Entry]:
    """A tool, or a text: whole, and each of its lines by itself."""
    if isinstance(part, Tool):
        yield _tool(part)
        return
    yield _request(part)
    if "\n" in part:
        for line in part.split("\n"):
            if line.strip():
                yield _request(line)


def _request(text: str) -> _Entry:
    words = normalise(text).split()
    runs = range(max(1, len(words) - SHINGLE_WORDS + 1)) if words else range(0)
    shingles = frozenset(" ".join(words[i : i + SHINGLE_WORDS]) for i in runs)
    return "request", text, _digest(" ".join(words)), shingles


def _tool(tool: Tool) -> _Entry:
    schema = json.dumps(tool.schema, sort_keys=True, default=str)
    names = " ".join(_names(tool.schema))
    words = frozenset(normalise(f"{tool.name} {tool.description} {names}").split())
    key = _digest(json.dumps([tool.name, tool.description, schema]))
    return "tool", f"{tool.name}: {tool.description}", key, words


def _names(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        yield from map(str, properties)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _sketch(words: frozenset[str]) -> Any:
    from datasketch import MinHash

    sketch = MinHash(num_perm=PERMUTATIONS)
    sketch.update_batch([word.encode("utf-8", "surrogatepass") for word in sorted(words)])
    return sketch
