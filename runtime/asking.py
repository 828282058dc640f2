"""What a text asks the user for, and whether the user has given it. English only.

Works on what a disclosed schema says: names, types, formats, choices, descriptions. Both
questions are answered cautiously: an asked-for parameter is one the text names, and a value
counts as given only where the user's words show one of its shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_SENTENCE = re.compile(r"(?<=[.?!])\s+|\n+")
_CODE = re.compile(r"```.*?```", re.DOTALL)
_QUOTED = re.compile(r"(?<!\w)(?:'([^'\n]+)'|\"([^\"\n]+)\"|“([^”\n]+)”)(?!\w)")
_CUE = re.compile(
    r"\?\s*$|\?\s*\(|\b(?:please (?:provide|specify|give|tell|enter|supply|share|send|choose)"
    r"|(?:i|you)(?:'ll| will)? (?:\w+ )?need\b|(?:could|can) you|let me know|tell me|missing"
    r"|(?:is|are) required|specify|clarify)",
    re.IGNORECASE,
)
_LEAVE = re.compile(
    r"\b(?:would you like (?:me )?to|want me to|(?:shall|should|may|can) i|please confirm"
    r"|confirm that)\b"
)
OPEN_QUESTION = re.compile(
    r"\b(?:which|what|who|whose|whom|when|where|how)\b[^.!]*\?", re.IGNORECASE
)
_WH_PHRASE = re.compile(
    r"\b(?:which|what|whose|how many|how much|how long)\b(.*?)"
    r"(?=\b(?:should|shall|is|are|do|does|did|would|will|can|could|must|may|has|have)\b|\?|$)"
)
_SUBJECT = re.compile(
    r"\b(?:should|is|are|would|will|must) (?:the |its |your )?(.*?)(?:\bof\b|\?|$)"
)
_TYPED = (
    (re.compile(r"\bwhen\b|\bwhat (?:date|day|time)\b"), "time"),
    (re.compile(r"\bwho(?:m|se)?\b"), "email"),
)
_DATE_NAMES = frozenset({"date", "day", "month", "deadline"})
_TIME_NAMES = _DATE_NAMES | frozenset(
    {"time", "start", "end", "when", "due", "until", "since", "from", "period", "cron", "schedule"}
)
_DATE_VALUE = re.compile(
    r"\b\d{4}-\d\d(?:-\d\d)?|\b(?:today|tonight|tomorrow|yesterday|q[1-4]"
    r"|(?:next|this|last|every) \w+|(?:mon|tues|wednes|thurs|fri|satur|sun)day"
    r"|in (?:an?|\d+|two|three) (?:minute|hour|day|week|month)s?"
    r"|january|february|march|april|june|july|august|september|october|november|december)\b"
)
_CLOCK_VALUE = re.compile(
    r"\b\d{1,2}:\d\d\b|(?<=t)\d\d:\d\d|\b\d{1,2} ?(?:am|pm)\b|\b\d{1,2} ?h\b"
    r"|\bat (?:\d{1,2}|noon)\b|\b(?:noon|midnight)\b|\+\d+[smhdw]\b"
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w+")
_URL = re.compile(r"https?://\S+")
_SLASHED = re.compile(r"(?<!\S)[\w.-]+/[\w.-]+(?!\S)")
_ID = re.compile(r"\b([A-Za-z]{1,12})[_-][A-Za-z0-9-]*\d[A-Za-z0-9-]*\b")
_NUMBER = re.compile(r"(?<![\w:-])\d+(?:\.\d+)?(?![\w:-])")
_CALLED = re.compile(r"\b(?:titled|called|named|labelled|entitled)\b\s*\S")
_NAMES_A_THING = frozenset({"title", "name", "subject", "label", "summary", "heading"})
_THIN = frozenset({"id", "ids", "name", "the", "of", "to", "for", "is"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """What can be read about one disclosed parameter."""

    name: str
    required: bool = False
    has_default: bool = False
    type: str = "string"
    format: str = ""
    description: str = ""
    choices: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The name in lower-case words: `dueDate` and `due_date` are `due`, `date`."""
        split = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", self.name)
        return tuple(re.findall(r"[a-z0-9]+", split.lower()))

    @property
    def is_time(self) -> bool:
        """Whether its values are dates, times or spans."""
        named = _TIME_NAMES.intersection(self.words)
        if named == {"from"} and len(self.words) > 1:
            named = frozenset()  # from_account
        return self.format in ("date-time", "date", "time", "duration") or (
            self.type == "string" and bool(named)
        )

    @property
    def is_date(self) -> bool:
        """Whether a time of day alone is no value."""
        return self.format == "date" or (
            self.is_time and self.format != "time" and not _DATE_NAMES.isdisjoint(self.words)
        )


def parameters_of(schema: Mapping[str, Any]) -> tuple[Parameter, ...]:
    """The parameters of a disclosed JSON Schema, in its order."""
    required = schema.get("required", ())
    return tuple(
        Parameter(
            name,
            name in required,
            "default" in value,
            str(value.get("type", "string")),
            str(value.get("format", "")),
            str(value.get("description", "")),
            tuple(str(choice) for choice in value.get("enum", ())),
        )
        for name, value in schema.get("properties", {}).items()
    )


def asked_parameters(text: str, parameters: Sequence[Parameter]) -> list[Parameter]:
    """The parameters that the asking sentences of a text name, in schema order."""
    found: set[str] = set()
    for sentence in asking_sentences(text):
        found.update(_asked_in(sentence, parameters))
    return [p for p in parameters if p.name in found]


def asking_sentences(text: str) -> Iterator[str]:
    """Sentences that ask for a value, lower case, without code and quoted values.

    A plain question for leave ("shall I go ahead?") asks for none.
    """
    plain = _QUOTED.sub(" ", _CODE.sub(" ", text)).replace("’", "'").lower()
    for sentence in _SENTENCE.split(plain):
        open_ended = OPEN_QUESTION.search(sentence) or " or " in sentence
        if _CUE.search(sentence) and (open_ended or not _LEAVE.search(sentence)):
            yield sentence.strip()


def is_given(parameter: Parameter, user_text: str, parameters: Sequence[Parameter]) -> bool:
    """Whether the user's words show a value of this parameter's shape; unsure is False."""
    text = user_text.lower()
    if any(_has_words(text, _words(choice)) for choice in parameter.choices):
        return True
    if parameter.choices:
        return False
    if parameter.type in ("integer", "number"):
        return _number_given(parameter, _QUOTED.sub(" ", text), parameters)
    if parameter.is_time:
        return _time_given(parameter, text, parameters)
    return _text_given(parameter, user_text, parameters)


def _asked_in(sentence: str, parameters: Sequence[Parameter]) -> list[str]:
    for part in (*_focus(sentence), sentence):
        full = [p.name for p in parameters if _has_words(part, p.words)]
        if full:
            return full
    for pattern, kind in _TYPED:
        typed = [p for p in parameters if _fits(p, kind)] if pattern.search(sentence) else []
        if typed:
            return [p.name for p in typed if p.required] or [typed[0].name]
    partial = [p.name for p in parameters if _has_part(sentence, p)]
    return partial if len(partial) == 1 else []


def _focus(sentence: str) -> list[str]:
    """Where the asked-for thing stands: "which X should ...", "what should the X of ... be"."""
    wh = _WH_PHRASE.search(sentence)
    subject = _SUBJECT.search(sentence)
    return [found.group(1) for found in (wh, subject) if found and found.group(1).strip()]


def _fits(parameter: Parameter, kind: str) -> bool:
    if kind == "time":
        return parameter.is_time
    return parameter.format == "email" or "email" in parameter.words


def _has_part(sentence: str, parameter: Parameter) -> bool:
    content = [word for word in parameter.words if word not in _THIN]
    return any(_has_words(sentence, (word,)) for word in content)


def _has_words(text: str, words: Sequence[str]) -> bool:
    joined = r"[\s_-]?".join(re.escape(word) for word in words)
    return bool(words) and re.search(rf"(?<![^\W_]){joined}(?:'?s)?(?![^\W_])", text) is not None


def _words(value: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", value.lower())


def _time_given(parameter: Parameter, text: str, parameters: Sequence[Parameter]) -> bool:
    """As many dates, or times of day, as there are parameters that may have taken them."""
    timed = [p for p in parameters if p.is_time]
    dates = [p for p in timed if p.is_date]
    rivals = dates if parameter in dates else [p for p in timed if p not in dates]
    needed = sum(p.required for p in rivals) + (not all(p.required for p in rivals))
    found = len((_DATE_VALUE if parameter in dates else _CLOCK_VALUE).findall(text))
    if not dates:
        found += len(_DATE_VALUE.findall(text))
    return found >= max(needed, 1)


def _number_given(parameter: Parameter, text: str, parameters: Sequence[Parameter]) -> bool:
    """A number beside the parameter's name, or one more than the other numbers account for."""
    if _number_beside(parameter, text):
        return True
    numeric = [p for p in parameters if p.type in ("integer", "number")]
    placed = [p for p in numeric if _number_beside(p, text)]
    needed = [p for p in numeric if p.required and p not in placed]
    free = len(_NUMBER.findall(text)) - len(placed)
    return parameter.required and free >= len(needed)


def _number_beside(parameter: Parameter, text: str) -> bool:
    words = "|".join(re.escape(word) for word in parameter.words if word not in _THIN)
    if not words:
        return False
    number, near = r"(?<![\w:-])\d+(?:\.\d+)?(?![\w:-])", r"\W+(?:\w+\W+){0,2}?"
    return (
        re.search(rf"\b(?:{words})s?{near}{number}|{number}{near}(?:{words})s?\b", text) is not None
    )


def _text_given(parameter: Parameter, user_text: str, parameters: Sequence[Parameter]) -> bool:
    words = set(parameter.words)
    if parameter.format == "email" or words & {"email", "recipient", "attendees"}:
        return _EMAIL.search(user_text) is not None and not (
            re.search(r"\b(?:b?cc|copy)\b", user_text.lower()) and "bcc" not in parameter.words
        )
    if words & {"url", "uri", "link", "webhook"}:
        return _URL.search(user_text) is not None
    if words & {"owner", "repo", "repository", "timezone"}:
        return bool(_URL.search(user_text) or _SLASHED.search(user_text))
    if words & {"id", "key", "number"}:
        return any(_may_name(found, parameter) for found in _ID.findall(user_text))
    if words & _NAMES_A_THING and _CALLED.search(user_text.lower()):
        return True
    others = {word for p in parameters if p != parameter for word in p.words if word not in _THIN}
    quoted = [m for m in _QUOTED.finditer(user_text) if others.isdisjoint(_around(user_text, m))]
    free = [p for p in parameters if p.required and _is_free_text(p)]
    if quoted and parameter in free and len(quoted) >= len(free):
        return True
    named = r"[\s_-]".join(re.escape(word) for word in parameter.words)
    joint = r"(?:a|an|and|for|in|including|of|on|that|the|to|which|with)\b"
    value = rf"(?:\s+(?:is|to|of|as)|\s*[:=])?\s+['\"“]?(?!{joint})\w"
    return (
        re.search(rf"\b(?:with|set|as|under|using)\s+(?:the\s+)?{named}{value}", user_text.lower())
        is not None
    )


def _around(text: str, found: re.Match[str]) -> list[str]:
    """The words beside a quoted value: what they name, it belongs to."""
    return [*_words(text[: found.start()])[-3:], *_words(text[found.end() :])[:3]]


def _is_free_text(parameter: Parameter) -> bool:
    return parameter.type == "string" and not parameter.is_time and not parameter.choices


def _may_name(prefix: str, parameter: Parameter) -> bool:
    """Whether an id's prefix shortens the parameter's name: `cus_` for `customer_id`."""
    content = [word for word in parameter.words if word not in _THIN and word != "number"]
    shortened = "[a-z]*?".join(re.escape(letter) for letter in prefix.lower())
    return not content or any(re.match(shortened, word) for word in content)
