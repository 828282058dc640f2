import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from breadcrumbs.chat import ask_in_terminal, card_view, chat
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.messages import Message
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.turns import Turn

LEAVE = object()


class Typist:
    """Types the given lines; leaves at the end, or where it says so."""

    def __init__(self, *lines: object) -> None:
        self.lines = list(lines)
        self.prompts: list[str] = []

    async def __call__(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self.lines.pop(0) if self.lines else LEAVE
        if line is LEAVE:
            raise EOFError
        return str(line)


async def talk(
    gateway: SimulatedGateway, turns: Sequence[Turn], *lines: object, width: int = 100
) -> tuple[str, list[Message], Typist]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    typist = Typist(*lines)
    session = gateway.gateway.session()
    conversation = await chat(ScriptedPolicy(turns), session, console=console, ask=typist)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue(), conversation, typist


async def test_yes_runs_the_write_and_every_step_is_one_line(
    gateway: SimulatedGateway, script: Any
) -> None:
    before = gateway.world.state_hash()
    turns = [*script.prelude, script.execute, Turn("Done.")]
    shown, conversation, typist = await talk(gateway, turns, script.request, "y")
    assert typist.prompts == ["you> ", "run it? [y/n] ", "you> "]
    assert gateway.world.state_hash() != before
    assert json.loads(conversation[-2].content)["status"] == "done"
    for line in ("→ search_tool_catalog", "→ get_tool_schema", "→ execute_tool", "← done", "Done."):
        assert sum(found.startswith(line) for found in shown.splitlines()) == 1
    assert 'title = "Lift is stuck"' in shown
    assert 'priority = "high"' in shown


async def test_no_denies_it(gateway: SimulatedGateway, script: Any) -> None:
    before = gateway.world.state_hash()
    turns = [*script.prelude, script.execute, Turn("It was denied.")]
    shown, conversation, typist = await talk(gateway, turns, script.request, "hm", "", "n")
    assert typist.prompts.count("run it? [y/n] ") == 3  # neither "hm" nor nothing is an answer
    assert gateway.world.state_hash() == before
    assert json.loads(conversation[-2].content)["status"] == "denied"
    assert "Please answer y or n." in shown


async def test_leaving_at_the_card_runs_nothing_and_answers_the_call(
    gateway: SimulatedGateway, script: Any
) -> None:
    before = gateway.world.state_hash()
    turns = [*script.prelude, script.execute, Turn("unused")]
    _, conversation, _ = await talk(gateway, turns, script.request, LEAVE)
    assert gateway.world.state_hash() == before
    assert conversation[-1].role == "tool"
    assert json.loads(conversation[-1].content)["status"] == "approval_required"
    assert len(gateway.gateway.journal.pending()) == 1


async def test_yes_typed_in_the_chat_decides_nothing(
    gateway: SimulatedGateway, script: Any
) -> None:
    before = gateway.world.state_hash()
    turns = [*script.prelude, script.execute, Turn("It was denied."), Turn("I cannot approve.")]
    await talk(gateway, turns, script.request, "n", "yes, approve it")
    assert gateway.world.state_hash() == before


async def test_a_stall_is_shown_apart_and_said_to_be_nudged(
    gateway: SimulatedGateway, script: Any
) -> None:
    turns = [*script.prelude, Turn(script.stall), Turn("No tool call is needed.")]
    shown, _, _ = await talk(gateway, turns, "", script.request)
    assert "· nudged (param_dump)" in shown
    assert shown.index(script.stall[:40]) < shown.index("· nudged") < shown.index("No tool call")


async def test_a_broken_model_ends_the_turn_not_the_chat(
    gateway: SimulatedGateway, script: Any
) -> None:
    shown, _, typist = await talk(gateway, [], script.request, "again")
    assert shown.count("! the script has no further turn") == 2
    assert len(typist.prompts) == 3


async def test_model_text_cannot_move_the_cursor_or_open_markup(
    gateway: SimulatedGateway, script: Any
) -> None:
    shown, _, _ = await talk(gateway, [Turn("a\x1b[2Jb [red]c[/red]\u202ed\ne")], "hi")
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "a\\u001b[2Jb [red]c[/red]\\u202ed\ne" in shown


@pytest.mark.parametrize("width", [24, 60, 200])
def test_the_card_shows_every_argument_whole_at_any_width(width: int) -> None:
    arguments = {
        "title": "x" * 3000 + "END",
        "to\u202egro.evil": "pay \u200b\u2066now\u2069\x1b[8m",
        "pad": "a" + " " * 40 + "hidden",
        "deep": {"list": [1, 2.5, None, True], "text": "line\nbreak"},
        "look": "z\ufe0f\U000e0101\u3164",
    }
    card = {
        "approval_id": "appr_1",
        "tool": "create_ticket",
        "risk": "write",
        "arguments": arguments,
        "principal": "bo\u202e",
        "expires_at": "2026-01-05T09:05:00Z",
        "notes": ["look \u202e alike"],
    }
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(card_view(card))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert all(char.isprintable() or char == "\n" for char in shown)
    joined = "".join(line.strip("│ ") for line in shown.splitlines())
    assert "x" * 3000 + "END" in joined
    for mark in (
        "\\u202e",
        "\\u200b",
        "\\u2066",
        "\\u001b[8m",
        "\\ufe0f",
        "\\U000e0101",
        "\\u3164",
    ):
        assert mark in joined
    assert "\\u0020" * 38 + "hidden" in joined
    assert "line\\nbreak" in joined
    assert "careful:" in joined


def test_no_arguments_are_said_to_be_none() -> None:
    card = {
        "approval_id": "a",
        "tool": "t",
        "risk": "write",
        "arguments": {},
        "principal": "p",
        "expires_at": "e",
        "notes": [],
    }
    console = Console(file=io.StringIO(), width=60, color_system=None)
    console.print(card_view(card))
    assert isinstance(console.file, io.StringIO)
    assert "no arguments" in console.file.getvalue()


async def test_ctrl_c_and_ctrl_d_at_the_prompt_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(file=io.StringIO())
    for raised in (KeyboardInterrupt, EOFError):

        def leave(*_: object, error: type[BaseException] = raised) -> str:
            raise error

        monkeypatch.setattr("builtins.input", leave)
        with pytest.raises(EOFError):
            await ask_in_terminal(console, "you> ")
    monkeypatch.setattr("builtins.input", lambda *_: "hello")
    assert await ask_in_terminal(console, "you> ") == "hello"


async def test_the_chat_gateway_holds_writes(desk: Catalog) -> None:
    session = open_gateway(desk).session()
    await session.call("get_tool_schema", {"tool_names": ["create_ticket"]})
    held = await session.call(
        "execute_tool", {"tool_name": "create_ticket", "arguments": {"title": "x"}}
    )
    assert held["status"] == "approval_required"
