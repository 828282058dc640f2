"""Search finds by name, description and keyword, and finds nothing where nothing fits."""

import pytest

from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.search import MAX_QUERY, ToolIndex, index_of, stems


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create ticket", "create_ticket"),
        ("closing tickets", "close_ticket"),
        ("problem", "create_ticket"),
        ("add a note", "add_ticket_note"),
    ],
)
def test_the_right_tool_comes_first(desk: Catalog, query: str, first: str) -> None:
    assert ToolIndex(desk).search(query, 5)[0].name == first


@pytest.mark.parametrize("query", ["book a flight", "!!!", "", "the of and", "日本"])
def test_nothing_fits(desk: Catalog, query: str) -> None:
    assert ToolIndex(desk).search(query, 5) == []


def test_limit_and_empty_catalog(desk: Catalog) -> None:
    assert len(ToolIndex(desk).search("ticket", 2)) == 2
    assert ToolIndex(desk).search("ticket", 0) == []
    assert ToolIndex(Catalog({})).search("ticket", 5) == []


def test_closed_tools_are_not_found(desk: Catalog) -> None:
    index = ToolIndex(desk)
    assert "delete_ticket" not in {s.name for s in index.search("delete ticket", 9)}
    assert index.search("delete ticket", 9, ["admin"])[0].name == "delete_ticket"


def test_hidden_tools_leave_no_trace(desk: Catalog) -> None:
    """The best hit, hidden, must not push the rest below the floor: as if it never was."""
    index = ToolIndex(desk)
    shown = index.search("create ticket", 9, hidden={"create_ticket"})
    assert shown
    assert "create_ticket" not in {spec.name for spec in shown}


def test_a_cut_shares_the_index_of_the_whole(desk: Catalog) -> None:
    assert index_of(desk.without(["get_ticket"])) is index_of(desk)


@pytest.mark.parametrize("query", ["list decks", "listDecks", "decks"])
def test_camel_case_is_found_by_its_words_and_whole(query: str) -> None:
    specs = [ToolSpec(name, "", {}, Risk.READ, "anki") for name in ("listDecks", "addNote")]
    found = ToolIndex(Catalog({spec.name: spec for spec in specs})).search(query, 5)
    assert [spec.name for spec in found] == ["listDecks"]


def test_an_endless_query_is_cut_and_its_words_are_not_kept_whole(desk: Catalog) -> None:
    index = ToolIndex(desk)
    padding = "x" * MAX_QUERY
    assert [spec.name for spec in index.search(f"open a ticket {padding}", 5)] == [
        spec.name for spec in index.search("open a ticket", 5)
    ]
    assert index.search(f"{padding} open a ticket", 5) == []
    assert max(map(len, stems("y" * 250_000))) <= 64
