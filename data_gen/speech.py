"""What users and the assistant say, by language: one YAML file each, read once.

`plain` is the English of sets that ask for no personas. Texts hold slots in braces; they are
filled by `filled`, since values may hold braces of their own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT, parse, read_yaml

Language = Literal["en", "de", "fr", "es", "pt", "zh", "ja"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Voice = Literal["plain", "en", "de", "fr", "es", "pt", "zh", "ja"]
VOICES: tuple[Voice, ...] = get_args(Voice)
Texts = tuple[str, ...]
T = TypeVar("T")


@checked(config=STRICT)
class RequestTexts:
    """Parts of a request; which persona says which is told in `personas`."""

    sentence_gap: str
    stop: str
    greetings: dict[str, Texts]
    """By tone."""
    asks: dict[str, Texts]
    """Whole sentences by tone, `{do}` for what is wanted."""
    hurry: Texts
    stories: Texts
    reasons: dict[str, Texts]
    """Why it is wanted, by what a tool does."""
    leads: Texts
    asides: Texts
    closings: dict[str, Texts]
    flow: Texts
    """How clauses join what is wanted in one sentence."""
    gap: str
    clauses: Texts
    """Ways to say a `{value}` by its `{label}`; English ones stand in the hints."""
    line: str
    switches: dict[bool, Texts]
    quotes: str
    joiner: str
    """Before the last item of a list."""
    topic: str
    unknown: str
    """What is wanted of a tool nobody has words for."""


@checked(config=STRICT)
class QuestionTexts:
    """The assistant's question for a missing value: a frame around an ask."""

    frames: Texts
    asks: Texts


@checked(config=STRICT)
class KindTexts:
    """What the special kinds need."""

    waits: Texts
    goes: Texts
    yes: Texts
    no: Texts
    progress: Texts
    questions: Texts
    leads: Texts
    descriptions: Texts
    whole_list: str
    found_none: Texts
    found: Texts
    joiner: str
    would_run: Texts
    given: str
    told: str
    told_switch: str
    may_i: Texts
    tell_me: Texts
    not_run: str
    """What every text of `would_run` holds."""
    stays: Texts
    nothing_run: str
    """What every text of `stays` holds."""
    first_done: Texts


@checked(config=STRICT)
class AboutTexts:
    """An answer about what a tool takes."""

    needs: str
    needs_nothing: str
    optional: str
    default: str


@checked(config=STRICT)
class ReportTexts:
    """The last sentence of an episode, by what the gateway answered."""

    leads: Texts
    """In front of a report of success."""
    waiting: Texts
    denied: Texts
    expired: Texts
    failed: Texts
    done: Texts
    created: Texts
    updated: Texts
    deleted: Texts
    added: Texts
    listed: Texts
    shown: Texts
    nothing_stored: str
    it: str


@checked(config=STRICT)
class Marks:
    """What a report on a write that did not run must say, in lower case, and must not."""

    waiting: Texts
    denied: Texts
    expired: Texts
    success: str
    """A pattern for words that tell of a write as one that ran."""


@checked(config=STRICT)
class StallTexts:
    """Parts of the five kinds of stalls."""

    dump_openings: Texts
    dump_closings: Texts
    required: str
    optional: str
    permission_openings: Texts
    permission_asks: Texts
    goes: Texts
    announcements: Texts
    after: Texts
    ask_openings: Texts
    asks: Texts
    call_openings: Texts


@checked(config=STRICT)
class Speech:
    """Everything that is said in one language."""

    kinds: KindTexts
    about: AboutTexts
    reports: ReportTexts
    marks: Marks
    stalls: StallTexts
    requests: RequestTexts | None = None
    questions: QuestionTexts | None = None
    declines: Texts = ()


@dataclass(frozen=True, slots=True)
class Surface:
    """In which words a scenario is told; as it stands, of one without persona."""

    language: Language = "en"
    persona: str = ""
    frame: str = ""
    """The request without what it is about."""

    @property
    def voice(self) -> Voice:
        """Whose texts are used."""
        return self.language if self.persona else "plain"


@cache
def speech(voice: Voice) -> Speech:
    """The texts of a voice.

    Raises:
        ConfigError: its file is damaged.
    """
    path = _folder() / f"{voice}.yaml"
    return parse(read_yaml(path), Speech, str(path))


@checked(config=STRICT)
class _Words:
    columns: tuple[Language, ...]
    words: dict[str, Texts]


@cache
def lexicon(name: Literal["wishes", "labels"]) -> Mapping[str, Mapping[Language, str]]:
    """Words of all languages but English, by tool (`wishes`) or by English label (`labels`).

    Raises:
        ConfigError: its file is damaged.
    """
    path = _folder() / f"{name}.yaml"
    parsed = parse(read_yaml(path), _Words, str(path))
    return {
        word: dict(zip(parsed.columns, texts, strict=True)) for word, texts in parsed.words.items()
    }


def _folder() -> Path:
    return Path(str(resources.files("breadcrumbs.configs"))) / "generate" / "languages"


def pick(texts: Sequence[T], *key: object) -> T:
    """One of some things; the same for the same key, without a draw from any stream."""
    return random.Random("/".join(map(str, key))).choice(texts)


def filled(text: str, **slots: Any) -> str:
    """A text with its slots filled, once each: what a value holds in braces is left alone."""
    return _SLOT.sub(lambda found: str(slots.get(found[1], found[0])), text)


_SLOT = re.compile(r"\{(\w+)\}")


@cache
def in_any_voice(texts: Literal["waits", "yes", "no"]) -> frozenset[str]:
    """Texts of one sort in every voice."""
    return frozenset(text for voice in VOICES for text in getattr(speech(voice).kinds, texts))
