"""The audit on public MCP servers and agent frameworks: `make audit-trial`.

Each kind is installed into an environment of its own, since its dependencies are not ours. The
figures of docs/audit.md are from here.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from breadcrumbs.eval.audit import AuditReport
from breadcrumbs.eval.audit_loop import audit_loop
from breadcrumbs.eval.audit_model import FOREVER, QUESTION, RUNS, STALLS
from breadcrumbs.eval.audit_server import audit_server, read_sources

pytestmark = pytest.mark.audit_trial

SERVERS = (
    "mcp-server-time==2026.10.19",
    "mcp-server-fetch==2026.10.24",
    "mcp-server-git==2026.10.19",
)
FRAMEWORKS = (
    "openai-agents==0.24.0",
    "pydantic-ai-slim[openai]==2.68.0",
    "smolagents[openai]==1.26.0",
)
AGENTS = Path(__file__).parent / "audited"


def environment(folder: Path, packages: tuple[str, ...]) -> Path:
    """A virtual environment with some packages; skips where the index cannot be reached."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    command = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run([*command, *packages], capture_output=True, text=True)
    if installed.returncode:
        reason = (installed.stderr.strip().splitlines() or ["pip failed"])[-1]
        pytest.skip(f"cannot install {', '.join(packages)}: {reason}")
    return folder / "bin"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("servers") / "venv", SERVERS)


@pytest.fixture(scope="module")
def frameworks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("frameworks") / "venv", FRAMEWORKS)


@pytest.mark.parametrize(("name", "tools"), [("time", 2), ("fetch", 1), ("git", 12)])
def test_public_servers_say_no_next_step(
    servers: Path, tmp_path: Path, name: str, tools: int
) -> None:
    command = [str(servers / f"mcp-server-{name}")]
    if name == "git":
        git = shutil.which("git")
        assert git is not None
        subprocess.run([git, "init", "--quiet", tmp_path], check=True)
        command += ["--repository", str(tmp_path)]
    report = audit_server(read_sources(command)[0])
    assert report.checked["tools"] == tools
    assert [(f.check, f.where) for f in report.findings] == [("next_step", "tools/list")]


def loop_of(frameworks: Path, name: str) -> tuple[AuditReport, dict[str, int]]:
    agent = AGENTS / f"{name}_agent.py"
    report = audit_loop([str(frameworks / "python"), str(agent)], timeout_s=120)
    assert {run["ended"] for run in report.runs} == {True}
    assert not [note for note in report.notes if "status" in note], report.notes
    return report, {run["run"]: run["times"] for run in report.runs}


@pytest.mark.parametrize("name", ["openai_agents", "pydantic_ai"])
def test_frameworks_that_hand_a_stall_to_the_user(frameworks: Path, name: str) -> None:
    report, times = loop_of(frameworks, name)
    assert times == dict.fromkeys(RUNS, 0)
    assert [finding.where for finding in report.findings] == [f"run {kind}" for kind in STALLS]


def test_a_framework_that_asks_again_whatever_was_said(frameworks: Path) -> None:
    report, times = loop_of(frameworks, "smolagents")
    assert times == dict.fromkeys(RUNS, 1) | {FOREVER: 17}
    assert [finding.where for finding in report.findings] == [f"run {QUESTION}"]
