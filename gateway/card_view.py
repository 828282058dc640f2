"""The card a person decides by, drawn from the stored row: every argument whole, nothing hidden."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from breadcrumbs.gateway.approval_card import ApprovalCard
from breadcrumbs.gateway.lookalikes import lookalike_notes
from breadcrumbs.messages import compact_json
from breadcrumbs.visible import visible


def shown(card: ApprovalCard, now: datetime) -> dict[str, Any]:
    """What a page shows of a row: texts whose hidden characters are written out, and time left.

    Values are JSON, so that the text "5" and the number 5 differ. `characters` says how long all
    of it is; a person should have seen the end of a long card before deciding.
    """
    arguments = [
        {"name": visible(name), "value": visible(compact_json(value))}
        for name, value in card.arguments.items()
    ]
    left = (datetime.fromisoformat(card.expires_at) - now).total_seconds()
    return {
        "tool": visible(card.tool),
        "risk": card.risk,
        "principal": visible(card.principal),
        "arguments": arguments,
        "notes": [visible(note) for note in lookalike_notes(card.arguments)],
        "characters": sum(len(each["name"]) + len(each["value"]) for each in arguments),
        "seconds_left": max(0, int(left)),
    }
