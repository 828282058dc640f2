"""Find tools by what they do: BM25 over names split into words, descriptions, keywords, requests.

Where an encoder is given, the ranking by meaning is fused with it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from breadcrumbs.gateway.catalog import Catalog, ToolSpec

if TYPE_CHECKING:
    import numpy as np

RELEVANCE_FLOOR = 0.35
"""Hits below this share of the best hit's score are noise and are not shown."""
MIN_QUERY_SHARE = 0.34
"""A hit must hold at least this share of the query's words; else nothing fits."""
MIN_SIMILARITY = 0.25
"""With embeddings: a hit's nearness to the query is at least this; else nothing fits."""
NEAREST = 2
"""With embeddings: as many of a tool's requests as count, the nearest to the query."""
MEANING_WEIGHT, RANK_OFFSET, FUSED = 2.0, 10, 100
"""Fusion: a rank by meaning counts twice one by words; how flat ranks weigh; how many are fused.

Weight and offset were chosen on one half of BFCL's requests, not on the project's own.
"""
Hit = tuple[float, int]
"""A score, and the place of a tool."""
Embed = Callable[[Sequence[str]], Any]
"""Texts to unit vectors, one row each: a float array."""
MAX_QUERY = 4_096
"""Characters of a query that are looked at; no request for a tool is longer."""
_WORD = re.compile(r"[a-z0-9]{1,64}")
"""Stems are kept; an endless word would be kept too."""
STOPWORDS = frozenset(
    _WORD.findall(
        """a an the this that these those some any each every all both no not
        i me my mine we us our ours you your yours he him his she her hers it its they them their
        theirs one ones someone somebody something anyone anything everyone everything
        am is are was were be been being do does did doing have has had having will would shall
        should can could may might must ll ve re d m s t
        and or but nor so if than then as because while when where which who whom whose what why
        how whether of in on at by with for to from into onto about there here
        please thanks thank hi hello hey just really very too also only even still
        want wants wanted need needs needed let lets like help get got new tool use"""
    )
)
"""Function words, and what politeness and wishing add to a request: they name no tool."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SUFFIXES = ("ations", "ation", "ings", "ing", "ies", "ed", "es", "s", "e")


class ToolIndex:
    """An index over one catalog; building it costs, querying is cheap.

    With `embed`, a tool is also found by what it means: both rankings are fused by reciprocal
    rank, and what is near enough in meaning needs no word in common with the query.
    """

    def __init__(self, catalog: Catalog, embed: Embed | None = None) -> None:
        self._specs = [catalog.tools[name] for name in catalog.names()]
        documents = [_document(spec) for spec in self._specs]
        self._index: Any = None
        if any(documents):
            import bm25s  # brings numpy

            # It sets its own logger to DEBUG, which would talk over ours.
            logging.getLogger("bm25s").setLevel(logging.WARNING)

            self._index = bm25s.BM25()
            self._index.index(documents, show_progress=False)
        self._meaning = _Meaning(self._specs, embed) if embed and self._specs else None

    def search(
        self,
        query: str,
        limit: int,
        roles: Sequence[str] = (),
        hidden: Container[str] = (),
    ) -> list[ToolSpec]:
        """The best `limit` tools the roles may use, best first; none where nothing fits.

        A tool that is `hidden`, or closed to the roles, leaves no trace: relevance is measured
        against the best tool that may be shown.
        """

        def seen(hit: Hit) -> bool:
            spec = self._specs[hit[1]]
            return spec.name not in hidden and spec.open_to(roles)

        if limit < 1:
            return []
        query = query[:MAX_QUERY]
        worded = filter(seen, self._by_words(query, MIN_QUERY_SHARE))
        ranked = worded if self._meaning is None else self._fused(query, seen)
        hits: list[ToolSpec] = []
        floor = 0.0
        for score, place in ranked:
            if score < floor or len(hits) == limit:
                break
            floor = floor or RELEVANCE_FLOOR * score
            hits.append(self._specs[place])
        return hits

    def _by_words(self, query: str, share: float) -> Iterator[Hit]:
        """Every tool that holds a word of the query, and at least this share, best first."""
        asked = set(stems(query))
        vocabulary = self._index.vocab_dict if self._index else {}
        # Scores are sums of floats: in sorted order, so that they are the same in every process.
        words = [vocabulary[word] for word in sorted(asked) if word in vocabulary]
        if not words:
            return
        scores = self._index.get_scores_from_ids(words)
        places = (self._held(words) >= max(1, share * len(asked))).nonzero()[0]
        yield from _best_first(scores, places)

    def _held(self, words: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """How many of the words each tool holds; a word lists each of its tools once."""
        import numpy as np

        starts, tools = self._index.scores["indptr"], self._index.scores["indices"]
        lists = [tools[starts[word] : starts[word + 1]] for word in words]
        return np.bincount(np.concatenate(lists), minlength=len(self._specs))

    def _by_meaning(self, query: str) -> Iterator[Hit]:
        """Every tool that is near enough to the query, nearest first."""
        assert self._meaning is not None
        near = self._meaning.near(query)
        yield from _best_first(near, (near >= MIN_SIMILARITY).nonzero()[0])

    def _fused(self, query: str, seen: Callable[[Hit], bool]) -> list[Hit]:
        """Tools near in meaning, by both rankings. Only what is seen takes a rank."""
        near = self._by_meaning(query) if stems(query) else ()
        fused: dict[int, float] = {}
        for rank, (_, place) in enumerate(islice(filter(seen, near), FUSED), start=1):
            fused[place] = MEANING_WEIGHT / (RANK_OFFSET + rank)
        worded = islice(filter(seen, self._by_words(query, 0.0)), FUSED)
        for rank, (_, place) in enumerate(worded, start=1):
            if place in fused:
                fused[place] += 1 / (RANK_OFFSET + rank)
        return sorted(((score, place) for place, score in fused.items()), key=_order)


def _best_first(scores: Any, places: Any) -> Iterator[Hit]:
    # Places are in order of name; a stable sort leaves equal scores so.
    for place in places[(-scores[places]).argsort(kind="stable")]:
        yield float(scores[place]), int(place)


def _order(hit: Hit) -> tuple[float, int]:
    return -hit[0], hit[1]


_INDEXES: WeakKeyDictionary[Catalog, dict[Embed | None, ToolIndex]] = WeakKeyDictionary()


def index_of(catalog: Catalog, embed: Embed | None = None) -> ToolIndex:
    """The index of the catalog this one was cut from, built once; search must hide what was cut."""
    whole = catalog.whole or catalog
    built = _INDEXES.setdefault(whole, {})
    if embed not in built:
        built[embed] = ToolIndex(whole, embed)
    return built[embed]


def stems(text: str) -> list[str]:
    """Lower-case words less stopwords, cut to a crude stem so that plurals and -ing meet."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in STOPWORDS]


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)] + ("y" if suffix == "ies" else "")
    return word


def _document(spec: ToolSpec) -> list[str]:
    name = spec.name.replace("_", " ")
    apart = _HUMP.sub(" ", name)
    if apart != name:  # `listDecks` is found by its words as well as whole
        name = f"{name} {apart}"
    # The name counts twice: it is the shortest true description of what a tool does.
    return stems(" ".join([name, name, spec.description, *spec.keywords, *spec.requests]))


class _Meaning:
    """How near each tool is to a query in meaning.

    Half of it is what the tool says it does and everything known of it; half, where there are
    any, the requests it fulfils.
    """

    def __init__(self, specs: Sequence[ToolSpec], embed: Embed) -> None:
        import numpy as np

        names = [spec.name.replace("_", " ") for spec in specs]
        whole = [
            f"{spec.domain}: {name}. {spec.description} {', '.join(spec.keywords)}"
            for spec, name in zip(specs, names, strict=True)
        ]
        said = [spec.description or name for spec, name in zip(specs, names, strict=True)]
        self._embed = embed
        self._views = (embed(said) + embed(whole)) / 2  # (tools, width)
        self._requests = embed([text for spec in specs for text in spec.requests])
        self._counts = np.array([len(spec.requests) for spec in specs])

    def near(self, query: str) -> Any:
        """Nearness of every tool, a mean of cosines: (tools,)."""
        import numpy as np

        asked = self._embed([query])[0]
        near = self._views @ asked
        if not len(self._requests):
            return near
        # One row a tool, its nearest requests last; what fills a row up is nearer to nothing.
        slots = np.full((len(near), max(int(self._counts.max()), NEAREST)), -np.inf)
        slots[np.arange(slots.shape[1]) < self._counts[:, None]] = self._requests @ asked
        kept = np.sort(slots, axis=1)[:, -NEAREST:]
        counted = np.minimum(self._counts, NEAREST)
        total = np.where(np.isfinite(kept), kept, 0).sum(axis=1)
        return np.where(counted > 0, (near + total / np.maximum(counted, 1)) / 2, near)
