"""The dilution curve: attention at the decision point over schema length, base and adapter.

Each prompt is a held-out scenario up to the moment its schema was disclosed. The schema is then
lengthened with optional fields borrowed from other tools, the breadcrumb staying last, and the
last prompt token's attention is split by segment. Growing the schema adds competitors *and*
distance at once, so a slope here describes dilution; it does not say that dilution causes a stall.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from breadcrumbs.config import STRICT, to_dict
from breadcrumbs.errors import ProbeError
from breadcrumbs.eval.probe_rows import ROW_FORMAT, ProbeRow, RowStore
from breadcrumbs.eval.systems import load_model
from breadcrumbs.files import write_text
from breadcrumbs.gateway.schema_growth import add_fields
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.progress import Report

if TYPE_CHECKING:
    from breadcrumbs.gateway.catalog import Catalog
    from breadcrumbs.local_model import LocalModel
    from breadcrumbs.rendering import Renderer

RESULT = "attention.json"
HEADS = "heads"


@checked(config=STRICT)
class ProbeConfig:
    """What `probe attention` reads."""

    model: str
    data: Path
    out: Path
    schema_tokens: tuple[int, ...]
    adapter: Path | None = None
    prompts: int = Field(default=4, ge=1)
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class ProbePrompt:
    """One prompt at one schema length."""

    scenario: str
    tool: str
    target: int
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    steering: str


def probe_attention(config: ProbeConfig, report: Report) -> str:
    """Measure every prompt with base and adapter; returns a short table.

    Writes `attention.json` (rows, curves, config) and `heads/*.parquet`, every layer and head of
    each row. Finished rows are kept, so that a stopped run goes on.

    Raises:
        ProbeError: fewer prompts than asked for, or a prompt beyond the model's length.
        ModelError, DataError: the model, adapter or data set is missing or broken.
    """
    config.out.mkdir(parents=True, exist_ok=True)
    store = RowStore(config.out / "rows.jsonl", _fingerprint(config))
    heads = config.out / HEADS
    store.clear_others(heads)
    names = ["base"] if config.adapter is None else ["base", "adapter"]
    total = len(names) * config.prompts * len(config.schema_tokens)
    if len(store.rows) < total:
        model = load_model(config)
        for prompt in _prompts(config, model.renderer):
            for name in names:
                if (name, prompt.scenario, prompt.target) not in store.rows:
                    store.add(_measure(model, name, prompt, heads))
                report(len(store.rows), total, f"{prompt.target} schema tokens, {name}")
    rows = list(store.rows.values())
    curves = {name: _curve([row for row in rows if row.model == name]) for name in names}
    result = {"config": to_dict(config), "rows": [asdict(row) for row in rows], "curves": curves}
    write_text(config.out / RESULT, json.dumps(result, indent=1) + "\n")
    return "\n".join((_table(curves), *_notes(rows)))


def _prompts(config: ProbeConfig, renderer: Renderer) -> Iterator[ProbePrompt]:
    """Scenarios of distinct held-out tools, each at every length, shortest first."""
    from breadcrumbs.data_gen.dataset import gateway_settings, load_scenarios, read_manifest
    from breadcrumbs.data_gen.episodes import gold_prefix
    from breadcrumbs.gateway.catalog import load_catalog

    manifest = read_manifest(config.data)
    catalog = load_catalog(manifest["config"].get("catalogs") or None)
    settings = gateway_settings(manifest)
    scenarios = {
        scenario.tool: scenario
        for scenario in load_scenarios(config.data, "held_out_tools")
        if scenario.behaviour == "dispatch"
    }
    picked = [scenarios[tool] for tool in sorted(scenarios)][: config.prompts]
    if len(picked) < config.prompts:
        raise ProbeError(
            f"{config.data}: {len(picked)} held-out tools with a dispatch scenario,"
            f" {config.prompts} prompts wanted; lower `prompts` or generate more"
        )
    for scenario in picked:
        conversation, tools, _ = asyncio.run(gold_prefix(scenario, catalog, settings))
        steering = scenario.system_prompt.partition("\n")[0]
        for target in config.schema_tokens:
            messages = lengthen(conversation, catalog, renderer, target)
            yield ProbePrompt(scenario.id, scenario.tool, target, messages, tuple(tools), steering)


def lengthen(
    messages: Sequence[Message], catalog: Catalog, renderer: Renderer, target: int
) -> tuple[Message, ...]:
    """Grow the disclosed schema (last message) with optional fields to about `target` tokens.

    A schema that is longer already stays as it is. Fields come from the other tools of the
    catalog in name order, renamed `<tool>_<field>`, so the text is real schema, not noise.

    Raises:
        ProbeError: the last message is no schema disclosure, or the catalog is too small.
    """
    payload = json.loads(messages[-1].content)
    if payload.get("layer") != "2_schema_disclosure" or not payload["disclosed"]:
        raise ProbeError("the prompt does not end with a disclosed schema")
    spec = payload["disclosed"][0]
    properties = spec["inputSchema"]["properties"]
    fields = _filler(catalog, spec["name"])
    # Fields take fewer tokens together than one by one, so what is there is counted again.
    while (missing := target - renderer.count(compact_json(payload["disclosed"]))) > 0:
        short = add_fields(properties, fields, missing, renderer.count)
        if short > 0:
            raise ProbeError(f"the catalog is too small for {target} schema tokens: {short} short")
    return (*messages[:-1], _with_content(messages[-1], compact_json(payload)))


def _filler(catalog: Catalog, own: str) -> Iterator[tuple[str, Any]]:
    for name in sorted(catalog.tools):
        if name != own:
            for field, schema in catalog.tools[name].input_schema["properties"].items():
                yield f"{name}_{field}", dict(schema)


def _with_content(message: Message, content: str) -> Message:
    return Message(message.role, content, message.tool_calls, message.tool_call_id)


def _measure(model: LocalModel, name: str, prompt: ProbePrompt, heads: Path) -> ProbeRow:
    from contextlib import nullcontext

    from breadcrumbs.eval.attention_table import write_table
    from breadcrumbs.eval.attribution import measure_prompt, openers_of
    from breadcrumbs.eval.probe_labels import FINE, GROUPS, labels_of
    from breadcrumbs.eval.probe_rows import Cell, row_of, tables_of

    rendered = model.renderer.render(prompt.messages, prompt.tools, steering=prompt.steering)
    limit = model.model.config.max_position_embeddings
    if len(rendered.ids) > limit:
        raise ProbeError(
            f"prompt of {len(rendered.ids)} tokens is beyond the model's {limit};"
            " lower schema_tokens"
        )
    openers, labels = openers_of(model.renderer), labels_of(rendered)
    with model.base() if name == "base" else nullcontext():
        fine, whole = measure_prompt(model.model, rendered.ids, labels, len(FINE), openers, GROUPS)
    cell = Cell(name, prompt.scenario, prompt.tool, prompt.target)
    write_table(heads / cell.file, tables_of(cell, rendered, fine, whole))
    return row_of(cell, rendered, fine, whole)


def _curve(rows: Sequence[ProbeRow]) -> list[dict[str, Any]]:
    """Per target length: medians over prompts of the per-prompt medians, with their range."""
    points = []
    for target in sorted({row.target for row in rows}):
        group = [row for row in rows if row.target == target]
        points.append(
            {
                "target": target,
                "n": len(group),
                "schema_tokens": median([row.schema_tokens for row in group]),
                "prompt_tokens": median([row.prompt_tokens for row in group]),
                "mass_steering": _mass_range(group, "steering"),
                "mass_schema": _mass_range(group, "schema"),
                "mass_breadcrumb": _mass_range(group, "breadcrumb"),
                "log_odds": _range([row.log_odds[1] for row in group]),
                "uniform_log_odds": _range(
                    [math.log(row.steering_tokens / row.schema_tokens) for row in group]
                ),
            }
        )
    return points


def _mass_range(rows: Sequence[ProbeRow], segment: str) -> dict[str, float] | None:
    found = [mass[1] for row in rows if (mass := row.mass[segment]) is not None]
    return _range(found) if found else None


def _range(values: Sequence[float]) -> dict[str, float]:
    return {"median": median(values), "low": min(values), "high": max(values)}


def _table(curves: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        "model    schema tokens  mass on steering  on schema  on breadcrumb  log-odds  (uniform)"
    ]
    for name, points in curves.items():
        for point in points:
            lines.append(
                f"{name:<8} {point['schema_tokens']:>13.0f}"
                f" {_shown(point['mass_steering']):>17}"
                f" {_shown(point['mass_schema']):>10}"
                f" {_shown(point['mass_breadcrumb']):>14}"
                f" {point['log_odds']['median']:>9.2f}"
                f" {point['uniform_log_odds']['median']:>10.2f}"
            )
    return "\n".join(lines)


def _notes(rows: Sequence[ProbeRow]) -> list[str]:
    """What of each model was measured, and what was refused."""
    notes = (f"{row.model}: {'; refused: '.join((row.coverage, *row.refusals))}" for row in rows)
    return list(dict.fromkeys(notes))


def _shown(mass: dict[str, float] | None) -> str:
    return "absent" if mass is None else f"{mass['median']:.4f}"


def _fingerprint(config: ProbeConfig) -> str:
    """Changes with the config, the data set and the adapter's weights."""
    settings = {"format": ROW_FORMAT} | to_dict(config)
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    places = [config.data / "manifest.json"]
    if config.adapter is not None:
        places.append(config.adapter / "adapter_model.safetensors")
    for place in places:
        if not place.is_file():
            raise ProbeError(f"{place}: not there; run the step that makes it first")
        with place.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
