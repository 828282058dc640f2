"""Two processes on one machine train one adapter, as a launcher starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.run import CHECKPOINTS, METRICS, SERVING, claim, run_identity


def launch(folder: Path, *changes: str) -> subprocess.CompletedProcess[str]:
    sets = [word for change in changes for word in ("--set", change)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["-m", "breadcrumbs", "train", "sft", "--config", "config.yaml", *sets]
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_two_processes_publish_one_adapter_and_go_on_together(
    write_data: Any, make_rows: Any, model_folder: Path, tmp_path: Path
) -> None:
    write_data(tmp_path / "data", make_rows(4, 2))
    keys = {"data": "data", "out": "adapter", "model": str(model_folder), "save_every": 2}
    lines = [f"{key}: {value}" for key, value in keys.items()]
    (tmp_path / "config.yaml").write_text("\n".join(["version: 1", *lines, "warmup: 1"]))
    out = tmp_path / "adapter"
    done = launch(tmp_path, "steps=4", "learning_rate=1e-2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("adapter in adapter") == 1  # only the first process talks
    steps = [json.loads(line)["step"] for line in (out / METRICS).read_text().splitlines()]
    assert steps == [1, 2, 3, 4]
    assert (out / SERVING).is_file()
    assert not (out / CHECKPOINTS).exists()
    again = launch(tmp_path, "steps=4", "learning_rate=1e-2")
    assert again.returncode == 0
    assert json.loads((out / "run.json").read_text())["settings"]["processes"] == 2


def test_another_number_of_processes_is_another_run(
    write_data: Any, make_rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_data(tmp_path / "data", make_rows(2))
    config = TrainConfig(data=str(tmp_path / "data"), out=str(tmp_path / "o"), steps=2)
    claim(tmp_path / "o", run_identity(config))
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"other settings \(processes\)"):
        claim(tmp_path / "o", run_identity(config))
    monkeypatch.delenv("WORLD_SIZE")
    path = tmp_path / "o" / "run.json"
    known = json.loads(path.read_text())
    for key in ("processes", "dtype", "quantization"):
        del known["settings"][key]  # begun before these were settings
    path.write_text(json.dumps(known))
    assert claim(tmp_path / "o", run_identity(config)) is False


def test_only_the_first_process_claims_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = {"settings": {"seed": 0}, "data_sha256": "aa"}
    monkeypatch.setenv("RANK", "1")
    assert claim(tmp_path, identity) is False
    assert not (tmp_path / "run.json").exists()
    monkeypatch.setenv("RANK", "0")
    claim(tmp_path, identity)
    assert (tmp_path / "run.json").is_file()
