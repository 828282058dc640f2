"""Requests worded anew by an endpoint: nearer to how people talk, checked like all others.

A twin's requests are asked for together and kept together. Every value must still be said, the
missing one must still be nowhere, nothing countable may be added; then the rows are run and
verified again. What fails keeps the words it had.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breadcrumbs.data_gen.dataset import Row
from breadcrumbs.data_gen.episodes import OraclePolicy, row_meta, run_episode
from breadcrumbs.data_gen.grounding import absent, normalise, says, says_boolean
from breadcrumbs.data_gen.hints import ToolHint
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.values import spoken
from breadcrumbs.data_gen.verify import Verifier, duplicate_key
from breadcrumbs.endpoint import Endpoint
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import STRICT_JSON, Message
from breadcrumbs.visible import visible

STEPS = ("asked", "read", "faithful", "verified", "kept")
"""What a twin must get through to be said in other words, in order."""
ORDER = (
    "You put what people type to an assistant into other words, as different people would say it:"
    " short or long, polite or curt. Every value must stay letter by letter, every fact must stay"
    " and none may be added; what one request leaves unsaid stays unsaid. Answer with one JSON"
    ' object and nothing else: {"requests": [...]}, one text for each request, in their order.'
)
_FENCE = re.compile(r"^```(?:json)?\s*(.*?)\s*```$", re.DOTALL)
_MARKS = frozenset("<>{}[]|`\\")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Reworder:
    """Asks one endpoint for other words; counts what came of it."""

    endpoint: Endpoint
    verifier: Verifier
    hints: Mapping[str, ToolHint]
    reached: Counter[str] = field(default_factory=Counter)
    """Twins by step reached."""
    dropped: Counter[str] = field(default_factory=Counter)

    async def reworded(self, twins: Sequence[Row]) -> list[Row] | None:
        """The rows of a twin in other words; None where that came to nothing, counted by reason.

        Raises:
            ModelError: the endpoint gives no usable answer.
        """
        found = await self._reword(twins)
        if isinstance(found, str):
            self.dropped[f"reworded: {found}"] += 1
            return None
        return found

    async def _reword(self, twins: Sequence[Row]) -> list[Row] | str:
        self.reached["asked"] += 1
        first = twins[0].scenario
        spec, hint = self.verifier.catalog.tool(first.tool), self.hints[first.tool]
        assert spec is not None
        turn = await self.endpoint.turn(self._question(twins, spec), [], first.seed)
        texts = read_texts(turn.text, len(twins))
        if texts is None:
            return "the answer is not one text for each request"
        self.reached["read"] += 1
        for row, text in zip(twins, texts, strict=True):
            fault = wording_fault(text, row.scenario, spec, hint)
            if fault is not None:
                return fault
        self.reached["faithful"] += 1
        rows: list[Row] = []
        for row, text in zip(twins, texts, strict=True):
            made = await self._run(row, text, spec, hint)
            if isinstance(made, str):
                return made
            rows.append(made)
        self.reached["verified"] += 1
        return rows

    def _question(self, twins: Sequence[Row], spec: ToolSpec) -> list[Message]:
        properties = spec.input_schema.get("properties", {})
        scenarios = [row.scenario for row in twins]
        values = {
            spoken(value, properties.get(name, {})): None
            for scenario in scenarios
            for name, value in scenario.gold_arguments.items()
            if name not in scenario.composed and not isinstance(value, bool)
        }
        asked = {"requests": [s.request for s in scenarios], "values": list(values)}
        return [Message("system", ORDER), Message("user", json.dumps(asked, ensure_ascii=False))]

    async def _run(self, row: Row, text: str, spec: ToolSpec, hint: ToolHint) -> Row | str:
        """The row's episode with another request, taken by the oracle and verified."""
        scenario = dataclasses.replace(
            row.scenario,
            request=text,
            gold_arguments=in_order_said(text, row.scenario, spec, hint),
        )
        catalog, settings = self.verifier.catalog, self.verifier.settings
        policy = OraclePolicy(scenario, spec)
        episode = await run_episode(scenario, catalog, settings, policy)
        reason = await self.verifier.reason(scenario, episode, hint)
        if reason is not None:
            return reason
        meta = {"reworded_from": row.scenario.request, "teacher": self.endpoint.config.model}
        return dataclasses.replace(
            row,
            scenario=scenario,
            source="oracle",
            messages=episode.messages,
            tools=episode.tools,
            meta={**meta, **row_meta(episode, scenario)},
        )

    def place(
        self, rows: Sequence[Row], made: Iterable[tuple[Sequence[int], list[Row] | None]]
    ) -> list[Row]:
        """The rows with the reworded ones in their places, in order; repeats are left out.

        Done once all answers are there, so that no answer's time decides which of two stays.
        """
        placed = list(rows)
        keys = {duplicate_key(row.scenario) for row in rows}
        for places, found in made:
            if found is None:
                continue
            fresh = {duplicate_key(row.scenario) for row in found}
            if fresh & keys:
                self.dropped["reworded: duplicate"] += 1
                continue
            keys |= fresh
            self.reached["kept"] += 1
            for position, row in zip(places, found, strict=True):
                placed[position] = row
        return placed


def twin_places(rows: Sequence[Row], outside: str) -> list[list[int]]:
    """Positions of the rows that share a request plan, training only, without that domain."""
    twins: dict[str, list[int]] = {}
    for position, row in enumerate(rows):
        if row.split != "train" or row.behaviour == "decline" or row.scenario.domain == outside:
            continue
        if row.scenario.kind:  # what its words say beside the values counts as well
            continue
        twins.setdefault(row.twin, []).append(position)
    return list(twins.values())


def read_texts(answer: str, count: int) -> list[str] | None:
    """The texts of an answer, in order; None where it is not exactly that."""
    fenced = _FENCE.match(answer.strip())
    try:
        value = STRICT_JSON.decode(fenced.group(1) if fenced else answer)
    except (ValueError, RecursionError):
        return None
    texts = value.get("requests") if isinstance(value, dict) else None
    if not isinstance(texts, list) or len(texts) != count:
        return None
    if not all(isinstance(text, str) and text.strip() for text in texts):
        return None
    return [text.strip() for text in texts]


def wording_fault(text: str, scenario: Scenario, spec: ToolSpec, hint: ToolHint) -> str | None:
    """Why a text is not the scenario's request in other words, as far as that can be checked."""
    old, new = normalise(scenario.request), normalise(text)
    if visible(text) != text or (_MARKS & set(text)) - set(scenario.request):
        return "hidden characters, lines or marks"
    if len(text) > 3 * len(scenario.request) + 100:
        return "much longer than the request"
    if old == new:
        return "the same words"
    if not set(_NUMBER.findall(new)) <= set(_NUMBER.findall(old)):
        return "a number was added"
    for name, value in scenario.gold_arguments.items():
        if name not in scenario.composed and not _said(new, name, value, spec, hint):
            return "a value is not said any more"
    if any(_newly_said(name, text, scenario, spec, hint) for name in hint.arguments):
        return "another argument is said"
    for composed in scenario.composed.values():
        kept = [normalise(fact) for fact in composed.must if normalise(fact) in old]
        wrong = [normalise(fact) for fact in composed.must_not if normalise(fact) not in old]
        if not all(fact in new for fact in kept) or any(fact in new for fact in wrong):
            return "the topic is not the same"
    return None


def _said(text: str, name: str, value: Any, spec: ToolSpec, hint: ToolHint) -> bool:
    if isinstance(value, bool):
        return says_boolean(text, name, value, hint.arguments.get(name))
    return says(text, value, spec.input_schema["properties"].get(name, {}))


def _newly_said(name: str, text: str, scenario: Scenario, spec: ToolSpec, hint: ToolHint) -> bool:
    """Whether an argument that was not said is now: its missing value, an enum's, a boolean's."""
    schema = spec.input_schema.get("properties", {}).get(name, {})
    if name in scenario.gold_arguments:
        return False
    if name not in scenario.withheld and "enum" not in schema and schema.get("type") != "boolean":
        return False
    value = scenario.withheld.get(name, True)
    argument = hint.arguments[name]
    return absent(spec, name, value, [scenario.request], argument) and not absent(
        spec, name, value, [text], argument
    )


def in_order_said(text: str, scenario: Scenario, spec: ToolSpec, hint: ToolHint) -> dict[str, Any]:
    """The gold arguments in the order in which the text has said them; worded ones first."""
    words = normalise(text).split()
    prefixes = [f" {' '.join(words[: end + 1])} " for end in range(len(words))]

    def said_by(item: tuple[str, Any]) -> int:
        name, value = item
        if name in scenario.composed:
            return -1
        found = (i for i, part in enumerate(prefixes) if _said(part, name, value, spec, hint))
        return next(found, len(prefixes))

    return dict(sorted(scenario.gold_arguments.items(), key=said_by))
