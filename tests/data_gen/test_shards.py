"""Shards: workers, kills, torn files and full disks leave no trace in the bytes."""

from __future__ import annotations

import dataclasses
import errno
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.cli import main
from breadcrumbs.data_gen import collecting, dataset, generate, seen_keys, shards
from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import load_rows, read_manifest, split_files
from breadcrumbs.data_gen.engines import Here, Processes, open_engine
from breadcrumbs.data_gen.seen_keys import SeenKeys
from breadcrumbs.data_gen.shards import Job, Made, Store, Tried, open_store, packed
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.data_gen.verify import duplicate_key
from breadcrumbs.data_gen.workshop import Workshop
from breadcrumbs.errors import DataError
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.rows import data_hash

SMALL = Path(__file__).parent / "small"
CONFIG = GenerateConfig(
    catalogs=tuple(str(SMALL / name) for name in ("bank.yaml", "calendar.yaml", "travel.yaml")),
    hints=tuple(str(path) for path in sorted(SMALL.glob("hints_*.yaml"))),
    held_out_domain="bank",
    train=Amount(pairs=24, declines=4),
    eval_tools=Amount(pairs=0),
    eval_domain=Amount(pairs=6, declines=2),
    corrected_share=0.3,
    practice_pairs=6,
)
JOBS = 16
"""Shards of this config, at four candidates each."""


def _silent(done: int, total: int, note: str = "") -> None:
    pass


def make(config: GenerateConfig, out: Path, **how: Any) -> dict[str, Any]:
    return generate.generate(config, out, _silent, **how)


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "SHARD_ITEMS", 4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What comes of a run that nothing disturbs, in shards of the usual size."""
    out = tmp_path_factory.mktemp("whole") / "set"
    make(CONFIG, out)
    return files_of(out)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the shards that this process makes, as it makes them."""
    names: list[str] = []
    do = Workshop.make

    def counted(shop: Workshop, job: Job) -> Made:
        names.append(job.name)
        return do(shop, job)

    monkeypatch.setattr(Workshop, "make", counted)
    return names


def shard_folder(out: Path) -> Path:
    return out.with_name(f".{out.name}.shards")


def test_the_size_of_shards_does_not_show(
    whole: dict[str, bytes], made: list[str], tmp_path: Path
) -> None:
    make(CONFIG, tmp_path / "set")
    assert len(made) == len(set(made)) == JOBS
    assert files_of(tmp_path / "set") == whole
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_two_workers_make_the_bytes_of_one(whole: dict[str, bytes], tmp_path: Path) -> None:
    make(CONFIG, tmp_path / "set", workers=2)
    assert files_of(tmp_path / "set") == whole


def test_workers_read_derived_catalogs_too(tmp_path: Path) -> None:
    config = dataclasses.replace(
        CONFIG,
        catalogs=(),
        hints=(),
        sources=CONFIG.catalogs,
        held_out_domain="",
        eval_domain=Amount(pairs=0),
        practice_pairs=0,
        shortfall="report",
    )
    make(config, tmp_path / "one" / "set")
    (tmp_path / "one" / "set").rename(tmp_path / "kept")
    make(config, tmp_path / "one" / "set", workers=2)
    kept, made = tmp_path / "kept", tmp_path / "one" / "set"
    assert len(load_rows(made, "train")) > 20
    names = sorted(str(path.relative_to(kept)) for path in kept.rglob("*.*"))
    assert "catalogs/bank.yaml" in names
    assert names == sorted(str(path.relative_to(made)) for path in made.rglob("*.*"))
    assert all((kept / name).read_bytes() == (made / name).read_bytes() for name in names)


def test_results_in_another_order_would_show(
    whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def backwards(engine: Here, jobs: Iterable[Job]) -> Iterator[Made]:
        return iter([engine.make(job) for job in jobs][::-1])

    monkeypatch.setattr(Here, "run", backwards)
    make(CONFIG, tmp_path / "set")
    assert files_of(tmp_path / "set") != whole


def test_a_killed_run_goes_on_at_the_shard(
    whole: dict[str, bytes], made: list[str], tmp_path: Path
) -> None:
    out = tmp_path / "set"
    script = f"""
import sys
from pathlib import Path
from breadcrumbs.config import parse
from breadcrumbs.data_gen import collecting, generate
collecting.SHARD_ITEMS = 4
config = parse({generate.config_dict(CONFIG)!r}, generate.GenerateConfig, "here")
generate.generate(config, Path({str(out)!r}), lambda *told: None, workers=2)
"""
    run = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + 120
    while len(list(shard_folder(out).glob("*-0000*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    children = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    run.send_signal(signal.SIGKILL)
    run.wait()
    kept = len(list(shard_folder(out).glob("*-0000*.json")))
    assert 3 <= kept < JOBS
    with pytest.raises(DataError, match="no complete data set"):
        load_rows(out)
    assert len(children) >= 2
    while any(Path(f"/proc/{child}/exe").exists() for child in children):
        assert time.monotonic() < deadline, "a worker outlives the run"
        time.sleep(0.05)
    make(CONFIG, out)
    assert len(made) == JOBS - kept
    assert files_of(out) == whole


def failing_after(count: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Writing a shard fails for want of room, once `count` files are there."""
    written = 0
    write = shards._write

    def full(path: Path, data: bytes) -> None:
        nonlocal written
        written += 1
        if written > count:
            path.with_name(f"{path.name}.new").write_bytes(data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(shards, "_write", full)
    return lambda: monkeypatch.setattr(shards, "_write", write)


def broken_off(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends while it writes the rows of its seventh shard."""
    room = failing_after(1 + 2 * 6, monkeypatch)
    with pytest.raises(DataError, match="No space left on device; make room") as caught:
        make(CONFIG, out)
    assert "\n" not in str(caught.value)
    assert not out.exists()
    room()


def test_a_full_disk_at_shard_seven_loses_only_that_shard(
    whole: dict[str, bytes], made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_off(tmp_path / "set", monkeypatch)
    assert len(made) == 7
    made.clear()
    make(CONFIG, tmp_path / "set", workers=1)
    assert len(made) == JOBS - 6
    assert files_of(tmp_path / "set") == whole


def test_a_full_disk_at_the_end_loses_no_shard(
    whole: dict[str, bytes], made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, table: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(dataset, "write_parquet", full)
        with pytest.raises(DataError, match="No space left on device"):
            make(CONFIG, tmp_path / "set")
    made.clear()
    make(CONFIG, tmp_path / "set")
    assert made == []
    assert files_of(tmp_path / "set") == whole


@pytest.mark.parametrize("spoil", ["rows", "record", "other items", "no record"])
def test_a_torn_shard_is_made_again(
    spoil: str,
    whole: dict[str, bytes],
    made: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "set"
    broken_off(out, monkeypatch)
    torn = shard_folder(out) / "train-pair-0-000004"
    rows, record = torn.with_suffix(".arrow"), torn.with_suffix(".json")
    if spoil == "rows":
        rows.write_bytes(rows.read_bytes()[:-40])
    elif spoil == "record":
        record.write_bytes(record.read_bytes()[:-1])
    elif spoil == "other items":
        record.write_text(record.read_text().replace('"items": [128', '"items": [136'))
    else:
        record.unlink()
    made.clear()
    make(CONFIG, out)
    assert made[:2] == ["train-pair-0-000004", "train-pair-0-000005"]
    assert files_of(out) == whole


def test_without_the_hash_a_torn_shard_would_not_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "set"
    broken_off(out, monkeypatch)
    rows = shard_folder(out) / "train-pair-0-000004.arrow"
    rows.write_bytes(rows.read_bytes()[:-400])
    monkeypatch.setattr(Store, "holds", lambda store, job: store._record_path(job).exists())
    with pytest.raises(DataError, match="changed while it was used"):
        make(CONFIG, out)


def test_shards_of_a_whole_set_are_deleted(
    whole: dict[str, bytes], made: list[str], tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    for name, data in whole.items():
        (tmp_path / "set" / name).write_bytes(data)
    shard_folder(tmp_path / "set").mkdir()
    make(CONFIG, tmp_path / "set")
    assert made == []
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_shards_of_another_config_are_thrown_away(
    whole: dict[str, bytes], made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = failing_after(1 + 2 * 3, monkeypatch)
    with pytest.raises(DataError, match="No space left"):
        make(dataclasses.replace(CONFIG, seed=2), tmp_path / "set")
    room()
    made.clear()
    make(CONFIG, tmp_path / "set")
    assert len(made) == JOBS
    assert files_of(tmp_path / "set") == whole


FEW = dataclasses.replace(
    CONFIG,
    catalogs=(str(SMALL / "bank.yaml"),),
    hints=(str(SMALL / "hints_bank.yaml"),),
    held_out_domain="",
    train=Amount(pairs=60),
    eval_domain=Amount(pairs=0),
    practice_pairs=0,
    corrected_share=0.0,
    phrasing="plain",
    optional_share=0.0,
)


READS = dataclasses.replace(FEW, held_out_tools=("transfer_money",), train=Amount(pairs=3_000))
"""One tool with four values."""


def test_more_rows_than_there_are_is_one_line_and_what_there_is_can_be_had(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collecting, "SHARD_ITEMS", 64)
    monkeypatch.setattr(collecting, "BLOCK", 128)
    monkeypatch.setattr(collecting, "LEAST", 16)
    with pytest.raises(DataError, match=r"only \d+ of 3000 pairs can be made") as caught:
        make(READS, tmp_path / "set")
    assert "\n" not in str(caught.value)
    assert "shortfall=report" in str(caught.value)
    assert len(made) < 3_000 / 64, "every place was tried, though hardly any gave a row"
    made.clear()
    manifest = make(dataclasses.replace(READS, shortfall="report"), tmp_path / "set")
    assert made == []
    rows = load_rows(tmp_path / "set")
    assert 2 * (3_000 - manifest["missing_rows"]["train pairs"]) == len(rows)
    assert len({duplicate_key(row.scenario) for row in rows}) == len(rows)
    assert f"only {len(rows) // 2} of" in str(caught.value)


def test_lost_places_are_drawn_again_until_the_rows_are_there(
    made: list[str], tmp_path: Path
) -> None:
    manifest = make(FEW, tmp_path / "set")
    assert manifest["dropped"]["duplicate"] > 5
    assert any(name.startswith("train-pair-1-") for name in made)
    rows = load_rows(tmp_path / "set")
    assert len(rows) == len({duplicate_key(row.scenario) for row in rows}) == 120
    places = [row.id.split("-")[2] for row in rows]
    assert places == sorted(places)


def test_two_runs_do_not_work_in_one_place(tmp_path: Path) -> None:
    with open_store(tmp_path / "work", "a"):
        with (
            pytest.raises(DataError, match="another run is making this data set"),
            open_store(tmp_path / "work", "a"),
        ):
            pass
        assert (tmp_path / "work").exists()
    assert not (tmp_path / "work").exists()


def test_a_worker_that_dies_is_one_line() -> None:
    opener = functools.partial(os._exit, 3)
    job = Job("train", "pair", 0, 0, (0,))
    with open_engine("local", 2, lambda job: Made((), b""), opener) as engine:
        assert isinstance(engine, Processes)
        with pytest.raises(DataError, match="finished shards are kept") as caught:
            list(engine.run([job, job]))
    assert "\n" not in str(caught.value)


def test_workers_that_read_other_files_are_refused(tmp_path: Path) -> None:
    for digest in ("0" * 64, ""):
        with pytest.raises(DataError, match="other catalogs or hints"):
            generate.open_workshop(CONFIG, CONFIG.catalogs, CONFIG.hints, digest)


def test_large_splits_have_several_files(
    whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import datasets

    (tmp_path / "one").mkdir()
    for name, data in whole.items():
        (tmp_path / "one" / name).write_bytes(data)
    monkeypatch.setattr(dataset, "FILE_ROWS", 25)
    manifest = make(CONFIG, tmp_path / "set")
    names = split_files(manifest, "train")
    assert names == ["train-00000.parquet", "train-00001.parquet", "train-00002.parquet"]
    assert split_files(manifest, "held_out_domain") == ["held_out_domain.parquet"]
    assert load_rows(tmp_path / "set") == load_rows(tmp_path / "one")
    assert manifest["counts"] == read_manifest(tmp_path / "one")["counts"]
    assert validate(tmp_path / "set", _silent).faults == ()
    loaded = datasets.load_dataset(
        str(tmp_path / "set"), cache_dir=str(tmp_path / "c"), split="train"
    )
    assert loaded["id"][:] == [row.id for row in load_rows(tmp_path / "one", "train")]
    config = TrainConfig(data=str(tmp_path / "set"), out="out", epochs=1)
    before = data_hash(config)
    last = tmp_path / "set" / names[-1]
    last.write_bytes(last.read_bytes()[:-1] + b"?")
    assert data_hash(config) != before
    found = validate(tmp_path / "set", _silent).by_reason()
    assert found["files: not the bytes the manifest names"] == [names[-1]]


def test_ray_is_asked_for_where_it_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "breadcrumbs.data_gen.ray_engine", raising=False)
    config = Path(__file__).parents[2] / "configs" / "generate" / "demo.yaml"
    words = ["generate", "--config", str(config), "--out", str(tmp_path / "set"), "--engine", "ray"]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    assert "pip install 'breadcrumbs[ray]'" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore")  # Ray warns of its own code
def test_ray_makes_the_same_bytes(whole: dict[str, bytes], tmp_path: Path) -> None:
    pytest.importorskip("ray.data", reason="needs the extra `ray`")
    make(CONFIG, tmp_path / "set", workers=2, engine="ray")
    assert files_of(tmp_path / "set") == whole


def test_seen_keys_are_a_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "_FRESH", 8)
    keys = [(number * 0x9E3779B97F4A7C15) % 2**64 for number in range(1, 200)]
    seen = SeenKeys()
    for place, key in enumerate(keys):
        assert key not in seen
        seen.add(key)
        assert len(seen) == place + 1
        assert all(earlier in seen for earlier in keys[: place + 1])
    assert 2**64 - 1 not in seen
    assert 0 not in seen


def test_a_shard_comes_back_as_it_was_kept(tmp_path: Path) -> None:
    made = Made((Tried(8, (2**64 - 1, 5), ("a", "b")), Tried(17)), packed([]))
    job = Job("train", "pair", 0, 3, (8, 16))
    with open_store(tmp_path / "work", "a") as store:
        assert not store.holds(job)
        store.save(job, made)
        assert store.holds(job)
        assert store.tried(job) == made.tried
        assert len(store.table(job)) == 0
        assert not store.holds(dataclasses.replace(job, items=(8, 24)))
