"""The complete record of one run of the loop."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breadcrumbs.errors import DataError
from breadcrumbs.events import Event
from breadcrumbs.messages import Message, messages_from_dicts

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Messages, events and gateway log of a run, as plain values that go to disk."""

    scenario_id: str
    policy: str
    messages: tuple[Message, ...]
    events: tuple[Mapping[str, Any], ...]
    gateway_log: tuple[Mapping[str, Any], ...]
    outcome: str
    seed: int = 0
    schema_version: int = SCHEMA_VERSION

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "schema_version": self.schema_version,
            "scenario_id": self.scenario_id,
            "policy": self.policy,
            "seed": self.seed,
            "outcome": self.outcome,
            "messages": [message.to_dict() for message in self.messages],
            "events": [dict(event) for event in self.events],
            "gateway_log": [dict(entry) for entry in self.gateway_log],
        }


def events_as_dicts(events: Sequence[Event]) -> tuple[dict[str, Any], ...]:
    """Events as plain values."""
    return tuple(dataclasses.asdict(event) for event in events)


def trajectory_from_dict(data: Mapping[str, Any]) -> Trajectory:
    """Read a record back.

    Raises:
        DataError: another schema version, or a malformed message.
    """
    if data.get("schema_version") != SCHEMA_VERSION:
        raise DataError(f"schema_version {data.get('schema_version')!r}, expected {SCHEMA_VERSION}")
    return Trajectory(
        scenario_id=str(data["scenario_id"]),
        policy=str(data["policy"]),
        messages=tuple(messages_from_dicts(data["messages"])),
        events=tuple(data["events"]),
        gateway_log=tuple(data["gateway_log"]),
        outcome=str(data["outcome"]),
        seed=int(data["seed"]),
    )
