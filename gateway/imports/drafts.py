"""A tool as its source describes it, before anything is checked, and the word for a refusal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from breadcrumbs.gateway.catalog import Risk

_SEVERITY = list(Risk)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was not imported, and why."""

    tool: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """The shape reports carry."""
        return {"tool": self.tool, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Draft:
    """One tool as it was read; every field but `source` and `domain` is untrusted."""

    name: Any
    description: Any
    schema: Any
    source: str
    domain: str
    own: Risk | None = None
    """The operator's label; only the project's own files carry one."""
    hint: Risk | None = None
    """What the tool's author says of it; may only raise the risk."""
    document: Any = None
    """Where `#/` pointers of the schema look, if not into the schema itself."""
    keywords: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    requires_approval: bool | None = None
    upstream: str | None = None
    """The live server that runs it. Equal tools of two servers are two tools."""

    @property
    def shown_name(self) -> str:
        """The name as reports show it."""
        return self.name[:128] if isinstance(self.name, str) and self.name else self.source


def highest(*risks: Risk | None) -> Risk | None:
    """The gravest of some labels, unknown ones aside."""
    return max((risk for risk in risks if risk is not None), key=_SEVERITY.index, default=None)


def effective_risk(own: Risk | None, hint: Risk | None) -> Risk:
    """Own label first, unknown is write, and a hint may only raise either."""
    return highest(own or Risk.WRITE, hint) or Risk.WRITE


def hint_of(annotations: Any) -> Risk | None:
    """What MCP's annotations claim; two that contradict each other count as the graver."""
    if not isinstance(annotations, Mapping):
        return None
    if annotations.get("destructiveHint") is True:
        return Risk.DESTRUCTIVE
    read_only = annotations.get("readOnlyHint")
    if isinstance(read_only, bool):
        return Risk.READ if read_only else Risk.WRITE
    return None


def domain_name(text: Any, otherwise: str) -> str:
    """A server's or file's name as a domain: lower-case words joined by underscores."""
    words = re.findall(r"[a-z0-9]+", text.lower()) if isinstance(text, str) else []
    return "_".join(words)[:64] or otherwise
