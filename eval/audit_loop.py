"""Watch an agent's loop while its model stalls: is a stall caught, a true question left alone?

The agent runs as it is; only its model endpoint is replaced (`audit_model`). A stall is caught
when the agent asks the model again instead of handing the text to its user.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.audit import AuditReport, Finding
from breadcrumbs.eval.audit_model import (
    FOREVER,
    MAX_REQUESTS,
    QUESTION,
    RUNS,
    AuditModel,
    Run,
    create_app,
)

RUN_VARIABLE = "BREADCRUMBS_AUDIT_RUN"
TIMEOUT_S = 60.0
IDLE_S = 10.0
_POLL_S = 0.2
_MEND_CAUGHT = (
    "after a schema, when a turn has no tool call and asks for nothing that is missing, ask the"
    " model again with a nudge (at most twice) instead of showing the turn to the user"
)
_MEND_QUESTION = (
    "do not nudge a turn that asks for a required value found nowhere; hand it to the user"
)
_MEND_ENDS = "bound the nudges (two are enough) and never reset the counter at its cap"
_MEND_TOOLS = "offer the agent's tools in the `tools` field of /v1/chat/completions"
_MEND_SCHEMA = "let the agent answer the model's discovery calls and ask it again"
_MEND_ADDRESS = (
    "let the agent read OPENAI_BASE_URL and OPENAI_API_KEY, and use the chat completions API"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the command of one run ended."""

    ended: bool
    status: int | None
    last_line: str


def audit_loop(
    command: Sequence[str],
    port: int = 0,
    timeout_s: float = TIMEOUT_S,
    idle_s: float = IDLE_S,
    announce: Callable[[str], None] = lambda address: None,
) -> AuditReport:
    """Run the agent once per kind of stall and once with a true question.

    Without a command, `announce` is given the address, and runs follow one another as fresh
    conversations arrive, until `idle_s` seconds pass without a request after the last.

    Raises:
        ConfigError: the port is taken, or the command cannot be started.
    """
    model = AuditModel(by_conversation=not command)
    outcomes: dict[str, Outcome] = {}
    with _serving(model, port) as address:
        if command:
            for name in RUNS:
                model.begin(name)
                outcomes[name] = _run_command(command, address, name, timeout_s)
        else:
            announce(address)
            _wait(model, idle_s)
    subject = " ".join(command) or "agents that called the address"
    return _report(subject, model, outcomes)


def judge(run: Run, outcome: Outcome | None) -> list[Finding]:
    """The findings of one run; `outcome` is None where no command was run."""
    where = f"run {run.name}"
    if run.requests == 0:
        return [Finding("loop", where, "the endpoint was never called", _MEND_ADDRESS)]
    if run.tools_offered == 0:
        return [Finding("loop", where, "the agent offered no tools", _MEND_TOOLS)]
    if run.requests > MAX_REQUESTS or (outcome is not None and not outcome.ended):
        text = f"the agent does not end: {run.requests} requests"
        return [Finding("loop", where, text, _MEND_ENDS)]
    if not run.said:
        text = "the agent ended before the model could stall, so its loop was not seen"
        return [Finding("loop", where, text, _MEND_SCHEMA)]
    if run.unjudged:
        return []
    if run.name == QUESTION:
        if run.retries == 0:
            return []
        text = f"a true question was not put to the user: {run.said!r}"
        return [Finding("loop", where, text, _MEND_QUESTION)]
    if run.name != FOREVER and run.retries == 0:
        text = f"the stall was handed to the user: {run.said[:100]!r}"
        return [Finding("loop", where, text, _MEND_CAUGHT)]
    return []


def _report(subject: str, model: AuditModel, outcomes: dict[str, Outcome]) -> AuditReport:
    findings: list[Finding] = []
    notes: list[str] = []
    rows = []
    for run in model.runs:
        outcome = outcomes.get(run.name)
        findings += judge(run, outcome)
        rows.append(_row(run, outcome))
        if run.unjudged:
            notes.append(f"run {run.name} proves nothing: {run.unjudged}")
        if outcome is not None and outcome.status not in (0, None):
            notes.append(f"run {run.name}: status {outcome.status}: {outcome.last_line[:160]}")
    if finisher := next((run.finisher for run in model.runs if run.finisher), ""):
        notes.append(f"the agent has {finisher} to end with; stalls and the question were text")
    left = RUNS[len(model.runs) :]
    if left:
        notes.append(f"not run: {', '.join(left)}")
    if model.strays:
        paths = ", ".join(sorted(model.strays))
        notes.append(f"asked for {paths}: only /v1/chat/completions is served")
    checked = {"runs": len(rows), "requests": sum(run.requests for run in model.runs)}
    return AuditReport("loop", subject, checked, tuple(findings), tuple(notes), tuple(rows))


def _row(run: Run, outcome: Outcome | None) -> dict[str, Any]:
    caught: bool | None = run.retries > 0 if run.said and not run.unjudged else None
    return {
        "run": run.name,
        "requests": run.requests,
        "tools": run.tools_offered,
        "asked_again": caught,
        "times": run.retries,
        "ended": outcome.ended if outcome is not None else None,
    }


@contextmanager
def _serving(model: AuditModel, port: int) -> Iterator[str]:
    """The endpoint on this machine's loopback, in a thread of its own."""
    import uvicorn

    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise ConfigError(f"--port {port}: {error.strerror}; choose another") from error
    settings = uvicorn.Config(
        create_app(model), log_level="critical", lifespan="off", timeout_graceful_shutdown=2
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _run_command(command: Sequence[str], address: str, name: str, timeout_s: float) -> Outcome:
    """Run the agent once; past the time, it and what it started are killed."""
    ours = {"OPENAI_BASE_URL": address, "OPENAI_API_KEY": "audit", RUN_VARIABLE: name}
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(command),
                env={**os.environ, **ours},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot start: {error.strerror or error}") from error
        ended = True
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            ended = False
        finally:
            _stop(process)
        return Outcome(ended, process.returncode if ended else None, _last_line(output))


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(0, output.seek(0, os.SEEK_END) - 4096))
    lines = output.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _wait(model: AuditModel, idle_s: float) -> None:
    """Until every run was seen and nothing has come for a while, or the user stops it."""
    try:
        while not (
            len(model.runs) == len(RUNS)
            and model.run.said
            and time.monotonic() - model.heard_at > idle_s
        ):
            time.sleep(_POLL_S)
    except KeyboardInterrupt:
        return
