"""The fast search answers exactly as its definition, written out tool by tool, does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import bm25s
from hypothesis import given, settings
from hypothesis import strategies as st

from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.search import MIN_QUERY_SHARE, RELEVANCE_FLOOR, ToolIndex, stems

WORDS = ("ticket", "tickets", "open", "opening", "room", "rooms", "refund", "order", "list", "the")
ROLES = ("admin", "staff")


def document(spec: ToolSpec) -> list[str]:
    name = spec.name.replace("_", " ")
    told = " ".join([*spec.keywords, *spec.requests])
    return stems(f"{name} {name} {spec.description} {told}")


def defined(
    catalog: Catalog,
    query: str,
    limit: int,
    roles: Sequence[str] = (),
    hidden: Collection[str] = (),
    unseen_counts: bool = False,
) -> list[str]:
    """What a search means, slowly; `unseen_counts` is the fault the negative control plants."""
    specs = [catalog.tools[name] for name in catalog.names()]
    documents = [document(spec) for spec in specs]
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    asked = set(stems(query))
    known = [word for word in sorted(asked) if word in index.vocab_dict]
    if not known or limit < 1:
        return []
    scores = index.get_scores(known)
    fitting = [
        (float(scores[place]), spec.name, spec.name not in hidden and spec.open_to(roles))
        for place, spec in enumerate(specs)
        if scores[place] > 0 and len(asked & set(documents[place])) >= MIN_QUERY_SHARE * len(asked)
    ]
    best = max((score for score, _, seen in fitting if seen or unseen_counts), default=0.0)
    ranked = sorted((-score, name) for score, name, seen in fitting if seen)
    return [name for score, name in ranked if -score >= RELEVANCE_FLOOR * best][:limit]


def found(catalog: Catalog, query: str, limit: int, *rest: Collection[str]) -> list[str]:
    return [spec.name for spec in ToolIndex(catalog).search(query, limit, *rest)]  # type: ignore[arg-type]


def tool(
    name: str,
    description: str = "",
    *,
    keywords: Sequence[str] = (),
    requests: Sequence[str] = (),
    allow: str = "",
) -> ToolSpec:
    allowed = (allow,) if allow else ()
    words = tuple(keywords), tuple(requests)
    return ToolSpec(name, description, {}, Risk.READ, "made", *words, allow=allowed)


texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
specs = st.builds(
    tool,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map("_".join),
    texts,
    keywords=st.lists(st.sampled_from(WORDS), max_size=3),
    requests=st.lists(texts, max_size=2),
    allow=st.sampled_from(["", *ROLES]),
)
catalogs = st.lists(specs, min_size=1, max_size=30).map(
    lambda made: Catalog(
        {
            f"{spec.name}_{n}": tool(
                f"{spec.name}_{n}",
                spec.description,
                keywords=spec.keywords,
                requests=spec.requests,
                allow="".join(spec.allow),
            )
            for n, spec in enumerate(made)
        }
    )
)


@given(data=st.data(), catalog=catalogs, limit=st.integers(-1, 40))
@settings(max_examples=300)
def test_every_answer_is_the_defined_one(data: st.DataObject, catalog: Catalog, limit: int) -> None:
    query = data.draw(
        st.one_of(texts, st.text(max_size=20), texts.map(lambda text: f"{text} zebra x9"))
    )
    roles = data.draw(st.lists(st.sampled_from(ROLES), max_size=2))
    hidden = data.draw(st.sets(st.sampled_from(catalog.names()), max_size=3))
    assert found(catalog, query, limit, roles, hidden) == defined(
        catalog, query, limit, roles, hidden
    )


def test_the_comparison_tells_a_floor_set_by_what_is_hidden() -> None:
    """Negative control: let a hidden tool set the floor, and the two differ."""
    names = ["refund_order", *(f"open_order_{n}" for n in range(20))]
    catalog = Catalog({name: tool(name) for name in names})
    hidden = {"refund_order"}
    right = found(catalog, "refund order", 5, (), hidden)
    assert right == defined(catalog, "refund order", 5, (), hidden)
    assert right != defined(catalog, "refund order", 5, (), hidden, unseen_counts=True)


def test_tools_that_share_no_letter_with_a_query_can_still_be_indexed() -> None:
    """Names and descriptions in a script without a-z give no words at all."""
    assert found(Catalog({"日本": tool("日本", "天気")}), "weather", 5) == []
