"""What is wrong with a catalog before a model reads it: texts, schemas, names, secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from breadcrumbs.gateway.imports.importing import Import, ImportedTool
from breadcrumbs.visible import smuggled

LONG_DESCRIPTION = 2_000
"""Characters; what is longer crowds the prompt of every search hit."""
_SHORT = 2
_CLEAR = frozenset({"cc", "id", "ip", "to", "tz"})
_VAGUE = frozenset("arg args config data input item kwargs obj object options opts".split())
_VAGUE |= frozenset("param params payload request value values".split())
_INSTRUCTIONS = re.compile(
    r"ignore (?:all |any |the )*(?:previous|prior|above|other)|disregard (?:all|any|the|previous)"
    r"|(?:do not|don't|never) (?:tell|inform|mention|reveal|show)[^.]{0,40}\buser"
    r"|system prompt|</?(?:important|system|instructions?|assistant|tool_call)>"
    r"|you (?:must|should) (?:always|first|never|now)|before (?:using|calling) (?:any|other|this)"
    r"|always (?:call|use|run) this|\bnext_step\b|\bapproval_id\b|user (?:has )?approved",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of one tool."""

    tool: str
    problem: str
    where: str = ""

    def to_dict(self) -> dict[str, str]:
        """The shape reports carry."""
        return {"tool": self.tool, "problem": self.problem, "where": self.where}


def lint(report: Import) -> list[Finding]:
    """Every problem of what was imported, and everything that was refused."""
    findings = [Finding(refusal.tool, f"refused: {refusal.reason}") for refusal in report.refused]
    for duplicate in report.duplicates:
        problem = f"the same tool stands in {duplicate.same_as}"
        findings.append(Finding(duplicate.tool, problem, duplicate.source))
    for found in report.secrets:
        findings.append(Finding(found.tool, f"{found.kind}: {found.shown}", found.where))
    for tool in report.tools:
        findings.extend(_tool_findings(tool))
    return findings


def _tool_findings(tool: ImportedTool) -> Iterator[Finding]:
    spec = tool.spec
    for note in tool.notes:
        yield Finding(spec.name, note)
    if not spec.description.strip():
        yield Finding(spec.name, "no description: search cannot find it by what it does")
    elif len(spec.description) > LONG_DESCRIPTION:
        yield Finding(spec.name, f"description is {len(spec.description)} characters long")
    yield from _text_findings(spec.name, spec.description, "description")
    for name, schema in spec.input_schema["properties"].items():
        yield from _argument_findings(spec.name, name, schema)


def _argument_findings(tool: str, name: str, schema: Mapping[str, Any]) -> Iterator[Finding]:
    if not {"type", "enum", "const", "anyOf", "oneOf", "allOf", "not"} & set(schema):
        yield Finding(tool, "no type: it takes any value", name)
    vague = name.lower() in _VAGUE or (len(name) <= _SHORT and name.lower() not in _CLEAR)
    if vague and not schema.get("description"):
        yield Finding(tool, "no description, and its name does not say what it takes", name)
    for place, text in _texts(schema, name):
        yield from _text_findings(tool, text, place)


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(inner, f"{place}/{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, f"{place}/{index}")


def _text_findings(tool: str, text: str, where: str) -> Iterator[Finding]:
    told = _INSTRUCTIONS.search(text)
    if told:
        yield Finding(tool, f"reads like an instruction to the model: {told[0]!r}", where)
    hidden = smuggled(text)
    if hidden is not None:
        yield Finding(tool, f"holds a character nobody sees: U+{ord(hidden):04X}", where)
