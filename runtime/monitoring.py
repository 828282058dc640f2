"""Figures and traces of a server: Prometheus counters, and OpenTelemetry's GenAI spans.

Neither holds content by default: no text, no arguments, no results. Labels come from closed lists,
so nothing a model makes up becomes a time series. Spans go to whatever tracer provider the process
has; with none they cost nothing. The GenAI conventions are still in development, so their names
stand in this module alone.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from breadcrumbs.events import Approval, Done, Event, Nudge, ToolCallEvent, ToolResult
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.turns import Policy, Turn, Wishes, wishing

CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
PROVIDER = "breadcrumbs"
_TOOLS = frozenset(str(tool["function"]["name"]) for tool in META_TOOLS)
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class Figures:
    """Counters of one server, in a registry of their own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self.registry = own = CollectorRegistry()
        self.runs = Counter("breadcrumbs_runs", "Runs that ended.", ["reason"], registry=own)
        self.nudges = Counter("breadcrumbs_nudges", "Stalls caught.", ["kind"], registry=own)
        self.outcomes = Counter(
            "breadcrumbs_nudge_outcomes", "What followed a nudge.", ["outcome"], registry=own
        )
        self.calls = Counter(
            "breadcrumbs_tool_calls", "Gateway calls.", ["tool", "status"], registry=own
        )
        self.held = Counter("breadcrumbs_held_writes", "Writes held.", ["risk"], registry=own)
        self.tokens = Counter("breadcrumbs_tokens", "Tokens.", ["direction"], registry=own)
        self.first = Histogram(
            "breadcrumbs_first_token_seconds",
            "From asking for a turn to its first text or its end.",
            buckets=_SECONDS,
            registry=own,
        )
        self.turns = Histogram(
            "breadcrumbs_turn_seconds", "Whole turns.", buckets=_SECONDS, registry=own
        )
        self.live = Gauge("breadcrumbs_live_runs", "Runs now.", ["status"], registry=own)
        self.pending = Gauge("breadcrumbs_pending_approvals", "Writes that wait.", registry=own)

    def text(self, live: Mapping[str, int], pending: int) -> bytes:
        """All figures in Prometheus' text format."""
        from prometheus_client import generate_latest

        for status, number in live.items():
            self.live.labels(status).set(number)
        self.pending.set(pending)
        return generate_latest(self.registry)


def figures_if_installed() -> Figures | None:
    """The figures; None without `prometheus_client`, which `breadcrumbs[monitoring]` installs."""
    try:
        return Figures()
    except ImportError:
        return None


@dataclass(frozen=True, slots=True)
class Monitor:
    """What watches a server's runs and turns."""

    model: str
    figures: Figures | None = None
    content: bool = False
    """Whether spans hold messages, arguments and results."""
    tracer: trace.Tracer = field(default_factory=lambda: trace.get_tracer("breadcrumbs"))

    @contextmanager
    def running(self, session: str) -> Iterator[RunWatch]:
        """Watch one run; what is asked of the model meanwhile is traced under it."""
        about = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.agent.name": self.model,
            "gen_ai.conversation.id": session,
        }
        name = f"invoke_agent {self.model}"
        with self.tracer.start_as_current_span(name, attributes=about) as span:
            watch = RunWatch(self, span)
            try:
                yield watch
            finally:
                watch.end()

    def chat(self) -> Span:
        """The span of one turn."""
        about = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": self.model,
        }
        return self.tracer.start_span(f"chat {self.model}", kind=SpanKind.CLIENT, attributes=about)


@dataclass(slots=True)
class RunWatch:
    """Turns the events of one run into counters and spans."""

    monitor: Monitor
    span: Span
    _open: dict[str, tuple[str, Span]] = field(default_factory=dict)
    _nudged: bool = False

    def tell(self, event: Event) -> None:
        """Take note of an event."""
        match event:
            case ToolCallEvent():
                self._follow_nudge("recovered")
                self._call(event)
            case ToolResult():
                self._result(event)
            case Approval():
                self._count(lambda to: to.held.labels(str(event.card["risk"])))
                for _, span in self._open.values():
                    span.add_event("breadcrumbs.held_for_approval")
            case Nudge():
                self._follow_nudge("repeated")
                self._nudged = True
                self._count(lambda to: to.nudges.labels(event.kind))
            case Done():
                self._follow_nudge("repeated" if event.reason == "stalled" else "ended")
                self.span.set_attribute("breadcrumbs.done", event.reason)
                if event.reason == "model_error":
                    self.span.set_status(Status(StatusCode.ERROR))
                self._count(lambda to: to.runs.labels(event.reason))
            case _:
                pass

    def end(self) -> None:
        """Close what a run that was cut off left open."""
        for _, span in self._open.values():
            span.end()
        self._open.clear()

    def _call(self, event: ToolCallEvent) -> None:
        tool = _known(event.call.name)
        about = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": event.call.id,
        }
        span = self.monitor.tracer.start_span(f"execute_tool {tool}", attributes=about)
        if self.monitor.content:
            arguments = compact_json(dict(event.call.arguments))
            span.set_attribute("gen_ai.tool.call.arguments", arguments)
        self._open[event.call.id] = (tool, span)

    def _result(self, event: ToolResult) -> None:
        tool, span = self._open.pop(event.call_id)
        status = str(event.payload.get("status") or event.payload.get("layer"))
        span.set_attribute("breadcrumbs.status", status)
        if self.monitor.content:
            span.set_attribute("gen_ai.tool.call.result", compact_json(dict(event.payload)))
        span.end()
        self._count(lambda to: to.calls.labels(tool, status))

    def _follow_nudge(self, outcome: str) -> None:
        if self._nudged:
            self._nudged = False
            self._count(lambda to: to.outcomes.labels(outcome))

    def _count(self, counter: Callable[[Figures], Any]) -> None:
        if self.monitor.figures is not None:
            counter(self.monitor.figures).inc()


@dataclass(frozen=True, slots=True)
class MonitoredPolicy:
    """A policy whose turns are timed, counted and traced."""

    inner: Policy
    monitor: Monitor

    def wishing(self, wishes: Wishes) -> MonitoredPolicy:
        """The inner policy as wished, watched by the same monitor."""
        return replace(self, inner=wishing(self.inner, wishes))

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The inner policy's turn."""
        span, began = self.monitor.chat(), time.monotonic()
        figures = self.monitor.figures
        first = True
        if self.monitor.content:
            sent = [message.to_dict() for message in messages]
            span.set_attribute("gen_ai.input.messages", compact_json(sent))
        try:
            async with aclosing(self.inner.stream(messages, tools)) as turn:
                async for item in turn:
                    if first and figures is not None:
                        figures.first.observe(time.monotonic() - began)
                    first = False
                    if isinstance(item, Turn):
                        self._note(span, item)
                    yield item
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            if figures is not None:
                figures.turns.observe(time.monotonic() - began)
            span.end()

    def _note(self, span: Span, turn: Turn) -> None:
        finish = "tool_call" if turn.calls else "stop"
        span.set_attribute("gen_ai.response.finish_reasons", [finish])
        if self.monitor.content:
            said = {"role": "assistant", "content": turn.content, "finish_reason": finish}
            span.set_attribute("gen_ai.output.messages", compact_json([said]))
        if turn.usage is None:
            return
        counted = (("input", turn.usage.prompt), ("output", turn.usage.completion))
        for direction, number in counted:
            span.set_attribute(f"gen_ai.usage.{direction}_tokens", number)
            if self.monitor.figures is not None:
                self.monitor.figures.tokens.labels(direction).inc(number)


def _known(name: str) -> str:
    return name if name in _TOOLS else "other"
