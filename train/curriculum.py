"""Which scenarios to try next: most often those that come out right about half the time.

Tries that all come out alike teach nothing: GRPO compares them with each other.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

FLOOR = 0.02
"""No scenario's weight is less: what was learnt is still met, and its loss seen."""


class Curriculum:
    """Draws scenarios by their outcomes so far; with the same outcomes, the same draws."""

    def __init__(self, twins: Sequence[str], count: int, seed: int) -> None:
        self._groups: dict[str, list[int]] = {}
        for index, twin in enumerate(twins):
            self._groups.setdefault(twin, []).append(index)
        self._count = min(count, len(twins))
        self._wanted = count
        self._seed = seed
        self._outcomes: dict[int, Mapping[int, float]] = {}

    def record(self, step: int, shares: Mapping[int, float]) -> None:
        """Keep what share of the tries at each scenario came out right in a step, from 0."""
        self._outcomes[step] = shares

    def draw(self, step: int) -> list[int]:
        """The scenarios of a step, twins together.

        Batches are fetched one step ahead, so it looks no nearer than at the step before the last:
        else a run that was stopped would go on with other scenarios.
        """
        right: defaultdict[int, float] = defaultdict(float)
        tried: Counter[int] = Counter()
        for known in range(step - 1):
            for index, share in self._outcomes.get(known, {}).items():
                right[index] += share
                tried[index] += 1
        rng = random.Random(f"{self._seed}/{step}")
        weights = {
            twin: sum(_weight(right[i], tried[i]) for i in group) / len(group)
            for twin, group in self._groups.items()
        }
        # Weighted, without replacement: Efraimidis and Spirakis 2006.
        keys = {twin: rng.random() ** (1 / weight) for twin, weight in weights.items()}
        order = sorted(keys, key=lambda twin: keys[twin], reverse=True)
        drawn = [index for twin in order for index in self._groups[twin]][: self._count]
        return [drawn[place % len(drawn)] for place in range(self._wanted)]


def _weight(right: float, tried: int) -> float:
    """4 p (1 - p) of the share p that comes out right, one right and one wrong try assumed."""
    share = (right + 1) / (tried + 2)
    return max(4 * share * (1 - share), FLOOR)


def recall(path: Path, curriculum: Curriculum, ids: Sequence[str]) -> None:
    """Take up the outcomes that an interrupted run left in its file of rollouts."""
    places = {name: place for place, name in enumerate(ids)}
    if not path.is_file():
        return
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        shares = {places[name]: share for name, share in line["right"].items()}
        curriculum.record(line["step"] - 1, shares)
