"""What ran, how long, on what, and what the numbers cannot say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any


def facts_section(run: Path, results: Mapping[str, Any]) -> str:
    """Commands with their times, data, training and versions; what is not there is left out."""
    parts = [
        _timings(_read(run / "timings.json")),
        _facts("data", _data_facts(_read(run / "data" / "manifest.json"))),
        _facts("training", _train_facts(_read(run / "adapter" / "run.json"))),
        _facts("models", _model_facts(results)),
        _facts("versions", {k: str(v) for k, v in results.get("versions", {}).items()}),
    ]
    return f"<section><h2>What ran</h2>{''.join(parts)}</section>"


def _read(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _timings(timings: Mapping[str, Any]) -> str:
    if not timings:
        return '<p class="missing">No times: only `breadcrumbs demo` writes timings.json.</p>'
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{_minutes(entry.get('seconds', 0))}</td>"
        f'<td class="cmd"><code>{escape(str(entry.get("command", "")))}</code></td></tr>'
        for name, entry in timings.items()
    )
    total = _minutes(sum(entry.get("seconds", 0) for entry in timings.values()))
    return (
        '<div class="scroll words"><table><thead><tr><th>step</th><th>time</th>'
        "<th>command</th></tr>"
        f"</thead><tbody>{rows}<tr><td><strong>all</strong></td><td><strong>{total}</strong></td>"
        "<td></td></tr></tbody></table></div><p></p>"
    )


def _minutes(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02d} s" if whole >= 60 else f"{seconds:.1f} s"


def _facts(title: str, facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    items = "".join(f"<li>{escape(k)}: {escape(v)}</li>" for k, v in facts.items())
    return f'<details><summary>{title}</summary><ul class="plain">{items}</ul></details>'


def _data_facts(manifest: Mapping[str, Any]) -> dict[str, str]:
    counts = manifest.get("counts", {})
    facts = {}
    if counts:
        facts["trajectories"] = str(counts.get("trajectories"))
    for axis in ("split", "behaviour", "source"):
        if counts.get(axis):
            facts[axis] = ", ".join(f"{name} {number}" for name, number in counts[axis].items())
    tools = manifest.get("tools", {})
    for split in ("held_out_tools", "held_out_domain"):
        if tools.get(split):
            facts[split.replace("_", " ")] = ", ".join(tools[split])
    dropped = manifest.get("dropped")
    if dropped is not None:
        said = ", ".join(f"{reason} ({number})" for reason, number in dropped.items())
        facts["dropped rows"] = said or "none"
    return facts


def _train_facts(run: Mapping[str, Any]) -> dict[str, str]:
    config = run.get("config", {})
    skipped = ("version", "data", "out", "save_every", "log_every")
    return {
        key: str(value) for key, value in config.items() if key not in skipped and value is not None
    }


def _model_facts(results: Mapping[str, Any]) -> dict[str, str]:
    return {
        system: ", ".join(f"{key} {value}" for key, value in identity.items())
        for system, identity in results.get("models", {}).items()
    }


def limits_section(results: Mapping[str, Any]) -> str:
    """What to keep in mind when reading the page."""
    config = results.get("config", {})
    items = (
        "One model, one training run, one seed. Another seed will move every number; the intervals"
        " cover the choice of scenarios, not that.",
        "Intervals take scenarios as independent. They share tools and phrasings, and twins share"
        " a request, so the true uncertainty is wider.",
        "Requests are generated, in English, values said almost word for word; tools and domains"
        " are held out, the way of phrasing is not. How people really talk is harder.",
        "One gateway with three meta-tools, simulated worlds, one request per conversation.",
        f"Greedy decoding, at most {config.get('max_new_tokens', '?')} new tokens; prose is"
        f" stopped after {config.get('text_budget', '?')} tokens: a later call counts as a stall.",
        "Constant policies use the hidden truth (gold arguments, parameter names): they are"
        " yardsticks for the metrics, not models.",
        "Questions are read by a matcher over parameter names, aliases and types, refusals by a"
        " short list of English phrases; both can be wrong on free prose.",
    )
    listed = "".join(f"<li>{escape(item)}</li>" for item in items)
    return (
        f'<section><h2>What these numbers cannot say</h2><ul class="plain">{listed}</ul></section>'
    )
