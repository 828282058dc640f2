"""What every audit answers: findings, each with its place and how to mend it, and a report.

The audits themselves stand in `audit_payloads`, `audit_server`, `audit_prompt`, `audit_loop`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from breadcrumbs.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

Check = Literal["next_step", "forgery", "prompt", "loop"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend."""

    check: Check
    where: str
    """The payload, line or run, as the reader can find it again."""
    finding: str
    mend: str

    def to_dict(self) -> dict[str, str]:
        """Plain JSON values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What one audit looked at and found."""

    audit: Literal["server", "payloads", "prompt", "loop"]
    subject: str
    checked: Mapping[str, int]
    """How many of each thing were looked at: a clean report over nothing is no proof."""
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """What was seen and is no finding, or could not be judged."""
    runs: tuple[Mapping[str, Any], ...] = field(default=())
    """`loop` only: what the agent did in each run."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `runs` stands only in a loop audit's."""
        body: dict[str, Any] = {
            "audit": self.audit,
            "subject": self.subject,
            "checked": dict(self.checked),
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
        }
        if self.audit == "loop":
            body["runs"] = [dict(run) for run in self.runs]
        return body


def rendered(report: AuditReport) -> Iterator[RenderableType]:
    """The report for a terminal, piece by piece; what others wrote in it drives no terminal."""
    from rich.text import Text

    looked_at = ", ".join(f"{number} {what}" for what, number in report.checked.items())
    yield Text(f"audit {report.audit}: {visible(report.subject)}", style="bold")
    yield Text(f"looked at: {looked_at}")
    if report.runs:
        yield _table(report)
    for finding in report.findings:
        where = visible(finding.where)
        yield Text.assemble(("✗ ", "red"), (finding.check, "bold"), " at ", (where, "cyan"))
        yield Text(f"    {visible(finding.finding)}")
        yield Text(f"    mend: {visible(finding.mend)}", style="green")
    for note in report.notes:
        yield Text(f"· {visible(note)}", style="dim")
    number = len(report.findings)
    if number:
        yield Text(f"{number} finding{'' if number == 1 else 's'}", style="bold red")
    else:
        yield Text("no findings", style="bold green")


def _table(report: AuditReport) -> RenderableType:
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    for column in report.runs[0]:
        table.add_column(column.replace("_", " "))
    for run in report.runs:
        table.add_row(*(_cell(value) for value in run.values()))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else visible(str(value))
