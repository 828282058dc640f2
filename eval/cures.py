"""Cures without training: what they are, their files, and turns written under them.

A bias raises the steering keys' logits in every layer and head; a vector is added to the residual
stream behind one layer. Both act from the decision row on. The vector is the mean difference of
the stream between a call's and a stall's first token behind the same prompts (contrastive
activation addition, Rimsky et al. 2024).

Shapes: L layers, E embedding width.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from breadcrumbs.errors import ModelError, ProbeError
from breadcrumbs.eval.decision_points import point_of
from breadcrumbs.eval.interventions import DecisionRun, Edit
from breadcrumbs.files import write_text

if TYPE_CHECKING:
    from breadcrumbs.data_gen.pairs import Pair
    from breadcrumbs.local_model import LocalModel

Kind = Literal["bias", "vector"]
KINDS: tuple[Kind, ...] = ("bias", "vector")
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Steer:
    """A cure with its dose; a dose of zero is none."""

    kind: Kind
    dose: float
    layer: int | None
    """Behind which layer the vector is added; None for a bias."""
    vector: torch.Tensor
    """float32 [E], the mean difference; [1] of one for a bias."""

    @property
    def label(self) -> str:
        """For a table."""
        place = "" if self.layer is None else f" behind layer {self.layer}"
        return f"{self.kind} {self.dose:g}{place}"


def save_steer(folder: Path, steer: Steer, facts: Mapping[str, Any]) -> Path:
    """Write KIND.safetensors and KIND.json; returns the latter.

    Raises:
        ConfigError: the place cannot be written.
    """
    from safetensors.torch import save_file

    path = folder / f"{steer.kind}.json"
    body = {"format": FORMAT, "kind": steer.kind, "dose": steer.dose, "layer": steer.layer, **facts}
    folder.mkdir(parents=True, exist_ok=True)
    save_file({"vector": steer.vector.contiguous()}, path.with_suffix(".safetensors"))
    write_text(path, json.dumps(body, indent=1) + "\n")
    return path


def load_steer(path: Path, identity: Mapping[str, str]) -> Steer:
    """A steer file that was fitted on the model of this identity.

    Raises:
        ModelError: there is none, it is broken, or it belongs to another model.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        vector = load_file(path.with_suffix(".safetensors"))["vector"]
        made_for, kind = body["model"], body["kind"]
        layer = None if body["layer"] is None else int(body["layer"])
        steer = Steer(kind, float(body["dose"]), layer, vector)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no steer file there; make it with: steer fit") from error
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise ModelError(f"{path}: not a steer file; fit again") from error
    if (
        body.get("format") != FORMAT
        or kind not in KINDS
        or (kind == "vector") != (layer is not None)
    ):
        raise ModelError(f"{path}: not a steer file of this version; fit again")
    if made_for != dict(identity):
        raise ModelError(f"{path}: fitted on another model; fit again on this one")
    return steer


@contextmanager
def adding(base: Any, layer: int, vector: torch.Tensor) -> Iterator[None]:
    """Add `vector` [E] to the residual stream behind a layer, at every row run in the block.

    Raises:
        ProbeError: the model has no such layer, or another width.
    """
    blocks = blocks_of(base)
    if not 0 <= layer < len(blocks):
        raise ProbeError(f"layer {layer}: the model has {len(blocks)}, counted from 0")
    if vector.numel() != base.config.get_text_config().hidden_size:
        raise ProbeError(f"a vector of {vector.numel()} does not fit this model's residual stream")

    def add(_: Any, __: Any, output: Any) -> Any:
        stream = output[0] if isinstance(output, tuple) else output
        moved = stream + vector.to(stream.device, stream.dtype)
        return (moved, *output[1:]) if isinstance(output, tuple) else moved

    hook = blocks[layer].register_forward_hook(add)
    try:
        yield
    finally:
        hook.remove()


def blocks_of(base: Any) -> list[Any]:
    """The decoder's layers."""
    lists = [
        part for part in base.get_decoder().children() if isinstance(part, torch.nn.ModuleList)
    ]
    return [block for part in lists for block in part]


def mean_difference(model: LocalModel, pairs: Sequence[Pair]) -> torch.Tensor:
    """Call less stall, mean over pairs: float32 [L, E], the stream behind each layer."""
    differences = []
    for pair in pairs:
        point = point_of(pair, model.renderer, thought=False)
        run = DecisionRun(model.model, point.ids, point.openers, point.call)
        streams = [
            _stream(run, [*point.ids, token]) for token in (*point.openers.call, point.stall)
        ]
        differences.append(streams[0] - streams[1])
    return torch.stack(differences).mean(0)


def _stream(run: DecisionRun, ids: Sequence[int]) -> torch.Tensor:
    """The residual stream [L, E] at the last of some ids."""
    found: dict[int, torch.Tensor] = {}

    def keep(place: int, _: Any, __: Any, output: Any) -> None:
        stream = output[0] if isinstance(output, tuple) else output
        found.setdefault(place, stream[0, -1].detach().float().cpu())  # what is written comes later

    with ExitStack() as stack:
        for place, block in enumerate(blocks_of(run.base)):
            stack.callback(block.register_forward_hook(partial(keep, place)).remove)
        run.instead(ids)
    return torch.stack([found[place] for place in sorted(found)])


def written(
    run: DecisionRun,
    keys: tuple[int, ...],
    steer: Steer | None,
    is_finished: Callable[[list[int]], bool],
) -> list[int]:
    """The greedy turn under a cure from the decision row on; None and a dose of zero are none."""
    if steer is None or not steer.dose:
        return run.written(is_finished)
    if steer.layer is None:
        return run.written(is_finished, Edit(keys, steer.dose, "written"))
    with adding(run.base, steer.layer, steer.dose * steer.vector):
        return run.written(is_finished)
