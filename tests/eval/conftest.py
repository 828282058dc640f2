"""One small catalog with hints, and scenarios written by hand, whose right scores are known."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.data_gen.hints import Composed, ToolHint, load_hints
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.eval.decision import decision_cases
from breadcrumbs.eval.metrics import Case
from breadcrumbs.gateway.catalog import Catalog, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings

CATALOG = """
version: 1
domain: desk
collections:
  meetings:
    key: meeting_id
    prefix: mtg
    records: [{meeting_id: mtg_1, title: Standup, start: "2026-03-04T09:00"}]
tools:
  - name: plan_meeting
    description: Put a meeting on the plan.
    risk: write
    keywords: [appointment]
    effect: {op: create, collection: meetings}
    parameters:
      title: {type: string}
      start: {type: string, format: date-time}
      minutes: {type: integer, minimum: 5, default: 30}
      rate: {type: number}
      guests: {type: array, items: {type: string, format: email}}
      private: {type: boolean, default: false}
      note: {type: string}
    required: [title, start]
  - name: cancel_meeting
    description: Take a meeting off the plan.
    risk: destructive
    keywords: [remove]
    effect: {op: delete, collection: meetings, key_argument: meeting_id}
    parameters:
      meeting_id: {type: string}
    required: [meeting_id]
  - name: read_weather
    description: Read the weather report.
    risk: read
    keywords: [forecast]
    effect: {op: list, collection: meetings}
    parameters:
      title: {type: string}
    required: []
"""
HINTS = """
version: 1
domain: desk
tools:
  plan_meeting:
    search: [plan meeting]
    intents: [plan a meeting]
    arguments:
      title: {label: title, questions: ["What should the title be?"], aliases: [called]}
      start: {label: start, questions: ["When should it start?"], aliases: [begin]}
      minutes: {label: length, aliases: [long]}
      rate: {label: rate}
      guests: {label: guests}
      private: {label: private, clauses: {true: ["and keep it private"], false: ["in the open"]}}
      note: {label: note}
"""
REQUEST = "Plan a meeting titled 'Budget sync' for 2026-03-09T14:00, 45 minutes, at the rate 25."


@pytest.fixture(scope="session")
def catalog_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("catalog") / "desk.yaml"
    path.write_text(CATALOG)
    return path


@pytest.fixture(scope="session")
def hints_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hints") / "desk.yaml"
    path.write_text(HINTS)
    return path


@pytest.fixture(scope="session")
def catalog(catalog_file: Path) -> Catalog:
    return load_catalog([catalog_file])


@pytest.fixture(scope="session")
def hints(hints_file: Path) -> dict[str, ToolHint]:
    return load_hints([hints_file])


def scenario(behaviour: str = "dispatch", **changes: Any) -> Scenario:
    """A scenario on `plan_meeting`; `clarify` lacks the start."""
    gold = {"title": "Budget sync", "start": "2026-03-09T14:00", "minutes": 45, "rate": 25}
    request = REQUEST
    missing: tuple[str, ...] = ()
    if behaviour == "clarify":
        gold.pop("start")
        request = request.replace(" for 2026-03-09T14:00", "")
        missing = ("start",)
    hidden = ("plan_meeting", "cancel_meeting") if behaviour == "decline" else ()
    made = Scenario(
        id=f"one-{behaviour}",
        blueprint="one",
        twin="one",
        split="held_out_tools",
        domain="desk",
        tool="plan_meeting",
        behaviour=behaviour,
        request=request,
        system_prompt="Act through the gateway.\nNow: 2026-03-02T09:30.",
        now="2026-03-02T09:30",
        seed=1,
        search_query="plan meeting",
        gold_arguments=gold,
        missing=missing,
        question="When should it start?" if missing else "",
        reply="Sorry, no tool here can do that." if hidden else "",
        hidden_tools=hidden,
    )
    return dataclasses.replace(made, **changes)


def worded() -> Scenario:
    """A scenario whose title the assistant words itself."""
    request = "Plan a meeting to go over the budget and the hiring, for 2026-03-09T14:00."
    title = Composed("Go over the budget and the hiring", ("budget", "hiring"), ("tomorrow",))
    gold = {"title": title.write, "start": "2026-03-09T14:00"}
    return scenario(id="worded", request=request, gold_arguments=gold, composed={"title": title})


@pytest.fixture(scope="session")
def make_scenario() -> Callable[..., Scenario]:
    def make(kind: str = "dispatch", **changes: Any) -> Scenario:
        return worded() if kind == "worded" else scenario(kind, **changes)

    return make


@pytest.fixture(scope="session")
def make_case(catalog: Catalog, hints: dict[str, ToolHint]) -> Callable[..., Case]:
    def make(kind: str, breadcrumbs: bool = True) -> Case:
        made = worded() if kind == "worded" else scenario(kind)
        settings = GatewaySettings(breadcrumbs=breadcrumbs)
        return decision_cases([made], catalog, hints, settings)[0]

    return make
