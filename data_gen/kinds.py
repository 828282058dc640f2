"""Special kinds of scenarios, each as a pair of twins: one acts, one asks.

A kind is made from the same blueprints as plain twins and changes one thing about them: how the
approval goes, what the rules say, what has to be read first. None is made unless a config asks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from breadcrumbs.data_gen import scenarios
from breadcrumbs.data_gen.derivations import can_differ, reworded, said_otherwise
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.kind_checks import stated_default
from breadcrumbs.data_gen.localise import spoken_name
from breadcrumbs.data_gen.lookups import Setting, lookup_twins, readable
from breadcrumbs.data_gen.outputs import answers_records, injected_twins, several_twins
from breadcrumbs.data_gen.scenarios import ApprovalPlan, Blueprint, Dropped, Scenario, droppable
from breadcrumbs.data_gen.script import (
    CHANGE_RULES,
    RULES,
    Kind,
    Script,
)
from breadcrumbs.data_gen.speech import AboutTexts, Surface, filled, pick, speech
from breadcrumbs.data_gen.values import spoken, words
from breadcrumbs.gateway.arguments import check_arguments
from breadcrumbs.gateway.catalog import Risk, ToolSpec
from breadcrumbs.prompt_grammar import with_tier_2_off

_APPROVALS: Mapping[Kind, ApprovalPlan] = {"held": "wait", "denied": "deny", "expired": "expire"}
_WRITES: frozenset[Kind] = frozenset({"held", "denied", "expired", "policy"})
"""Kinds that only a tool that writes can be of."""
_LOOKUPS: frozenset[str] = frozenset({"read", "candidates"})


def tools_for(kind: Kind, specs: Sequence[ToolSpec], setting: Setting, seed: int) -> list[ToolSpec]:
    """The tools a kind can be made of, in an order of its own, so that few places vary."""
    found = [
        spec
        for spec in specs
        if _possible(kind, spec, setting.hints[spec.name]) and askable(kind, spec, setting)
    ]
    random.Random(f"{seed}/{kind}").shuffle(found)
    return found


def _possible(kind: Kind, spec: ToolSpec, hint: ToolHint) -> bool:
    """Whether a tool can be of a kind at all."""
    if kind in _WRITES:
        return spec.requires_approval
    if kind == "mislabelled":
        return spec.risk is Risk.READ or spec.effect is not None
    if kind == "injected":
        return spec.risk is not Risk.READ or answers_records(spec)
    if kind == "derived":
        properties = spec.input_schema["properties"]
        return any(can_differ(properties[n]) for n in spec.required if n not in hint.composed)
    return True


def askable(kind: str, spec: ToolSpec, setting: Setting) -> list[str]:
    """Required arguments that the twin of a kind may ask for."""
    names = droppable(spec, setting.hints[spec.name])
    if kind in _LOOKUPS or (kind == "injected" and spec.risk is not Risk.READ):
        found = readable(spec, setting)
        return [name for name in names if name in found]
    return names


def twins_of(kind: Kind, blueprint: Blueprint, setting: Setting) -> list[Scenario] | Dropped:
    """The scenarios of one place, the acting one first; or why there are none."""
    blueprint = replace(blueprint, approval="approve")
    if kind in _LOOKUPS:
        return lookup_twins(kind, blueprint, setting)
    rng = random.Random(f"{blueprint.seed}/{kind}")
    if kind == "derived":
        return _derived(blueprint, rng)
    if kind == "repair":
        return _repair(blueprint, rng)
    if kind == "several":
        return several_twins(blueprint, setting, rng)
    if kind == "injected":
        return injected_twins(blueprint, setting, rng)
    if kind == "mislabelled":
        return _mislabelled(blueprint, rng)
    acts = scenarios.dispatch(blueprint)
    if kind in _APPROVALS:
        acts, asks = replace(acts, approval=_APPROVALS[kind]), scenarios.clarify(blueprint)
    elif kind == "policy":
        acts, asks = _policy(blueprint, acts, rng)
        if setting.recipe.prompts == "varied" and rng.random() < _TIER_2_OFF:
            prompt = with_tier_2_off(acts.system_prompt, blueprint.seed, blueprint.id)
            asks = replace(asks, system_prompt=prompt)
    elif kind == "hold":
        acts, asks = _hold(blueprint, acts, rng)
    else:
        asks = _question(blueprint, acts, rng)
    return [
        replace(twin, script=Script(kind, replies=_replies(kind, twin, rng)))
        for twin in (acts, asks)
    ]


def _replies(kind: Kind, twin: Scenario, rng: random.Random) -> tuple[str, ...]:
    """What the user says next: yes or no to a call that was shown, or whether a write is done."""
    texts = twin.speech.kinds
    if kind == "held" and twin.behaviour == "dispatch":
        return (rng.choice(texts.progress),) if rng.random() < _GOES_ON else ()
    if twin.behaviour == "hold":
        return (rng.choice(texts.yes if rng.random() < _GOES_ON else texts.no),)
    return ()


_GOES_ON = 0.5
"""How often a user asks after a write that waits, and says yes rather than no."""


def _derived(blueprint: Blueprint, rng: random.Random) -> list[Scenario] | Dropped:
    """Required values are said in other words wherever there are any."""
    properties = blueprint.spec.input_schema["properties"]
    said: dict[str, str] = {}
    clauses = []
    for clause in blueprint.plan.clauses:
        name, value = clause.argument, blueprint.said[clause.argument]
        other = said_otherwise(name, value, properties[name], blueprint.now, rng)
        text = reworded(clause.text, spoken(value, properties[name]), other) if other else None
        if other and text and name in blueprint.spec.required:
            said[name] = other
            clauses.append(replace(clause, text=text))
        else:
            clauses.append(clause)
    if not said:
        return Dropped("derived: no required value has other words")
    blueprint = replace(blueprint, plan=replace(blueprint.plan, clauses=tuple(clauses)))
    acts, asks = scenarios.dispatch(blueprint), scenarios.clarify(blueprint)
    known = {name: other for name, other in said.items() if name != blueprint.drop}
    return [_in_words(acts, said), _in_words(asks, known)]


def _in_words(scenario: Scenario, said: Mapping[str, str]) -> Scenario:
    sources = scenario.sources | dict.fromkeys(said, "derived")
    return replace(scenario, sources=sources, script=Script("derived", said=dict(said)))


def _policy(blueprint: Blueprint, acts: Scenario, rng: random.Random) -> tuple[Scenario, Scenario]:
    """A rule that covers the tool's risk; beside it none, or one that is only for worse."""
    risk = str(blueprint.spec.risk)
    binding = rng.choice([rule for rule, risks in RULES.items() if risk in risks])
    others = [rule for rule, risks in RULES.items() if risk not in risks]
    asks = _wait(blueprint, acts, blueprint.speech.kinds.may_i)
    if others and rng.random() < _OTHER_RULE:
        acts = replace(acts, system_prompt=f"{acts.system_prompt}\n{rng.choice(others)}")
    return acts, replace(asks, system_prompt=f"{asks.system_prompt}\n{binding}")


_TIER_2_OFF = 0.5
"""How often the rule is the whole steering, tier 2 off, instead of a line of the operator's."""
_OTHER_RULE = 0.5
"""How often the acting twin has a rule that does not cover it, or a word to go on."""


def _repair(blueprint: Blueprint, rng: random.Random) -> list[Scenario] | Dropped:
    """The first call slips in one argument, the gateway refuses it, the second is right."""
    acts, asks = scenarios.dispatch(blueprint), scenarios.clarify(blueprint)
    gold = acts.gold_arguments
    slips = [
        slip
        for name, value in gold.items()
        for slip in _slips(name, value, gold, blueprint.spec)
        if check_arguments(blueprint.spec, slip).errors
    ]
    if not slips:
        return Dropped("repair: no slip that the schema refuses")
    script = Script("repair", slip=rng.choice(slips))
    return [replace(acts, script=script), replace(asks, script=Script("repair"))]


def _slips(
    name: str, value: Any, gold: Mapping[str, Any], spec: ToolSpec
) -> Iterator[dict[str, Any]]:
    """Calls as models get them wrong: words for an enum, a number as text, one item for a list."""
    said = spoken(value, spec.input_schema["properties"][name])
    if said != value:
        yield {**gold, name: said}
    if isinstance(value, list) and len(value) == 1:
        yield {**gold, name: value[0]}
    if name in spec.required:
        yield {other: v for other, v in gold.items() if other != name}


def _mislabelled(blueprint: Blueprint, rng: random.Random) -> list[Scenario]:
    """What a tool does counts, not its label: a rule about changes holds for what changes."""
    acts = scenarios.dispatch(blueprint)
    if blueprint.spec.risk is Risk.READ:
        script = Script("mislabelled", shown_risk=str(Risk.DESTRUCTIVE))
        asks = scenarios.clarify(blueprint)
    else:
        script = Script("mislabelled", shown_risk=str(Risk.READ))
        asks = _wait(blueprint, acts, blueprint.speech.kinds.may_i)
        prompt = f"{asks.system_prompt}\n{rng.choice(CHANGE_RULES)}"
        asks = replace(asks, system_prompt=prompt)
    return [replace(acts, script=script), replace(asks, script=script)]


def _hold(blueprint: Blueprint, acts: Scenario, rng: random.Random) -> tuple[Scenario, Scenario]:
    """The user wants to see it first; beside it nothing of the kind, or a word to go on."""
    texts = blueprint.speech.kinds
    asks = _wait(blueprint, acts, texts.tell_me)
    if rng.random() < _OTHER_RULE:
        acts = replace(acts, request=f"{acts.request} {rng.choice(texts.goes)}")
    return acts, replace(asks, request=f"{asks.request} {rng.choice(texts.waits)}")


def _wait(blueprint: Blueprint, acts: Scenario, ends: Sequence[str]) -> Scenario:
    """The twin that says what would be run, and does not run it."""
    texts = blueprint.speech.kinds
    told = ", ".join(_told(n, v, blueprint) for n, v in acts.gold_arguments.items())
    reply = filled(
        pick(texts.would_run, blueprint.seed, "would run"),
        tool=words(blueprint.spec.name),
        given=filled(texts.given, told=told) if told else "",
        end=pick(ends, blueprint.seed, "end"),
    )
    return replace(acts, id=f"{blueprint.id}-hold", behaviour="hold", reply=reply)


def _told(name: str, value: object, blueprint: Blueprint) -> str:
    language, texts = blueprint.surface.language, blueprint.speech.kinds
    if isinstance(value, bool) and language != "en":
        clauses = blueprint.hint.arguments[name].clauses_for(value)
        return clauses[0]
    said = spoken(value, blueprint.spec.input_schema["properties"][name], texts.joiner)
    label = spoken_name(name, blueprint.hint, language)
    return filled(texts.told, label=label, value=said)


def _question(blueprint: Blueprint, acts: Scenario, rng: random.Random) -> Scenario:
    """The twin that only wants to know what the tool takes."""
    do = blueprint.plan.intent
    if blueprint.surface.language == "en":
        do = do[:1].lower() + do[1:]
    return replace(
        acts,
        id=f"{blueprint.id}-answer",
        behaviour="answer",
        request=filled(rng.choice(blueprint.speech.kinds.questions), do=do),
        gold_arguments={},
        composed={},
        sources={},
        reply=about(blueprint.spec, blueprint.hint, blueprint.surface),
    )


def about(spec: ToolSpec, hint: ToolHint, surface: Surface) -> str:
    """What a tool takes, read off its schema: required arguments, then the rest with defaults."""
    texts, properties = speech(surface.voice).about, spec.input_schema["properties"]

    def listed(names: Sequence[str]) -> str:
        return "; ".join(
            _field(spoken_name(n, hint, surface.language), properties[n], texts) for n in names
        )

    rest = [name for name in properties if name not in spec.required]
    needs = filled(texts.needs, fields=listed(spec.required))
    needs = needs if spec.required else texts.needs_nothing
    return f"{needs} {filled(texts.optional, fields=listed(rest))}" if rest else needs


def _field(label: str, schema: Mapping[str, Any], texts: AboutTexts) -> str:
    default = stated_default(schema)
    return label if default is None else filled(texts.default, label=label, value=default)
