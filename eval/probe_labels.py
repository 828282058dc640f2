"""The labels a probe measures: the segments, and inside `schema` its parts."""

from __future__ import annotations

from breadcrumbs.rendering import Rendered, Segment
from breadcrumbs.schema_parts import SchemaPart

WHOLE: tuple[str, ...] = tuple(str(segment) for segment in Segment)
"""The segments, in order; every token belongs to one."""
PARTS: tuple[str, ...] = tuple(f"{Segment.SCHEMA}.{part}" for part in SchemaPart)
"""What is told apart inside `schema`."""
FINE = (*WHOLE, *PARTS)
"""Labels of a capture: `schema` here is the rest of it."""
GROUPS: tuple[tuple[int, ...], ...] = tuple(
    (at, *range(len(WHOLE), len(FINE))) if name == Segment.SCHEMA else (at,)
    for at, name in enumerate(WHOLE)
)
"""Which labels make each whole segment."""


def labels_of(rendered: Rendered) -> list[int]:
    """Index into `FINE` of every token."""
    order, parts = list(Segment), list(SchemaPart)
    return [
        order.index(segment)
        if part is None or segment != Segment.SCHEMA
        else len(WHOLE) + parts.index(part)
        for segment, part in zip(rendered.segments, rendered.schema_parts, strict=True)
    ]
