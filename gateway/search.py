"""Find tools by what they do: BM25 over names split into words, descriptions and keywords."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import bm25s

from breadcrumbs.gateway.catalog import Catalog, ToolSpec

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
        self._words = [_document(spec) for spec in self._specs]
        self._index: bm25s.BM25 | None = None
        if self._specs:
            self._index = bm25s.BM25()
            self._index.index(self._words, show_progress=False)

    def search(
        self,
        query: str,
        limit: int,
        roles: Sequence[str] = (),
        hidden: Collection[str] = (),
    ) -> list[ToolSpec]:
        """The best `limit` tools the roles may use, best first; none where nothing fits."""
        words = [word for word in dict.fromkeys(stems(query)) if self._known(word)]
        asked = len(set(stems(query)))
        if self._index is None or not words or limit < 1:
            return []
        scores = self._index.get_scores(words)
        order = sorted(range(len(self._specs)), key=lambda i: (-scores[i], self._specs[i].name))
        best = scores[order[0]]
        hits = []
        for place in order:
            spec = self._specs[place]
            if scores[place] <= 0 or scores[place] < RELEVANCE_FLOOR * best:
                break
            held = len(set(words) & set(self._words[place]))
            if held < MIN_QUERY_SHARE * asked or spec.name in hidden or not spec.open_to(roles):
                continue
            hits.append(spec)
            if len(hits) == limit:
                break
        return hits

    def _known(self, word: str) -> bool:
        assert self._index is not None
        return word in self._index.vocab_dict


def stems(text: str) -> list[str]:
    """Lower-case words less stopwords, cut to a crude stem so that plurals and -ing meet."""
    return [_stem(word) for word in _WORD.findall(text.lower()) if word not in STOPWORDS]


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)] + ("y" if suffix == "ies" else "")
    return word


def _document(spec: ToolSpec) -> list[str]:
    name = spec.name.replace("_", " ")
    # The name counts twice: it is the shortest true description of what a tool does.
    return stems(f"{name} {name} {spec.description} {' '.join(spec.keywords)}")
