"""The demo orders public commands, keeps their times, and stops where one fails."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from rich.console import Console

from breadcrumbs import demo
from breadcrumbs.cli import cli
from breadcrumbs.errors import ConfigError

GOOD = demo.Step("good", "Says what there is.", ("--version",))
BAD = demo.Step("bad", "Fails.", ("generate", "--config", "no-such.yaml", "--out", "nowhere"))


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    monkeypatch.setattr(demo, "_print_table", lambda out, console: None)
    return Console(file=io.StringIO(), width=200)


def _timings(out: Path) -> dict[str, dict[str, object]]:
    read: dict[str, dict[str, object]] = json.loads((out / demo.TIMINGS).read_text())
    return read


def test_every_step_is_a_command_that_exists() -> None:
    for step in demo.steps(demo.DEFAULT_OUT):
        words = [word for word in step.arguments if not word.startswith("-")]
        result = CliRunner().invoke(cli, [*words[:2], "--help"])
        if result.exit_code:  # a command of one word
            result = CliRunner().invoke(cli, [words[0], "--help"])
        assert result.exit_code == 0, step


def test_another_folder_moves_every_path(tmp_path: Path) -> None:
    assert not any("--set" in step.arguments for step in demo.steps(demo.DEFAULT_OUT))
    for step in demo.steps(tmp_path):
        assert str(tmp_path) in " ".join(step.arguments), step
        assert not any("runs/demo" in part for part in step.arguments), step


def test_a_failing_step_stops_the_demo_with_its_own_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setattr(demo, "steps", lambda out: [GOOD, BAD, GOOD])
    with pytest.raises(SystemExit) as stopped:
        demo.run_demo(tmp_path, console)
    assert stopped.value.code == 2
    timings = _timings(tmp_path)
    assert timings["good"]["finished"] is True
    assert timings["bad"]["finished"] is False


def test_a_finished_step_keeps_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    monkeypatch.setattr(demo, "steps", lambda out: [GOOD])
    demo.run_demo(tmp_path, console)
    first = _timings(tmp_path)
    demo.run_demo(tmp_path, console)
    assert _timings(tmp_path) == first


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_step_whose_work_was_gone_is_timed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console, is_gone: bool
) -> None:
    def work(*args: object, **kwargs: object) -> SimpleNamespace:
        if not (tmp_path / "made").exists():
            (tmp_path / "made").write_text("x")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(demo, "subprocess", SimpleNamespace(run=work))
    ticks = itertools.chain([0.0, 5.0, 10.0, 12.0])
    monkeypatch.setattr(demo, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr(demo, "steps", lambda out: [demo.Step("good", "Works.", ("x",), "made")])
    demo.run_demo(tmp_path, console)
    if is_gone:
        (tmp_path / "made").unlink()
    demo.run_demo(tmp_path, console)
    assert _timings(tmp_path)["good"]["seconds"] == (2.0 if is_gone else 5.0)


def test_every_step_but_the_report_says_what_it_leaves() -> None:
    assert [step.name for step in demo.steps(demo.DEFAULT_OUT) if not step.leaves] == ["report"]


def test_a_failed_step_adds_up_until_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(
        demo, "time", SimpleNamespace(monotonic=lambda: float(next(ticks)))
    )  # a run takes 1 s
    monkeypatch.setattr(demo, "steps", lambda out: [BAD])
    for _ in range(2):
        with pytest.raises(SystemExit):
            demo.run_demo(tmp_path, console)
    assert _timings(tmp_path)["bad"]["seconds"] == 2.0
    monkeypatch.setattr(demo, "steps", lambda out: [demo.Step("bad", "Mended.", ("--version",))])
    demo.run_demo(tmp_path, console)
    entry = _timings(tmp_path)["bad"]
    assert entry["finished"] is True
    assert entry["seconds"] == 3.0
    assert entry["command"] == "breadcrumbs --version"


def test_torn_timings_are_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    (tmp_path / demo.TIMINGS).write_text('{"good": {"seco')
    monkeypatch.setattr(demo, "steps", lambda out: [GOOD])
    demo.run_demo(tmp_path, console)
    assert _timings(tmp_path)["good"]["finished"] is True


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path, console: Console) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigError, match=r"cannot write here"):
        demo.run_demo(tmp_path / "file" / "run", console)
