"""The live view: forced prefix said to be forced, the verdict shown and kept."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from breadcrumbs import local_model
from breadcrumbs.data_gen.dataset import FORMAT, MANIFEST
from breadcrumbs.errors import ConfigError
from breadcrumbs.eval.config import Cell, EvalConfig
from breadcrumbs.eval.watch import watch
from breadcrumbs.messages import ToolCall
from breadcrumbs.turns import Turn

CALL = Turn(
    "",
    (
        ToolCall(
            "call_1",
            "execute_tool",
            {
                "tool_name": "scheduled_jobs",
                "arguments": {"title": "Merge", "message": "Verify approvals and merge."},
            },
        ),
    ),
)
RECITAL = Turn("Please provide the following details: title, message, recipient, priority.")


class _Scripted:
    """Stands where the local model's policy does; says one turn."""

    turn = RECITAL

    def __init__(self, model: Any, *, max_new_tokens: int) -> None:
        pass

    async def stream(self, messages: Any, tools: Any) -> Any:
        if self.turn.text:
            yield self.turn.text
        yield self.turn


def _config(model: str, tmp_path: Path, adapter: Path | None = None) -> EvalConfig:
    manifest = {
        "format": FORMAT,
        "config": {"max_hits": 2},
        "dropped": {},
        "counts": {},
        "files": {},
    }
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    return EvalConfig(
        model=model,
        data=tmp_path,
        out=tmp_path,
        adapter=adapter,
        dtype="float32",
        cells=(Cell(breadcrumb=True, split="held_out_tools", dispatch=1, clarify=1),),
        max_new_tokens=8,
    )


async def _watched(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turn: Turn | None
) -> tuple[str, dict[str, Any]]:
    if turn is not None:
        monkeypatch.setattr(_Scripted, "turn", turn)
        monkeypatch.setattr(local_model, "LocalPolicy", _Scripted)
    console = Console(file=io.StringIO(), width=400)
    out = tmp_path / "watch" / "base.json"
    await watch(_config(str(tiny), tmp_path), "base", console, out)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue(), json.loads(out.read_text())


async def test_a_recital_is_named_by_its_kind(
    tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, kept = await _watched(tiny_model_folder, tmp_path, monkeypatch, RECITAL)
    assert "are forced" in shown
    assert RECITAL.text in shown
    assert f"radar: stall, {kept['stall']}" in shown
    assert kept["stall"]
    assert kept["payload"] is None


async def test_a_call_goes_to_the_gateway_and_no_stall_is_named(
    tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, kept = await _watched(tiny_model_folder, tmp_path, monkeypatch, CALL)
    assert "gateway: approval_required" in shown
    assert "radar" not in shown
    assert kept["stall"] is None
    assert kept["payload"]["status"] == "approval_required"
    assert kept["calls"][0]["arguments"]["tool_name"] == "scheduled_jobs"


async def test_the_real_decoder_writes_the_turn(
    tiny_model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, kept = await _watched(tiny_model_folder, tmp_path, monkeypatch, None)
    assert "base writes:" in shown
    assert kept["text"] or kept["problems"] or kept["calls"]


async def test_an_adapter_that_is_not_named_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no adapter"):
        await watch(_config("any", tmp_path), "adapter", Console(file=io.StringIO()), None)
