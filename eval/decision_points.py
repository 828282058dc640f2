"""Decision points as token ids, from generated pairs: a prompt, and where call and stall part.

A pair is one conversation with a call and a stall behind it. Both are rendered; what they begin
with alike (a thought) is forced, and the tokens at which they part are the two sides of the gap.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from breadcrumbs.call_format import split_thinking
from breadcrumbs.data_gen.dataset import load_rows
from breadcrumbs.data_gen.pairs import Pair, pairs_of
from breadcrumbs.decoding import common_prefix
from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.attribution import Openers, openers_of
from breadcrumbs.eval.decision import renamed
from breadcrumbs.gateway.namings import OWN
from breadcrumbs.messages import Message
from breadcrumbs.nudge import nudge_text
from breadcrumbs.radar import situation_of
from breadcrumbs.schema_parts import SchemaPart
from breadcrumbs.segments import LOCAL_TOKENS, Segment

if TYPE_CHECKING:
    from breadcrumbs.data_gen.splits import Split
    from breadcrumbs.rendering import Renderer

UNTOUCHED = (Segment.SINK, Segment.TEMPLATE, Segment.LOCAL)
SEAM = 8
"""Tokens of a schema that may be cut otherwise where fields are put into it."""
KEY_SEGMENTS = (Segment.STEERING, Segment.BREADCRUMB, Segment.NUDGE, Segment.SCHEMA)


@dataclass(frozen=True, slots=True)
class DecisionPoint:
    """A prompt whose last token's row decides."""

    ids: tuple[int, ...]
    segments: tuple[Segment, ...]
    risk: tuple[int, ...]
    """Positions of the schema's risk flags."""
    openers: Openers
    """First tokens of the call, and of the stall and common prose, behind what is forced."""
    call: tuple[int, ...]
    """The call's tokens up to the end of its opener."""
    stall: int
    """First token of the pair's own stall."""

    def positions(self, *segments: Segment) -> tuple[int, ...]:
        """Where tokens of some segments stand, the last token left out."""
        return tuple(at for at, one in enumerate(self.segments[:-1]) if one in segments)

    def last_run(self, segment: Segment) -> tuple[int, ...]:
        """The last unbroken run of a segment: of a breadcrumb or a schema the one decided on."""
        found = self.positions(segment)
        breaks = [at for at in range(1, len(found)) if found[at] != found[at - 1] + 1]
        return found[breaks[-1] :] if breaks else found

    def others(self) -> tuple[int, ...]:
        """Where a placebo may stand: neither what is tested nor sink, template or `local`."""
        left_out = (*UNTOUCHED, *KEY_SEGMENTS)
        return tuple(at for at, one in enumerate(self.segments[:-1]) if one not in left_out)


def dispatch_pairs(data: Path, split: Split, count: int) -> list[Pair]:
    """Pairs where dispatch is right, a tool at a time, under the gateway's own names.

    Raises:
        ProbeError: the split has fewer.
        DataError: the data set is missing or broken.
    """
    rows = [
        dataclasses.replace(row, scenario=renamed(row.scenario, OWN.name))
        for row in load_rows(data, split)
    ]
    pairs, _ = pairs_of([row for row in rows if row.behaviour == "dispatch"])
    if len(pairs) < count:
        raise ProbeError(
            f"{data}, {split}: {len(pairs)} pairs of a call and a stall, {count} prompts wanted;"
            " lower `prompts` or generate more"
        )
    return pairs[:count]


def point_of(
    pair: Pair, renderer: Renderer, *, thought: bool, messages: Sequence[Message] | None = None
) -> DecisionPoint:
    """The decision point of a pair, or of the same pair behind other `messages`.

    Without `thought` the reasoning in front of both sides is left out.

    Raises:
        ProbeError: the two sides do not part, or not at the call's opener.
        DataError, ModelError: the template cannot tell segments or turns apart.
    """
    prompt = pair.prompt if messages is None else tuple(messages)
    tools = pair.row.shown_tools
    steering = prompt[0].content.partition("\n")[0]
    rendered = renderer.render(prompt, tools, steering=steering)
    size = len(rendered.ids)
    sides = []
    for message in (pair.chosen, pair.rejected):
        turn = message if thought else _without_thought(message)
        row = renderer.training_row((*prompt, turn), tools)
        if row.ids[:size] != rendered.ids:
            raise ProbeError(f"{pair.row.id}: its turns are not behind the prompt that is served")
        sides.append(row.ids[size:])
    forced = common_prefix(sides)
    call, stall = (side[forced] for side in sides)
    if call == stall:
        raise ProbeError(f"{pair.row.id}: call and stall do not part; take another split")
    prose = {stall, *openers_of(renderer).prose} - {call}
    ids = (*rendered.ids, *sides[0][:forced])
    return DecisionPoint(
        ids,
        _behind(rendered.segments, forced),
        tuple(at for at, part in enumerate(rendered.schema_parts) if part == SchemaPart.RISK),
        Openers((call,), tuple(sorted(prose))),
        _opening(sides[0][forced:], renderer),
        stall,
    )


def _opening(call: Sequence[int], renderer: Renderer) -> tuple[int, ...]:
    """As many of a call's tokens as spell its opener."""
    opener = renderer.call_format.opener
    for size in range(1, len(call) + 1):
        text = str(renderer.tokenizer.decode(list(call[:size]), skip_special_tokens=False))
        if text.lstrip().startswith(opener):
            return tuple(call[:size])
    raise ProbeError(f"the call does not begin with {opener} where it parts from the stall")


def nudged(pair: Pair) -> tuple[Message, ...] | None:
    """The pair's prompt with the stall and a nudge behind it; None where nothing is disclosed."""
    situation = situation_of(pair.prompt)
    if situation is None:
        return None
    nudge = Message("user", nudge_text(situation), synthetic=True)
    return (*pair.prompt, _without_thought(pair.rejected), nudge)


def _without_thought(message: Message) -> Message:
    return dataclasses.replace(message, content=split_thinking(message.content)[1].strip())


def _behind(segments: Sequence[Segment], forced: int) -> tuple[Segment, ...]:
    """Segments with `forced` tokens of the turn behind them; `local` is at the new end."""
    plain = [Segment.TEMPLATE if one == Segment.LOCAL else one for one in segments]
    plain += [Segment.ASSISTANT] * forced
    near = len(plain) - LOCAL_TOKENS
    return tuple(
        Segment.LOCAL if at >= near and one in (Segment.TEMPLATE, Segment.ASSISTANT) else one
        for at, one in enumerate(plain)
    )


def without(ids: Sequence[int], keys: Sequence[int]) -> list[int]:
    """The ids less those at some positions."""
    gone = set(keys)
    return [one for at, one in enumerate(ids) if at not in gone]


def moved(ids: Sequence[int], keys: Sequence[int], to: int) -> list[int]:
    """The same ids, those at `keys` put in front of position `to`."""
    gone = set(keys)
    front = [one for at, one in enumerate(ids[:to]) if at not in gone]
    back = [one for at, one in enumerate(ids[to:], to) if at not in gone]
    return [*front, *(ids[at] for at in keys), *back]


def replaced(ids: Sequence[int], keys: range, text: Sequence[int]) -> list[int]:
    """The ids with `text` where a run of positions stood."""
    return [*ids[: keys.start], *text, *ids[keys.stop :]]


class Inserted(NamedTuple):
    """Where a long prompt has tokens that the short one lacks; in front and behind they agree."""

    short: range
    """Tokens at the seam that became others; mostly none."""
    long: range

    def there(self, keys: Sequence[int]) -> tuple[int, ...]:
        """Positions of the short prompt in the long one; those at the seam have none."""
        shift = self.long.stop - self.short.stop
        kept = [at for at in keys if at not in self.short]
        return tuple(at if at < self.short.start else at + shift for at in kept)


def inserted(short: Sequence[int], long: Sequence[int]) -> Inserted:
    """What was put into `short` to make `long`.

    Raises:
        ProbeError: more differs than one run of tokens and its seam.
    """
    head = _alike(short, long)
    tail = _alike(short[head:][::-1], long[head:][::-1])
    found = Inserted(range(head, len(short) - tail), range(head, len(long) - tail))
    if len(found.short) > SEAM or len(found.long) <= len(found.short):
        raise ProbeError(
            "the long schema is not the short one with something put in; raise schema_tokens"
        )
    return found


def _alike(one: Sequence[int], other: Sequence[int]) -> int:
    """How many ids both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def random_span(pool: Sequence[int], tokens: int, rng: random.Random) -> tuple[int, ...]:
    """As many neighbours in `pool` as wanted, or all of it where it has fewer."""
    first = rng.randrange(max(len(pool) - tokens, 0) + 1)
    return tuple(pool[first : first + tokens])


def span_of_mass(
    pool: Sequence[int], mass: float, token_mass: Any, rng: random.Random, tries: int = 16
) -> tuple[int, ...]:
    """Neighbours in `pool` that together have about `mass` of the attention: the best of `tries`.

    `token_mass` [T] is each position's share.
    """
    best: tuple[int, ...] = ()
    off = float("inf")
    for _ in range(tries):
        first = rng.randrange(len(pool))
        held, end = 0.0, first
        while end < len(pool) and (end == first or held < mass):
            held += float(token_mass[pool[end]])
            end += 1
        if abs(held - mass) < off:
            best, off = tuple(pool[first:end]), abs(held - mass)
    return best


_SUBJECTS = "harbour garden library bakery river market workshop station".split()
_VERBS = "rests opens waits changes brightens settles turns sleeps".split()
_TAILS = (
    "in the early light",
    "behind the old wall",
    "after the long rain",
    "while the bells ring",
    "under a pale sky",
    "before the first snow",
    "near the quiet square",
    "as the day goes on",
)


def neutral_prose(tokens: int, renderer: Renderer, rng: random.Random) -> list[int]:
    """Ids of prose that has nothing to do with tools, exactly so many."""
    ids: list[int] = []
    while len(ids) < tokens:
        words = (rng.choice(_SUBJECTS), rng.choice(_VERBS), rng.choice(_TAILS))
        sentence = " The {} {} {}.".format(*words)
        ids += renderer.tokenizer(sentence, add_special_tokens=False)["input_ids"]
    return ids[:tokens]
