"""A checkpoint is whole or not there: half-written ones, full disks, kills at any step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import ConfigError
from breadcrumbs.train.checkpoints import MANIFEST, last_checkpoint, seal, trim_metrics
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.run import CHECKPOINTS, METRICS, SERVING

STEPS = 7


def make_checkpoint(folder: Path, step: int) -> Path:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    for name in ("optimizer.pt", "trainer_state.json"):
        (path / name).write_text(f"{name} {step}")
    seal(path, step)
    return path


def test_the_newest_whole_checkpoint_is_taken(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path / "none") is None
    for step in (2, 10):
        make_checkpoint(tmp_path, step)
    (make_checkpoint(tmp_path, 12) / MANIFEST).unlink()  # stopped before it was sealed
    (make_checkpoint(tmp_path, 14) / "optimizer.pt").unlink()  # the trainer would not mind
    (make_checkpoint(tmp_path, 16) / "optimizer.pt").write_text("cut")
    (make_checkpoint(tmp_path, 18) / MANIFEST).write_text('{"step": 18}')
    (tmp_path / "checkpoint-20").mkdir()
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert {path.name for path in tmp_path.iterdir()} == {"checkpoint-2", "checkpoint-10"}


def test_metrics_of_steps_to_be_repeated_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n{"ste')
    trim_metrics(path, make_checkpoint(tmp_path, 2))
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
    trim_metrics(path, None)
    assert path.read_text() == ""
    trim_metrics(tmp_path / "absent", None)


def config_for(out: Path, model: Path) -> TrainConfig:
    return TrainConfig(
        data="d",
        out=str(out),
        model=str(model),
        steps=STEPS,
        warmup=1,
        save_every=2,
        learning_rate=1e-2,
    )


def losses(out: Path) -> list[tuple[int, float]]:
    lines = (out / METRICS).read_text().splitlines()
    return [(line["step"], line["loss"]) for line in map(json.loads, lines)]


@pytest.mark.parametrize(
    ("file", "limit"),
    [("adapter_model.safetensors", 20_000), ("optimizer.pt", 1.5), ("trainer_state.json", None)],
)
def test_a_full_disk_keeps_the_checkpoint_before(
    file: str,
    limit: float | None,
    model_folder: Path,
    renderer: Any,
    make_rows: Any,
    tmp_path: Path,
) -> None:
    """Writes fail for real: over a limit on file sizes, or into a device that is always full."""
    import resource

    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.sft import fit

    config = config_for(tmp_path / "adapter", model_folder)
    second = Path(config.out) / CHECKPOINTS / "checkpoint-4"
    first = second.with_name("checkpoint-2")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up(done: int, total: int, note: str = "") -> None:
        if done != 3:
            return
        if limit is None:
            second.mkdir()
            (second / file).symlink_to("/dev/full")
        else:
            weights = (first / "adapter_model.safetensors").stat().st_size
            bytes_ = int(limit * weights if limit < 10 else limit)
            resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, before[1]))

    try:
        with quiet_libraries(), pytest.raises(ConfigError) as said:
            fit(config, make_rows(4, 2), model_folder, renderer, fill_up)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "checkpoint-4: cannot save: " in str(said.value)
    assert "run the same command" in str(said.value)
    assert not second.exists()
    assert last_checkpoint(first.parent) == first
    with quiet_libraries():
        fit(config, make_rows(4, 2), model_folder, renderer)
    assert [step for step, _ in losses(Path(config.out))] == [*range(1, STEPS + 1)]


@pytest.fixture(scope="module")
def curves(
    model_folder: Path, make_rows: Any, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """One unbroken run, and three that were killed, all in one process of their own."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "rows.json").write_text(json.dumps(make_rows(4, 2)))
    outs = {name: folder / name for name in ("unbroken", "killed", "forgetful")}
    command = [sys.executable, __file__, str(model_folder), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "unbroken": ["finished"],
        "killed": ["killed"] * (STEPS + 2) + ["finished"],
        "forgetful": ["killed", "finished"],
    }
    return outs


def test_killed_at_any_step_a_run_goes_on_to_the_same_losses(curves: dict[str, Path]) -> None:
    """SIGKILL after each step, amid a save, and amid publishing."""
    wanted, found = losses(curves["unbroken"]), losses(curves["killed"])
    assert [step for step, _ in found] == [step for step, _ in wanted] == [*range(1, STEPS + 1)]
    assert [loss for _, loss in found] == pytest.approx([loss for _, loss in wanted], abs=1e-5)
    weights = "adapter_model.safetensors"
    assert (curves["killed"] / weights).read_bytes() == (curves["unbroken"] / weights).read_bytes()
    assert (curves["killed"] / SERVING).is_file()


def test_the_comparison_would_notice_a_lost_optimizer(curves: dict[str, Path]) -> None:
    """The control: go on from step 4 without the optimizer's state."""
    wanted, found = dict(losses(curves["unbroken"])), dict(losses(curves["forgetful"]))
    assert [found[step] for step in range(1, 6)] == pytest.approx(
        [wanted[step] for step in range(1, 6)], abs=1e-5
    )
    assert max(abs(found[step] - wanted[step]) for step in (6, 7)) > 1e-4


def _driver(model: Path, folder: Path) -> None:
    """Every attempt is a fork, so that the libraries load once; a killed one dies by SIGKILL."""
    from transformers import Trainer

    from breadcrumbs.rendering import load_renderer
    from breadcrumbs.train import serving, sft, trainer
    from breadcrumbs.train.fitting import quiet_libraries

    assert trainer  # loaded here, once
    rows, renderer = json.loads((folder / "rows.json").read_text()), load_renderer(model)

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), 9)

    def attempt(name: str, at: int | str | None, forgetful: bool = False) -> str:
        child = os.fork()
        if child:
            status = os.waitpid(child, 0)[1]
            return (
                "killed"
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == 9
                else {0: "finished"}.get(status, f"status {status}")
            )
        if at == "save":
            Trainer._save_rng_state = die
        if at == "publish":
            serving.write_facts = die
        if forgetful:
            Trainer._load_optimizer_and_scheduler = lambda *_: None

        def report(done: int, total: int, note: str = "") -> None:
            if done == at:
                die()

        try:
            with quiet_libraries():
                sft.fit(config_for(folder / name, model), rows, model, renderer, report)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    killed = [*range(1, 5), "save", *range(5, STEPS + 1), "publish", None]
    print(  # noqa: T201
        json.dumps(
            {
                "unbroken": [attempt("unbroken", None)],
                "killed": [attempt("killed", at) for at in killed],
                "forgetful": [attempt("forgetful", 5), attempt("forgetful", None, True)],
            }
        )
    )


if __name__ == "__main__":
    _driver(Path(sys.argv[1]), Path(sys.argv[2]))
