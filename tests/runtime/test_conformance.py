"""The public MCP conformance suite and the inspector against the gateway: `make conformance`.

They are npm packages; what does not apply to a gateway stands in `scripts/conformance-*.yaml`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "conformance.sh"
REVISIONS = ("2025-11-25", "2026-07-28")
COMMAND = Path(sys.executable).with_name("breadcrumbs")


@pytest.fixture(scope="module")
def report() -> str:
    """What one run of both says."""
    ran = subprocess.run(
        [SCRIPT, COMMAND], capture_output=True, text=True, check=False, timeout=600
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.conformance
def test_g70_the_conformance_suite_finds_on_both_wires_what_the_baseline_says(report: str) -> None:
    for revision in REVISIONS:
        assert f"== {revision}\nTotal: " in report


@pytest.mark.conformance
def test_g71_the_inspector_finds_no_fault_in_the_three_tools(report: str) -> None:
    _, _, said = report.partition("== inspector --strict (G71)\n")
    assert said.splitlines()[0] == "3"
    assert "Call get_tool_schema" in said


@pytest.mark.parametrize("revision", REVISIONS)
def test_g70_every_entry_of_the_baseline_is_given_a_reason(revision: str) -> None:
    """No check of what the gateway does serve is let off."""
    path = ROOT / "scripts" / f"conformance-{revision}.yaml"
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))["server"]
    assert len(entries) == len(set(entries)) > 10
    served = ("tools-list", "tools-call-error", "dns-rebinding", "http-header", "server-initialize")
    assert not [entry for entry in entries if entry.startswith(served)]
    blocks = path.read_text(encoding="utf-8").split("  # ")[1:]
    assert sum(block.count("\n  - ") for block in blocks) == len(entries)
