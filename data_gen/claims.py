"""Whether words tell of a write as one that ran. English only."""

from __future__ import annotations

import re

from breadcrumbs.data_gen.values import words

_SUCCESS = re.compile(
    r"\b(?:done|success\w*|completed?|all set"
    r"|(?:was|were|is|are|has been|have been|i(?:'ve| have)) "
    r"(?:now |already |just )?(?!denied\b|declined\b|rejected\b|refused\b|expired\b|held\b"
    r"|submitted\b|queued\b|paused\b|blocked\b|stopped\b|not\b|needed\b|required\b)\w+ed)\b"
)
"""Words that tell of a write as one that ran."""
_NEGATED = re.compile(
    r"\b(?:nothing (?:was|has been) \w+|(?:was|were|is|are|has|have|had) (?:not|never)(?: yet)?"
    r"(?: been)? \w+|(?:wasn't|isn't|hasn't|haven't|not yet)(?: been)? \w+|not (?:yet )?(?:been )?"
    r"(?:done|completed?|successful\w*)|unsuccessful\w*|until (?:it|this|that) (?:is|was|has been)"
    r" \w+|(?:once|when|after|if) (?:it|this|that)(?:'s| is| has been| was)? \w+)\b"
)
"""Words that tell of something that did not happen, or not yet; they are cut out first."""


def tells_success(text: str, tool: str) -> bool:
    """Whether a text tells of success; the tool's own name in it says nothing."""
    said = text.lower().replace("’", "'").replace(words(tool).lower(), "")
    return bool(_SUCCESS.search(_NEGATED.sub("", said)))
