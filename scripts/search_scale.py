"""Search time at 100 to 100 000 synthetic tools: a table, and a plot.

    python scripts/search_scale.py [--out docs/search.svg]

Queries are of three kinds: a word that one tool in 24 holds, a tool's name, and a sentence of
twelve words. Times are wall clock, of one process; the band is from the fastest to the slowest of
all queries at that size.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

SIZES = (100, 1_000, 10_000, 100_000)
REPEATS = 5
GOAL_MS = 5.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Search over one catalog."""

    tools: int
    index_s: float
    milliseconds: tuple[float, ...]
    """One for each query and repeat."""

    @property
    def median(self) -> float:
        """Milliseconds of the middle query."""
        return statistics.median(self.milliseconds)


def queries(specs: list[Any], seed: int = 0) -> list[str]:
    """Twenty of each kind."""
    rng = Random(seed)
    names = [spec.name.replace("_", " ") for spec in rng.choices(specs, k=20)]
    words = sorted({word for spec in specs for word in spec.name.split("_")})
    verbs = [name.partition(" ")[0] for name in names]
    return [*verbs, *names, *(" ".join(rng.choices(words, k=12)) for _ in range(20))]


def measure(size: int) -> Timing:
    """Build an index over `size` tools and ask it everything."""
    from breadcrumbs.gateway.search import ToolIndex
    from breadcrumbs.gateway.synthetic import synthetic_catalog

    catalog = synthetic_catalog(size, schema_tokens=100)
    began = time.perf_counter()
    index = ToolIndex(catalog)
    index_s = time.perf_counter() - began
    times = []
    for query in queries(list(catalog.tools.values())) * REPEATS:
        began = time.perf_counter()
        index.search(query, 5)
        times.append((time.perf_counter() - began) * 1_000)
    return Timing(size, index_s, tuple(times))


def plot(timings: list[Timing], out: Path) -> None:
    """Median and range over the number of tools, both axes logarithmic."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "breadcrumbs"  # equal figures give equal files
    from matplotlib import pyplot

    sizes = [timing.tools for timing in timings]
    figure, axes = pyplot.subplots(figsize=(6.4, 4))
    lows, highs = zip(*((min(t.milliseconds), max(t.milliseconds)) for t in timings), strict=True)
    axes.fill_between(sizes, lows, highs, alpha=0.2, label="fastest to slowest query")
    axes.plot(sizes, [timing.median for timing in timings], marker="o", label="median query")
    axes.axhline(GOAL_MS, color="grey", linestyle="--", label=f"goal at 10 000: {GOAL_MS:.0f} ms")
    axes.set(xscale="log", yscale="log", xlabel="tools in the catalog", ylabel="milliseconds")
    axes.set_ylim(0.005, 100)
    axes.set_xticks(sizes, [f"{size:,}".replace(",", " ") for size in sizes])
    axes.legend(loc="upper left")
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})


def main() -> None:
    """Measure every size, print, plot."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("docs/search.svg"))
    options = parser.parse_args()
    timings = []
    print("  tools  index s  median ms  slowest ms")
    for size in SIZES:
        timings.append(timing := measure(size))
        slowest = max(timing.milliseconds)
        print(
            f"{size:>7} {timing.index_s:>8.3f} {timing.median:>10.3f} {slowest:>11.3f}", flush=True
        )
    plot(timings, options.out)
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
