"""What a trained layer would add to the radar: learned from generated turns, scored on cases.

    python scripts/radar_classifier.py runs/full/data CASES.jsonl [CASES.jsonl ...]

The first argument is a folder that `breadcrumbs generate` made. Logistic regression over hashed
character n-grams of a turn's end; it learns from the set's training split alone: the oracle's
questions, refusals and waits, against stalls put together for its calls. The threshold is the
lowest one with a precision of 0.99 on the set's held-out tools and domain. Prints one JSON object
a file of cases: the radar, the classifier behind the gate, and both together. Nothing of it is in
the radar: docs/radar.md has the figures and why.
"""

from __future__ import annotations

import json
import random
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.stalls import StallKind, stall_text, subject_of
from breadcrumbs.data_gen.stats import disclosed
from breadcrumbs.radar import Radar, situation_of
from breadcrumbs.radar_score import Case, read_cases, tally

CELLS = 1 << 16
SIZES = (2, 3, 4, 5)
END_CHARS = 240
STEPS = 400
RATE = 0.05
SHRINK = 1e-4
PRECISION = 0.99


def cells(text: str) -> np.ndarray:
    """The cells [n] that the n-grams of a turn's end fall into."""
    end = f"^{' '.join(text.lower().split())[-END_CHARS:]}$"
    grams = {end[at : at + size] for size in SIZES for at in range(len(end) - size + 1)}
    return np.unique([zlib.crc32(gram.encode()) % CELLS for gram in grams])


@dataclass(slots=True)
class Classifier:
    """Weights [CELLS], an offset, and the share above which a turn is a stall."""

    weights: np.ndarray
    offset: float = 0.0
    threshold: float = 0.5

    def share(self, text: str) -> float:
        """How likely a turn is a stall, by its words alone."""
        found = cells(text)
        score = self.weights[found].sum() / np.sqrt(len(found)) + self.offset
        return float(1 / (1 + np.exp(-score)))


def fit(texts: Sequence[str], stalls: Sequence[bool]) -> Classifier:
    """Logistic regression by Adam (Kingma and Ba 2015) on the whole set, the classes balanced."""
    rows = [cells(text) for text in texts]
    flat = np.concatenate(rows)
    lengths = np.array([len(row) for row in rows])
    begins = np.concatenate([[0], lengths.cumsum()[:-1]])
    scale = 1 / np.sqrt(lengths)
    wanted = np.array(stalls, dtype=float)
    balance = np.where(wanted > 0, 0.5 / wanted.mean(), 0.5 / (1 - wanted.mean())) / len(rows)
    weights, offset = np.zeros(CELLS), 0.0
    first, second = np.zeros(CELLS), np.zeros(CELLS)
    for step in range(1, STEPS + 1):
        score = np.add.reduceat(weights[flat], begins) * scale + offset
        error = (1 / (1 + np.exp(-score)) - wanted) * balance
        slope = np.bincount(flat, np.repeat(error * scale, lengths), CELLS) + SHRINK * weights
        first = 0.9 * first + 0.1 * slope
        second = 0.999 * second + 0.001 * slope**2
        pace = np.sqrt(second / (1 - 0.999**step)) + 1e-8
        weights -= RATE * first / (1 - 0.9**step) / pace
        offset -= RATE * float(error.sum())
    return Classifier(weights, offset)


def turns(rows: Sequence[Row]) -> Iterator[tuple[str, bool]]:
    """Turns without a call after a disclosure: right ones as they stand, stalls put together."""
    kinds: tuple[StallKind, ...] = get_args(StallKind)
    for number, row in enumerate(rows):
        scenario = row.scenario
        if scenario.behaviour in ("clarify", "hold", "answer"):
            for at, message in enumerate(row.messages):
                said = message.role == "assistant" and not message.tool_calls
                situation = situation_of(row.messages[:at]) if said else None
                if situation is not None and not situation.executed:
                    yield message.content.rpartition("</think>")[2].strip(), False
        elif scenario.behaviour == "dispatch":
            schemas = {tool["name"]: tool["inputSchema"] for tool in disclosed(row.messages)}
            schema = schemas.get(scenario.tool)
            if schema is not None and schema["properties"]:
                rng = random.Random(number)
                yield stall_text(kinds[number % 5], subject_of(scenario, schema), rng), True


def lowest_threshold(classifier: Classifier, held_out: Sequence[tuple[str, bool]]) -> float:
    """The lowest share that keeps the precision on held-out turns; beyond 1 where none does."""
    scored = sorted(((classifier.share(text), stall) for text, stall in held_out), reverse=True)
    best, hits = 1.1, 0
    for seen, (share, stall) in enumerate(scored, 1):
        hits += stall
        if hits / seen >= PRECISION:
            best = share
    return best


def compared(cases: Sequence[Case], classifier: Classifier) -> dict[str, Any]:
    """The radar, the classifier behind the gate, and the classifier where the radar is silent."""
    radar = Radar()
    rules = [radar.classify(case.text, case.situation) is not None for case in cases]
    learned = [
        radar.passes_gate(case.situation) and classifier.share(case.text) >= classifier.threshold
        for case in cases
    ]
    both = [a or b for a, b in zip(rules, learned, strict=True)]
    named = (("radar", rules), ("classifier", learned), ("both", both))
    return {name: tally(cases, flags).to_dict() for name, flags in named}


def main() -> int:
    """Learn, then score every file of cases."""
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(sys.argv[1])
    learned = list(turns(load_rows(folder, "train")))
    classifier = fit([text for text, _ in learned], [stall for _, stall in learned])
    held_out = [
        *turns(load_rows(folder, "held_out_tools")),
        *turns(load_rows(folder, "held_out_domain")),
    ]
    classifier.threshold = lowest_threshold(classifier, held_out)
    caught = sum(
        stall and classifier.share(text) >= classifier.threshold for text, stall in held_out
    )
    about = {
        "learned_from": len(learned),
        "held_out": len(held_out),
        "held_out_recall": round(caught / sum(stall for _, stall in held_out), 4),
        "threshold": round(classifier.threshold, 4),
    }
    for name in sys.argv[2:]:
        found = compared(read_cases(Path(name)), classifier)
        print(json.dumps({"cases": Path(name).name, **about, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
