"""Blueprints and the twins made from them.

A blueprint is a tool, gold argument values and a request plan. Its twins share everything but
one fact: all said (`dispatch`), one required argument unsaid (`clarify`), tool not in the
catalog (`decline`). (seed, split, index) fixes a blueprint to the byte.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from breadcrumbs import prompt_grammar, prompts
from breadcrumbs.data_gen.grounding import absent, normalise
from breadcrumbs.data_gen.hints import Composed, ToolHint, Topic, records_of
from breadcrumbs.data_gen.localise import localised
from breadcrumbs.data_gen.personas import SpokenPlan, plan_spoken
from breadcrumbs.data_gen.questions import plain_question, question_for, spoken_question
from breadcrumbs.data_gen.requests import Phrasing, RequestPlan, plan_request
from breadcrumbs.data_gen.script import Script, Step, script_from_dict
from breadcrumbs.data_gen.shape import Shape, shape_from_dict
from breadcrumbs.data_gen.speech import Language, Speech, Surface, pick, speech
from breadcrumbs.data_gen.splits import Split, argument_kind
from breadcrumbs.data_gen.typos import with_typos
from breadcrumbs.data_gen.values import draw, spoken, words
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.search import ToolIndex

Behaviour = Literal["dispatch", "clarify", "decline", "answer", "hold"]
ApprovalPlan = Literal["approve", "deny", "wait", "expire"]
Prompts = Literal["few", "varied"]

FIRST_DAY = datetime(2026, 1, 5)
TIER_2_OFF_SHARE = 0.3
"""How often a plain read has a system prompt with tier 2 off, where prompts are varied."""
DECOY_SHARE = 0.5
"""How often an optional argument of the missing one's kind is said, so that it could mislead."""
DECLINES = (
    "I cannot {do}: there is no tool for that here.",
    "There is no tool here to {do}, so I cannot do that.",
    "Sorry, no tool here can {do}.",
    "I looked, but there is no tool to {do} here.",
)
PLAIN_DECLINES = (
    "There is no tool here for that, so I cannot do it.",
    "Sorry, no tool here can do that.",
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One request with its hidden ground truth."""

    id: str
    blueprint: str
    twin: str
    """Shared by the rows that belong in one batch."""
    split: Split
    domain: str
    tool: str
    behaviour: Behaviour
    request: str
    system_prompt: str
    now: str
    seed: int
    search_query: str
    gold_arguments: dict[str, Any]
    """What the right call passes; defaults are left out. For `clarify`, what is known."""
    missing: tuple[str, ...] = ()
    withheld: dict[str, Any] = field(default_factory=dict)
    """What a user would answer for each missing argument."""
    question: str = ""
    reply: str = ""
    """The right text of a `decline`, an `answer` or a `hold`."""
    composed: dict[str, Composed] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    hidden_tools: tuple[str, ...] = ()
    approval: ApprovalPlan = "approve"
    decoy: bool = False
    """Whether an argument of the missing one's kind is said."""
    script: Script = field(default_factory=Script)
    """What a special kind of scenario adds; plain ones have none."""
    shape: Shape = field(default_factory=Shape)
    """How what it is about is shown."""
    surface: Surface = field(default_factory=Surface)

    @property
    def speech(self) -> Speech:
        """What user and assistant say it with."""
        return speech(self.surface.voice)

    @property
    def kind(self) -> str:
        """The special kind it is of; empty for a plain one."""
        return self.script.kind

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is done before the call that is decided about; plain scenarios have none."""
        return self.script.steps

    @property
    def replies(self) -> tuple[str, ...]:
        """What the user says after the first answer; plain scenarios end there."""
        return self.script.replies

    @property
    def slip(self) -> dict[str, Any]:
        """The arguments of a wrong call before the right one; plain scenarios have none."""
        return self.script.slip

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; a script, shape or surface that says nothing is left out."""
        body = dataclasses.asdict(self)
        if not self.surface.persona:
            del body["surface"]
        if not self.kind:
            del body["script"]
        if self.shape == Shape():
            del body["shape"]
        return body


def scenario_from_dict(data: Mapping[str, Any]) -> Scenario:
    """Read `Scenario.to_dict` back.

    Raises:
        DataError: a key is missing or unknown.
    """
    body = dict(data)
    try:
        body["missing"] = tuple(body["missing"])
        body["hidden_tools"] = tuple(body["hidden_tools"])
        body["composed"] = {k: _composed(v) for k, v in body["composed"].items()}
        if "surface" in body:
            body["surface"] = Surface(**body["surface"])
        if "script" in body:
            body["script"] = script_from_dict(body["script"])
        if "shape" in body:
            body["shape"] = shape_from_dict(body["shape"])
        return Scenario(**body)
    except (KeyError, TypeError) as error:
        raise DataError(f"scenario {body.get('id', '?')}: {error}; regenerate the data") from error


def _composed(data: Mapping[str, Any]) -> Composed:
    return Composed(data["write"], tuple(data["must"]), tuple(data["must_not"]))


@dataclass(frozen=True, slots=True)
class Blueprint:
    """What the twins share."""

    id: str
    split: Split
    spec: ToolSpec
    hint: ToolHint
    """In the language of the surface."""
    said: dict[str, Any]
    topic: Topic | None
    plan: RequestPlan | SpokenPlan
    drop: str | None
    """The required argument the clarify twin leaves out."""
    search_query: str
    system_prompt: str
    now: str
    seed: int
    question: str
    reply: str
    approval: ApprovalPlan
    decoy: bool
    surface: Surface = field(default_factory=Surface)

    @property
    def speech(self) -> Speech:
        """What user and assistant say it with."""
        return speech(self.surface.voice)

    @property
    def gold(self) -> dict[str, Any]:
        """All arguments of the right call, in the order of the request; worded ones first."""
        composed = {n: c.write for n, c in self.topic.compose.items()} if self.topic else {}
        return composed | {c.argument: self.said[c.argument] for c in self.plan.clauses}


@dataclass(frozen=True, slots=True)
class Dropped:
    """Why a blueprint could not be used; counted, never silent."""

    reason: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """The shares and limits blueprints are drawn with."""

    phrasing: Phrasing = "varied"
    prompts: Prompts = "few"
    languages: tuple[Language, ...] = ("en",)
    typo_share: float = 0.0
    optional_share: float = 0.4
    max_hits: int = 2
    waiting_share: float = 0.0
    denied_share: float = 0.0


def droppable(spec: ToolSpec, hint: ToolHint) -> list[str]:
    """Required arguments whose absence leaves only a question: no default, not worded."""
    properties = spec.input_schema.get("properties", {})
    required = spec.input_schema.get("required", ())
    return [n for n in required if n not in hint.composed and "default" not in properties[n]]


def make_blueprint(
    key: str,
    split: Split,
    spec: ToolSpec,
    hint: ToolHint,
    catalog: Catalog,
    index: ToolIndex,
    recipe: Recipe,
    *,
    seed: int,
    drop: str | None,
    language: Language | None = None,
) -> Blueprint | Dropped:
    """Draw one blueprint; `key` and `seed` fix it. `index` searches the split's own catalog.

    `language` is one of the recipe's where none is named.
    """
    spoken = pick(recipe.languages, seed, key, "language") if language is None else language
    hint = localised(hint, spec, spoken)
    rng = random.Random(f"{seed}/{key}")
    moment = _moment(rng)
    topic = rng.choice(hint.topics) if hint.topics else None
    names = _said_names(spec, hint, topic, drop, recipe, rng)
    said = _draw_values(names, spec, hint, catalog, moment, rng)
    if said is None:
        return Dropped("two arguments share a value")
    query = _query(spec, hint, index, recipe.max_hits, rng)
    if query is None:
        return Dropped("search misses the tool")
    now = moment.strftime("%Y-%m-%dT%H:%M")
    held_out = split != "train"
    prompt = _system_prompt(now, rng)
    if recipe.prompts == "varied":
        prompt = prompt_grammar.varied_prompt(now, seed, key, held_out=held_out).text
    drawn = _plan(spec, hint, said, topic, recipe, spoken, rng, held_out=held_out)
    plan = _typed(drawn, said, spec, recipe, rng)
    if drop is not None:
        texts = (plan.say((drop,)), prompt, now)
        if not absent(spec, drop, said[drop], texts, hint.arguments[drop]):
            return Dropped("the dropped value is still said")
    number = rng.randrange(2**31)
    question = _question(spec, hint, drop, recipe, spoken, rng) if drop else ""
    if question is None:
        return Dropped("no question asks for exactly the missing argument")
    return Blueprint(
        id=key,
        split=split,
        spec=spec,
        hint=hint,
        said=said,
        topic=topic,
        plan=plan,
        drop=drop,
        search_query=query,
        system_prompt=prompt,
        now=now,
        seed=number,
        question=question,
        reply=_decline(hint, drawn, recipe, rng),
        approval=_approval(spec, recipe, rng),
        decoy=drop is not None and bool(_decoys(spec, drop, said)),
        surface=drawn.surface if isinstance(drawn, SpokenPlan) else Surface(),
    )


def with_leave_asked(blueprint: Blueprint) -> Blueprint:
    """Some reads under a system prompt that demands leave for writes: it does not bind them."""
    rng = random.Random(f"{blueprint.seed}/tier 2")
    if blueprint.spec.risk is not Risk.READ or rng.random() >= TIER_2_OFF_SHARE:
        return blueprint
    prompt = prompt_grammar.with_tier_2_off(blueprint.system_prompt, blueprint.seed, blueprint.id)
    return dataclasses.replace(blueprint, system_prompt=prompt)


def dispatch(blueprint: Blueprint) -> Scenario:
    """The twin in which everything needed is said."""
    return _scenario(blueprint, "dispatch", blueprint.plan.say(), blueprint.gold)


def clarify(blueprint: Blueprint) -> Scenario:
    """The twin in which one required argument is said nowhere."""
    missing = blueprint.drop
    assert missing is not None
    known = {name: value for name, value in blueprint.gold.items() if name != missing}
    request = blueprint.plan.say((missing,))
    twin = _scenario(blueprint, "clarify", request, known)
    return dataclasses.replace(
        twin,
        missing=(missing,),
        withheld={missing: blueprint.said[missing]},
        question=blueprint.question,
    )


def decline(blueprint: Blueprint, catalog: Catalog, index: ToolIndex, max_hits: int) -> Scenario:
    """The twin whose catalog lacks the tool and everything near it."""
    hidden = near_tools(blueprint.spec, blueprint.search_query, catalog, index, max_hits)
    twin = _scenario(blueprint, "decline", blueprint.plan.say(), blueprint.gold)
    return dataclasses.replace(
        twin, twin=f"{blueprint.id}-decline", reply=blueprint.reply, hidden_tools=hidden
    )


def near_tools(
    spec: ToolSpec, query: str, catalog: Catalog, index: ToolIndex, max_hits: int
) -> tuple[str, ...]:
    """The tool itself, those that work on the same records, and hits that sound alike."""
    hidden = {spec.name}
    for name in catalog.names():
        other = catalog.tool(name)
        if other is not None and _same_records(spec, other):
            hidden.add(name)
    for hit in index.search(query, 4 * max_hits, spec.allow):
        if _sounds_alike(spec, hit):
            hidden.add(hit.name)
    return tuple(name for name in catalog.names() if name in hidden)


def _same_records(spec: ToolSpec, other: ToolSpec) -> bool:
    if spec.effect is None or other.effect is None or spec.domain != other.domain:
        return False
    return spec.effect.collection == other.effect.collection


def _sounds_alike(spec: ToolSpec, other: ToolSpec) -> bool:
    nouns = _nouns(spec.name) & _nouns(other.name)
    return bool(nouns) or len(set(spec.keywords) & set(other.keywords)) > 1


def _nouns(name: str) -> set[str]:
    """The words of a name, in any style, less the first, which mostly is the verb."""
    parts = [part.lower() for part in re.split(r"[\W_]+", words(name)) if part]
    return set(parts[1:] or parts)


def _scenario(
    blueprint: Blueprint, behaviour: Behaviour, request: str, gold: dict[str, Any]
) -> Scenario:
    topic = blueprint.topic
    return Scenario(
        id=f"{blueprint.id}-{behaviour}",
        blueprint=blueprint.id,
        twin=blueprint.id,
        split=blueprint.split,
        domain=blueprint.spec.domain,
        tool=blueprint.spec.name,
        behaviour=behaviour,
        request=request,
        system_prompt=blueprint.system_prompt,
        now=blueprint.now,
        seed=blueprint.seed,
        search_query=blueprint.search_query,
        gold_arguments=gold,
        composed=dict(topic.compose) if topic else {},
        sources=_sources(blueprint, gold),
        approval=blueprint.approval,
        decoy=blueprint.decoy,
        surface=blueprint.surface,
    )


def _sources(blueprint: Blueprint, gold: Mapping[str, Any]) -> dict[str, str]:
    composed = blueprint.topic.compose if blueprint.topic else {}
    sources = {}
    for name, schema in blueprint.spec.input_schema["properties"].items():
        if name in composed:
            sources[name] = "composed"
        elif name in gold:
            sources[name] = "user"
        elif "default" in schema:
            sources[name] = "default"
    return sources


def _moment(rng: random.Random) -> datetime:
    day = FIRST_DAY + timedelta(days=7 * rng.randrange(48) + rng.randrange(5))
    return day + timedelta(hours=rng.randrange(8, 18), minutes=rng.choice((0, 15, 30, 45)))


def _said_names(
    spec: ToolSpec,
    hint: ToolHint,
    topic: Topic | None,
    drop: str | None,
    recipe: Recipe,
    rng: random.Random,
) -> list[str]:
    properties = spec.input_schema["properties"]
    required = spec.input_schema.get("required", ())
    composed = topic.compose if topic else {}
    names = []
    for name, schema in properties.items():
        alike = drop is not None and argument_kind(schema) == argument_kind(properties[drop])
        share = max(recipe.optional_share, DECOY_SHARE if alike else 0.0)
        if name in composed or name in hint.composed or name in hint.unsaid:
            continue
        if name in required or rng.random() < share:
            names.append(name)
    return names


def _draw_values(
    names: Sequence[str],
    spec: ToolSpec,
    hint: ToolHint,
    catalog: Catalog,
    now: datetime,
    rng: random.Random,
) -> dict[str, Any] | None:
    """Values for the names; None where two said values cannot be told apart."""
    properties = spec.input_schema["properties"]
    records = records_of(catalog, spec.domain)
    values: dict[str, Any] = {}
    for name in names:
        source = hint.arguments[name].values
        for _ in range(8):
            value = draw(source, properties[name], records, now, rng)
            if "default" not in properties[name] or value != properties[name]["default"]:
                values[name] = value
                break
    _sort_times(values, hint)
    said = [normalise(spoken(v, properties[n])) for n, v in values.items() if _distinct(v)]
    return values if len(set(said)) == len(said) else None


def _distinct(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _sort_times(values: dict[str, Any], hint: ToolHint) -> None:
    """Times in the order a person fills them, so that nothing ends before it starts."""
    for kind in ("datetime", "date", "time"):
        names = [n for n in values if kind in hint.arguments[n].values]
        for name, value in zip(names, sorted(values[n] for n in names), strict=True):
            values[name] = value


def _query(
    spec: ToolSpec, hint: ToolHint, index: ToolIndex, max_hits: int, rng: random.Random
) -> str | None:
    """A search text that finds the tool among the hits the gateway shows."""
    for query in rng.sample(hint.search, len(hint.search)):
        if any(hit.name == spec.name for hit in index.search(query, max_hits, spec.allow)):
            return query
    return None


def _system_prompt(now: str, rng: random.Random) -> str:
    return prompts.system_prompt(now, decoupled=True, wording=rng.randrange(8)).text


def _plan(
    spec: ToolSpec,
    hint: ToolHint,
    said: Mapping[str, Any],
    topic: Topic | None,
    recipe: Recipe,
    language: Language,
    rng: random.Random,
    *,
    held_out: bool,
) -> RequestPlan | SpokenPlan:
    phrasing = recipe.phrasing
    if phrasing == "personas":
        return plan_spoken(language, spec, hint, said, topic, rng, held_out=held_out)
    schemas = spec.input_schema["properties"]
    return plan_request(hint, said, schemas, topic, rng, held_out=held_out, phrasing=phrasing)


def _typed(
    plan: RequestPlan | SpokenPlan,
    said: Mapping[str, Any],
    spec: ToolSpec,
    recipe: Recipe,
    rng: random.Random,
) -> RequestPlan | SpokenPlan:
    """The plan as it is typed: with slips of the fingers in a share of them."""
    if not isinstance(plan, SpokenPlan) or rng.random() >= recipe.typo_share:
        return plan
    return with_typos(plan, said, spec.input_schema["properties"], rng)


def _question(
    spec: ToolSpec,
    hint: ToolHint,
    drop: str,
    recipe: Recipe,
    language: Language,
    rng: random.Random,
) -> str | None:
    if recipe.phrasing == "personas":
        return spoken_question(spec, hint, drop, language, rng)
    if recipe.phrasing == "plain":
        return plain_question(drop)
    return question_for(hint, (drop,), rng)


def _decline(
    hint: ToolHint, plan: RequestPlan | SpokenPlan, recipe: Recipe, rng: random.Random
) -> str:
    """A short honest text; the intent is repeated only where it has no topic inside."""
    if isinstance(plan, SpokenPlan):
        return rng.choice(speech(plan.language).declines)
    if recipe.phrasing == "plain":
        return PLAIN_DECLINES[0]
    if hint.topics:
        return rng.choice(PLAIN_DECLINES)
    intent = plan.intent[0].lower() + plan.intent[1:]
    swap = {"my": "your", "me": "you", "i": "you", "our": "your", "us": "you", "we": "you"}
    do = " ".join(swap.get(word.lower(), word) for word in intent.split())
    return rng.choice(DECLINES).format(do=do)


def _approval(spec: ToolSpec, recipe: Recipe, rng: random.Random) -> ApprovalPlan:
    roll = rng.random()
    if not spec.requires_approval or roll >= recipe.waiting_share + recipe.denied_share:
        return "approve"
    return "wait" if roll < recipe.waiting_share else "deny"


def _decoys(spec: ToolSpec, drop: str, said: Mapping[str, Any]) -> list[str]:
    properties = spec.input_schema["properties"]
    kind = argument_kind(properties[drop])
    return [n for n in said if n != drop and argument_kind(properties[n]) == kind]
