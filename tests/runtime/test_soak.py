"""The soak script, in short form: memory stays flat, and a leak or a wrong answer is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "soak.py"
LEAK = """
import runpy, sys
sys.argv = ["soak.py", "--runs", "150", "--out", sys.argv[2]]
module = runpy.run_path({script!r})
kept = []
turn = module["ScriptedModel"].turn
def leaking(self, messages):
    kept.append(bytearray(2_000_000))
    return turn(self, messages)
module["ScriptedModel"].turn = leaking
sys.exit(module["main"]())
"""


def soaked(out: Path, *words: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, timeout=300
    )
    assert out.is_file(), done.stderr
    found: dict[str, object] = json.loads(out.read_text())
    return done.returncode, found


def test_memory_is_flat_and_every_answer_right(tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    status, found = soaked(out, str(SCRIPT), "--runs", "400", "--out", str(out))
    assert found["faults"] == []
    assert found["endings"] == {"answered": 240, "left": 80, "refused": 80}
    assert status == 0, found


def test_a_leak_is_seen(tmp_path: Path) -> None:
    out, script = tmp_path / "soak.json", tmp_path / "leak.py"
    script.write_text(LEAK.format(script=str(SCRIPT)))
    status, found = soaked(out, str(script), "--out", str(out))
    assert status == 1
    assert float(str(found["growth"])) > 1.1
