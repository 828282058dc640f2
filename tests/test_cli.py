"""The command line on bad input: one line that says what and how to mend it, status 2."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from breadcrumbs.cli import main

GENERATE = ("generate", "--config", "configs/generate/demo.yaml", "--out")
TRAIN = ("train", "sft", "--config", "configs/train/demo.yaml")
EVAL = ("eval", "--config", "configs/eval/demo.yaml")
PROBE = ("probe", "attention", "--config", "configs/probe/demo.yaml")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; configs are then the packaged ones."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.yaml").write_text("version: 1\nseed: [1\n")
    (tmp_path / "list.yaml").write_text("- 1\n")
    (tmp_path / "old.yaml").write_text("version: 7\n")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "file").write_text("in the way")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The error line of a command that must fail with status 2."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.strip()]
    assert lines[-1].startswith("breadcrumbs: "), lines
    assert not any("Traceback" in line for line in lines)
    return lines[-1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "--config", "nowhere.yaml", "--out", "o"), "nowhere.yaml: no such file"),
        (("generate", "--config", "broken.yaml", "--out", "o"), "broken.yaml:3:1: not valid YAML"),
        (("generate", "--config", "list.yaml", "--out", "o"), "expected a mapping"),
        (("generate", "--config", "old.yaml", "--out", "o"), "version must be 1, got 7"),
        (("generate", "--config", "bytes.yaml", "--out", "o"), "not UTF-8"),
        ((*GENERATE, "o", "--set", "sead=3"), "unknown key 'sead'"),
        ((*GENERATE, "o", "--set", "seed=many"), "seed: "),
        ((*GENERATE, "o", "--set", "seed"), "write key=value"),
        ((*GENERATE, "o", "--set", "seed=[1"), "the value is not YAML"),
        ((*GENERATE, "o", "--set", "held_out_domain=mars"), "no domain 'mars'"),
        ((*GENERATE, "file/below"), "file/.below.shards: cannot write: Not a directory"),
        (TRAIN, "runs/demo/data: no complete data set here"),
        ((*TRAIN, "--set", "steps=-1"), "steps: "),
        ((*EVAL, "--set", "model=nobody/nothing"), "no complete data set"),
        (EVAL, "no complete data set here; make it with: breadcrumbs generate"),
        (("eval", "episodes", "--config", "configs/eval/episodes.yaml"), "no complete data set"),
        (("eval", "compare", "a", "b"), "a: no results.json, episodes.json or outside.json"),
        (("eval", "compare", "a", "b", "--require", "dad>0.9"), "write dad>=0.9"),
        (PROBE, "run the step that makes it first"),
        (("probe", "causal", "--config", "configs/probe/causal.yaml"), "no complete data set here"),
        (("probe", "compare", "--config", "configs/probe/compare.yaml"), "no complete data set"),
        (("steer", "fit", "--config", "configs/probe/steer.yaml"), "no complete data set here"),
        (("steer", "eval", "--config", "configs/probe/steer.yaml"), "no steer file there"),
        (("report", "empty"), "empty"),
        (("data", "stats", "empty"), "no complete data set here"),
        (("chat", "--adapter", "nowhere"), "nowhere"),
        (("serve", "--adapter", "nowhere"), "nowhere"),
        (("chat", "--model", "nowhere/at/all"), "nowhere/at/all"),
        (("chat", "--catalog", "nowhere.yaml"), "nowhere.yaml"),
        (("demo", "--out", "file/run"), "cannot write here"),
    ],
)
def test_one_line_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    assert words in said(capsys, *arguments)


def test_a_full_disk_leaves_nothing_that_is_trusted(
    elsewhere: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ("--set", "train={pairs: 1}", "--set", "eval_tools={pairs: 1}")
    small += ("--set", "eval_domain={pairs: 1}")

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        line = said(capsys, *GENERATE, "data", *small)
    assert "No space left on device; make room" in line
    assert not (elsewhere / "data").exists()
    main([*GENERATE, "data", *small])
    assert (elsewhere / "data" / "manifest.json").is_file()
    assert not list(elsewhere.glob(".data*"))  # nothing is left beside it either


def test_debug_shows_where_an_error_came_from(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="no such file"):
        main(["--debug", "generate", "--config", "nowhere.yaml", "--out", "o"])
