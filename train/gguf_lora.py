"""The adapter in llama.cpp's own format, one GGUF file that `llama-server --lora` loads.

The format is what llama.cpp's loader reads (its `src/llama-adapter.cpp`): `general.type` is
`adapter`, `adapter.type` is `lora`, and for every matrix W of the base the pair `W.lora_a`
[r, in] and `W.lora_b` [out, r], applied as (alpha / r) * B A. Matrices carry llama.cpp's names.
For the Llama family the rows of q and k stand in another order there: Hugging Face rotates the
two halves of a head against each other, llama.cpp neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.models import first_line, resolve_model
from breadcrumbs.train.adapter_folder import base_name, read_adapter, read_json
from breadcrumbs.train.run import WEIGHTS
from breadcrumbs.train.serving import ADAPTER_CONFIG

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[Any, np.dtype[np.float32]]

_PREFIX = "base_model.model."
_SCALED = ("use_rslora", "use_dora", "rank_pattern", "alpha_pattern", "alora_invocation_tokens")


class Family(NamedTuple):
    """How llama.cpp stores one `model_type` of transformers."""

    architecture: str
    neighbours: bool
    """Whether it rotates neighbours, so that rows of q and k are reordered."""


FAMILIES: Mapping[str, Family] = {
    "llama": Family("llama", True),
    "mistral": Family("llama", True),
    "qwen2": Family("qwen2", False),
    "qwen3": Family("qwen3", False),
}


def export_gguf(folder: Path, out: Path, model: str | None = None) -> int:
    """Write the adapter in `folder` as the file `out`, read it back, compare every tensor.

    Returns:
        The number of tensors.

    Raises:
        ConfigError: `out` exists, or cannot be written.
        ModelError: no adapter there, a family that is not known here, an adapter that this format
            cannot hold, or what was read back differs; `out` is not there then.
    """
    facts = read_adapter(folder)
    settings = read_json(folder / ADAPTER_CONFIG)
    if scaled := [key for key in _SCALED if settings.get(key)]:
        raise ModelError(f"{folder}: {', '.join(scaled)} cannot be said in a GGUF adapter")
    shape = read_json(resolve_model(base_name(facts, model)) / "config.json")
    family = FAMILIES.get(str(shape.get("model_type")))
    if family is None:
        raise ModelError(
            f"{folder}: its base is a {shape.get('model_type')!r} model; "
            f"a GGUF adapter is made for {', '.join(FAMILIES)}"
        )
    if out.exists():
        raise ConfigError(f"{out}: exists; choose another out, or remove it")
    trained = _trained(folder / WEIGHTS)
    tensors = {
        name: matrix
        for key, weights in trained.items()
        for name, matrix in [_to_gguf(key, weights, family, shape)]
    }
    fresh = out.with_name(f".{out.name}.new")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        _write(fresh, tensors, family, float(settings["lora_alpha"]))
        compare(fresh, trained, family, shape, float(settings["lora_alpha"]))
        fresh.rename(out)
    except OSError as error:
        raise ConfigError(f"{out}: cannot write: {error.strerror or error}; make room") from error
    finally:
        fresh.unlink(missing_ok=True)
    return len(tensors)


def compare(
    path: Path,
    trained: Mapping[str, Matrix],
    family: Family,
    shape: Mapping[str, Any],
    alpha: float,
) -> None:
    """Read a GGUF adapter and turn every tensor back into PEFT's form; all must be equal bits.

    Raises:
        ModelError: a tensor is missing, foreign or different, or the header says another thing.
    """
    import numpy as np
    from gguf import GGUFReader, Keys

    reader = GGUFReader(path)
    wanted = {
        Keys.General.TYPE: "adapter",
        Keys.General.ARCHITECTURE: family.architecture,
        Keys.Adapter.TYPE: "lora",
        Keys.Adapter.LORA_ALPHA: alpha,
    }
    for key, value in wanted.items():
        found = reader.fields[key].contents() if key in reader.fields else None
        if found != value:
            raise ModelError(f"{path.name}: {key} is {found!r} instead of {value!r}")
    stored = {tensor.name: np.asarray(tensor.data) for tensor in reader.tensors}
    for key, weights in trained.items():
        name = _gguf_name(key, family, shape)
        matrix = stored.pop(name, None)
        if matrix is None:
            raise ModelError(f"{path.name}: no tensor {name}")
        heads = _rotated_heads(key, family, shape)
        back = halves_from_neighbours(matrix, heads) if heads else matrix
        if not np.array_equal(back, weights):
            raise ModelError(f"{path.name}: {name} does not read back as it was trained")
    if stored:
        raise ModelError(f"{path.name}: tensors that nobody trained: {', '.join(stored)}")


def neighbours_from_halves(rows: Matrix, heads: int) -> Matrix:
    """Reorder the rows [heads * 2 h, …]: of each head's two halves, take one from each in turn."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return halves.swapaxes(1, 2).reshape(rows.shape)


def halves_from_neighbours(rows: Matrix, heads: int) -> Matrix:
    """The inverse of `neighbours_from_halves`: even rows of each head first, then the odd ones."""
    pairs = rows.reshape(heads, -1, 2, *rows.shape[1:])
    return pairs.swapaxes(1, 2).reshape(rows.shape)


def _trained(path: Path) -> dict[str, Matrix]:
    """The adapter's tensors in float32, by PEFT's names."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return {key: tensor.float().numpy() for key, tensor in load_file(path).items()}
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{path}: cannot be read ({first_line(error)})") from error


def _to_gguf(
    key: str, weights: Matrix, family: Family, shape: Mapping[str, Any]
) -> tuple[str, Matrix]:
    heads = _rotated_heads(key, family, shape)
    moved = neighbours_from_halves(weights, heads) if heads else weights
    return _gguf_name(key, family, shape), moved


def _rotated_heads(key: str, family: Family, shape: Mapping[str, Any]) -> int:
    """Heads whose rows are reordered in this tensor; 0 for none. B has W's rows, A its columns."""
    if not family.neighbours or not key.endswith(".lora_B.weight"):
        return 0
    heads = int(shape["num_attention_heads"])
    if ".q_proj." in key:
        return heads
    return int(shape.get("num_key_value_heads") or heads) if ".k_proj." in key else 0


def _gguf_name(key: str, family: Family, shape: Mapping[str, Any]) -> str:
    names = _names(family.architecture, int(shape["num_hidden_layers"]))
    for ending, suffix in ((".lora_A.weight", "lora_a"), (".lora_B.weight", "lora_b")):
        if key.startswith(_PREFIX) and key.endswith(ending):
            found = names.get_name(key.removeprefix(_PREFIX).removesuffix(ending))
            if found is not None:
                return f"{found}.weight.{suffix}"
    raise ModelError(f"tensor {key!r} has no place in a {family.architecture} GGUF adapter")


@lru_cache(maxsize=2)
def _names(architecture: str, layers: int) -> Any:
    """The library's map from Hugging Face's names to llama.cpp's."""
    import gguf

    number = next(n for n, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    return gguf.get_tensor_name_map(number, layers)


def _write(path: Path, tensors: Mapping[str, Matrix], family: Family, alpha: float) -> None:
    from gguf import GGUFType, GGUFWriter, Keys, LlamaFileType

    writer = GGUFWriter(path, family.architecture)
    writer.add_type(GGUFType.ADAPTER)
    writer.add_file_type(LlamaFileType.ALL_F32)
    writer.add_string(Keys.Adapter.TYPE, "lora")
    writer.add_float32(Keys.Adapter.LORA_ALPHA, alpha)
    for name, matrix in sorted(tensors.items()):
        writer.add_tensor(name, matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
