"""Figures and spans of a server, and what must not be in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from breadcrumbs.errors import ModelError
from breadcrumbs.events import Done
from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.monitoring import Monitor, MonitoredPolicy, figures_if_installed
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.runs import Runs
from breadcrumbs.turns import Turn, Usage

sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="the monitoring extra")
pytest.importorskip("prometheus_client", reason="the monitoring extra")
Start = Callable[..., str]


class Traced:
    """A run under a monitor whose spans are kept."""

    def __init__(self, gateway: SimulatedGateway, *turns: Turn, content: bool = False) -> None:
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        self.exporter = InMemorySpanExporter()
        provider = sdk.TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        figures = figures_if_installed()
        assert figures is not None
        self.figures = figures
        monitor = Monitor("small", figures, content, provider.get_tracer("test"))
        policy = MonitoredPolicy(ScriptedPolicy(turns), monitor)
        self.runs = Runs(policy, gateway.gateway, LoopSettings(), monitor)

    async def run(self, text: str) -> Done:
        run = self.runs.start([Message("user", text)], "ann")
        async for _ in run.follow():
            pass
        assert run.task is not None
        await run.task
        assert run.done is not None
        return run.done

    @property
    def spans(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())

    def figure(self, name: str, **labels: str) -> float | None:
        return self.figures.registry.get_sample_value(name, labels)


async def test_a_run_is_one_agent_span_over_its_turns_and_calls(
    gateway: SimulatedGateway, script: Any
) -> None:
    turns = [*script.prelude, Turn(script.stall), script.execute, Turn("So.", usage=Usage(9, 2))]
    traced = Traced(gateway, *turns)
    await traced.run(script.request)
    spans = traced.spans
    names = [span.name for span in spans]
    assert names.count("chat small") == 5
    assert names.count("execute_tool execute_tool") == 1
    (agent,) = [span for span in spans if span.name == "invoke_agent small"]
    assert agent.attributes["breadcrumbs.done"] == "answered"
    assert all(s.parent.span_id == agent.context.span_id for s in spans if s is not agent)
    chat = [span for span in spans if span.name == "chat small"][-1]
    assert chat.attributes["gen_ai.usage.output_tokens"] == 2
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    call = next(span for span in spans if span.name == "execute_tool execute_tool")
    assert call.attributes["breadcrumbs.status"] == "approval_required"
    assert traced.figure("breadcrumbs_runs_total", reason="answered") == 1
    assert traced.figure("breadcrumbs_nudges_total", kind="param_dump") == 1
    assert traced.figure("breadcrumbs_nudge_outcomes_total", outcome="recovered") == 1
    assert traced.figure("breadcrumbs_held_writes_total", risk="write") == 1
    assert traced.figure("breadcrumbs_tokens_total", direction="output") == 2


async def test_G24_content_is_in_spans_only_where_asked_for_and_never_in_figures(
    gateway: SimulatedGateway, script: Any
) -> None:
    turns = [*script.prelude, Turn(script.stall), script.execute, Turn("Secret answer.")]
    for content in (False, True):
        traced = Traced(gateway, *turns, content=content)
        await traced.run(script.request)
        seen = "".join(span.to_json() for span in traced.spans)
        for text in (script.request, "Lift is stuck", "Secret answer.", script.stall):
            assert (text in seen) == content
        text = traced.figures.text(traced.runs.count(), 0).decode()
        assert "Lift" not in text
        assert "ann" not in text


async def test_what_a_model_makes_up_is_no_label(gateway: SimulatedGateway) -> None:
    turns = [Turn("", (ToolCall("c", "made_up_by_the_model", {}),)), Turn("So.")]
    traced = Traced(gateway, *turns)
    await traced.run("hi")
    text = traced.figures.text({}, 0).decode()
    assert "made_up" not in text
    assert 'tool="other"' in text
    assert not any("made_up" in span.to_json() for span in traced.spans)


async def test_a_model_error_marks_its_spans_and_a_second_stall_is_no_recovery(
    gateway: SimulatedGateway, script: Any
) -> None:
    traced = Traced(gateway, *script.prelude, *[Turn(script.stall)] * 2)
    done = await traced.run(script.request)
    assert done.reason == "model_error"
    agent = traced.spans[-1]
    assert agent.status.status_code.name == "ERROR"
    failed = [span for span in traced.spans if span.attributes.get("error.type")]
    assert [span.attributes["error.type"] for span in failed] == [ModelError.__name__]
    assert traced.figure("breadcrumbs_nudge_outcomes_total", outcome="repeated") == 1
    assert traced.figure("breadcrumbs_nudge_outcomes_total", outcome="ended") == 1


def test_the_figures_are_read_over_http_by_who_may_G58(start: Start) -> None:
    url = start(Turn("Hi."), api_keys=("agent:chat", "ops:metrics"))
    body = {"input": "hi"}
    httpx.post(f"{url}/v1/runs", json=body, headers={"authorization": "Bearer agent"})
    for key, status in (("agent", 403), ("ops", 200)):
        answer = httpx.get(f"{url}/metrics", headers={"authorization": f"Bearer {key}"})
        assert answer.status_code == status
    assert "breadcrumbs_pending_approvals 0.0" in answer.text
    assert httpx.get(f"{url}/metrics").status_code == 401
