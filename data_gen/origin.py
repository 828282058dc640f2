"""The case this project was born from, as a scenario by name.

A write tool with a dozen fields, approval required, title and message to be worded by the model,
the time unsaid. Everything needed is known, so dispatching is right; the base model recites the
schema instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.prompts import system_prompt

TOOL = "scheduled_jobs"
REQUEST = (
    "Add a deferred reminder to verify approvals, merge, and update the report for this core pull"
    " request."
)
SAID = "verify approvals, merge, and update the report for this core pull request"
NOW = "2026-03-02T09:00"


def origin_scenario(catalog: Catalog, hints: Mapping[str, ToolHint]) -> Scenario:
    """The scenario; `schedule_time` is left to its default of +30m.

    Raises:
        DataError: the catalog or the hints lack the tool or its topic.
    """
    spec, hint = catalog.tool(TOOL), hints.get(TOOL)
    topic = next((t for t in hint.topics if t.say == SAID), None) if hint else None
    if spec is None or hint is None or topic is None:
        raise DataError(f"the catalog has no {TOOL} with its first topic; use the shipped catalogs")
    composed = topic.compose
    return Scenario(
        id="origin",
        blueprint="origin",
        twin="origin",
        split="held_out_tools",
        domain=spec.domain,
        tool=TOOL,
        behaviour="dispatch",
        request=REQUEST,
        system_prompt=system_prompt(NOW).text,
        now=NOW,
        seed=0,
        search_query=hint.search[0],
        gold_arguments={name: part.write for name, part in composed.items()},
        composed=dict(composed),
        sources={name: "composed" for name in composed},
    )
