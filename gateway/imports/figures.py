"""Figures of a catalog: how many tools, of which domains and risk, and how long their schemas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from breadcrumbs.gateway.catalog import ToolSpec

_SHARES = (("minimum", 0.0), ("median", 0.5), ("p90", 0.9), ("p99", 0.99), ("maximum", 1.0))


def figures(specs: Sequence[ToolSpec]) -> dict[str, Any]:
    """Counts by domain and risk, how many are held, and schema lengths in characters of JSON.

    A length's share is the smallest length that at least that share of the schemas does not pass.
    """
    lengths = sorted(len(schema_text(spec)) for spec in specs)
    return {
        "tools": len(specs),
        "domains": dict(sorted(Counter(spec.domain for spec in specs).items())),
        "risk": dict(sorted(Counter(str(spec.risk) for spec in specs).items())),
        "held_for_approval": sum(spec.requires_approval for spec in specs),
        "schema_characters": {name: _at(lengths, share) for name, share in _SHARES},
    }


def schema_text(spec: ToolSpec) -> str:
    """The schema as compact JSON, as payloads carry it."""
    return json.dumps(dict(spec.input_schema), ensure_ascii=False, separators=(",", ":"))


def _at(lengths: Sequence[int], share: float) -> int:
    if not lengths:
        return 0
    return lengths[max(0, -int(-share * len(lengths) // 1) - 1)]
