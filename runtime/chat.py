"""A chat in the terminal: the loop over a policy, held writes shown as cards.

The card is drawn from the gateway's stored row, shows every argument whole, and writes out what
a terminal would hide. Only an answer to the card decides; typing "yes" in the chat does not.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text as Styled

from breadcrumbs.events import (
    Approval,
    Done,
    Event,
    Nudge,
    Text,
    Think,
    ToolCallEvent,
    ToolResult,
)
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import GatewaySession
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.loop import LoopSettings, stream
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.prompts import system_prompt
from breadcrumbs.turns import Policy
from breadcrumbs.visible import plain, visible

Ask = Callable[[str], Awaitable[str]]
"""Shows a prompt, returns a line; raises EOFError where the person leaves."""

LINE_CHARS = 160
UNTIL_DECIDED = LoopSettings(wait_s=None)
ENDINGS: Mapping[str, str] = {
    "stalled": "The model hesitated and was not moved on.",
    "max_rounds": "Stopped: too many rounds.",
    "repeated_call": "Stopped: the same call again and again.",
    "out_of_time": "Stopped: it took too long.",
    "out_of_tokens": "Stopped: it wrote too much.",
}


async def chat(
    policy: Policy,
    session: GatewaySession,
    *,
    console: Console,
    ask: Ask,
    system: str = "",
    settings: LoopSettings = UNTIL_DECIDED,
) -> list[Message]:
    """Talk until the person leaves; returns the conversation."""
    conversation = [Message("system", system)] if system else []
    approver = _Person(ask, console)
    while not approver.left:
        try:
            said = (await ask("you> ")).strip()
        except EOFError:
            break
        if not said:
            continue
        conversation.append(Message("user", said))
        shown = _Screen(console)
        events = stream(policy, session, conversation, settings=settings, approver=approver)
        async with aclosing(events):
            async for event in events:
                shown.show(event)
                if approver.left:
                    break
    console.print()
    return conversation


async def chat_in_terminal(
    model: str,
    adapter: Path | None,
    catalogs: Sequence[Path] | None,
    encoder: Path | None,
    console: Console,
) -> None:
    """Load a model and chat over a simulated world; Ctrl-C and Ctrl-D leave.

    Raises:
        ModelError: the model, adapter or encoder cannot be loaded.
        CatalogError: a catalog is malformed.
    """
    from breadcrumbs.local_model import LocalModel, LocalPolicy

    catalog = load_catalog(catalogs)
    with console.status(f"loading {model}"):
        local = LocalModel.load(model, adapter=adapter)
        settings = local.gateway_settings()
        session = open_gateway(catalog, settings=settings, encoder=encoder).session()
    console.print(f"[dim]{model} over a simulated world. Ctrl-D leaves.[/dim]")
    now = datetime.now().isoformat(timespec="minutes")
    try:
        await chat(
            LocalPolicy(local),
            session,
            console=console,
            ask=lambda prompt: ask_in_terminal(console, prompt),
            system=system_prompt(now).text,
        )
    except asyncio.CancelledError:  # Ctrl-C while the model writes
        console.print("\nstopped")


async def ask_in_terminal(console: Console, prompt: str) -> str:
    """Read a line; Ctrl-C leaves as Ctrl-D does.

    Raises:
        EOFError: the person leaves.
    """
    # asyncio's own handler would cancel this task only after a line was typed.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return console.input(Styled(prompt, style="bold"))
    except KeyboardInterrupt:
        raise EOFError from None
    finally:
        signal.signal(signal.SIGINT, before)


def card_view(card: Mapping[str, Any]) -> Panel:
    """A held write, every argument on its own line and whole."""
    lines = [Styled.assemble((visible(str(card["tool"])), "bold"), f"  ({card['risk']})")]
    for name, value in card["arguments"].items():
        shown = visible(compact_json(value))
        lines.append(Styled.assemble((f"{visible(name)} = ", "cyan"), shown, overflow="fold"))
    if not card["arguments"]:
        lines.append(Styled("no arguments"))
    lines += [Styled(visible(f"careful: {note}"), style="bold red") for note in card["notes"]]
    asks = visible(str(card["principal"]))
    ends = f"{card['approval_id']} for {asks}, until {card['expires_at']}"
    lines.append(Styled(ends, style="dim", overflow="fold"))
    return Panel(Group(*lines), title="approval needed", border_style="yellow")


@dataclass(slots=True)
class _Person:
    """Asks the person at the terminal about a card."""

    ask: Ask
    console: Console
    left: bool = False

    async def decide(self, card: Mapping[str, Any]) -> bool | None:
        while True:
            try:
                answer = (await self.ask("run it? [y/n] ")).strip().lower()
            except EOFError:
                self.left = True
                return None
            if answer in ("y", "yes", "n", "no"):
                return answer.startswith("y")
            self.console.print("Please answer y or n.", style="dim")


@dataclass(slots=True)
class _Screen:
    """Shows the events of one run."""

    console: Console
    in_text: bool = False

    def show(self, event: Event) -> None:
        if isinstance(event, Text):
            self.in_text = True
            self.console.print(Styled(plain(event.text)), end="", soft_wrap=True)
            return
        if self.in_text:
            self.console.print()
            self.in_text = False
        if isinstance(event, Approval):
            self.console.print(card_view(event.card))
        elif isinstance(event, Think):
            self.console.print(Styled(plain(event.text), style="dim italic"))
        else:
            self._line(event)

    def _line(self, event: ToolCallEvent | ToolResult | Nudge | Done) -> None:
        if isinstance(event, ToolCallEvent):
            text = f"→ {event.call.name} {compact_json(dict(event.call.arguments))}"
        elif isinstance(event, ToolResult):
            text = f"← {event.payload.get('status') or event.payload.get('layer')}"
        elif isinstance(event, Nudge):
            text = f"· nudged ({event.kind})"
        elif event.reason == "model_error":
            text = f"! {event.text}"
        elif event.reason in ENDINGS:
            text = f"! {ENDINGS[event.reason]}"
        else:
            return
        shown = visible(text)
        cut = shown if len(shown) <= LINE_CHARS else f"{shown[: LINE_CHARS - 1]}…"
        self.console.print(Styled(cut, style="dim"), soft_wrap=True)
