"""The model card: README.md in the Hub's form, and the evaluation's table in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from breadcrumbs.errors import ModelError
from breadcrumbs.files import read_text, write_text
from breadcrumbs.models import SMALL
from breadcrumbs.train.config import DpoConfig, GrpoConfig, KtoConfig, RunConfig, TrainConfig
from breadcrumbs.train.run import WEIGHTS

CARD = "README.md"
MAX_CARD_BYTES = 1 << 20
NAME = "Breadcrumbs adapter"
SMALL_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
_BEGIN, _END = "<!-- evaluation -->", "<!-- end of evaluation -->"
_FENCE = "---\n"


@dataclass(frozen=True, slots=True)
class Measured:
    """One line of an evaluation: who, where, and its figures as text and as numbers."""

    system: str
    cell: str
    shown: Mapping[str, str]
    values: Mapping[str, float | None]


def card(config: RunConfig, base: str, rows: int) -> str:
    """The card of a fresh adapter: what it is, made from what and how. No evaluation yet."""
    about: dict[str, Any] = {
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["lora", "tool-calling"],
        "base_model_relation": "adapter",
    }
    source = "the model named below"
    if config.model == SMALL:
        about |= {"base_model": SMALL_ID, "license": "apache-2.0"}
        source = (
            "SmolLM2-135M-Instruct (Apache-2.0), dequantised from Q4_1, so its weights are not the "
            "original ones"
        )
    elif base.count("/") == 1:  # a Hub id; the name of a local folder would lead nowhere
        about["base_model"] = base
    text = (
        f"# {NAME}\n\n"
        "A LoRA adapter that dispatches once a tool's schema is disclosed and asks only for what "
        f"is missing. Base: {source}.\n\n"
        f"- base: `{base}`\n"
        f"- rows: {rows}, split `{config.split}`; {_how(config)}\n"
        f"- peak learning rate {config.learning_rate:g}; seed {config.seed}\n\n"
        f"{_BEGIN}\nNot evaluated yet.\n{_END}\n\n"
        "Serve it with the chat template and stop ids of this folder: `serving.json` holds their "
        "hashes, golden prompts with their token ids, and a canary that tells whether the adapter "
        "is in use. It was trained on generated English conversations behind one gateway; writes "
        "must still be held for approval.\n"
    )
    return _joined(about, text)


def with_evaluation(text: str, measured: Sequence[Measured]) -> str:
    """The card with this evaluation in place of the one it had, also as the Hub's `model-index`.

    Raises:
        ModelError: the text is not a card that `card` made.
    """
    about, body = _parted(text)
    before, begin, rest = body.partition(_BEGIN)
    _, end, after = rest.rpartition(_END)
    if not begin or not end:
        raise ModelError(f"{CARD}: no place for the evaluation; publish the adapter again")
    results = [_result(one) for one in measured if one.system == "adapter"]
    about["model-index"] = [{"name": NAME, "results": results}]
    return _joined(about, f"{before}{_BEGIN}\n{_table(measured)}\n{_END}{after}")


def write_evaluation(
    folder: Path, identity: Mapping[str, Any], measured: Sequence[Measured]
) -> Path:
    """Put an evaluation into the card of the adapter in `folder`; returns the card.

    Args:
        folder: the adapter's.
        identity: what the evaluation says of the adapter it ran: `adapter` is its weights' hash.
        measured: its lines.

    Raises:
        ModelError: no adapter there, or the evaluation was another one's.
    """
    from breadcrumbs.train.adapter_folder import read_adapter

    weights = read_adapter(folder)["files"][WEIGHTS]
    if identity.get("adapter") != weights:
        raise ModelError(
            f"{folder}: these results are of another adapter; evaluate this one: breadcrumbs eval"
        )
    path = folder / CARD
    write_text(path, with_evaluation(read_text(path, MAX_CARD_BYTES, ModelError), measured))
    return path


def _result(one: Measured) -> dict[str, Any]:
    return {
        "task": {"type": "text-generation", "name": "act or ask at the decision point"},
        "dataset": {"type": "breadcrumbs", "name": one.cell},
        "metrics": [
            {"type": name, "name": name, "value": value}
            for name, value in one.values.items()
            if value is not None
        ],
    }


def _table(measured: Sequence[Measured]) -> str:
    names = list(measured[0].shown) if measured else []
    rows = [["system", "cell", *names], ["---"] * (len(names) + 2)]
    rows += [[one.system, one.cell, *one.shown.values()] for one in measured]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(
        [
            *lines,
            "",
            "Value [95 % interval]. DAD, Ask-F1, exact: higher is better; OAR, UAR: lower.",
        ]
    )


def _parted(text: str) -> tuple[dict[str, Any], str]:
    head, fence, body = text.removeprefix(_FENCE).partition("\n" + _FENCE)
    try:
        about = yaml.safe_load(head) if text.startswith(_FENCE) and fence else None
    except yaml.YAMLError:
        about = None
    if not isinstance(about, dict):
        raise ModelError(f"{CARD}: no YAML header between --- lines; publish the adapter again")
    return about, body


def _joined(about: Mapping[str, Any], body: str) -> str:
    head = yaml.safe_dump(dict(about), sort_keys=False, allow_unicode=True)
    return f"{_FENCE}{head}{_FENCE}{body}"


def _how(config: RunConfig) -> str:
    length = f"{config.steps} steps" if config.steps else f"{config.epochs:g} epochs"
    if isinstance(config, DpoConfig | KtoConfig):
        pairs = config.batch_pairs * config.grad_accum
        kind = "right and wrong turns" if config.stage == "kto" else "preference pairs"
        return (
            f"{kind} of them, {length} of {pairs}, beta {config.beta:g}, "
            f"anchor {config.anchor:g}, on from an adapter trained before"
        )
    if isinstance(config, GrpoConfig):
        tries = config.batch_scenarios * config.grad_accum
        return (
            f"tried at the gateway and scored by its log, {length} of {tries} scenarios, "
            f"each tried {config.generations} times, beta {config.beta:g}, on from an adapter "
            "trained before"
        )
    assert isinstance(config, TrainConfig)
    adapter = config.adapter
    return (
        f"{length} of {config.batch_rows * config.grad_accum} rows; LoRA rank {adapter.rank}, "
        f"alpha {adapter.alpha}; decision weight {config.decision_weight:g}"
    )
