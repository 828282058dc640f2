"""The page, from a made-up run folder whose numbers mean nothing and stand nowhere else."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import DataError
from breadcrumbs.eval.charts import Line, Point, line_chart, smoothed
from breadcrumbs.eval.intervals import NOT_MEASURED, Estimate, rate
from breadcrumbs.eval.report import write_report
from breadcrumbs.eval.results import read_results, table
from breadcrumbs.eval.suite_view import HEADLINE

ATTACK = '</pre><script>document.title="owned"</script><img src=x onerror="alert(1)">'
CELLS = {
    ("breadcrumb_on", "held_out_tools"): 100,
    ("breadcrumb_on", "held_out_domain"): 60,
    ("breadcrumb_off", "held_out_tools"): 40,
    ("breadcrumb_off", "held_out_domain"): 40,
}
SHARES = {
    "base": (0.03, 0.94, 0.02, 0.06, 0.01, 0.15),
    "adapter": (0.96, 0.02, 0.07, 0.91, 0.86, 0.95),
    "always_dispatch": (1.0, 0.0, 1.0, 0.0, 1.0, None),
    "always_ask": (0.0, 1.0, 0.0, 0.26, 0.0, None),
}


def _estimate(share: float | None, n: int) -> Estimate:
    if share is None:
        return NOT_MEASURED
    hits = round(share * n)
    return rate([True] * hits + [False] * (n - hits))


def results() -> dict[str, Any]:
    body: dict[str, Any] = {}
    for system, shares in SHARES.items():
        for (tier, split), n in CELLS.items():
            dad, oar, uar, ask, exact, search = shares
            first = (tier, split) == ("breadcrumb_on", "held_out_tools")
            model = system in ("base", "adapter")
            metrics = {
                "dad": _estimate(dad, n),
                "oar": _estimate(oar, n),
                "uar": _estimate(uar, n),
                "ask_f1": _estimate(ask, 2 * n),
                "arguments_exact": _estimate(exact, n),
                "end_state": _estimate(exact, 40) if first and model else NOT_MEASURED,
                "search_call_parsed": _estimate(search, 40),
                "other_call": _estimate(0.02, 2 * n),
                "malformed_call": _estimate(0.01, 2 * n),
                "invented": _estimate(0.05, n),
                "decline_told": _estimate(dad, 20),
            }
            tiers = body.setdefault(system, {}).setdefault(tier, {})
            tiers[split] = {name: found.to_dict() for name, found in metrics.items()}
    stalls = {"fake_call_in_text": 61, "param_dump": 22, "permission_ask": 11}
    tools = {
        "scheduled_jobs": {"n": 4, "dad": 4, "exact": 3},
        "move_event": {"n": 96, "dad": 92, "exact": 83},
    }
    detail = {"stalls": stalls, "faults": {ATTACK: 1}, "by_tool": tools}
    one = {
        "breadcrumb_on": {"held_out_tools": detail},
        "episode_faults": {"the tool did not run": 34},
    }
    good = {**detail, "stalls": {"inferable_value_ask": 2}}
    two = {"breadcrumb_on": {"held_out_tools": good}, "episode_faults": {}}
    return {
        "version": 1,
        "eval": body,
        "details": {"base": one, "adapter": two},
        "config": {"max_new_tokens": 224, "text_budget": 64},
        "models": {"base": {"base": "gguf-sha256:0000", "dtype": "bfloat16"}},
        "versions": {"breadcrumbs": "0", "python": "3.11", "torch": "2", "cores": 2},
    }


def make_run(folder: Path, *, whole: bool = True) -> Path:
    """A run folder with everything, or with the results alone."""
    _json(folder / "eval/results.json", results())
    if whole:
        for system in ("base", "adapter"):
            _json(folder / f"watch/{system}.json", _watched(system))
        _json(folder / "probe/attention.json", {"rows": [], "curves": _curves()})
        _json(folder / "timings.json", _timings())
        _json(folder / "data/manifest.json", _manifest())
        _json(folder / "adapter/run.json", {"config": {"steps": 150, "learning_rate": 5e-4}})
        (folder / "adapter/metrics.jsonl").write_text(_losses())
    return folder


def _json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _watched(system: str) -> dict[str, Any]:
    schema = {"layer": "2_schema_disclosure", "disclosed": [{"name": "scheduled_jobs"}]}
    call = {"id": "c", "name": "get_tool_schema", "arguments": {"tool_names": ["scheduled_jobs"]}}
    messages = [
        {"role": "system", "content": "Act.", "tool_calls": []},
        {"role": "user", "content": "Add a reminder.", "tool_calls": []},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": json.dumps(schema), "tool_calls": []},
    ]
    request = "Add a deferred reminder to verify approvals, merge, and update the report for this core pull request."
    record = {"system": system, "request": request, "messages": messages, "problems": []}
    if system == "base":
        text = "To add the reminder, please provide the following details:\n- title\n- message\n- schedule_time\n"
        return record | {"text": text + ATTACK, "calls": [], "stall": "param_dump", "payload": None}
    arguments = {
        "title": "Verify approvals, merge, update the report",
        "message": "For the core pull request.",
    }
    calls = [
        {
            "name": "execute_tool",
            "arguments": {"tool_name": "scheduled_jobs", "arguments": arguments},
        }
    ]
    payload = {"layer": "3_execution", "status": "approval_required"}
    thinking = json.dumps(arguments)
    return record | {
        "text": "",
        "thinking": thinking,
        "calls": calls,
        "stall": None,
        "payload": payload,
    }


def _curves() -> dict[str, Any]:
    def point(length: int, scale: float) -> dict[str, Any]:
        steering, schema = scale * 9 / (length + 220), 0.12 + 0.06 * math.log10(length)
        odds = math.log(steering / schema)
        return {
            "target": length,
            "n": 4,
            "schema_tokens": length + 7,
            "mass_steering": _range(steering),
            "mass_schema": _range(schema),
            "mass_breadcrumb": _range(0.03 * scale),
            "log_odds": {"median": odds, "low": odds - 0.3, "high": odds + 0.3},
            "uniform_log_odds": _range(math.log(45 / length)),
        }

    lengths = (200, 600, 1600, 4000)
    return {name: [point(n, s) for n in lengths] for name, s in (("base", 1.0), ("adapter", 1.5))}


def _range(value: float) -> dict[str, float]:
    return {"median": value, "low": 0.85 * value, "high": 1.15 * value}


def _timings() -> dict[str, Any]:
    return {
        "generate": {
            "seconds": 14.2,
            "finished": True,
            "command": "breadcrumbs generate --config configs/generate/demo.yaml --out runs/demo/data",
        },
        "train": {
            "seconds": 912.0,
            "finished": True,
            "command": "breadcrumbs train sft --config configs/train/demo.yaml",
        },
        "eval": {
            "seconds": 1033.5,
            "finished": True,
            "command": "breadcrumbs eval --config configs/eval/demo.yaml",
        },
    }


def _manifest() -> dict[str, Any]:
    counts = {
        "trajectories": 688,
        "split": {"train": 304, "held_out_tools": 244},
        "behaviour": {"dispatch": 304},
    }
    return {
        "counts": counts,
        "tools": {"held_out_tools": ["scheduled_jobs"]},
        "dropped": {"duplicate": 2},
    }


def _losses() -> str:
    lines = []
    for step in range(1, 151):
        fall = math.exp(-step / 25)
        wobble = 1 + 0.5 * math.sin(step * 2.4)
        decision = {
            "dispatch": (3 * fall + 0.004) * wobble,
            "clarify": (2.4 * fall + 0.01) * wobble,
        }
        if step % 5 == 0:
            decision["decline"] = (1.8 * fall + 0.008) * wobble
        row = {
            "step": step,
            "token_loss": 1.1 * fall + 0.02,
            "decision_loss_by_behaviour": decision,
        }
        lines.append(json.dumps(row))
    return "\n".join(lines) + '\n{"step": 151, "tok'


class Page(HTMLParser):
    """Which tags a page opens, which addresses it names, and whether its tags match."""

    VOID = frozenset({"meta", "br", "img", "link", "input", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href", "srcset", "action")]
        self.handlers += [k for k, _ in attrs if k.startswith("on")]
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


@pytest.fixture
def page(tmp_path: Path) -> str:
    return write_report(make_run(tmp_path / "demo")).read_text()


def test_text_of_models_is_escaped(page: str) -> None:
    found = Page(page)
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    assert found.handlers == []
    assert page.count("&lt;script&gt;") == 3  # what base wrote, and one fault in each details
    assert "<script>document.title" not in page


def test_the_page_needs_nothing_else(page: str) -> None:
    assert Page(page).addresses == []
    assert not re.search(r"https?://|url\(|@import|//[a-z]+\.", page)
    assert "default-src 'none'" in page


def test_every_section_is_there(page: str) -> None:
    heads = re.findall(r"<h2>(.*?)</h2>", page)
    assert len(heads) == len(set(heads)) == 8
    assert "Not shown" not in page
    assert page.count("<svg") == 2 + 4 + 2
    assert "nan" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL).lower().split()
    for text in ("Stall, param_dump", "holds the write", "17 min 14 s", "always dispatch"):
        assert text in page
    assert "adapter: DAD 0.96, UAR 0.07" in page
    assert "always dispatch: DAD 1.00, UAR 1.00" in page


def test_table_shows_both_errors_of_every_system(page: str) -> None:
    rows = re.findall(r'<tr class="(?:of-base|of-adapter|constant)">(.*?)</tr>', page, re.DOTALL)
    assert len(rows) == 2 * 4 * 4  # two tables, four systems, four cells
    dad, oar, uar = re.findall(r'<td data-value="([^"]*)"', rows[1])[:3]
    assert (dad, oar, uar) == ("0.96", "0.02", "0.07")
    assert "0.90 to 0.98" in rows[1]
    assert 'data-value="">–' in rows[2]  # no end state for a constant policy


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    path = write_report(make_run(tmp_path / "bare", whole=False))
    page = path.read_text()
    Page(page)
    assert page.count("Not shown:") == 3
    for reason in (
        "watch/base.json",
        "probe/attention.json",
        "adapter/metrics.jsonl",
        "timings.json",
    ):
        assert reason in page
    assert page.count("<svg") == 2


def test_results_lie_beside_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "demo")
    write_report(run)
    assert json.loads((run / "results.json").read_text()) == read_results(run) == results()
    assert "0.96 [.90-.98]" in table(read_results(run))


def test_a_page_can_be_written_again_to_the_byte(tmp_path: Path) -> None:
    run = make_run(tmp_path / "demo")
    first = write_report(run).read_bytes()
    assert write_report(run).read_bytes() == first


def test_base_alone_makes_a_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "demo", whole=False)
    found = results()
    del found["eval"]["adapter"], found["details"]["adapter"]
    _json(run / "eval/results.json", found)
    page = write_report(run).read_text()
    Page(page)
    assert 'of-adapter"' not in page


def test_broken_parts_do_not_break_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "demo")
    for name in (
        "watch/base.json",
        "probe/attention.json",
        "timings.json",
        "adapter/metrics.jsonl",
    ):
        (run / name).write_text("{half")
    Page(write_report(run).read_text())
    assert "cannot be read (JSONDecodeError)" in (run / "report.html").read_text()


def test_without_results_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no results.json; run: breadcrumbs eval"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        write_report(tmp_path)


def test_charts_survive_odd_values() -> None:
    labels = {"title": "t", "x_label": "<x>", "y_label": "y"}
    one = [Line("a", "base", [Point(1, 0.5)])]
    flat = [Line("a", "base", [Point(1, 0.0), Point(2, 0.0)])]
    for lines in (one, flat):
        for log_x in (False, True):
            drawn = line_chart(lines, log_x=log_x, log_y=False, **labels)
            assert "<svg" in drawn
            assert "nan" not in drawn
            assert "&lt;x&gt;" in drawn
    assert line_chart(flat, log_x=False, log_y=True, **labels) == ""
    assert line_chart([], log_x=False, log_y=False, **labels) == ""


def test_smoothing_keeps_steps_and_means() -> None:
    points = [Point(x, 1.0 + 7.0 * (x % 2)) for x in range(20)]
    found = smoothed(points, window=3)
    assert [p.x for p in found] == [p.x for p in points]
    assert found[5].y == pytest.approx(2.0)  # 1, 8, 1


def _turn_record(number: int, dispatched: bool) -> dict[str, Any]:
    score = {
        "executed": dispatched,
        "other_call": False,
        "malformed": False,
        "dispatched": dispatched,
        "exact": dispatched,
        "declined": False,
        "stall": None if dispatched else "permission_ask",
        "asked": [],
        "questions": 0,
        "invented": [],
        "faults": [],
    }
    return {
        "scenario": f"s{number}",
        "tool": "move_event",
        "behaviour": "dispatch",
        "missing": [],
        "request": f"Move it. {ATTACK}",
        "text": "" if dispatched else f"Shall I? {ATTACK}",
        "calls": [{"name": "execute_tool", "arguments": {"tool_name": "move_event"}}] * dispatched,
        "problems": [],
        "score": score,
    }


def with_transcripts(run: Path) -> Path:
    """Adds the adapter's turns of the main cell: two acted, one stalled."""
    rows = [{"fingerprint": "", "rows": 3}, *(_turn_record(i, i > 0) for i in range(3))]
    path = run / "eval/cells/adapter-breadcrumb_on-held_out_tools.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run


def test_a_number_opens_the_turns_it_counts(tmp_path: Path) -> None:
    page = write_report(with_transcripts(make_run(tmp_path / "demo"))).read_text()
    found = Page(page)
    assert found.handlers == found.addresses == []
    assert found.tags.count("script") == 1
    assert "img" not in found.tags
    box = "t-adapter-breadcrumb_on-held_out_tools"
    opens = re.findall(r'data-open="([^"]*)" data-figure="([^"]*)"', page)
    assert {name for name, _ in opens} == {box}  # other cells have no records
    assert {"dad", "oar", "uar"} <= {figure for _, figure in opens}
    assert "search_call_parsed" not in {figure for _, figure in opens}
    assert f'id="{box}"' in page
    stalled, *acted = re.findall(r'class="transcript" data-yes="([^"]*)" data-no="([^"]*)"', page)
    assert "oar_permission_ask" in stalled[0].split()
    assert "dad" in stalled[1].split()
    assert all("dad" in yes.split() and "oar" in no.split() for yes, no in acted)
    assert "uar" not in " ".join((*stalled, *acted[0], *acted[1])).split()


def _suite(folder: Path) -> Path:
    figures = {"success": _estimate(0.5, 2), "dad": _estimate(0.5, 2), "resend": NOT_MEASURED}
    effect = {"name": "tier 1", "tiers": [1], "value": 0.4, "low": 0.1, "high": 0.6, "cells": 16}
    names = [name for name, _ in HEADLINE]
    found = {n: figures.get(n, NOT_MEASURED).to_dict() for n in (*names, "pass^8")}
    found["pass^8"] = _estimate(0.5, 2).to_dict()
    _json(
        folder / "episodes/episodes.json",
        {"episodes": {"wavering": {"1234": found}}, "effects": {"wavering": {"success": [effect]}}},
    )
    return folder


def test_episodes_alone_make_a_page(tmp_path: Path) -> None:
    page = write_report(_suite(tmp_path / "run")).read_text()
    Page(page)
    assert "Whole episodes" in page
    assert "8 runs on a scenario all succeed" in page
    assert "<strong>+0.40</strong>" in page
    assert "All systems, all cells" not in page
    assert not (tmp_path / "run/results.json").exists()
    both = write_report(_suite(make_run(tmp_path / "both"))).read_text()
    assert "Whole episodes" in both
    assert "All systems, all cells" in both
