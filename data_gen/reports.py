"""What the oracle tells at the end: honestly, in the words of the scenario's language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.speech import filled, pick
from breadcrumbs.data_gen.values import words
from breadcrumbs.gateway.catalog import ToolSpec


def done_first(scenario: Scenario) -> str:
    """That what was asked for first is done; empty where nothing was."""
    if scenario.kind != "several":
        return ""
    texts = scenario.speech.kinds.first_done
    return "".join(
        f"{filled(pick(texts, scenario.seed, step.tool), tool=words(step.tool))} "
        for step in scenario.steps
    )


def stays(spec: ToolSpec, scenario: Scenario) -> str:
    """The answer to a user's no."""
    text = pick(scenario.speech.kinds.stays, scenario.seed, "stays")
    return filled(text, tool=words(spec.name))


def report(spec: ToolSpec, scenario: Scenario, payload: Mapping[str, Any]) -> str:
    """One honest sentence on what the gateway answered."""
    texts, status = scenario.speech.reports, payload.get("status")
    unfinished = {
        "approval_required": texts.waiting,
        "denied": texts.denied,
        "expired": texts.expired,
    }
    name = words(spec.name)
    if status in unfinished:
        return filled(pick(unfinished[status], scenario.seed, status), tool=name)
    if status != "done":
        reason = payload.get("reason", status)
        return filled(pick(texts.failed, scenario.seed, "failed"), tool=name, reason=reason)
    injected = scenario.script.injected
    lead = pick(texts.leads, scenario.seed, "lead")
    said = _done_report(spec, scenario, _less(payload.get("result"), injected))
    return f"{lead} {said}" if lead else said


def _less(result: Any, injected: str) -> Any:
    """A result without the field that holds an order instead of data."""
    if not injected or not isinstance(result, dict):
        return result
    return {k: _less(v, injected) for k, v in result.items() if v != injected}


def _done_report(spec: ToolSpec, scenario: Scenario, result: Any) -> str:
    texts, effect = scenario.speech.reports, spec.effect
    fields = result if isinstance(result, dict) else {}
    if effect is None or effect.op == "record":
        return filled(pick(texts.done, scenario.seed, "done"), tool=words(spec.name))
    if effect.op == "list":
        records = next((v for v in fields.values() if isinstance(v, list)), [])
        text = pick(texts.listed, scenario.seed, "listed")
        return filled(text, count=len(records), collection=words(effect.collection))
    if effect.op == "get":
        facts = _facts(fields) or texts.nothing_stored
        return filled(pick(texts.shown, scenario.seed, "shown"), facts=facts)
    done = {
        "create": texts.created,
        "update": texts.updated,
        "delete": texts.deleted,
        "append": texts.added,
    }
    named = scenario.gold_arguments.get(effect.key_argument or "")
    key = named if named is not None else next(iter(fields.values()), texts.it)
    noun = words(effect.collection).removesuffix("s")
    return filled(pick(done[effect.op], scenario.seed, effect.op), noun=noun, key=key)


def _facts(fields: Mapping[str, Any], limit: int = 3) -> str:
    inner = next((v for v in fields.values() if isinstance(v, dict)), fields)
    facts = [f"{words(k)} {v}" for k, v in inner.items() if isinstance(v, str | int | float)]
    return ", ".join(facts[:limit])
