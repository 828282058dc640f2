"""A model's own stalls as rows of a data set that is there: run, nudged, mended, counted.

    training calls of a set ─ the loop, tier 3 on ─► episodes, recorded as they end
                            ─ mending ─► rows that hold stall and nudge, the stall masked

The rows lie in a folder of their own, under the ids of the rows they can stand for. `generate`
takes them in (`include`) and does with their stalls what its own config says.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breadcrumbs import __version__
from breadcrumbs.data_gen.dataset import Row, load_rows, read_manifest, write_dataset
from breadcrumbs.data_gen.episode_log import EpisodeLog
from breadcrumbs.data_gen.episodes import Episode, run_episode
from breadcrumbs.data_gen.mending import Mender, in_mode
from breadcrumbs.data_gen.rebuilding import Rebuilt, config_of, rebuild, recorded
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.side_by_side import bounded
from breadcrumbs.data_gen.stats import disclosed
from breadcrumbs.data_gen.verify import decision_place
from breadcrumbs.errors import DataError
from breadcrumbs.events import Nudge
from breadcrumbs.loop import LoopSettings
from breadcrumbs.progress import Report
from breadcrumbs.turns import Policy

EPISODES = "episodes.jsonl"
ROWS = "rows"
STEPS = (
    "tried",
    "at the decision",
    "stalled",
    "nudged",
    "dispatched",
    "grounded",
    "replayed",
    "kept",
)
"""What an episode must get through to become a row, in order."""
UNSEEN = "not seen by the radar"
_WHO = "stalls"


@dataclass(frozen=True, slots=True)
class Staller:
    """A policy that stalls, and what tells it from every other one."""

    name: str
    identity: Mapping[str, Any]
    """Plain JSON values; episodes of one are never taken for another's."""
    policy_for: Callable[[Scenario], Policy]
    width: int
    """Episodes under way at a time."""


@dataclass(slots=True)
class Yield:
    """How far the episodes got."""

    reached: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    """Stalls at the decision, by kind."""
    kept: Counter[str] = field(default_factory=Counter)
    """Rows by the kind of their first stall."""
    dropped: Counter[str] = field(default_factory=Counter)
    as_oracle: int = 0
    """Rows that equal the oracle's once their stalls are cut out."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "steps": {step: self.reached[step] for step in STEPS},
            "kinds": dict(sorted(self.kinds.items())),
            "kept_kinds": dict(sorted(self.kept.items())),
            "dropped": dict(sorted(self.dropped.items())),
            "cut_equals_the_oracle": self.as_oracle,
        }


def harvest(
    folder: Path, staller: Staller, out: Path, limit: int | None, progress: Report
) -> dict[str, Any]:
    """Try a set's training calls with a staller; rows appear in `out`/rows, where there are any.

    At most `limit` are tried. Episodes are kept in `out` as they end, and the same call goes on
    behind them. Returns the yield.

    Raises:
        DataError: no generated data set in `folder`, no call in it to try, or `out` holds
            episodes or rows of something else, or cannot be written.
        CatalogError, ConfigError: what the data set was made with cannot be read any more.
    """
    manifest = read_manifest(folder)
    rebuilt = rebuild(config_of(folder, manifest))
    rows = candidates(load_rows(folder, "train"), limit)
    if not rows:
        raise DataError(f"{folder}: no training call to try; generate some pairs")
    identity = {"data": manifest["inputs_hash"], **staller.identity}
    digest = _digest([__version__, identity, [row.id for row in rows]])
    place = out / ROWS
    known = _known(place)
    if known is not None and known["identity"] == digest:
        progress(1, 1, "already done")
        return known
    log = EpisodeLog.open(out / EPISODES, identity)
    asyncio.run(_run(rows, rebuilt, staller, log, progress))
    made, found = asyncio.run(_mended(rows, rebuilt, staller.name, log))
    report = {"staller": staller.name, "identity": digest, **found.to_dict()}
    if made:
        kept = {key: manifest[key] for key in ("inputs_hash", "version", "config", "tools")}
        body = {**kept, "dropped": report["dropped"], "stalls": report}
        write_dataset(place, made, body)
    elif known is not None:
        shutil.rmtree(place)  # of other episodes, or by another rule
    return report


def candidates(rows: Sequence[Row], limit: int | None) -> list[Row]:
    """The rows that are one search, one schema and one call; plain ones first, `limit` at most."""
    found = [row for row in rows if row.behaviour == "dispatch" and _one_call(row.scenario)]
    return sorted(found, key=lambda row: bool(row.scenario.kind))[:limit]


def _one_call(scenario: Scenario) -> bool:
    return not (scenario.steps or scenario.slip or scenario.replies)


def _known(place: Path) -> dict[str, Any] | None:
    """The yield of rows that are there; None where there are none."""
    if not place.exists():
        return None
    report = read_manifest(place).get("stalls")
    if not isinstance(report, dict):
        raise DataError(f"{place}: holds another data set; choose another --out")
    return report


def _digest(parts: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


async def _run(
    rows: Sequence[Row], rebuilt: Rebuilt, staller: Staller, log: EpisodeLog, progress: Report
) -> None:
    """Run what is not recorded yet, so many at a time."""
    left = [row.scenario for row in rows if row.id not in log.episodes]
    done = len(rows) - len(left)

    async def one(scenario: Scenario) -> None:
        nonlocal done
        episode = await run_episode(
            scenario,
            rebuilt.catalog_of(scenario),
            rebuilt.settings,
            staller.policy_for(scenario),
            loop_settings=LoopSettings(nudge=True),
        )
        log.add(scenario.id, episode)
        done += 1
        progress(done, len(rows), staller.name)

    await bounded([functools.partial(one, scenario) for scenario in left], staller.width)


async def _mended(
    rows: Sequence[Row], rebuilt: Rebuilt, name: str, log: EpisodeLog
) -> tuple[list[Row], Yield]:
    """Rows of the recorded episodes, in the order of those they can stand for."""
    found, mended = Yield(), Counter[str]()
    made: list[Row] = []
    for row in rows:
        episode = log.episodes[row.id]
        _count(found, row.scenario, episode)
        hint = rebuilt.hint_of(row.scenario)
        if hint is None:
            raise DataError(f"{row.id}: its tool has no hints any more; generate the data again")
        verifier = rebuilt.verifier_of(row.scenario)
        mender = Mender(_WHO, verifier, "mask", mended)
        result = await mender.mend(row.scenario, hint, episode)
        if isinstance(result, str):
            broken = episode.outcome == "model_error"
            found.dropped[f"{_WHO}: the model could not write a turn" if broken else result] += 1
            continue
        new = result.row(row, "mask", {"staller": name})
        cut = in_mode(new, "remove")
        reason = await verifier.reason(row.scenario, recorded(cut), hint)
        if reason is not None:
            found.dropped[f"{_WHO}: without its stall, {reason}"] += 1
            continue
        found.kept[result.kind] += 1
        found.as_oracle += cut.messages == in_mode(row, "remove").messages
        made.append(new)
    found.reached["nudged"] = mended["stalled"]
    found.reached.update({step: mended[step] for step in STEPS[4:-1]})
    found.reached["kept"] = len(made)
    return made, found


def _count(found: Yield, scenario: Scenario, episode: Episode) -> None:
    """How far an episode got before anything is made of it."""
    found.reached["tried"] += 1
    place = decision_place(episode.messages, scenario)
    shown = disclosed(episode.messages[:place])
    if place == len(episode.messages) or all(tool["name"] != scenario.tool for tool in shown):
        return
    found.reached["at the decision"] += 1
    if episode.messages[place].tool_calls:
        return
    found.reached["stalled"] += 1
    nudges = [e.kind for e in episode.events if isinstance(e, Nudge)]
    answered = place + 1 < len(episode.messages) and bool(nudges)
    found.kinds[nudges[0] if answered else UNSEEN] += 1


def stall_rows(folder: Path, out: Path) -> int:
    """The rows of a set whose stall is to be learned, as a set of their own; how many they are.

    Their twins are left out: a model that learns to stall at once and, beside it, to think first
    and ask learns to think first.

    Raises:
        DataError: there are none, or `out` cannot be written.
    """
    manifest = read_manifest(folder)
    rows = [row for row in load_rows(folder, "train") if row.meta.get("nudged") == "keep"]
    if not rows:
        raise DataError(
            f"{folder}: no row with a stall to learn; its config needs nudged: keep and a"
            " corrected_share"
        )
    if not (out.exists() and read_manifest(out)["inputs_hash"] == manifest["inputs_hash"]):
        write_dataset(out, rows, {**manifest, "only": "rows with a stall to learn"})
    return len(rows)
