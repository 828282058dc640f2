"""Does a system prompt still tell the model to ask or confirm before it acts?

Sentences that order it, in eight languages, are quoted with their line. A sentence that forbids
asking, or leaves approval to the gateway, is what a prompt should say; asking for a required
value that is missing is right too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from breadcrumbs.errors import DataError
from breadcrumbs.eval.audit import AuditReport, Finding
from breadcrumbs.eval.audit_phrases import LANGUAGES, Language
from breadcrumbs.files import read_text

MAX_FILE_BYTES = 4 * 1024 * 1024
_END = re.compile(r"[.!?](?=\s|$)|[。！？；;]|\n\s*\n|\n(?=\s*(?:[-*•#]|\d+[.)]))")
_BREAK = re.compile(r"[;:—]|[,，、]\s*(?:(?:and|but|always|please|instead|rather|just)\s+)*$")


@dataclass(frozen=True, slots=True)
class Demand:
    """Words that order the model to ask before acting."""

    language: str
    line: int
    """From 1."""
    words: str


def audit_prompt(path: Path) -> AuditReport:
    """Check one system prompt.

    Raises:
        DataError: the file cannot be read, is empty, or is larger than `MAX_FILE_BYTES`.
    """
    text = read_text(path, MAX_FILE_BYTES, DataError)
    if not text.strip():
        raise DataError(f"{path}: empty; name the file that holds the system prompt")
    findings = tuple(_finding(path, demand) for demand in find_demands(text))
    return AuditReport("prompt", str(path), {"lines": len(text.splitlines())}, findings)


def find_demands(text: str) -> list[Demand]:
    """Every demand to ask before acting, in the order of the text; one a sentence."""
    return [
        demand
        for start, sentence in _sentences(text)
        if (demand := _demand(text, start, sentence)) is not None
    ]


def _finding(path: Path, demand: Demand) -> Finding:
    mend = next(language.mend for language in LANGUAGES if language.code == demand.language)
    return Finding(
        "prompt",
        f"{path}:{demand.line}",
        f"tells the model to ask before it acts ({demand.language}): {demand.words!r}",
        f"drop it and let the gateway hold writes; say instead: {mend}",
    )


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for end in _END.finditer(text):
        yield start, text[start : end.end()]
        start = end.end()
    yield start, text[start:]


def _demand(text: str, start: int, sentence: str) -> Demand | None:
    # A hard-wrapped sentence reads on; one character for one keeps the places.
    plain = re.sub(r"\s", " ", sentence).replace("’", "'")
    for language in LANGUAGES:
        for found in language.demands.finditer(plain):
            if _is_vetoed(language, plain, found):
                continue
            at = start + found.start()
            words = " ".join(sentence.split())
            return Demand(language.code, text.count("\n", 0, at) + 1, words[:160])
    return None


def _is_vetoed(language: Language, sentence: str, found: re.Match[str]) -> bool:
    """Whether the words before, in the same clause, forbid it or speak of the gateway."""
    if language.exempt.search(sentence):
        return True
    if found.lastgroup == "twice":  # "never act without asking": the negation is the demand
        return False
    if language.negation_stands == "after":
        return language.negation.search(sentence, found.start(), found.end() + 20) is not None
    end = found.end() if language.negation_stands == "within" else found.start()
    breaks = [b.end() for b in _BREAK.finditer(sentence[: found.start()])]
    return language.negation.search(sentence, breaks[-1] if breaks else 0, end) is not None
