"""Decision-point mode: the gold prefix is forced through the real gateway, one turn is taken.

The prefix is the oracle's search and disclosure, so payloads are what the gateway really says.
The turn comes from a model, in batches, or from a policy that needs none; nudges are off.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from breadcrumbs.call_format import HERMES, CallFormat
from breadcrumbs.data_gen.episodes import OraclePolicy, as_shown, gold_prefix, opening
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.localise import localised
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.values import words
from breadcrumbs.errors import DataError
from breadcrumbs.eval.config import Cell, Episodes, System
from breadcrumbs.eval.metrics import EXECUTE, Case
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.gateway import META_TOOLS, GatewaySettings
from breadcrumbs.messages import ToolCall
from breadcrumbs.policies import heard
from breadcrumbs.turns import Turn

if TYPE_CHECKING:
    from breadcrumbs.local_model import LocalModel

NOTHING = "Okay."
"""What a policy says that does nothing."""
SEARCH_TOKENS = 64
"""A search call has about thirty tokens."""
_FILLERS: Mapping[str, str] = {
    "date-time": "2026-01-05T09:00",
    "date": "2026-01-05",
    "time": "09:00",
    "email": "someone@example.com",
    "uri": "https://example.com",
}


def pick(scenarios: Sequence[Scenario], wanted: Cell | Episodes, where: str) -> list[Scenario]:
    """The first scenarios of each behaviour, in stored order, which takes the tools in turn.

    Raises:
        DataError: the data set has fewer than are wanted.
    """
    picked: list[Scenario] = []
    for behaviour in ("dispatch", "clarify", "decline"):
        count = getattr(wanted, behaviour)
        found = [s for s in scenarios if s.behaviour == behaviour]
        if len(found) < count:
            raise DataError(
                f"{where}: {count} {behaviour} scenarios wanted, the data set has {len(found)};"
                " lower the count in the eval config or generate more"
            )
        picked += found[:count]
    return picked


def renamed(scenario: Scenario, naming: str | None) -> Scenario:
    """The scenario with the meta-tools shown under a naming; None leaves it its own."""
    if naming is None:
        return scenario
    shape = dataclasses.replace(scenario.shape, naming=naming)
    return dataclasses.replace(scenario, shape=shape)


def turn_of(text: str, case: Case, form: CallFormat = HERMES) -> Turn:
    """What a model that writes `form` wrote after a case, as a turn in the gateway's words."""
    words = case.scenario.shape.words()
    return heard(form.parse_turn(text, tools=words.show_tools(case.tools)), words)


def decision_cases(
    scenarios: Sequence[Scenario],
    catalog: Catalog,
    hints: Mapping[str, ToolHint],
    settings: GatewaySettings,
) -> list[Case]:
    """Each scenario up to its decision point."""

    async def make() -> list[Case]:
        return [await decision_case(s, catalog, hints, settings) for s in scenarios]

    return asyncio.run(make())


async def decision_case(
    scenario: Scenario,
    catalog: Catalog,
    hints: Mapping[str, ToolHint],
    settings: GatewaySettings,
) -> Case:
    """A scenario up to its decision point, through the gateway.

    Raises:
        DataError: the catalog lacks its tool.
    """
    spec = spec_of(scenario, catalog)
    messages, tools, _ = await gold_prefix(scenario, catalog, settings)
    return Case(
        scenario,
        spec,
        hint_for(scenario, spec, hints),
        tuple(messages),
        tuple(tools),
        as_shown(scenario, spec),
    )


def search_cases(
    scenarios: Sequence[Scenario], catalog: Catalog, hints: Mapping[str, ToolHint]
) -> list[Case]:
    """Each scenario before its first turn: system prompt and request alone."""
    specs = [spec_of(scenario, catalog) for scenario in scenarios]
    return [
        Case(s, spec, hint_for(s, spec, hints), tuple(opening(s)), META_TOOLS)
        for s, spec in zip(scenarios, specs, strict=True)
    ]


def hint_for(scenario: Scenario, spec: ToolSpec, hints: Mapping[str, ToolHint]) -> ToolHint | None:
    """The hint of a scenario's tool, in the scenario's language; None where there is none."""
    hint = hints.get(scenario.tool)
    return None if hint is None else localised(hint, spec, scenario.surface.language)


def spec_of(scenario: Scenario, catalog: Catalog) -> ToolSpec:
    """The scenario's tool.

    Raises:
        DataError: the catalog lacks it.
    """
    spec = catalog.tool(scenario.tool)
    if spec is None:
        raise DataError(f"{scenario.id}: no tool {scenario.tool!r} in the catalog; generate again")
    return spec


def generate_texts(
    model: LocalModel,
    cases: Sequence[Case],
    *,
    max_new_tokens: int,
    text_budget: int,
    batch_tokens: int,
    step: Callable[[int], None],
) -> list[str]:
    """What the model writes after each case, greedy, special tokens kept; `step` gets the count."""
    prompts = [
        model.renderer.prompt_ids(words.show(case.messages), words.show_tools(case.tools))
        for case in cases
        for words in (case.scenario.shape.words(),)
    ]
    return texts_after(
        model,
        prompts,
        max_new_tokens=max_new_tokens,
        text_budget=text_budget,
        batch_tokens=batch_tokens,
        step=step,
    )


def texts_after(
    model: LocalModel,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    text_budget: int,
    batch_tokens: int,
    step: Callable[[int], None],
) -> list[str]:
    """The same after prompts that are token ids already."""
    rows = model.generate(
        prompts,
        max_new_tokens=max_new_tokens,
        text_budget=text_budget,
        batch_tokens=batch_tokens,
        progress=lambda done, _total: step(done),
    )
    decode = model.renderer.tokenizer.decode
    return [str(decode(row, skip_special_tokens=False)) for row in rows]


def constant_turn(system: System, case: Case) -> Turn:
    """The turn of a system without a model: the right one, or always the same."""
    if system == "oracle":
        return OraclePolicy(case.scenario, case.spec).turn(case.messages)
    if system == "do_nothing":
        return Turn(NOTHING)
    if system == "always_dispatch":
        arguments = {"tool_name": case.scenario.tool, "arguments": filled_arguments(case)}
        return Turn("", (ToolCall("call_3", EXECUTE, arguments),))
    return Turn(first_question(case))


def filled_arguments(case: Case) -> dict[str, Any]:
    """The gold arguments, and a type-valid filler for every required one that is missing."""
    arguments = dict(case.scenario.gold_arguments)
    properties = case.spec.input_schema["properties"]
    for name in case.spec.required:
        if name not in arguments and "default" not in properties[name]:
            arguments[name] = filler(properties[name])
    return arguments


def first_question(case: Case) -> str:
    """A question for the first required parameter, or the first of all where none is."""
    properties = case.spec.input_schema["properties"]
    name = next(iter(case.spec.required), next(iter(properties), "value"))
    hint = case.hint.arguments.get(name) if case.hint else None
    if hint is not None and hint.questions:
        return hint.questions[0]
    return f"What is the {words(name)}?"


def filler(schema: Mapping[str, Any]) -> Any:
    """The plainest value a schema takes (types, enums, formats, lower bounds)."""
    if "enum" in schema:
        return schema["enum"][0]
    if "default" in schema:
        return schema["default"]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind in ("integer", "number"):
        return _number(schema, kind)
    if kind == "boolean":
        return False
    if kind == "array":
        return [filler(schema.get("items", {})) for _ in range(max(1, schema.get("minItems", 1)))]
    if kind == "object":
        inner = schema.get("properties", {})
        return {name: filler(inner.get(name, {})) for name in schema.get("required", ())}
    if "pattern" in schema:
        return _matching(schema["pattern"])
    text = _FILLERS.get(schema.get("format", ""), "something")
    return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength", len(text) + 256)]


def _matching(pattern: str) -> str:
    """A text the pattern takes, always the same; a plain word where Python cannot read it."""
    from rstr import Rstr

    try:
        text: str = Rstr(random.Random(pattern)).xeger(pattern)
    except (re.error, ValueError, NotImplementedError):
        return "something"
    return text


def _number(schema: Mapping[str, Any], kind: str) -> int | float:
    step = 1 if kind == "integer" else 0.5
    low = schema.get("minimum")
    if low is None and "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    high = schema.get("maximum")
    value = 1 if low is None else low
    return value if high is None else min(value, high)
