"""Sources to one catalog: every tool is checked, labelled, and imported or refused by name.

Two tools of one name: with equal content they are one, and the later is reported as a duplicate;
else the first keeps the name and the later is called `domain.name`. Sources named first win, so a
server added at the end cannot take a name that is in use.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rfc8785

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.imports.drafts import Draft, Refusal, effective_risk, highest
from breadcrumbs.gateway.imports.schemas import normalise
from breadcrumbs.gateway.imports.secret_scan import SecretFound, redact, scan
from breadcrumbs.gateway.imports.sources import read_source

MAX_DESCRIPTION = 16_384
"""Characters of a tool's description."""
MAX_WRITTEN = 64 * 1024 * 1024
"""Characters of all schemas of one server, or of all files: a short document whose many tools name
one large part would fill the memory, written out."""
_TOOL_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,127}")
"""Names enter the breadcrumb: no quotes, spaces or line ends."""
_TEXTS = frozenset({"title", "description", "examples", "$comment"})
"""Where a secret can be cut out without changing what the schema accepts."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A tool left out because an equal one was there before."""

    tool: str
    source: str
    same_as: str
    """Where the one that is kept came from."""

    def to_dict(self) -> dict[str, str]:
        """The shape reports carry."""
        return {"tool": self.tool, "source": self.source, "same_as": self.same_as}


@dataclass(frozen=True, slots=True)
class ImportedTool:
    """A tool in the project's shape, and where it came from."""

    spec: ToolSpec
    source: str
    own_name: str
    """What its source calls it: the name to call upstream."""
    own: Risk | None
    hint: Risk | None
    upstream: str | None = None
    """The live server that runs it, if it came from one."""
    notes: tuple[str, ...] = ()
    """What was changed on the way in."""

    @property
    def plain_name(self) -> str:
        """Its name without its domain."""
        return self.own_name.removeprefix(f"{self.spec.domain}.")

    @property
    def meaning(self) -> str:
        """SHA-256 of name, description and schema: equal for copies under other labels."""
        meaning = [self.plain_name, self.spec.description, dict(self.spec.input_schema)]
        return hashlib.sha256(rfc8785.dumps(meaning)).hexdigest()


@dataclass(frozen=True, slots=True)
class Import:
    """What became of every tool of some sources."""

    tools: tuple[ImportedTool, ...]
    refused: tuple[Refusal, ...]
    duplicates: tuple[Duplicate, ...]
    secrets: tuple[SecretFound, ...]

    def catalog(self) -> Catalog:
        """The tools as a catalog that a gateway can open."""
        return Catalog({tool.spec.name: tool.spec for tool in self.tools})

    def to_dict(self) -> dict[str, Any]:
        """The report: how many came in, and what did not, by name."""
        return {
            "imported": len(self.tools),
            "refused": [refusal.to_dict() for refusal in self.refused],
            "duplicates": [duplicate.to_dict() for duplicate in self.duplicates],
            "secrets": [found.to_dict() for found in self.secrets],
        }


def import_sources(sources: Iterable[str | Path], *, timeout_s: float | None = None) -> Import:
    """Read, check and merge the tools of files, folders and live servers.

    Raises:
        CatalogError: a source cannot be read at all; see `sources.read_source`.
    """
    return import_drafts(
        draft for source in sources for draft in read_source(source, timeout_s=timeout_s)
    )


Checked = tuple[ImportedTool, list[SecretFound]]
"""A tool in the project's shape, and the secrets that were in it."""


def import_drafts(
    drafts: Iterable[Draft | Refusal], check: Callable[[Draft], Checked] | None = None
) -> Import:
    """Check and merge tools that were read already, in their order; `check` as `check_draft`."""
    shelf = _Shelf(check or check_draft)
    for draft in drafts:
        shelf.take(draft)
    return shelf.result()


class KnownDrafts:
    """Imports lists that come again and again: what did not change is not checked again."""

    def __init__(self) -> None:
        self._before: dict[bytes, Checked | str] = {}

    def import_drafts(self, drafts: Iterable[Draft | Refusal]) -> Import:
        """As the function; of the lists before, only the last is remembered."""
        now: dict[bytes, Checked | str] = {}

        def check(draft: Draft) -> Checked:
            key = _digest(draft)
            found = now[key] = now.get(key) or self._before.get(key) or _outcome(draft)
            if isinstance(found, str):
                raise CatalogError(found)
            return found

        report = import_drafts(drafts, check)
        self._before = now
        return report


def _outcome(draft: Draft) -> Checked | str:
    """What `check_draft` says: the tool, or the reason why it is none."""
    try:
        return check_draft(draft)
    except CatalogError as error:
        return str(error)


def _digest(draft: Draft) -> bytes:
    # Drafts hold plain JSON, and what else is in them is written as text.
    whole = [getattr(draft, field.name) for field in dataclasses.fields(draft)]
    text = json.dumps(whole, default=str)
    return hashlib.sha256(text.encode()).digest()


def check_draft(draft: Draft) -> Checked:
    """One tool in the project's shape, secrets cut out of its texts.

    Raises:
        CatalogError: it cannot be imported; the message is the reason alone.
    """
    name, description = draft.name, "" if draft.description is None else draft.description
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise CatalogError(f"name {str(name)[:80]!r}: use up to 128 letters, digits, _ . : / -")
    if not isinstance(description, str):
        raise CatalogError(f"description is {type(description).__name__}, not text")
    if len(description) > MAX_DESCRIPTION:
        raise CatalogError(f"description is {len(description)} long; at most {MAX_DESCRIPTION}")
    normalised = normalise(draft.schema, draft.document)
    found = list(scan(name, {"description": description, "schema": normalised.schema}))
    risk = effective_risk(draft.own, draft.hint)
    asks = risk is not Risk.READ if draft.requires_approval is None else draft.requires_approval
    spec = ToolSpec(
        name=name,
        description=redact(description),
        input_schema=_without_secrets(normalised.schema) if found else normalised.schema,
        risk=risk,
        domain=draft.domain,
        keywords=draft.keywords,
        requests=draft.requests,
        requires_approval=asks,
        allow=draft.allow,
    )
    tool = ImportedTool(
        spec, draft.source, name, draft.own, draft.hint, draft.upstream, normalised.notes
    )
    return tool, found


class _Shelf:
    """Tools by name as they come in, and what was left out."""

    def __init__(self, check: Callable[[Draft], Checked]) -> None:
        self._check = check
        self._tools: dict[str, ImportedTool] = {}
        self._names: dict[str, list[str]] = {}
        """Meaning to the names that tools of this meaning stand under."""
        self._refused: list[Refusal] = []
        self._duplicates: list[Duplicate] = []
        self._secrets: list[SecretFound] = []
        self._servers: dict[str, str] = {}
        """Domain to the one server that has it: labels go by domain."""
        self._written: Counter[str | None] = Counter()
        """Characters of schemas, by server; of files under None."""

    def take(self, draft: Draft | Refusal) -> None:
        """Check one tool and find its place."""
        if isinstance(draft, Refusal):
            self._refused.append(draft)
            return
        try:
            self._check_domain(draft)
            self._check_room(draft)
            tool, found = self._check(draft)
        except CatalogError as error:
            self._refuse(draft.shown_name, draft.source, str(error))
            return
        self._written[draft.upstream] += tool.spec.cost.characters
        self._secrets += found
        locked = next((one for one in found if not _is_text(one.where)), None)
        if locked is not None:
            what = f"{locked.kind} at {locked.where}"
            self._refuse(draft.shown_name, draft.source, f"{what}; take it out at its source")
            return
        self._place(tool)

    def result(self) -> Import:
        """All that came in."""
        labels: dict[tuple[str, str], list[ToolSpec]] = {}
        for tool in self._tools.values():
            if tool.own is not None:
                labels.setdefault((tool.spec.domain, tool.plain_name), []).append(tool.spec)
        return Import(
            tuple(
                _guarded(tool, labels.get((tool.spec.domain, tool.plain_name), ()))
                for tool in self._tools.values()
            ),
            tuple(self._refused),
            tuple(self._duplicates),
            tuple(self._secrets),
        )

    def _check_domain(self, draft: Draft) -> None:
        """What was said of one server's tools must not hold for another's, of another file maybe.

        Raises:
            CatalogError: another server has this domain.
        """
        if draft.upstream is None:
            return
        first = self._servers.setdefault(draft.domain, draft.upstream)
        if first != draft.upstream:
            raise CatalogError(
                f"its name and that of server {first!r} both become the domain {draft.domain!r};"
                " rename one of them"
            )

    def _check_room(self, draft: Draft) -> None:
        if self._written[draft.upstream] >= MAX_WRITTEN:
            raise CatalogError(
                f"the schemas before it are over {MAX_WRITTEN} characters, references written out;"
                " bring in fewer at a time"
            )

    def _place(self, tool: ImportedTool) -> None:
        alike = self._names.setdefault(tool.meaning, [])
        same = next((name for name in alike if _is_same(self._tools[name], tool)), None)
        if same is not None:
            self._merge(same, tool)
            return
        name = tool.spec.name
        if name in self._tools:
            name = f"{tool.spec.domain}.{name}"
            note = f"called {name!r}: {self._tools[tool.spec.name].source} has this name"
            spec = dataclasses.replace(tool.spec, name=name)
            tool = dataclasses.replace(tool, spec=spec, notes=(*tool.notes, note))
        if name in self._tools or not _TOOL_NAME.fullmatch(name):
            reason = f"the names {tool.own_name!r} and {name!r} are taken; rename it at its source"
            self._refuse(tool.own_name, tool.source, reason)
            return
        alike.append(name)
        self._tools[name] = tool

    def _merge(self, name: str, later: ImportedTool) -> None:
        """An equal tool again: the one with the operator's label stays, the graver hint counts."""
        kept, left_out = self._tools[name], later
        if kept.own is None and later.own is not None:
            kept, left_out = later, kept
        hint = highest(kept.hint, left_out.hint)
        risk = effective_risk(kept.own, hint)
        asks = kept.spec.requires_approval or (risk is not kept.spec.risk)
        spec = dataclasses.replace(kept.spec, name=name, risk=risk, requires_approval=asks)
        runs = later if later.upstream is not None else self._tools[name]
        self._tools[name] = dataclasses.replace(
            kept, spec=spec, hint=hint, upstream=runs.upstream, own_name=runs.own_name
        )
        self._duplicates.append(Duplicate(left_out.own_name, left_out.source, kept.source))

    def _refuse(self, tool: str, source: str, reason: str) -> None:
        self._refused.append(Refusal(tool, f"{source}: {reason}"))


def _is_same(one: ImportedTool, other: ImportedTool) -> bool:
    """Whether two tools of equal meaning are one tool.

    Two live servers each run their own; what a file says of a server's tool names its domain.
    """
    if one.upstream is not None and other.upstream is not None:
        return one.upstream == other.upstream
    in_files = one.upstream is None and other.upstream is None
    return one.spec.domain == other.spec.domain or (in_files and one.own_name == other.own_name)


def _guarded(tool: ImportedTool, labels: Sequence[ToolSpec]) -> ImportedTool:
    """A tool that changed since it was labelled stays closed to whom its label closed it.

    Else a server could open it to everyone, or make it one that can be granted, by a new word in
    its description.
    """
    if tool.own is not None:
        return tool
    risk = highest(tool.spec.risk, *(label.risk for label in labels)) or tool.spec.risk
    allow = next((label.allow for label in labels if label.allow), ())
    if (risk, allow) == (tool.spec.risk, tool.spec.allow):
        return tool
    note = "changed since it was labelled: the label's roles and its risk, if graver, still hold"
    spec = dataclasses.replace(tool.spec, risk=risk, allow=allow)
    return dataclasses.replace(tool, spec=spec, notes=(*tool.notes, note))


def _is_text(where: str) -> bool:
    """Whether a finding lies in text for readers, not in what decides which values pass.

    A property may be called `description` too, so the schema is read by pairs of steps.
    """
    steps = where.split("/")
    if steps[0] == "description":
        return True
    last_map = -1
    for place, step in enumerate(steps):
        if (
            step in ("properties", "patternProperties", "dependentSchemas")
            and last_map != place - 1
        ):
            last_map = place
    return any(step in _TEXTS for step in steps[last_map + 2 :])


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_secrets(inner) for inner in value]
    return redact(value) if isinstance(value, str) else value
