"""Bench rows of the attention probe: SmolLM2-135M in float32, random tokens, 8 segments."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Collection
from typing import Any

from bench_rows import REPEATS, row, seconds

SEGMENTS = 8
DECODED = 16
"""Tokens decoded with and without the probe, in turn."""
REST = "the rest of the same forward"


def _model() -> Any:
    from breadcrumbs.local_model import LocalModel

    return LocalModel.load("smollm2-135m", dtype="float32").model


def _prompt(tokens: int) -> tuple[list[int], list[int]]:
    """Ids and segments."""
    import torch

    ids = torch.randint(10, 40_000, (tokens,), generator=torch.Generator().manual_seed(0))
    return ids.tolist(), [place * SEGMENTS // tokens for place in range(tokens)]


def _prefill(tokens: int, rows: int) -> dict[str, Any]:
    """1 + probe CPU time over the rest of the same forward, for the last rows of a prompt."""
    from breadcrumbs.eval.capture import capturing
    from breadcrumbs.eval.prompt_run import run_prompt

    model = _model()
    ids, segments = _prompt(tokens)
    wanted = range(tokens - rows, tokens)
    run_prompt(model, ids[:128])
    ratios = []
    for _ in range(REPEATS):
        began = time.thread_time()
        with capturing(model, segments, SEGMENTS, wanted) as capture:
            run_prompt(model, ids)
            capture.stats()
        rest = time.thread_time() - began - capture.seconds
        ratios.append(1 + capture.seconds / rest)
    return row(statistics.median(ratios), "x", REST)


def probe_row_512() -> dict[str, Any]:
    """One row of 512 tokens."""
    return _prefill(512, 1)


def probe_row_4k() -> dict[str, Any]:
    """One row of 4 096 tokens."""
    return _prefill(4096, 1)


def probe_rows8_4k() -> dict[str, Any]:
    """Eight rows of 4 096 tokens."""
    return _prefill(4096, 8)


def _decode(layers: Collection[int] | None) -> dict[str, Any]:
    """Decode steps behind 4 096 cached tokens with some layers probed, against plain ones."""
    import torch

    from breadcrumbs.decoding import forward_last, new_cache
    from breadcrumbs.eval.capture import capturing

    model = _model()
    ids, segments = _prompt(4096)
    cache = new_cache(model)

    @torch.no_grad()
    def feed(tokens: list[int]) -> None:
        before = cache.get_seq_length()
        after = before + len(tokens)
        mask, places = torch.ones(1, after, dtype=torch.long), torch.arange(before, after)[None]
        forward_last(model, torch.tensor([tokens]), mask, places, cache)

    def steps() -> None:
        for token in ids[:DECODED]:
            feed([token])
        cache.crop(-DECODED)

    feed(ids)
    steps()
    ratios = []
    for _ in range(REPEATS):
        plain = seconds(steps)
        with capturing(model, segments, SEGMENTS, generated=0, layers=layers):
            feed(ids[:1])  # the first row of each layer is checked against the model's output
            probed = seconds(steps)
            cache.crop(-1)
        ratios.append(probed / plain)
    return row(statistics.median(ratios), "x", "the same steps without the probe")


def probe_decode_4k() -> dict[str, Any]:
    """Every layer probed."""
    return _decode(None)


def probe_decode_4k_quarter() -> dict[str, Any]:
    """Every fourth layer probed."""
    return _decode(range(0, 30, 4))


def _eager(model: Any, ids: list[int]) -> None:
    """A forward pass that returns every attention weight."""
    import torch

    tokens = torch.tensor([ids])
    with torch.no_grad():
        model(
            tokens,
            attention_mask=torch.ones_like(tokens),
            use_cache=False,
            output_attentions=True,
            logits_to_keep=1,
        )


def probe_vs_eager_2k() -> dict[str, Any]:
    """Eager attention with all weights returned, against sdpa with one row probed."""
    from breadcrumbs.eval.capture import capturing
    from breadcrumbs.eval.prompt_run import run_prompt

    model = _model()
    ids, segments = _prompt(2048)

    def ours() -> None:
        with capturing(model, segments, SEGMENTS) as capture:
            run_prompt(model, ids)
        capture.stats()

    ratios = []
    for _ in range(REPEATS):
        model.set_attn_implementation("eager")
        theirs = seconds(lambda: _eager(model, ids))
        model.set_attn_implementation("sdpa")
        ratios.append(theirs / seconds(ours))
    return row(statistics.median(ratios), "x", "eager with output_attentions")


_PEAK = """
import resource, sys
sys.path.insert(0, "scripts")
import bench_probe
work = bench_probe.{setup}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def _extra_mib(setup: str) -> float:
    """Extra peak memory of the work that `setup` prepares, in a process of its own."""
    command = [sys.executable, "-c", _PEAK.format(setup=setup)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.split()[-1]) / 1024


def memory_of_eager() -> Any:
    """Load, run a little, and return the work to be measured: eager with all weights."""
    model = _model()
    model.set_attn_implementation("eager")
    ids, _ = _prompt(2048)
    _eager(model, ids[:16])
    return lambda: _eager(model, ids)


def memory_of_probe() -> Any:
    """The same for sdpa with one row probed."""
    from breadcrumbs.eval.capture import capturing
    from breadcrumbs.eval.prompt_run import run_prompt

    model = _model()
    ids, segments = _prompt(2048)

    def run(count: int) -> None:
        with capturing(model, segments[:count], SEGMENTS) as capture:
            run_prompt(model, ids[:count])
        capture.stats()

    run(16)
    return lambda: run(len(ids))


def probe_memory_vs_eager_2k() -> dict[str, Any]:
    """Extra peak memory at 2 048 tokens, eager with all weights against one row probed."""
    theirs, ours = _extra_mib("memory_of_eager()"), _extra_mib("memory_of_probe()")
    return row(theirs / ours, "x", f"eager with output_attentions, {theirs:.0f} MiB", 1)


def memory_of_stream(keys: int = 131_072) -> Any:
    """One layer of an 8B-like model: 32 heads on 8 key heads, bf16, 8 rows."""
    import torch

    from breadcrumbs.eval.partitions import Rows, make_labels, partition

    query = torch.randn(32, 8, 128, dtype=torch.bfloat16)
    cached = torch.randn(8, keys, 128, dtype=torch.bfloat16)
    ids = torch.arange(keys) * SEGMENTS // keys

    def run(count: int) -> None:
        rows = Rows(query, cached[:, :count], 128**-0.5)
        partition(rows, make_labels(ids[:count], SEGMENTS))

    run(256)
    return lambda: run(keys)


def probe_stream_131k_mib() -> dict[str, Any]:
    """Extra peak memory of one layer's measurement over 131 072 keys."""
    measured = [_extra_mib("memory_of_stream()") for _ in range(REPEATS)]
    return row(statistics.median(measured), "MiB", "none")


def sensitivity_4k() -> dict[str, Any]:
    """The sensitivity of every head behind a prefill of 4 096 tokens, against that prefill."""
    from breadcrumbs.eval.attribution import Openers
    from breadcrumbs.eval.prompt_run import run_prompt
    from breadcrumbs.eval.sensitivity import Decision

    model = _model()
    ids, segments = _prompt(4096)
    openers = Openers((1,), (2, 3))
    ratios = []
    for _ in range(REPEATS):
        prefill = seconds(lambda: run_prompt(model, ids))
        ready = Decision.after_prefill(model, ids, segments, 1, openers)
        ratios.append(seconds(ready.slopes) / prefill)
    return row(statistics.median(ratios), "x", "the prefill")


ROWS = (
    probe_row_512,
    probe_row_4k,
    probe_rows8_4k,
    probe_decode_4k,
    probe_decode_4k_quarter,
    probe_vs_eager_2k,
    probe_memory_vs_eager_2k,
    probe_stream_131k_mib,
    sensitivity_4k,
)
