"""Questions in both directions: wording one, and finding out what a text asks for.

The matcher knows parameter names, labels, aliases and types, in the language of the hint. It
judges what is asked, never whether asking is right.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breadcrumbs.data_gen.grounding import normalise
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.speech import Language, filled, speech
from breadcrumbs.data_gen.values import words
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.radar_phrases import phrases_in

FRAMES = (
    "{q}",
    "{q}",
    "{q}",
    "Sure. {q}",
    "Happy to. {q}",
    "One detail is missing. {q}",
    "I need one more detail. {q}",
    "Before I can do this: {q}",
)

_AUX = r"(?:should|shall|is|are|was|do|does|did|would|will|can|could|must|may|has|have)"
_WH = r"(?:which|what|whose|who|whom|when|where|how)"
_PREPOSITIONS = "of|for|on|in|into|to|at|from|with|under|by|about"
_PREPOSITION = re.compile(rf"(?:^|(?<=\s))(?:{_PREPOSITIONS})(?=\s|$)")
_SENTENCE = re.compile(r"(?<=[.?!])\s+|\n+")
_FOREIGN_SENTENCE = re.compile(r"(?<=[.!?])\s+|(?<=。)|(?<=[\u3040-\u30ff\u4e00-\u9fff][!?])|\n+")
_QUOTED = re.compile(r"(?<!\w)(?:'[^']*'|\"[^\"]*\"|`[^`]*`|“[^”]*”)(?!\w)")
_CUE = re.compile(
    r"\b(?:please|tell me|let me know|provide|specify|supply|give me|share|need|missing|"
    r"require|requires|required|clarify|confirm|enter|indicate|state|choose|pick|missing|lacks?)\b"
)
_PERMISSION = re.compile(
    r"\b(?:would you like (?:me )?to|(?:shall|should|may|can) i\b|do you want me to|"
    r"want me to|ok(?:ay)? to|is (?:that|this|it) (?:ok|okay|correct|right|fine)|ready to|"
    r"like to proceed|go ahead)"
)
_FOLLOWING = re.compile(r"(?:following|these)\b|:\s*$")
_NEXT_QUESTION = re.compile(
    rf"[,;]?\s+(?:and|or|also)\s+"
    rf"(?=(?:(?:{_PREPOSITIONS})\s+)?{_WH}\b|tell me\b|let me know\b)|;\s*"
)
_ASKED_BY_NAME = re.compile(r"\bwhat(?:'s| is| are) (?:the |your )?([^?]+?)\s*\?$")
_OPEN_PHRASE = re.compile(
    rf"(?:\b(?:{_PREPOSITIONS})\s+)?\b{_WH}\b.*?(?=\b{_AUX}\b|(?<=\bwhat)'s\b|(?<=\bwho)'s\b|\?|$)"
)
_OTHER_WAY_OUT = re.compile(
    r"\bor\b(?! (?:not|cancel|wait|stop|leave|skip|should|shall|would|do)\b)"
)
_TIME_WORDS = frozenset("time date day start begin end due deadline when at".split())
_STOP = frozenset(
    """a an and are as at be by do for from in is it of
    on or the this that to what which with you your value please provide need""".split()
)
_TYPE_CUES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        r"\bwhen\b|\bwhat (?:date|day|time)\b|\bwhich (?:date|day|time)\b",
        ("date-time", "date", "time"),
    ),
    (r"\bhow (?:long|many)\b", ("integer",)),
    (r"\bhow much\b|\bwhat amount\b", ("number", "integer")),
    (r"\bwho(?:m|se)?\b|\bemail\b|\be-mail\b", ("email",)),
)


def question_for(hint: ToolHint, missing: Sequence[str], rng: random.Random) -> str:
    """A short question for exactly the missing arguments, in a drawn wording."""
    asks = [rng.choice(hint.arguments[name].questions) for name in missing]
    joined = " ".join(asks)
    return rng.choice(FRAMES).format(q=joined)


def spoken_question(
    spec: ToolSpec, hint: ToolHint, missing: str, language: Language, rng: random.Random
) -> str | None:
    """A question that the matcher reads as one for exactly the missing argument; None without one.

    `hint` is in the language already.
    """
    texts, argument = speech(language).questions, hint.arguments[missing]
    assert texts is not None
    labelled = (filled(ask, label=argument.label) for ask in texts.asks)
    asks = list(dict.fromkeys((*argument.questions, *labelled)))
    for ask in rng.sample(asks, len(asks)):
        question = filled(rng.choice(texts.frames), q=ask)
        if asked_parameters(question, spec, hint, language) == (missing,):
            return question
    return None


def plain_question(missing: str) -> str:
    """The plainest question for one argument, by its own name."""
    return f"What is the {words(missing)}?"


@dataclass(frozen=True, slots=True)
class _Phrase:
    parameter: str
    words: tuple[str, ...]
    rank: int


def asked_parameters(
    text: str, spec: ToolSpec, hint: ToolHint | None = None, language: Language = "en"
) -> tuple[str, ...]:
    """Names of the parameters `text` asks the user for, in schema order.

    A plain question for permission ("shall I go ahead?") asks for none. Quoted values are
    not looked at. Same text, same answer; no model is involved. In another language than English
    the hint has to be in it; there only labels and aliases count, not types.
    """
    phrases = _phrases(spec, hint, language)
    found: set[str] = set()
    if language == "en":
        for part in _asking_parts(text):
            found.update(_asked_in(part, spec, phrases))
    else:
        for part in _asking_sentences(text, language):
            found.update(_match(part, phrases, language))
    return tuple(name for name in spec.input_schema.get("properties", {}) if name in found)


def _asking_parts(text: str) -> Iterator[str]:
    """The clauses of a text that ask for something, lower case, values in quotes removed."""
    listing = False
    for raw in _SENTENCE.split(_QUOTED.sub(" ", text)):
        sentence = raw.strip().lower().replace("’", "'")
        if not sentence:
            continue
        asks = sentence.endswith("?") or bool(_CUE.search(sentence))
        if asks and not _asks_leave(sentence):
            yield from (part for part in _NEXT_QUESTION.split(sentence) if part.strip())
        elif listing:
            yield sentence
        if asks and _FOLLOWING.search(sentence):
            listing = True


def _asking_sentences(text: str, language: Language) -> Iterator[str]:
    """The same for another language, sentence by sentence, by what the radar listens for."""
    heard = phrases_in(language)
    plain = unicodedata.normalize("NFKC", _QUOTED.sub(" ", text)).replace("’", "'").lower()
    for sentence in _FOREIGN_SENTENCE.split(plain):
        asks = "?" in sentence or heard.wants.search(sentence)
        if asks and (heard.open_question.search(sentence) or not heard.leave.search(sentence)):
            yield sentence


def _asks_leave(sentence: str) -> bool:
    """A plain question for permission; "which should I use?" and "shall I use a or b?" are none."""
    found = _PERMISSION.search(sentence)
    if found is None or re.search(rf"\b{_WH}\b", sentence[: found.start()]):
        return False
    return not _OTHER_WAY_OUT.search(sentence, found.end())


def _asked_in(part: str, spec: ToolSpec, phrases: Sequence[_Phrase]) -> list[str]:
    by_name = _ASKED_BY_NAME.search(part)
    named = [p.parameter for p in phrases if by_name and words(p.parameter) == by_name.group(1)]
    if named:
        return named[:1]
    pieces = _pieces(part)
    for piece in pieces[:-1]:
        hits = _match(piece, phrases)
        if hits:
            return hits
    return _by_type(part, spec) or _match(pieces[-1], phrases)


def _pieces(part: str) -> list[str]:
    """Where the asked-for thing can stand, likeliest first; the whole part comes last."""
    wh = _OPEN_PHRASE.search(part)
    if wh is None:
        return [*_listed(part), part]
    rest = part[wh.end() :]
    head = wh.group()
    if re.match(r"how|when", head):
        head = _PREPOSITION.split(head)[0]
    predicate = re.search(r"\bbe\s+(.+)$", rest)
    subject = _PREPOSITION.split(rest)[0]
    inner = [head, predicate.group(1) if predicate else "", subject]
    return [piece for piece in inner if piece.strip()] + [part]


def _listed(part: str) -> list[str]:
    """Each listed thing up to its preposition: "the title of the event and its start"."""
    cue = _CUE.search(part)
    asked = part[cue.end() :] if cue else part
    items = re.split(r",|\band\b|\bor\b", asked)
    parts = [[part for part in _PREPOSITION.split(item) if part.strip()] for item in items]
    heads = [found[0] for found in parts if found]
    return [" , ".join(heads), asked]


def _match(piece: str, phrases: Sequence[_Phrase], language: Language = "en") -> list[str]:
    """Parameters named in a piece; longer phrases win, and each word serves one of them."""
    tokens = _tokens(piece, language)
    spans: list[tuple[int, int, int, str]] = []
    for phrase in phrases:
        size = len(phrase.words)
        for start in range(len(tokens) - size + 1):
            if tokens[start : start + size] == phrase.words:
                spans.append((-size, phrase.rank, start, phrase.parameter))
    taken: set[int] = set()
    hits: list[str] = []
    for negative, _, start, parameter in sorted(spans):
        span = range(start, start - negative)
        if taken.isdisjoint(span):
            taken.update(span)
            if parameter not in hits:
                hits.append(parameter)
    return hits


def _by_type(part: str, spec: ToolSpec) -> list[str]:
    """The one parameter whose type fits the question word; required ones first."""
    properties = spec.input_schema.get("properties", {})
    required = spec.input_schema.get("required", ())
    for pattern, kinds in _TYPE_CUES:
        if not re.search(pattern, part):
            continue
        for pool in ([n for n in properties if n in required], list(properties)):
            fits = [name for name in pool if _kinds(name, properties[name]) & set(kinds)]
            if len(fits) == 1:
                return fits
    return []


def _kinds(name: str, schema: Mapping[str, Any]) -> set[str]:
    """Format or type of the schema; a name like `start_time` counts as a time as well."""
    inner = schema.get("items", schema) if schema.get("type") == "array" else schema
    kind = str(inner.get("format") or inner.get("type") or "")
    timed = kind == "string" and not _TIME_WORDS.isdisjoint(words(name).split())
    return {kind, "time"} if timed else {kind}


def _tokens(text: str, language: Language) -> tuple[str, ...]:
    """English words by their stems; words of other languages as grounding takes them."""
    if language != "en":
        return tuple(normalise(text).split())
    return tuple(_stem(token) for token in re.findall(r"[a-z0-9]+", words(text)))


def _phrases(spec: ToolSpec, hint: ToolHint | None, language: Language) -> list[_Phrase]:
    required = spec.input_schema.get("required", ())
    phrases = []
    for order, name in enumerate(spec.input_schema.get("properties", {})):
        rank = order if name in required else order + 100
        for text in _names(name, hint):
            tokens = _tokens(text.lower(), language)
            if tokens and not all(token in _STOP for token in tokens):
                phrases.append(_Phrase(name, tokens, rank))
    return phrases


def _names(name: str, hint: ToolHint | None) -> Iterable[str]:
    yield name
    argument = hint.arguments.get(name) if hint is not None else None
    if argument is not None:
        yield argument.label
        yield from argument.aliases


def _stem(token: str) -> str:
    """A crude stem, the same on both sides: plurals, -ing and -ed meet their base."""
    for suffix in ("ing", "ed", "es", "s", "e"):
        if token.endswith(suffix) and len(token) - len(suffix) >= 3 and not token.endswith("ss"):
            return token[: -len(suffix)]
    return token
