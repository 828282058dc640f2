"""The data set on disk: Parquet files for each split, a card, and a manifest written last.

A folder with a manifest is complete; one without is not, and is made anew. JSON columns are
JSON text with the `datasets` library's `Json` features, so no `null` creeps into arguments.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from breadcrumbs.data_gen.scenarios import Behaviour, Scenario, scenario_from_dict
from breadcrumbs.data_gen.shape import Facts, Shape, count_shapes, facts_of, shape_from_dict
from breadcrumbs.data_gen.splits import SPLITS, Split
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.messages import Message, messages_from_dicts

FORMAT = 1
MANIFEST = "manifest.json"
CARD = "README.md"
FILE_ROWS = 8192
"""Rows of one Parquet file; a split with more has several."""
AXES = ("behaviour", "split", "source", "domain", "tool")
Source = Literal["oracle", "corrected", "nudged", "imported"]
"""`nudged` rows still hold the stall that `corrected` ones lost; `imported` rows were recorded
elsewhere, and there is no world to replay them in."""
_TABLES = ("config", "dropped", "counts", "files")
"""What a manifest must hold."""
_JSON_COLUMNS = ("scenario", "messages", "tools", "meta")
_AUTHORS = "No model wrote or judged a row."
_AUTHORS_WITH_MODEL = """A model, named under
`endpoint` in `manifest.json`, wrote the calls of `corrected` rows and the requests of rows with
`reworded_from` in `meta`; both were checked and run like all others, and no model judged a row.
That model's licence and terms may bind what is trained on these rows."""
_AUTHORS_WITH_STALLER = """A model wrote the
calls and the stalls of rows with `staller` in `meta`, which names it; they were checked and run
like all others, and no model judged a row. That model's licence and terms may bind what is trained
on these rows."""
_NUDGED = """;
in `nudged` rows both are still there, and `meta.unlearned` names the messages that no trainer may
learn, where there are any"""
_SHAPES = """ Its `shape` says under which names and payload
shapes the three tools are shown (`gateway` where it says nothing), how many hits a search has, and
so on."""
_FILE = re.compile(rf"(?P<split>{'|'.join(SPLITS)})(-\d{{5,}})?\.parquet")
TEXT_COLUMNS = ("id", "split", "behaviour", "domain", "tool", "twin", "source")


@dataclass(frozen=True, slots=True)
class Row:
    """One verified trajectory."""

    id: str
    scenario: Scenario
    source: Source
    messages: tuple[Message, ...]
    """In the gateway's own words, as are `tools`; on disk they lie as the model saw them."""
    tools: tuple[Mapping[str, Any], ...]
    meta: Mapping[str, Any]

    @property
    def split(self) -> Split:
        """The split the row's tool belongs to."""
        return self.scenario.split

    @property
    def behaviour(self) -> Behaviour:
        """What is right at the decision point."""
        return self.scenario.behaviour

    @property
    def twin(self) -> str:
        """Shared by rows that belong in one batch; they lie next to each other."""
        return self.scenario.twin

    def to_record(self) -> dict[str, Any]:
        """The row as plain values, one per column."""
        scenario = self.scenario
        return {
            "id": self.id,
            "split": scenario.split,
            "behaviour": scenario.behaviour,
            "domain": scenario.domain,
            "tool": scenario.tool,
            "twin": scenario.twin,
            "source": self.source,
            "scenario": scenario.to_dict(),
            "messages": [message.to_dict() for message in self.shown_messages],
            "tools": self.shown_tools,
            "meta": dict(self.meta),
        }

    @property
    def shown_messages(self) -> list[Message]:
        """The conversation as the model saw it, under the scenario's naming."""
        return self.scenario.shape.words().show(self.messages)

    @property
    def shown_tools(self) -> list[dict[str, Any]]:
        """The tools as the model saw them."""
        return self.scenario.shape.words().show_tools(self.tools)


def load_rows(
    folder: str | Path,
    split: Split | None = None,
    *,
    behaviour: Behaviour | None = None,
    source: Source | None = None,
) -> list[Row]:
    """Rows of a complete data set, in their stored (batch) order.

    Raises:
        DataError: the set is missing, incomplete, damaged, or has no such split.
    """
    manifest = read_manifest(folder)
    wanted = [split] if split else list(SPLITS)
    rows: list[Row] = []
    for name in wanted:
        files = split_files(manifest, name)
        if not files:
            raise DataError(f"{folder}: no split {name!r}; choose from {', '.join(SPLITS)}")
        for file in files:
            rows.extend(_read_file(Path(folder) / file))
    return [
        row for row in rows if behaviour in (None, row.behaviour) and source in (None, row.source)
    ]


def split_files(manifest: Mapping[str, Any], split: str) -> list[str]:
    """The names of a split's files, in the order of their rows; none where there is no such split.

    A split is `train.parquet`, or where it has more than `FILE_ROWS` rows, `train-00000.parquet`,
    `train-00001.parquet` and so on.
    """
    return sorted(
        name
        for name in manifest["files"]
        if (found := _FILE.fullmatch(name)) is not None and found["split"] == split
    )


def find_row(rows: Sequence[Row], which: str, folder: str | Path) -> Row:
    """The row with the id `which`, or at that position from 0.

    Raises:
        DataError: there is no such row.
    """
    for row in rows:
        if row.id == which:
            return row
    if not rows:
        raise DataError(f"{folder}: no rows are left; choose another split or behaviour")
    if which.isascii() and which.isdigit():
        if int(which) < len(rows):
            return rows[int(which)]
        raise DataError(f"{folder}: no row {which}; there are {len(rows)}, counted from 0")
    near = get_close_matches(which, [row.id for row in rows], n=3)
    hint = f"near: {', '.join(near)}" if near else f"the first is {rows[0].id}"
    raise DataError(f"{folder}: no row with the id {which!r} among {len(rows)}; {hint}")


def training_rows(folder: str | Path, split: Split | None = None) -> list[Row]:
    """`load_rows`, for whoever trains on them or hands them to another trainer.

    Raises:
        DataError: as `load_rows`, or they are there to be evaluated on.
    """
    name = read_manifest(folder).get("config", {}).get("evaluation")
    if name:
        raise DataError(
            f"{folder}: the evaluation set {name!r}; nothing is trained on it. For rows to train on"
            " generate without `evaluation`, from other tools"
        )
    return load_rows(folder, split)


def load_scenarios(
    folder: str | Path, split: Split, *, behaviour: Behaviour | None = None
) -> list[Scenario]:
    """The scenarios behind `load_rows`, in the same order.

    Raises:
        DataError: as `load_rows`.
    """
    return [row.scenario for row in load_rows(folder, split, behaviour=behaviour)]


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a complete data set.

    Raises:
        DataError: there is none, or it cannot be read.
    """
    path = Path(folder) / MANIFEST
    how = f"make it with: breadcrumbs generate --config configs/generate/demo.yaml --out {folder}"
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise DataError(f"{path}: format {manifest['format']!r} is not {FORMAT}; {how}")
        lacking = [key for key in _TABLES if not isinstance(manifest.get(key), dict)]
        if lacking:
            raise DataError(
                f"{path}: no {lacking[0]!r} in the manifest; delete the folder and {how}"
            )
    except FileNotFoundError as error:
        raise DataError(f"{folder}: no complete data set here; {how}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: unreadable manifest; delete the folder and {how}") from error
    return manifest


def gateway_settings(manifest: Mapping[str, Any]) -> GatewaySettings:
    """The gateway that made a data set: as many search hits as a model trained on it knows.

    Raises:
        DataError: no gateway of ours made it.
    """
    if "imported" in manifest:
        raise DataError(
            "rows imported from recorded runs have no world to be run in; they can be looked at,"
            " exported and trained on; validate and evaluate on a generated data set"
        )
    return GatewaySettings(max_hits=int(manifest["config"]["max_hits"]))


def counts_of_records(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many rows there are in all and along every axis."""
    along = {axis: dict(sorted(Counter(str(r[axis]) for r in records).items())) for axis in AXES}
    return {"trajectories": len(records), **along}


def already_complete(folder: Path, inputs_hash: str) -> bool:
    """Whether the folder holds exactly this data set. An unfinished one does not count.

    Raises:
        DataError: the folder holds something else, which is left alone.
    """
    if not folder.exists():
        return False
    if not folder.is_dir():
        raise DataError(f"{folder}: is a file; choose another --out")
    if (folder / MANIFEST).exists():
        if read_manifest(folder).get("inputs_hash") == inputs_hash:
            return True
        raise DataError(
            f"{folder}: holds a data set of another config; choose another --out or delete it"
        )
    names = sorted(path.name for path in folder.iterdir())
    foreign = [n for n in names if n not in (MANIFEST, CARD) and not _FILE.fullmatch(n)]
    if foreign:
        raise DataError(f"{folder}: holds other files ({foreign[0]}); choose another --out")
    return False


def write_dataset(
    folder: Path,
    rows: Sequence[Row],
    manifest: Mapping[str, Any],
    extra: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Write a whole set; it appears at `folder` complete or not at all. Returns the manifest.

    `extra` are texts that belong to it, by their path in the folder.

    Raises:
        DataError: the place cannot be written.
    """
    tables = {
        split: iter([table_of([row.to_record() for row in rows if row.split == split])])
        for split in SPLITS
    }
    return write_tables(folder, tables, manifest, extra)


def write_tables(
    folder: Path,
    tables: Mapping[Split, Iterator[Any]],
    manifest: Mapping[str, Any],
    extra: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """As `write_dataset`, from Arrow tables that come one by one; few rows are held at a time.

    Raises:
        DataError: the place cannot be written.
    """
    found = {axis: Counter[str]() for axis in AXES}
    shapes = Counter[Facts]()
    rows = 0
    with _staging(folder) as stage:
        for split in SPLITS:
            for number, table in enumerate(_of_size(tables[split], FILE_ROWS)):
                _count(table, found)
                shapes.update(map(facts_of, shapes_in(table.column("scenario").to_pylist())))
                rows += len(table)
                if number == 1:
                    (stage / f"{split}.parquet").replace(stage / f"{split}-00000.parquet")
                name = f"{split}-{number:05d}.parquet" if number else f"{split}.parquet"
                write_parquet(stage / name, table)
        for name, text in (extra or {}).items():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).write_text(text, encoding="utf-8")
        files = {p.name: file_digest(p) for p in sorted(stage.glob("*.parquet"))}
        along = {axis: dict(sorted(found[axis].items())) for axis in AXES}
        full = {
            "format": FORMAT,
            **manifest,
            "counts": {"trajectories": rows, **along},
            **({"shapes": count} if (count := count_shapes(shapes.elements())) else {}),
            "files": files,
        }
        (stage / CARD).write_text(card(full), encoding="utf-8")
        text = json.dumps(full, indent=2, ensure_ascii=False) + "\n"
        with (stage / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    return full


def _of_size(tables: Iterator[Any], rows: int) -> Iterator[Any]:
    """The same rows in tables of `rows` rows; the last one has the rest. One at least, if empty."""
    import pyarrow

    held: list[Any] = [table_of([])]
    size = 0
    for table in tables:
        while size + len(table) > rows:
            room = rows - size
            yield pyarrow.concat_tables([*held, table.slice(0, room)])
            table, held, size = table.slice(room), [], 0
        held.append(table)
        size += len(table)
    yield pyarrow.concat_tables(held)


def _count(table: Any, found: Mapping[str, Counter[str]]) -> None:
    for axis in AXES:
        found[axis].update(table.column(axis).to_pylist())


def shapes_in(scenarios: Iterable[Any]) -> Iterator[Shape]:
    """The shapes of stored scenarios."""
    for text in scenarios:
        # Most have none; only what may have one is parsed.
        body = json_value(text) if '"shape":' in text else {}
        yield shape_from_dict(body.get("shape", {}))


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    """A folder beside the target that takes its name when the block ends well."""
    stage = folder.with_name(f".{folder.name}.partial")
    try:
        shutil.rmtree(stage, ignore_errors=True)
        stage.mkdir(parents=True)
        yield stage
        if folder.exists():
            shutil.rmtree(folder)
        stage.replace(folder)
    except OSError as error:
        raise DataError(
            f"{folder}: cannot write the data set: {error.strerror or error}; free some space or"
            " choose another --out"
        ) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def features() -> Any:
    """The columns as `datasets.Features`; JSON columns hold any shape."""
    from datasets import Features, Json, List, Value

    columns: dict[str, Any] = {name: Value("string") for name in TEXT_COLUMNS}
    columns |= {"scenario": Json(), "messages": List(Json()), "tools": List(Json()), "meta": Json()}
    return Features(columns)


def table_of(records: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as an Arrow table, JSON columns as text."""
    from datasets import Dataset

    ordered = {n: [r[n] for r in records] for n in (*TEXT_COLUMNS, *_JSON_COLUMNS)}
    return Dataset.from_dict(ordered, features=features()).data.table


def write_parquet(path: Path, table: Any) -> None:
    """Write a table with its features, to the disk.

    Raises:
        OSError: the place cannot be written.
    """
    from datasets import Dataset, disable_progress_bars

    disable_progress_bars()
    with path.open("wb") as file:
        Dataset(table.combine_chunks()).to_parquet(file)
        file.flush()
        os.fsync(file.fileno())


def read_records(path: Path) -> list[dict[str, Any]]:
    """The rows of one split as they are stored: a value for each column, JSON as text.

    Raises:
        DataError: the file is missing or no Parquet.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        records: list[dict[str, Any]] = parquet.read_table(path, partitioning=None).to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(
            f"{path}: damaged or missing; delete the folder and generate again"
        ) from error
    return records


def _read_file(path: Path) -> Iterable[Row]:
    for number, record in enumerate(read_records(path)):
        try:
            yield row_from_record(record)
        except (DataError, KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: row {number}: {error}") from error


def row_from_record(record: Mapping[str, Any]) -> Row:
    """Read a stored row.

    Raises:
        DataError, KeyError, TypeError, ValueError: a column is missing or holds something else.
    """
    scenario = scenario_from_dict(json_value(record["scenario"]))
    words = scenario.shape.words()
    return Row(
        id=record["id"],
        scenario=scenario,
        source=record["source"],
        messages=tuple(
            words.hear(messages_from_dicts([json_value(m) for m in record["messages"]]))
        ),
        tools=tuple(words.hear_tools([json_value(tool) for tool in record["tools"]])),
        meta=json_value(record["meta"]),
    )


def json_value(value: Any) -> Any:
    """The value of a stored JSON column."""
    return json.loads(value) if isinstance(value, str) else value


def file_digest(path: Path) -> dict[str, Any]:
    """SHA-256 and size of a file, as manifests name it.

    Raises:
        OSError: it cannot be read.
    """
    data = path.read_bytes()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def card(manifest: Mapping[str, Any]) -> str:
    """A dataset card: what the rows are, how they were made, what they may be used for."""
    found = manifest["counts"]
    # A split without rows is left out: the datasets library cannot load one.
    configs = "\n".join(
        f"      - split: {split}\n        path: {_path_of(manifest, split)}"
        for split in SPLITS
        if found["split"].get(split)
    )
    lines = [
        f"| {axis} | {name} | {number} |"
        for axis in ("split", "behaviour", "source", "domain")
        for name, number in found[axis].items()
    ]
    lines += [
        f"| {axis} | {name} | {number} |"
        for axis, values in manifest.get("shapes", {}).items()
        for name, number in values.items()
    ]
    shapes, requests = "", "one request"
    if "shapes" in manifest:
        shapes, requests = _SHAPES, "a few requests"
    dropped = manifest.get("dropped", {})
    gone = "; ".join(f"{reason}: {number}" for reason, number in dropped.items()) or "none"
    if "imported" in manifest:
        return _imported_card(found["trajectories"], configs, lines, gone)
    authors = _AUTHORS if "endpoint" not in manifest else _AUTHORS_WITH_MODEL
    if "stalls" in manifest or "included" in manifest:
        authors = _AUTHORS_WITH_STALLER
    stalls = _NUDGED if found["source"].get("nudged") else ""
    return f"""---
license: apache-2.0
language: [en]
task_categories: [text-generation]
tags: [tool-use, synthetic]
configs:
  - config_name: default
    data_files:
{configs}
---

# Tool-gateway trajectories: act, ask, or decline

{found["trajectories"]} short conversations in which an assistant searches a tool catalog, reads
a schema and then does what is right: call the tool, ask for the one value that is missing, or
say that no such tool exists. Every row was run against a simulated gateway and replayed from
scratch with equal state and equal approvals. {authors}

Each row has `messages` (arguments as objects), `tools` (the three gateway tools), `behaviour`,
`twin` (rows that differ in one fact share it and lie next to each other), `source`
(`corrected` rows were nudged once; stall and nudge were cut out and the rest replayed{stalls}), and
`scenario`, the hidden ground truth.{shapes} Row order in `train` is meant as batch order.

| axis | value | rows |
| --- | --- | --- |
{chr(10).join(lines)}

Tools of `held_out_tools` and the domain of `held_out_domain` appear nowhere in `train`, not
even as search hits. Rows dropped while making the set, by reason: {gone}.

English only, {requests} per conversation, values said almost verbatim: a model trained on
these rows learns when to act, not how people really talk. All names and addresses are invented.
"""


def _path_of(manifest: Mapping[str, Any], split: str) -> str:
    """A split's file, or one pattern for its files."""
    files = split_files(manifest, split)
    return files[0] if len(files) == 1 else f"{split}-*.parquet"


def _imported_card(rows: int, configs: str, lines: Sequence[str], gone: str) -> str:
    return f"""---
task_categories: [text-generation]
tags: [tool-use]
configs:
  - config_name: default
    data_files:
{configs}
---

# Recorded tool-gateway runs: act or ask

{rows} requests out of runs that were recorded elsewhere. Format, protocol and the source of every
argument were checked. **No row was replayed**: there is no world to run a recorded tool in again.
No model wrote or judged a row. `meta.ending` says what a row shows: `at_once` is as it was
recorded, from `corrected` rows a stall and the nudge behind it were cut out, `question` rows end
with the question for the one value that was missing.

| axis | value | rows |
| --- | --- | --- |
{chr(10).join(lines)}

Requests that are no row, by reason: {gone}.

What people wrote stands here as it was recorded: it may be personal, and nobody has given it a
licence. All rows lie in `train`; nothing is held out.
"""
