"""Find tools by what they do: BM25 over names split into words, descriptions and keywords."""

from __future__ import annotations

import logging
import re
from collections.abc import Container, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from breadcrumbs.gateway.catalog import Catalog, ToolSpec

if TYPE_CHECKING:
    import numpy as np

RELEVANCE_FLOOR = 0.35
"""Hits below this share of the best hit's score are noise and are not shown."""
MIN_QUERY_SHARE = 0.34
"""A hit must hold at least this share of the query's words; else nothing fits."""
_WORD = re.compile(r"[a-z0-9]+")
STOPWORDS = frozenset(
    _WORD.findall(
        "a an the to of for in on at by with and or my me i we our us you your it is be this that"
        " from please can could some any new tool use"
    )
)
_SUFFIXES = ("ations", "ation", "ings", "ing", "ies", "ed", "es", "s", "e")


class ToolIndex:
    """An index over one catalog; building it costs, querying is cheap."""

    def __init__(self, catalog: Catalog) -> None:
        self._specs = [catalog.tools[name] for name in catalog.names()]
        documents = [_document(spec) for spec in self._specs]
        self._index: Any = None
        if any(documents):
            import bm25s  # brings numpy

            # It sets its own logger to DEBUG, which would talk over ours.
            logging.getLogger("bm25s").setLevel(logging.WARNING)

            self._index = bm25s.BM25()
            self._index.index(documents, show_progress=False)

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
        hits: list[ToolSpec] = []
        floor = 0.0
        for score, spec in self._ranked(query) if limit > 0 else ():
            if score < floor or len(hits) == limit:
                break
            if spec.name not in hidden and spec.open_to(roles):
                floor = floor or RELEVANCE_FLOOR * score
                hits.append(spec)
        return hits

    def _ranked(self, query: str) -> Iterator[tuple[float, ToolSpec]]:
        """Every tool that holds enough of the query's words, with its score, best first."""
        asked = set(stems(query))
        vocabulary = self._index.vocab_dict if self._index else {}
        # Scores are sums of floats: in sorted order, so that they are the same in every process.
        words = [vocabulary[word] for word in sorted(asked) if word in vocabulary]
        if not words:
            return
        scores = self._index.get_scores_from_ids(words)
        places = (self._held(words) >= MIN_QUERY_SHARE * len(asked)).nonzero()[0]
        # Places are in order of name; a stable sort leaves equal scores so.
        best_first = places[(-scores[places]).argsort(kind="stable")]
        for place in best_first:
            yield float(scores[place]), self._specs[place]

    def _held(self, words: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """How many of the words each tool holds; a word lists each of its tools once."""
        import numpy as np

        starts, tools = self._index.scores["indptr"], self._index.scores["indices"]
        lists = [tools[starts[word] : starts[word + 1]] for word in words]
        return np.bincount(np.concatenate(lists), minlength=len(self._specs))


_INDEXES: WeakKeyDictionary[Catalog, ToolIndex] = WeakKeyDictionary()


def index_of(catalog: Catalog) -> ToolIndex:
    """The index of the catalog this one was cut from, built once; search must hide what was cut."""
    whole = catalog.whole or catalog
    if whole not in _INDEXES:
        _INDEXES[whole] = ToolIndex(whole)
    return _INDEXES[whole]


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
    # The name counts twice: it is the shortest true description of what a tool does.
    return stems(f"{name} {name} {spec.description} {' '.join(spec.keywords)}")
