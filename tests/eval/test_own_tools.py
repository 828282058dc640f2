"""Data from tools known only by their schemas is scored like any other."""

from __future__ import annotations

import json
from pathlib import Path

from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import gateway_settings, load_scenarios, read_manifest
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.eval.decision import constant_turn, decision_cases
from breadcrumbs.eval.metrics import score_turn
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.turns import Turn


def _tool(name: str, **types: str) -> dict[str, object]:
    properties = {word: {"type": kind} for word, kind in types.items()}
    return {
        "name": name,
        "inputSchema": {"type": "object", "properties": properties, "required": [*types]},
    }


def test_right_turns_on_derived_scenarios_are_right_and_reckless_ones_are_not(
    tmp_path: Path,
) -> None:
    tools = [
        _tool("moorBoat", boatId="string", berth="integer"),
        _tool("sendHarbourNotice", email="string", message="string"),
        _tool("set-beacon", colour="string", isLit="boolean"),
    ]
    (tmp_path / "harbour.json").write_text(json.dumps({"tools": tools}))
    config = GenerateConfig(
        train=Amount(pairs=4),
        eval_tools=Amount(pairs=12, declines=2),
        eval_domain=Amount(pairs=0),
        held_out_tools=("moorBoat", "set-beacon"),
        sources=(str(tmp_path / "harbour.json"),),
    )
    generate(config, tmp_path / "data", lambda done, total, note="": None)
    manifest = read_manifest(tmp_path / "data")
    made = manifest["config"]
    cases = decision_cases(
        load_scenarios(tmp_path / "data", "held_out_tools"),
        load_catalog(made["catalogs"]),
        load_hints(made["hints"]),
        gateway_settings(manifest),
    )
    seen = set()
    for case in cases:
        scenario = case.scenario
        seen.add(scenario.behaviour)
        called = score_turn(constant_turn("always_dispatch", case), case)
        if scenario.behaviour == "dispatch":
            assert called.dispatched
            assert called.exact
        elif scenario.behaviour == "clarify":
            assert not called.dispatched
            assert score_turn(Turn(scenario.question), case).asked == scenario.missing
        else:
            assert score_turn(Turn(scenario.reply), case).declined
    assert seen == {"dispatch", "clarify", "decline"}
