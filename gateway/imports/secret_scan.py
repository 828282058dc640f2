"""Find credentials that somebody left in a tool's texts, defaults and examples.

A finding says where and which kind; of the secret itself it shows four characters.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

REMOVED = "[secret removed]"
_MIN_BITS = 3.0
"""Entropy a character, below which a text is a placeholder rather than a secret."""
_SHOWN = 4
_SHORTEST = len("ab://u:123456@")
"""No form fits a shorter text, and most texts of a schema are shorter."""
_FIXED_FORMS = {
    "private key": (  # one without an end goes on to the end of the text
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----|\Z))?"
    ),
    "AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,})",
    "GitLab token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "Google API key": r"\bAIza[0-9A-Za-z_-]{35}",
    "Slack token": r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    "Stripe key": r"\b[rs]k_live_[A-Za-z0-9]{16,}",
    "Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}",
    "npm token": r"\bnpm_[A-Za-z0-9]{36}",
    "API key": r"\bsk-[A-Za-z0-9_-]{20,}",
    "JSON web token": r"\beyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,1000}\.[A-Za-z0-9_-]{10,}",
}
_NAMED_FORMS = {
    "password in a URL": r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,64}:(?P<value>[^\s/@]{6,200})@",
    "bearer token": r"\bbearer\s+(?P<value>[A-Za-z0-9_.~+/-]{20,}=*)",
    "named secret": (
        r"(?:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret"
        r"|secret[_-]?key|password|passwd)[\"']?\s*[:=]\s*[\"']?(?P<value>[A-Za-z0-9_.~+/-]{16,}=*)"
    ),
}
_FORMS = [(kind, re.compile(form)) for kind, form in _FIXED_FORMS.items()] + [
    (kind, re.compile(form, re.IGNORECASE)) for kind, form in _NAMED_FORMS.items()
]
_PLACEHOLDER = re.compile(
    r"example|sample|dummy|placeholder|redacted|your|insert|change.?me|xxx|\.\.\.|123456789|test",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SecretFound:
    """What looks like a credential, and where it stands."""

    tool: str
    where: str
    kind: str
    shown: str

    def to_dict(self) -> dict[str, str]:
        """The shape reports carry."""
        return {"tool": self.tool, "where": self.where, "kind": self.kind, "shown": self.shown}


def scan(tool: str, value: Any, path: str = "") -> Iterator[SecretFound]:
    """Every credential in the texts of a JSON value, keys too, with the path to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            place = f"{path}/{redact(key)[:60]}"
            yield from scan(tool, key, place)
            yield from scan(tool, inner, place)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from scan(tool, inner, f"{path}/{index}")
    elif isinstance(value, str):
        for kind, secret, _ in _matches(value):
            yield SecretFound(tool, path.strip("/") or "text", kind, _masked(secret))


def redact(text: str) -> str:
    """The text with each credential replaced by `REMOVED`."""
    kept: list[str] = []
    at = 0
    for start, end in sorted(span for _, _, span in _matches(text)):
        kept += (text[at:start], REMOVED)
        at = end
    return "".join((*kept, text[at:]))


def _matches(text: str) -> Iterator[tuple[str, str, tuple[int, int]]]:
    """Kind, secret and span; each stretch of text counts once, under its most exact kind."""
    if len(text) < _SHORTEST:
        return
    taken: list[tuple[int, int]] = []  # in order, none over another
    for kind, form in _FORMS:
        for match in form.finditer(text):
            group = "value" if "value" in form.groupindex else 0
            start, end = match.span(group)
            secret = match[group]
            after = bisect_left(taken, (end, end))  # the first that begins behind it
            if after and taken[after - 1][1] > start:
                continue
            if kind == "private key" or is_random(secret):
                taken.insert(after, (start, end))
                yield kind, secret, (start, end)


def is_random(text: str) -> bool:
    """Whether a text is as mixed as a credential, and no placeholder for one."""
    if _PLACEHOLDER.search(text):
        return False
    counts = Counter(text).values()
    bits = -sum(n / len(text) * math.log2(n / len(text)) for n in counts)
    return bits >= _MIN_BITS and any(c.isdigit() for c in text)


def _masked(secret: str) -> str:
    return f"{secret[:_SHOWN]}… ({len(secret)} characters)"
