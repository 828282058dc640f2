"""`make bench`: speed as ratios, both sides of a ratio measured in this run, interleaved.

Prints a table and writes runs/bench.json: {name: {value, unit, baseline, n}}. Rows are medians
of five unless n says otherwise. Run with nothing else on the machine. Names as arguments measure
those rows alone, and are the only way to the one that takes most of an hour.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import bench_probe
import bench_serve
from bench_rows import REPEATS, row, seconds

OUT = Path("runs/bench.json")
DEMO = Path("runs/demo")
CONFIG = "configs/generate/demo.yaml"


def cli_help_s() -> dict[str, Any]:
    """Wall time of `breadcrumbs --help`."""
    command = [sys.executable, "-m", "breadcrumbs", "--help"]

    def once() -> None:
        subprocess.run(command, check=True, capture_output=True)

    once()
    return row(statistics.median(seconds(once) for _ in range(REPEATS)), "s", "none")


def generate_vs_replay() -> dict[str, Any]:
    """Verified rows generated, against one bare replay of the same rows."""
    from breadcrumbs import config as configs
    from breadcrumbs.data_gen.config import GenerateConfig
    from breadcrumbs.data_gen.dataset import load_rows
    from breadcrumbs.data_gen.generate import generate
    from breadcrumbs.data_gen.verify import replay
    from breadcrumbs.gateway.catalog import load_catalog
    from breadcrumbs.gateway.gateway import GatewaySettings

    config = configs.load(CONFIG, GenerateConfig)
    catalog = load_catalog()
    settings = GatewaySettings(max_hits=config.max_hits)
    ratios = []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as place:
            made = seconds(lambda place=place: generate(config, Path(place) / "d", _silent))
            rows = load_rows(Path(place) / "d", None)

            async def again(rows: Any = rows) -> None:
                for item in rows:
                    await replay(item.scenario, item.messages, catalog, settings)

            ratios.append(made / seconds(lambda again=again: asyncio.run(again())))
    return row(statistics.median(ratios), "x", "bare replay of the same rows")


def _many(rows: int) -> Any:
    """The bench config with about so many training rows, which differ."""
    from breadcrumbs import config as configs
    from breadcrumbs.data_gen.config import GenerateConfig

    train = f"train={{pairs: {rows * 19 // 40}, declines: {rows // 20}}}"
    rest = ("eval_tools={pairs: 0}", "eval_domain={pairs: 0}", "practice_pairs=0")
    return configs.load(
        CONFIG, GenerateConfig, (train, *rest, "phrasing=varied", "optional_share=0.4")
    )


def generate_two_workers() -> dict[str, Any]:
    """Rows a second with two workers, against one; 4 000 rows, the workers' start included."""
    from breadcrumbs.data_gen.generate import generate

    config, ratios = _many(4_000), []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as place:

            def with_workers(count: int, place: str = place) -> float:
                out = Path(place) / str(count)
                return seconds(lambda: generate(config, out, _silent, workers=count))

            ratios.append(with_workers(1) / with_workers(2))
    return row(statistics.median(ratios), "x", "one worker")


_PEAK = """
import resource, sys
from pathlib import Path
sys.path.insert(0, "scripts")
import bench
from breadcrumbs.data_gen.generate import generate
generate(bench._many(int(sys.argv[1])), Path(sys.argv[2]), bench._silent, workers=2)
who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
print(sum(resource.getrusage(one).ru_maxrss for one in who))
"""


def generate_memory_growth() -> dict[str, Any]:
    """Peak memory at 200 000 rows, against 20 000: this process and its largest worker."""

    def peak(rows: int) -> int:
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, "-c", _PEAK, str(rows), f"{place}/set"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            return int(done.stdout)

    small = peak(20_000)
    return row(peak(200_000) / small, "x", "20 000 rows", 1)


QUERIES = (
    "approve overdue supplier invoice",
    "list tax receipts",
    "revoke remote server certificate for the client",
    "schedule weekly pickup of foreign parcels at the night dock",
    "search",
)
"""From one word, which thousands of tools hold, to a whole sentence."""


def gateway_round() -> dict[str, Any]:
    """Search, schema and execution of a read tool, against the libraries' own work for them."""
    import bm25s
    import orjson

    from breadcrumbs.gateway.catalog import Catalog
    from breadcrumbs.gateway.gateway import simulated_gateway
    from breadcrumbs.gateway.search import stems
    from breadcrumbs.messages import compact_json

    specs = _read_tools(1_500)
    texts = {spec.name: f"{spec.name.replace('_', ' ')} {spec.description}" for spec in specs}
    gateway = simulated_gateway(Catalog({spec.name: spec for spec in specs}), seed=0).gateway
    bare = bm25s.BM25()
    bare.index([stems(text) for text in texts.values()], show_progress=False)
    rounds = [(spec, {spec.required[0]: f"{spec.required[0][:3]}_00ff00"}) for spec in specs[::15]]

    async def ours() -> list[dict[str, Any]]:
        session, payloads = gateway.session(), []
        for spec, values in rounds:
            for name, arguments in (
                ("search_tool_catalog", {"query": texts[spec.name]}),
                ("get_tool_schema", {"tool_names": [spec.name]}),
                ("execute_tool", {"tool_name": spec.name, "arguments": values}),
            ):
                payloads.append(await session.call(name, arguments))
                compact_json(payloads[-1])
        return payloads

    answers = asyncio.run(ours())
    assert all(payload["status"] == "done" for payload in answers[2::3])

    def libraries() -> None:
        for place, (spec, values) in enumerate(rounds):
            bare.retrieve([stems(texts[spec.name])], k=5, show_progress=False)
            assert spec.validator.is_valid(values)
            for payload in answers[3 * place : 3 * place + 3]:
                orjson.dumps(payload)

    libraries()
    ratios = [seconds(lambda: asyncio.run(ours())) / seconds(libraries) for _ in range(REPEATS)]
    return row(statistics.median(ratios), "x", "bare bm25s query, jsonschema-rs, orjson")


def _read_tools(size: int) -> list[Any]:
    from itertools import count, islice

    from breadcrumbs.gateway.synthetic import synthetic_tool

    made = (synthetic_tool(0, index, 200) for index in count())
    return list(islice((spec for spec in made if spec.risk == "read"), size))


def search_10k_ms() -> dict[str, Any]:
    """Median query over 10 000 synthetic tools, milliseconds."""
    from breadcrumbs.gateway.search import ToolIndex
    from breadcrumbs.gateway.synthetic import synthetic_catalog

    index = ToolIndex(synthetic_catalog(10_000, schema_tokens=100))
    times = [
        seconds(lambda query=query: index.search(query, 5)) * 1000
        for _ in range(REPEATS)
        for query in QUERIES
    ]
    return row(statistics.median(times), "ms", "none", len(times))


def eval_batched() -> dict[str, Any]:
    """Decision turns a minute at 16 a batch, against one at a time."""
    from breadcrumbs.data_gen.dataset import load_rows
    from breadcrumbs.local_model import LocalModel

    model = LocalModel.load("smollm2-135m")
    rows = load_rows(DEMO / "data", "held_out_tools")[:16]
    prompts = [model.renderer.prompt_ids(item.messages[:6], item.tools) for item in rows]
    ratios = []
    for _ in range(3):
        one = seconds(lambda: [model.generate([p], max_new_tokens=48) for p in prompts])
        ratios.append(one / seconds(lambda: model.generate(prompts, max_new_tokens=48)))
    return row(statistics.median(ratios), "x", "one turn at a time", 3)


def train_rows() -> dict[str, Any]:
    """Rows a second, against stock TRL SFTTrainer on the same rows."""
    from breadcrumbs.data_gen.dataset import load_rows
    from breadcrumbs.train.bench import train_rows as compare

    rows = [item.to_record() for item in load_rows(DEMO / "data", "train")[:24]]
    found = compare("smollm2-135m", rows, REPEATS)
    return row(found.ratio, "x", "stock trl SFTTrainer", found.n)


def approval_lifecycle() -> dict[str, Any]:
    """One write held, approved, run and recorded, against the bare commits that takes."""
    from breadcrumbs.gateway.approvals import ApprovalJournal
    from breadcrumbs.gateway.catalog import load_catalog
    from breadcrumbs.gateway.gateway import Gateway
    from breadcrumbs.gateway.identity import SystemClock, SystemIds
    from breadcrumbs.gateway.worlds import World, WorldExecutor

    catalog, clock, ids, writes = load_catalog(), SystemClock(), SystemIds(), 50
    tool = "open_support_ticket"

    async def approve(gateway: Gateway) -> None:
        session = gateway.session()
        await session.call("get_tool_schema", {"tool_names": [tool]})
        for number in range(writes):
            ticket = {"subject": f"No. {number}", "description": "-", "client_id": "cl_5103"}
            call = {"tool_name": tool, "arguments": ticket}
            held = await session.call("execute_tool", call)
            done = await gateway.decide(held["approval_id"], approve=True, by="bench")
            assert done["status"] == "done", done

    def commit(path: Path) -> None:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE bare (id INTEGER PRIMARY KEY, state TEXT, text TEXT)")
        for number in range(writes):
            database.execute("INSERT INTO bare VALUES (?, 'pending', ?)", (number, "x" * 400))
            for state in ("approved", "executing", "done"):
                database.execute("UPDATE bare SET state=? WHERE id=?", (state, number))
        database.close()

    ratios = []
    with tempfile.TemporaryDirectory() as place:
        for number in range(REPEATS):
            journal = ApprovalJournal(Path(place) / f"journal{number}", clock, ids)
            executor = WorldExecutor(World(catalog))
            gateway = Gateway(catalog, executor, journal, clock=clock, ids=ids)
            ours = seconds(lambda gateway=gateway: asyncio.run(approve(gateway)))
            journal.close()
            ratios.append(ours / seconds(lambda n=number: commit(Path(place) / f"bare{n}")))
    return row(statistics.median(ratios), "x", "four bare SQLite commits (WAL, FULL)")


def demo_minutes() -> dict[str, Any] | None:
    """Minutes of the last whole `make demo`, from its timings."""
    try:
        timings = json.loads((DEMO / "timings.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    minutes = sum(entry["seconds"] for entry in timings.values()) / 60
    return row(minutes, "min", "none", 1)


def _silent(done: int, total: int, note: str = "") -> None:
    """Progress that nobody watches."""


MEASURES = (
    cli_help_s,
    generate_vs_replay,
    generate_two_workers,
    approval_lifecycle,
    gateway_round,
    search_10k_ms,
    *bench_probe.ROWS,
    *bench_serve.ROWS,
    eval_batched,
    train_rows,
    demo_minutes,
)
LONG = (generate_memory_growth,)
"""Measured only when named."""


def main() -> int:
    """Measure the rows named, or all but the long ones; those that need a demo run may lack one."""
    known = {measure.__name__: measure for measure in (*MEASURES, *LONG)}
    names = sys.argv[1:] or [measure.__name__ for measure in MEASURES]
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no row {unknown[0]}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    if not sys.argv[1:] and not (DEMO / "data" / "manifest.json").is_file():
        print(f"no data in {DEMO}: run make demo first", file=sys.stderr)
        return 2
    results: dict[str, Any] = {}
    if sys.argv[1:] and OUT.is_file():
        results = json.loads(OUT.read_text(encoding="utf-8"))
    for name in names:
        found = known[name]()
        if found is not None:
            results[name] = found
            print(f"{name:<22} {found['value']:>9} {found['unit']:<4} n={found['n']}", flush=True)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(f"written to {OUT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
