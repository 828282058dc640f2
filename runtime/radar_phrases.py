"""What the radar listens for, by language: how leave is asked, a step announced, a value wanted.

One file a language in configs/radar/, one key of its `phrases` a purpose, one regular expression
a line; `{name}` in it stands for a list or a text of its `words`. To add a language, add a file,
its code to `CODES`, and cases for it to the tests. All languages are tried on every text, since a
short turn does not say which one it is in. Texts come in lower case and NFKC form, straight
quotes, full-width marks made plain; quotations and code are blanked before the closing sentences
are searched. Every gap in a pattern is bounded, so that no text makes one slow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from pathlib import Path

from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT, load
from breadcrumbs.errors import ConfigError

CODES = ("en", "de", "fr", "es", "pt", "zh", "ja")
_NAME = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrasings of one language."""

    leave: re.Pattern[str]
    """Asks for leave to act: "shall I go ahead?", "please confirm"."""
    offer: re.Pattern[str]
    """Leave in the form of an offer, which also ends many good answers: "if you like, I can"."""
    more: re.Pattern[str]
    """What marks an offer beyond the request: "also", "another time"."""
    choice: re.Pattern[str]
    """A question between two ways: no question for leave."""
    open_question: re.Pattern[str]
    """A question that yes or no does not answer."""
    wants: re.Pattern[str]
    """Asks for values without a question mark: "please provide"."""
    announces: re.Pattern[str]
    """Says that the work begins now or soon."""
    waits: re.Pattern[str]
    """Puts the next step into the user's hands, or says that there is none."""
    refuses: re.Pattern[str]
    """Says that something cannot or may not be done."""
    mandated: re.Pattern[str]
    """A rule from outside wants the question asked, or nothing could be taken back."""
    unclear: re.Pattern[str]
    """Several things fit, or the value stands nowhere."""
    field: re.Pattern[str]
    """Words of a schema: required, optional, default, types."""
    spare: re.Pattern[str]
    """Words that say a value may be left out."""
    only_talk: re.Pattern[str]
    """A user who wants an explanation, a plan or a draft, and nothing run."""
    asks_facts: re.Pattern[str]
    """A user who asks a question, so that a read answers it."""


@checked(config=STRICT)
class _File:
    phrases: dict[str, list[str]]
    words: dict[str, str | list[str]]


@cache
def languages() -> tuple[Phrases, ...]:
    """The phrasings of all languages, compiled once.

    Raises:
        ConfigError: as `read_phrases`.
    """
    folder = Path(str(resources.files("breadcrumbs.configs"))) / "radar"
    return tuple(read_phrases(folder / f"{code}.yaml") for code in CODES)


def phrases_in(code: str) -> Phrases:
    """The phrasings of one of the `CODES`."""
    return languages()[CODES.index(code)]


def read_phrases(path: Path) -> Phrases:
    """The phrasings of one language.

    Raises:
        ConfigError: the file is missing or malformed, lacks a purpose or holds one that is none,
            names words that it does not have, or a line is no regular expression.
    """
    found = load(path, _File)
    purposes = {field.name for field in fields(Phrases)}
    if odd := sorted(purposes ^ found.phrases.keys()):
        known = ", ".join(sorted(purposes))
        raise ConfigError(f"{path}: phrases must be {known}; mend {odd[0]!r}")
    words = {name: _group(value) for name, value in found.words.items()}
    return Phrases(
        **{
            purpose: _compiled(f"{path}: {purpose}", lines, words)
            for purpose, lines in found.phrases.items()
        }
    )


def _group(value: str | list[str]) -> str:
    return value if isinstance(value, str) else f"(?:{'|'.join(value)})"


def _compiled(where: str, lines: list[str], words: Mapping[str, str]) -> re.Pattern[str]:
    try:
        text = _NAME.sub(lambda name: words[name.group(1)], "|".join(lines))
    except KeyError as error:
        raise ConfigError(
            f"{where}: there are no words {error}; add them or mend the name"
        ) from error
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise ConfigError(f"{where}: no regular expression: {error}") from error
