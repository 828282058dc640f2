"""Special kinds of scenarios, each as a pair of twins: one acts, one asks.

A kind is made from the same blueprints as plain twins and changes one thing about them: how the
approval goes, what the rules say, what has to be read first. None is made unless a config asks.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from breadcrumbs.data_gen import scenarios
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.scenarios import ApprovalPlan, Blueprint, Dropped, Scenario, droppable
from breadcrumbs.data_gen.script import Kind, Script
from breadcrumbs.gateway.catalog import ToolSpec

_APPROVALS: Mapping[Kind, ApprovalPlan] = {"held": "wait", "denied": "deny", "expired": "expire"}


def tools_for(
    kind: Kind, specs: Sequence[ToolSpec], hints: Mapping[str, ToolHint], seed: int
) -> list[ToolSpec]:
    """The tools a kind can be made of, in an order of its own, so that few places vary."""
    found = [spec for spec in specs if _fits(kind, spec, hints[spec.name])]
    random.Random(f"{seed}/{kind}").shuffle(found)
    return found


def _fits(kind: Kind, spec: ToolSpec, hint: ToolHint) -> bool:
    return spec.requires_approval and bool(droppable(spec, hint))


def twins_of(kind: Kind, blueprint: Blueprint) -> list[Scenario] | Dropped:
    """The scenarios of one place, the acting one first; why there are none where there are none."""
    acts = dataclasses.replace(scenarios.dispatch(blueprint), approval=_APPROVALS[kind])
    return [_of(kind, acts), _of(kind, scenarios.clarify(blueprint))]


def _of(kind: Kind, scenario: Scenario) -> Scenario:
    return dataclasses.replace(scenario, script=Script(kind))
