"""Text of others on a terminal: nothing hidden, nothing obeyed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.visible import plain, visible


@given(st.text())
def test_visible_text_hides_nothing_and_is_stable(text: str) -> None:
    shown = visible(text)
    assert all(char.isprintable() for char in shown)
    assert visible(shown) == shown


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


def test_model_text_keeps_its_lines_and_spaces() -> None:
    assert plain("a    b\n\tc\u202e\x1b[2K") == "a    b\n\tc\\u202e\\u001b[2K"
