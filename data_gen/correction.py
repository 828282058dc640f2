"""From a nudged episode to a clean one: cut stall and nudge, re-issue ids, replay, prove equal.

Kept only where everything needed was known before the nudge; then the nudge added nothing and
the dispatch could have come at once.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from breadcrumbs.data_gen.episodes import Episode, OraclePolicy, run_episode
from breadcrumbs.data_gen.grounding import Source, ground
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.localise import localised
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.stalls import StallKind, Subject, stall_text, subject_of
from breadcrumbs.data_gen.verify import effect_difference, replay
from breadcrumbs.errors import DataError
from breadcrumbs.events import Nudge
from breadcrumbs.gateway.catalog import Catalog, ToolSpec
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message
from breadcrumbs.policies import StallerPolicy


@dataclass(frozen=True, slots=True)
class Correction:
    """A corrected episode beside the nudged one it came from."""

    kind: StallKind
    stall: str
    nudge: str
    nudged: Episode
    episode: Episode
    """The replay of what is left after cutting."""


async def correct(
    scenario: Scenario,
    spec: ToolSpec,
    hint: ToolHint,
    catalog: Catalog,
    settings: GatewaySettings,
    kind: StallKind | None = None,
) -> Correction | str:
    """Run a staller under tier 3, cut, replay; a text says why nothing came of it."""
    rng = random.Random(f"{scenario.seed}/stall")
    chosen: StallKind = kind if kind is not None else rng.choice(get_args(StallKind))
    if not spec.input_schema["properties"] and chosen in ("param_dump", "inferable_value_ask"):
        chosen = "permission_ask"  # without parameters there is nothing else to ask for
    stall = stall_text(chosen, _subject(scenario, spec, hint), rng)
    policy = StallerPolicy(OraclePolicy(scenario, spec), lambda messages: stall, 1)
    nudged = await run_episode(
        scenario, catalog, settings, policy, loop_settings=LoopSettings(nudge=True)
    )
    nudges = [event for event in nudged.events if isinstance(event, Nudge)]
    if not nudges:
        return "correction: the radar let the stall pass"
    arguments = scenario.gold_arguments
    if None in sources_before_nudge(scenario, spec, hint, nudged.messages, arguments).values():
        return "correction: not everything was known before the nudge"
    again = await replayed(scenario, nudged, cut_stalls(nudged.messages), catalog, settings)
    if isinstance(again, str):
        return again
    return Correction(chosen, stall, nudges[0].text, nudged, again)


async def replayed(
    scenario: Scenario,
    nudged: Episode,
    clean: Sequence[Message],
    catalog: Catalog,
    settings: GatewaySettings,
) -> Episode | str:
    """Run what is left after cutting; a text says how it comes out other than the nudged run."""
    left = reissue_ids(clean)
    again = await replay(scenario, left, catalog, settings)
    if list(again.messages) != left:
        return "correction: the replay says something else"
    different = effect_difference(dataclasses.replace(nudged, messages=tuple(left)), again)
    return f"correction: {different}" if different else again


def _subject(scenario: Scenario, spec: ToolSpec, hint: ToolHint) -> Subject:
    hint = localised(hint, spec, scenario.surface.language)
    asks = {
        name: argument.questions or (f"Which {argument.label} should I use?",)
        for name, argument in hint.arguments.items()
    }
    return subject_of(scenario, spec.input_schema, asks)


def cut_stalls(messages: Sequence[Message], kept: Collection[str] = frozenset()) -> list[Message]:
    """Leave out every synthetic user turn together with the assistant text it answers.

    Turns of the texts `kept` stay, and what they answer.

    Raises:
        DataError: a synthetic turn does not follow an assistant text without calls.
    """
    left: list[Message] = []
    for position, message in enumerate(messages):
        if not (message.synthetic and message.role == "user") or message.content in kept:
            left.append(message)
            continue
        if not left or left[-1].role != "assistant" or left[-1].tool_calls:
            raise DataError(f"message {position}: a nudge without a stall before it; drop the row")
        left.pop()
    return left


def reissue_ids(messages: Sequence[Message]) -> list[Message]:
    """Number the calls anew, `call_1` onwards, in calls and in the answers to them."""
    fresh: dict[str, str] = {}
    renamed = []
    for message in messages:
        calls = []
        for call in message.tool_calls:
            fresh[call.id] = f"call_{len(fresh) + 1}"
            calls.append(dataclasses.replace(call, id=fresh[call.id]))
        answered = message.tool_call_id
        renamed.append(
            dataclasses.replace(
                message,
                tool_calls=tuple(calls),
                tool_call_id=None if answered is None else fresh[answered],
            )
        )
    return renamed


def sources_before_nudge(
    scenario: Scenario,
    spec: ToolSpec,
    hint: ToolHint,
    messages: Sequence[Message],
    arguments: Mapping[str, Any],
) -> dict[str, Source | None]:
    """Where each argument's value stood before the first nudge; None where it stood nowhere."""
    first = next(i for i, message in enumerate(messages) if message.synthetic)
    return ground(
        spec,
        arguments,
        messages[:first],
        composed=scenario.composed,
        hints=hint.arguments,
        derived=scenario.script.said,
        now=scenario.now,
    )
