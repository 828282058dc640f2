"""Configs: every fault is one line that names file, key and cure."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic.dataclasses import dataclass

from breadcrumbs import config
from breadcrumbs.errors import ConfigError


@dataclass(config=config.STRICT)
class Inner:
    depth: int = 1


@dataclass(config=config.STRICT)
class Example:
    steps: int
    name: str = "x"
    inner: Inner = Inner()


def write(folder: Path, text: str) -> Path:
    path = folder / "a.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_reads_and_overrides(tmp_path: Path) -> None:
    path = write(tmp_path, "version: 1\nsteps: 3\n")
    loaded = config.load(path, Example, ["steps=5", "inner.depth=2", "name=a b"])
    assert (loaded.steps, loaded.inner.depth, loaded.name) == (5, 2, "a b")
    assert config.to_dict(loaded) == {
        "version": 1,
        "steps": 5,
        "name": "a b",
        "inner": {"depth": 2},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 1\nsteps: 3\nstep: 4\n", r"a\.yaml: unknown key 'step'"),
        ("version: 1\n", r"a\.yaml: key 'steps' is missing"),
        ("version: 2\nsteps: 3\n", r"a\.yaml: version must be 1, got 2"),
        ("steps: 3\n", r"version must be 1, got None"),
        ("version: 1\nsteps: many\n", r"steps: .*integer.*got 'many'"),
        ("version: 1\nsteps: [\n", r"a\.yaml:3:1: not valid YAML"),
        ("- 1\n", r"expected a mapping of keys, got list"),
        ("version: 1\nsteps: 1\ninner: {deep: 2}\n", r"unknown key 'inner\.deep'"),
        ("version: 1\nstep: 1\nnom: 2\n", r"unknown key 'step'.*unknown key 'nom'"),
    ],
)
def test_faults_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        config.load(write(tmp_path, text), Example)
    assert "\n" not in str(caught.value)


def test_missing_file_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        config.load(tmp_path / "none.yaml", Example)
    path = tmp_path / "b.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        config.load(path, Example)


@pytest.mark.parametrize("override", ["steps", "=3", "steps.deep=3"])
def test_bad_overrides(tmp_path: Path, override: str) -> None:
    with pytest.raises(ConfigError, match="override"):
        config.load(write(tmp_path, "version: 1\nsteps: 3\n"), Example, [override])


def test_packaged_configs_are_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert config.resolve("configs/probe/demo.yaml").is_file()


def test_yaml_tags_do_not_make_objects(tmp_path: Path) -> None:
    path = write(tmp_path, "version: 1\nsteps: !!python/object/apply:os.getpid []\n")
    with pytest.raises(ConfigError, match="not valid YAML"):
        config.load(path, Example)
