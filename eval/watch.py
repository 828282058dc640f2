"""One decision turn, live: the gold prefix is forced, the model's words appear as they come."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.config import EvalConfig
from breadcrumbs.files import write_text
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.radar import Radar, situation_of
from breadcrumbs.turns import Turn

if TYPE_CHECKING:
    from rich.console import Console

    from breadcrumbs.local_model import LocalModel


async def watch(config: EvalConfig, system: str, console: Console, out: Path | None) -> None:
    """Show base or adapter at the decision point of the case this project was born from.

    Writes the turn to `out` as JSON: system, request, messages before it, text, calls, stall.

    Raises:
        ConfigError: the adapter is asked for and the config names none.
        DataError: there is no complete data set.
        ModelError: the model or adapter cannot be loaded.
    """
    from breadcrumbs.data_gen.dataset import gateway_settings, read_manifest
    from breadcrumbs.data_gen.episodes import gold_prefix
    from breadcrumbs.data_gen.hints import load_hints
    from breadcrumbs.data_gen.origin import origin_scenario
    from breadcrumbs.gateway.catalog import load_catalog
    from breadcrumbs.local_model import LocalModel

    if system == "adapter" and config.adapter is None:
        raise ConfigError("the config names no adapter; add one with --set adapter=FOLDER")
    catalog = load_catalog()
    scenario = origin_scenario(catalog, load_hints())
    messages, tools, session = await gold_prefix(
        scenario, catalog, gateway_settings(read_manifest(config.data))
    )
    adapter = config.adapter if system == "adapter" else None
    model = LocalModel.load(config.model, adapter=adapter, dtype=config.dtype)
    _show_prefix(console, messages)
    console.print(f"\n[bold]{system}[/bold] writes:")
    turn = await _live_turn(model, messages, tools, config.max_new_tokens, console)
    verdict: dict[str, Any] = {"stall": None, "payload": None}
    if turn.calls:
        payload = await session.call(turn.calls[0].name, turn.calls[0].arguments)
        verdict["payload"] = payload
        console.print(f"[green]gateway: {payload.get('status', payload.get('layer'))}[/green]")
    else:
        stall = Radar().classify(turn.text, situation_of(messages))
        verdict["stall"] = stall.kind if stall else None
        seen = f"stall, {stall.kind} (saw {stall.evidence[:60]!r})" if stall else "no stall"
        console.print(f"radar: {seen}", style="yellow", markup=False)
    if out is not None:
        _write(out, system, scenario.request, messages, turn, verdict)


def _show_prefix(console: Console, messages: list[Message]) -> None:
    console.print(
        "The search and the schema are forced, so that the model stands right at the decision."
    )
    for message in messages[1:]:
        if message.role == "user":
            console.print(f"user: {message.content}", markup=False)
        for call in message.tool_calls:
            shown = f"call: {call.name} {compact_json(dict(call.arguments))}"
            console.print(shown, style="dim", markup=False)
        if message.role == "tool":
            shown = f"gateway: {message.content[:160]}… ({len(message.content)} characters)"
            console.print(shown, style="dim", markup=False)


async def _live_turn(
    model: LocalModel, messages: list[Message], tools: Any, tokens: int, console: Console
) -> Turn:
    from breadcrumbs.local_model import LocalPolicy

    turn = Turn("")
    async for item in LocalPolicy(model, max_new_tokens=tokens).stream(messages, tools):
        if isinstance(item, Turn):
            turn = item
        else:
            console.print(item, end="", markup=False)
    console.print()
    for call in turn.calls:
        console.print(f"{call.name} {compact_json(dict(call.arguments))}", markup=False)
    for problem in turn.problems:
        console.print(f"not a call: {problem}", markup=False)
    return turn


def _write(
    out: Path,
    system: str,
    request: str,
    messages: list[Message],
    turn: Turn,
    verdict: dict[str, Any],
) -> None:
    record = {
        "system": system,
        "request": request,
        "messages": [message.to_dict() for message in messages],
        "text": turn.text,
        "thinking": turn.thinking,
        "calls": [{"name": c.name, "arguments": dict(c.arguments)} for c in turn.calls],
        "problems": list(turn.problems),
        **verdict,
    }
    write_text(out, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
