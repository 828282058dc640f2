"""One self-contained page from what a run folder holds: no network, no other files.

Only results of decision turns, of episodes or of outside benchmarks are needed; what else is
missing is left out with its reason on the page. Every text that a model or a benchmark wrote is
escaped before it enters the page.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from breadcrumbs.eval.records import RESULTS
from breadcrumbs.eval.report_curves import dilution_section, loss_section
from breadcrumbs.eval.report_episodes import episode_boxes, episodes_section, read_suite
from breadcrumbs.eval.report_facts import facts_section, limits_section
from breadcrumbs.eval.report_outside import (
    outside_boxes,
    outside_section,
    read_outside_results,
)
from breadcrumbs.eval.report_tables import (
    behind_section,
    figures,
    lead,
    results_section,
    trade_off_section,
)
from breadcrumbs.eval.report_talk import talk_section
from breadcrumbs.eval.report_transcripts import section, turn_boxes
from breadcrumbs.eval.results import read_results
from breadcrumbs.files import write_text

PAGE = "report.html"
TITLE = "Act once the schema is disclosed, ask only when something is missing"


def write_report(run: Path) -> Path:
    """Write `report.html` and, beside it, `results.json`; returns the page's path.

    Raises:
        DataError: the run has results of no kind.
        ConfigError: the folder cannot be written.
    """
    others = read_suite(run) is not None or read_outside_results(run) is not None
    if _has_results(run) or not others:
        results = read_results(run)
        page = render(run, results)
        write_text(run / RESULTS, json.dumps(results, indent=1) + "\n")
    else:
        page = render(run, {"eval": {}})
    write_text(run / PAGE, page)
    return run / PAGE


def _has_results(run: Path) -> bool:
    return any((folder / RESULTS).is_file() for folder in (run / "eval", run))


def render(run: Path, results: dict[str, Any]) -> str:
    """The page as text; (run folder, results) fix it to the byte."""
    script = _asset("report.js")
    folder = run / "eval" if (run / "eval" / RESULTS).is_file() else run
    boxes = {**turn_boxes(folder, results), **episode_boxes(run), **outside_boxes(run)}
    sections = [
        trade_off_section(results),
        results_section(results, boxes),
        episodes_section(run, boxes),
        outside_section(run, boxes),
        talk_section(run),
        dilution_section(run),
        loss_section(run),
        behind_section(results),
        facts_section(run, results),
        limits_section(results),
        section(boxes),
    ]
    versions = results.get("versions", {})
    return page(
        TITLE,
        lead(results),
        sections,
        f"breadcrumbs {versions.get('breadcrumbs', '')}, {run.name}",
        figures=figures(results),
        script=script,
    )


def page(
    title: str,
    lead: str,
    sections: Sequence[str],
    footer: str,
    *,
    figures: str = "",
    script: str = "",
) -> str:
    """One self-contained page; title and footer are text, the rest is HTML that is safe."""
    return Template(_asset("report.html")).substitute(
        title=escape(title),
        lead=lead,
        figures=figures,
        sections="\n".join(sections),
        footer=escape(footer),
        style=_asset("report.css"),
        script=script,
        script_hash=_csp_hash(script),
    )


def _asset(name: str) -> str:
    return (resources.files("breadcrumbs.eval") / name).read_text(encoding="utf-8")


def _csp_hash(script: str) -> str:
    """Only this script may run on the page, whatever text a model wrote."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
