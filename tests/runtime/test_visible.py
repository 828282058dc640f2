"""Text of others on a terminal: nothing hidden, nothing obeyed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.visible import plain, smuggled, visible


@given(st.text())
def test_visible_text_hides_nothing_and_is_stable(text: str) -> None:
    shown = visible(text)
    assert all(char.isprintable() for char in shown)
    assert visible(shown) == shown


@given(st.text(alphabet=st.characters(min_codepoint=33, max_codepoint=126)))
def test_plain_text_is_left_alone(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    "char",
    "\u00ad\u034f\u061c\u115f\u17b4\u180b\u180f\u200b\u2060\u3164\ufe0f\ufeff\uffa0"
    "\u2800\U0001bca0\U0001d159\U0001d173\U00016fe4\U000e0041\U000e01ef",
)
def test_what_no_eye_sees_is_written_out(char: str) -> None:
    assert visible(f"ad{char}min") != f"ad{char}min"
    assert smuggled(f"ad{char}min") == (None if char == "\ufe0f" else char)


@pytest.mark.parametrize("text", ["naïve café", "почта", "日本語", "مرحبا", "नमस्ते", "a\u0301"])
def test_letters_and_their_marks_are_left_alone(text: str) -> None:
    assert visible(text) == text
    assert smuggled(text) is None


def test_blanks_line_ends_and_emoji_are_not_smuggled() -> None:
    assert smuggled("a\n\tb\u00a0c \u26a0\ufe0f\U0001fae8") is None


def test_model_text_keeps_its_lines_and_spaces() -> None:
    assert plain("a    b\n\tc\u202e\x1b[2K") == "a    b\n\tc\\u202e\\u001b[2K"
