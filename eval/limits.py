"""Limits that a comparison must keep, for use in CI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.compare import Comparison

_LIMIT = re.compile(r"(?P<name>[\w^]+)(?P<sign>>=|<=)(?P<value>[+-]?\d*\.?\d+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure of B, or where `of_difference` its difference from A, and the bound it must keep."""

    name: str
    least: bool
    """Whether the bound is from below."""
    value: float
    of_difference: bool
    text: str

    def keeps(self, found: float) -> bool:
        """Whether a value keeps the bound."""
        return found >= self.value if self.least else found <= self.value


def read_limits(texts: Iterable[str]) -> list[Limit]:
    """Limits as they are written on the command line.

    Raises:
        ConfigError: one is not FIGURE>=VALUE or FIGURE<=VALUE.
    """
    limits = []
    for text in texts:
        found = _LIMIT.fullmatch(text.replace(" ", ""))
        if found is None:
            raise ConfigError(f"--require {text!r}: write dad>=0.9, uar<=0.1 or dad>=+0.02")
        value = found["value"]
        limits.append(
            Limit(found["name"], found["sign"] == ">=", float(value), value[0] in "+-", text)
        )
    return limits


def broken(found: Comparison, limits: Sequence[Limit], *, no_worse: bool) -> list[str]:
    """One line for each limit that does not hold somewhere, or that nothing was measured for."""
    lines = []
    for limit in limits:
        rows = [row for row in found.rows if row.figure == limit.name]
        if not rows:
            lines.append(f"{limit.text}: nothing was measured under that name")
        for row in rows:
            value = row.difference.value if limit.of_difference else row.difference.b
            if not limit.keeps(value):
                lines.append(f"{limit.text}: {row.where} has {value:g}")
    if no_worse:
        lines += [
            f"worse by more than noise: {row.where}, {row.figure} {row.difference.value:+g}"
            for row in found.rows
            if row.verdict == "worse"
        ]
    return lines
