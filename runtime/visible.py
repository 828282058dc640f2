"""Text of others for a terminal: what it would hide or obey is written out instead."""

from __future__ import annotations

import re
import unicodedata

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
    "\u2800\U00016fe4\U0001d159]"
)
"""Unicode's Default_Ignorable_Code_Point (which `unicodedata` lacks), and three drawn as blanks."""


def visible(text: str) -> str:
    r"""Text with everything a terminal hides or obeys written out, such as `\u202e`.

    Covers control, bidirectional, zero-width and filler characters, odd spaces, variation
    selectors, and padding: a third space in a row and later ones become `\u0020`.
    """
    padded = re.sub(r" {3,}", lambda m: "  " + "\\u0020" * (len(m.group()) - 2), text)
    return "".join(_escape(char) if _is_hidden(char) else char for char in padded)


def plain(text: str) -> str:
    """Model text for the screen: its lines and spaces stay, hidden characters are written out."""
    return "".join(
        _escape(char) if _is_hidden(char) and char not in "\n\t" else char for char in text
    )


def smuggled(text: str) -> str | None:
    """The first character that no eye sees, if there is one.

    Blanks, line ends, tabs and the mark that picks an emoji's drawing are none, nor is what this
    Python's Unicode does not know yet.
    """
    return next((char for char in text if char not in "\n\t\ufe0f" and _is_smuggled(char)), None)


def _is_smuggled(char: str) -> bool:
    kind = unicodedata.category(char)
    return _UNSEEN.match(char) is not None or kind in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _is_hidden(char: str) -> bool:
    if char.isascii() and char.isprintable():
        return False
    kind = unicodedata.category(char)
    return kind in _HIDDEN or kind == "Zs" or _UNSEEN.match(char) is not None


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
