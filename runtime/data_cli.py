"""`breadcrumbs data`: look at a data set, count it, compare, check and export it, import runs.

Nothing here writes into a data set; `import` makes a new one. What is read from one is shown with
hidden characters written out, since a set may come from anywhere.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from breadcrumbs.errors import DataError
from breadcrumbs.visible import visible

if TYPE_CHECKING:
    from rich.console import Console

    from breadcrumbs.data_gen.compare import Comparison
    from breadcrumbs.data_gen.leaks import Leaks
    from breadcrumbs.data_gen.scenarios import Behaviour
    from breadcrumbs.data_gen.splits import Split

FINDINGS = 1
_LISTED = 20
"""Lines of one kind that are shown; `--json` holds all."""
_EXAMPLES, _EXAMPLE_CHARS = 5, 160
FOLDER = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
# Written out, not imported: `--help` loads no data generation. A test holds them equal.
split_option = click.option(
    "--split", type=click.Choice(["train", "held_out_tools", "held_out_domain"])
)
behaviour_option = click.option(
    "--behaviour", type=click.Choice(["dispatch", "clarify", "decline", "answer", "hold"])
)


@click.group()
def data() -> None:
    """Look at a data set, count it, compare, check and export it; make one of recorded runs."""


@data.command("show")
@click.argument("folder", type=FOLDER)
@click.argument("which", default="0", metavar="[ID|N]")
@split_option
@behaviour_option
@as_json_option
def show_command(
    folder: Path, which: str, split: Split | None, behaviour: Behaviour | None, as_json: bool
) -> None:
    """Draw one trajectory: every message by its parts, the decision turn marked.

    Name a row by its id, or by its number among the rows that --split and --behaviour leave,
    counted from 0 in stored order. Without one, the first is drawn.
    """
    from breadcrumbs.data_gen.dataset import find_row, load_rows
    from breadcrumbs.data_gen.drawing import draw

    row = find_row(load_rows(folder, split, behaviour=behaviour), which, folder)
    if as_json:
        click.echo(json.dumps(row.to_record(), indent=2))
        return
    console = _console()
    for line in draw(row):
        console.print(line, soft_wrap=True)


@data.command("stats")
@click.argument("folder", type=FOLDER)
@click.option("--plot", "plot_file", type=FILE, help="Draw the counts: .svg, .png or .pdf.")
@as_json_option
def stats_command(folder: Path, plot_file: Path | None, as_json: bool) -> None:
    """Count rows by every axis; say how often act, ask and decline are right, and what repeats.

    --json prints the manifest with the figures under `stats`.
    """
    from breadcrumbs.data_gen.dataset import load_rows, read_manifest
    from breadcrumbs.data_gen.stats import stats
    from breadcrumbs.data_gen.stats_view import plot, tables

    manifest = read_manifest(folder)
    figures = stats(load_rows(folder))
    if plot_file is not None:
        plot(figures, _outside(plot_file, folder))
    if as_json:
        click.echo(json.dumps({**manifest, "stats": figures}, indent=2))
        return
    console = _console()
    print_counts(console, manifest, folder)
    for table in tables(figures, manifest["dropped"]):
        console.print(table)


@data.command("diff")
@click.argument("left", type=FOLDER, metavar="A")
@click.argument("right", type=FOLDER, metavar="B")
@as_json_option
def diff_command(left: Path, right: Path, as_json: bool) -> None:
    """Compare two data sets; exit status 0 where they are equal, 1 where not.

    Rows are matched by id. A pair of values is A's, then B's.
    """
    from breadcrumbs.data_gen.compare import compare

    found = compare(left, right)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show_difference(found)
    if not found.equal:
        sys.exit(FINDINGS)


def _show_difference(found: Comparison) -> None:
    for key, (a, b) in found.config.items():
        click.echo(visible(f"{key}: {json.dumps(a)} -> {json.dumps(b)}"))
    for axis, names in found.counts.items():
        for name, (a, b) in names.items():
            if axis != "tool" or a != b:
                mark = "" if a == b else f"  ({b - a:+d})"
                click.echo(visible(f"{axis} {name}: {a} -> {b}{mark}"))
    for reason, (a, b) in found.dropped.items():
        click.echo(visible(f"dropped, {reason}: {a} -> {b}"))
    _list("tool moved", [f"{tool}: {a} -> {b}" for tool, (a, b) in found.moved_tools.items()])
    _list("row moved", [f"{row}: {a} -> {b}" for row, (a, b) in found.moved_rows.items()])
    _list("only in A", found.only_a)
    _list("only in B", found.only_b)
    _list("changed", [f"{row}: {', '.join(names)}" for row, names in found.changed.items()])
    if found.reordered:
        click.echo("the rows stand in another order")
    click.echo("equal" if found.equal else "different")


def _list(word: str, lines: Sequence[str]) -> None:
    """Some of the lines, with how many there are; `--json` holds all."""
    for line in lines[:_LISTED]:
        click.echo(visible(f"{word}: {line}"))
    if len(lines) > _LISTED:
        click.echo(f"{word}: and {len(lines) - _LISTED} more; --json lists all")


@data.command("validate")
@click.argument("folder", type=FOLDER)
@as_json_option
def validate_command(folder: Path, as_json: bool) -> None:
    """Check files against the manifest, read every row back and run it again. Exit 1 on faults.

    Rows run on a fresh gateway with the catalogs and hints that the manifest names: the world, the
    approvals and every message must come out equal, and every value must have its source.
    """
    from breadcrumbs.data_gen.validate import validate
    from breadcrumbs.progress import live

    with live("validate", _console(stderr=True)) as report:
        found = validate(folder, report)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        for reason, places in found.by_reason().items():
            click.echo(visible(f"{reason}: {len(places)}"))
            _list("  at", places)
        click.echo(f"{len(found.faults)} faults; {found.rows} rows read back and run again")
    if found.faults:
        sys.exit(FINDINGS)


@data.command("leaks")
@click.argument("folder", type=FOLDER)
@click.option(
    "--against", "files", type=FILE, multiple=True, required=True, help="May be given many times."
)
@split_option
@as_json_option
def leaks_command(
    folder: Path, files: tuple[Path, ...], split: Split | None, as_json: bool
) -> None:
    """Look for the data set's requests and tools in other files. Exit 1 where some are there.

    A file is JSON, JSON lines, Parquet (a benchmark, or another data set), or text. Equal means
    equal words: letter case, punctuation and spacing do not count.
    """
    from breadcrumbs.data_gen.dataset import load_rows
    from breadcrumbs.data_gen.leaks import leaks
    from breadcrumbs.progress import live

    rows = load_rows(folder, split)
    with live("leaks", _console(stderr=True)) as report:
        found = leaks(rows, files, report)
    if as_json:
        click.echo(json.dumps(found.to_dict(), indent=2))
    else:
        _show_leaks(found)
    if found.overlaps:
        sys.exit(FINDINGS)


def _show_leaks(found: Leaks) -> None:
    from breadcrumbs.data_gen.leaks import KINDS, NEAR

    for path, numbers in found.outside.items():
        click.echo(visible(f"{path}: {numbers['request']} texts, {numbers['tool']} tools"))
    for kind in KINDS:
        exact, near = (found.number(kind, exact=exact) for exact in (True, False))
        click.echo(f"{kind}s: {exact} equal, {near} alike from {NEAR}, of {found.compared[kind]}")
    ordered = sorted(found.overlaps, key=lambda one: -one.similarity)
    for overlap in ordered[:_EXAMPLES]:
        word = "equal" if overlap.exact else f"alike {overlap.similarity:.2f}"
        click.echo(visible(f"{overlap.kind} {word}: {overlap.rows[0]}, {len(overlap.rows)} rows"))
        click.echo(visible(f"  here:  {_cut(overlap.text)}"))
        click.echo(visible(f"  there: {_cut(overlap.found)} ({overlap.file} {overlap.where})"))
    if len(ordered) > _EXAMPLES:
        click.echo(f"and {len(ordered) - _EXAMPLES} more; --json lists all")


def _cut(text: str) -> str:
    return text if len(text) <= _EXAMPLE_CHARS else f"{text[:_EXAMPLE_CHARS]}..."


@data.command("export")
@click.argument("folder", type=FOLDER)
@click.option("--out", type=FILE, required=True, help="File to write, .jsonl.")
@split_option
def export_command(folder: Path, out: Path, split: Split | None) -> None:
    """Write rows as JSON lines in OpenAI's shape: `messages` and `tools`, one row a line.

    A call's `arguments` are JSON text here, as at every OpenAI border; in the data set itself they
    are objects. Lines stand in stored order; reasoning stays in the content, between think tags.
    """
    from breadcrumbs.data_gen.dataset import training_rows
    from breadcrumbs.data_gen.export import export

    rows = training_rows(folder, split)
    export(rows, _outside(out, folder))
    click.echo(f"{len(rows)} rows written to {out}")


@data.command("pairs")
@click.argument("folder", type=FOLDER)
@click.option("--out", type=FILE, required=True, help="File to write, .jsonl.")
@split_option
def pairs_command(folder: Path, out: Path, split: Split | None) -> None:
    """Write preference pairs for DPO: the call over a stall, the question over an invented value.

    One JSON line a pair with `prompt`, `chosen`, `rejected` and `tools`, as TRL's trainers take
    them; `fault` says what is wrong with `rejected`. Rows without an opposite are counted.
    """
    from breadcrumbs.data_gen.dataset import training_rows
    from breadcrumbs.data_gen.pairs import export_pairs, pairs_of

    pairs, without = pairs_of(training_rows(folder, split))
    if not pairs:
        raise DataError(f"{folder}: no row gives a pair; make one with dispatch and clarify rows")
    export_pairs(pairs, _outside(out, folder))
    act = sum(pair.row.behaviour == "dispatch" for pair in pairs)
    click.echo(f"{len(pairs)} pairs written to {out}: {act} act, {len(pairs) - act} ask or hold")
    for reason, count in without.items():
        click.echo(f"  without one, {reason}: {count}")


@data.command("scenarios")
@click.argument("folder", type=FOLDER)
@click.option("--out", type=FILE, required=True, help="File to write, .parquet.")
@split_option
def scenarios_command(folder: Path, out: Path, split: Split | None) -> None:
    """Write the rows' scenarios for training by reward: system, user, world, what is expected.

    One Parquet row each, by the id that the row and its preference pair have. Whoever reads it can
    open the same gateway over the same world; nothing an assistant said is in it.
    """
    from breadcrumbs.data_gen.rl_scenarios import write_scenarios

    records = write_scenarios(folder, _outside(out, folder), split)
    click.echo(f"{len(records)} scenarios written to {out}")
    for behaviour, count in sorted(Counter(r["behaviour"] for r in records).items()):
        click.echo(f"  {behaviour}: {count}")
    if stalls := sum(bool(record["stall"]) for record in records):
        click.echo(f"  where a stall was nudged and mended: {stalls}")


@data.command("import")
@click.argument("source", type=FILE)
@click.option("--out", type=FOLDER, required=True, help="Folder for the data set.")
@as_json_option
def import_command(source: Path, out: Path, as_json: bool) -> None:
    """Make a data set of recorded runs: real stalls, corrected. Exit 1 where no row is left.

    SOURCE holds OpenAI chat messages as JSON lines, or OpenTelemetry GenAI spans or events (JSON or
    JSON lines). Runs through search_tool_catalog, get_tool_schema and execute_tool count; others
    are refused. Rows are checked for format, protocol and grounding, but cannot be replayed.
    """
    from breadcrumbs.data_gen.trace_import import import_traces
    from breadcrumbs.progress import live

    with live("import", _console(stderr=True)) as report:
        found = import_traces(source, out, report)
    if as_json:
        click.echo(json.dumps(found, indent=2))
    else:
        for line in _import_lines(found, out):
            click.echo(visible(line))
    if not found["rows"]:
        sys.exit(FINDINGS)


def _import_lines(found: dict[str, Any], out: Path) -> Iterator[str]:
    kept = found["kept_as_they_were"]
    yield f"{found['runs']} runs read, {found['requests']} requests in those that can be judged"
    if found["parts_of_longer_runs"]:
        yield f"  parts of longer runs, passed over: {found['parts_of_longer_runs']}"
    for reason, number in found["refused"].items():
        yield f"  refused, {reason}: {number} (first: {found['refused_at'][reason][0]})"
    for kind, number in found["stalls"].items():
        yield f"  stall, {kind}: {number}"
    reckless = found["called_with_a_value_from_nowhere"]
    yield f"  called at once with a value that stands nowhere: {reckless}"
    for reason, number in found["dropped"].items():
        yield f"  dropped, {reason}: {number}"
    yield (
        f"  rows: {found['corrected']} corrected, {kept['dispatched_at_once']} dispatched at once,"
        f" {kept['asked_for_a_missing_value']} asked for a missing value"
    )
    if found["rows"]:
        yield f"{found['rows']} rows in {out}; not replayed: there is no world to run them in"
    else:
        yield "no row is left; nothing was written"


def print_counts(console: Console, manifest: dict[str, Any], folder: Path) -> None:
    """What a manifest says a data set holds."""
    for line in _count_lines(manifest, folder):
        console.print(visible(line), markup=False)  # names and reasons may be strangers' words


def _count_lines(manifest: dict[str, Any], folder: Path) -> Iterator[str]:
    counts = manifest["counts"]
    how = "imported, never replayed" if "imported" in manifest else "verified"
    yield f"{counts['trajectories']} {how} trajectories in {folder}"
    for axis in ("behaviour", "split", "source"):
        parts = ", ".join(f"{name} {n}" for name, n in sorted(counts[axis].items()))
        yield f"  {axis}: {parts}"
    for key, where in (("kinds", ""), ("eval_kinds", ", held out")):
        if manifest.get(key):
            parts = ", ".join(f"{kind} {n}" for kind, n in manifest[key].items())
            yield f"  pairs of special kinds{where}: {parts}"
    for axis, found in manifest.get("shapes", {}).items():
        yield f"  {axis}: {', '.join(f'{value} {n}' for value, n in found.items())}"
    for reason, number in sorted(manifest["dropped"].items()):
        yield f"  dropped, {reason}: {number}"
    for part, number in manifest.get("missing_rows", {}).items():
        yield f"  missing, {part}: {number}"
    if "included" in manifest:
        found = manifest["included"]
        yield f"  taken in: {found['taken']} of {found['rows']} rows of a model's stalls"
        for reason, number in found["dropped"].items():
            yield f"  not taken in, {reason}: {number}"
    if "endpoint" in manifest:
        yield from _endpoint_lines(manifest["endpoint"])
    if "derived" in manifest:
        yield from _derived_lines(manifest["derived"], folder)


def _endpoint_lines(asked: dict[str, Any]) -> Iterator[str]:
    """How many of an endpoint's episodes got how far, and what they took."""
    for what, key in (("stalls", "steps"), ("other words", "reworded")):
        if key in asked:
            steps = ", ".join(f"{step} {number}" for step, number in asked[key].items())
            yield f"  {asked['model']}, {what}: {steps}"
    metered = f"{asked['input_tokens']} tokens in, {asked['output_tokens']} out"
    without = asked["unmetered_answers"]
    gaps = f" ({without} of them without a count)" if without else ""
    cost = f", cost {asked['cost']:.4f}" if "cost" in asked else ""
    yield f"  {asked['model']}: {asked['answers']} answers{gaps}, {metered}{cost}"


def _derived_lines(derived: dict[str, Any], folder: Path) -> Iterator[str]:
    """What came of the sources."""
    yield (
        f"  tools: {derived['imported']} imported, {len(derived['refused'])} refused,"
        f" {derived['tools']} used, {len(derived['underivable'])} underivable"
    )
    for reason, number in derived["underivable_reasons"].items():
        yield f"  underivable, {reason}: {number}"
    for reason, number in derived["unsaid_reasons"].items():
        yield f"  optional argument never said, {reason}: {number}"
    yield f"  each by name under `derived` in {folder / 'manifest.json'}"


def _outside(path: Path, folder: Path) -> Path:
    """The path, which must not lie in the data set: a set is never changed."""
    if path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{path}: lies in the data set, which stays as it is; write elsewhere")
    return path


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)
