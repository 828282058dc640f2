"""A data set that is named an evaluation set is evaluated on and never trained on."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from breadcrumbs import config as configs
from breadcrumbs.cli import main
from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import load_rows, read_manifest
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.eval.suite import run_suite
from breadcrumbs.eval.suite_config import SuiteConfig
from breadcrumbs.train.grpo import read_tried
from breadcrumbs.train.pairs import read_pairs
from breadcrumbs.train.rows import read_rows

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("BREADCRUMBS_SHARED", ROOT.parent / "shared"))
GITHUB = SHARED / "data" / "catalogs" / "github_mcp_server" / "toolsnaps"


def _silent(done: int, total: int, note: str = "") -> None:
    pass


def harbour(folder: Path, **changes: Any) -> Path:
    """A set of three tools; `changes` to an evaluation set's config."""
    tools = [
        {
            "name": name,
            "inputSchema": {
                "type": "object",
                "properties": {"boatId": {"type": "string"}, "berth": {"type": "integer"}},
                "required": ["boatId", "berth"],
            },
        }
        for name in ("moorBoat", "tow_vessel", "paint_hull")
    ]
    source = folder / "harbour.json"
    source.write_text(json.dumps({"tools": tools}))
    config = GenerateConfig(
        evaluation="harbour",
        train=Amount(pairs=0),
        eval_tools=Amount(pairs=4, declines=1),
        eval_domain=Amount(pairs=0),
        sources=(str(source),),
    )
    generate(dataclasses.replace(config, **changes), folder / "data", _silent)
    return folder / "data"


def trained(folder: Path, split: str = "held_out_tools") -> Any:
    return SimpleNamespace(data=folder, split=split, whole_every=1)


def test_every_tool_is_held_out_and_no_trainer_reads_a_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = harbour(tmp_path)
    assert read_manifest(data)["tools"]["train"] == []
    assert len(read_manifest(data)["tools"]["held_out_tools"]) == 3
    assert len(load_rows(data, "held_out_tools")) == 9
    for read in (read_rows, read_pairs, read_tried):
        with pytest.raises(DataError, match="the evaluation set 'harbour'"):
            read(trained(data))
    for command in ("export", "pairs", "scenarios"):
        out = tmp_path / f"out.{'parquet' if command == 'scenarios' else 'jsonl'}"
        with pytest.raises(SystemExit) as ended:
            main(["data", command, str(data), "--out", str(out)])
        assert ended.value.code == 2
        assert not out.exists()
    assert "evaluation set" in capsys.readouterr().err


def test_the_same_rows_without_the_name_can_be_trained_on(tmp_path: Path) -> None:
    """The negative control: it is the name that keeps trainers away."""
    data = harbour(tmp_path, evaluation="", train=Amount(pairs=2), held_out_tools=("moorBoat",))
    assert "evaluation" not in read_manifest(data)["config"]
    assert len(read_rows(trained(data))) == 9
    assert read_pairs(trained(data))


@pytest.mark.parametrize(
    "changes",
    [
        {"train": Amount(pairs=1)},
        {"kinds": {"held": 1}},
        {"practice_pairs": 1},
        {"held_out_tools": ("moorBoat",)},
        {"eval_domain": Amount(pairs=1)},
    ],
)
def test_an_evaluation_set_asks_for_nothing_to_train_on(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="evaluation:"):
        harbour(tmp_path, **changes)


@pytest.mark.skipif(not GITHUB.is_dir(), reason=f"needs {GITHUB}; set BREADCRUMBS_SHARED")
def test_the_oracle_solves_githubs_tools_and_constant_policies_stand_in_the_corners(
    tmp_path: Path,
) -> None:
    shipped = configs.load(
        ROOT / "configs/generate/github.yaml", GenerateConfig, (f"sources=['{GITHUB}']",)
    )
    made = generate(shipped, tmp_path / "data", _silent)
    assert made["derived"]["imported"] == 117
    assert made["tools"]["train"] == []
    changes = (f"data={tmp_path / 'data'}", f"out={tmp_path / 'out'}")
    settings = configs.load(ROOT / "configs/eval/github.yaml", SuiteConfig, changes)
    found = run_suite(settings, _silent)["episodes"]
    corners = {
        policy: tuple(cells["1234"][name]["value"] for name in ("dad", "oar", "uar"))
        for policy, cells in found.items()
    }
    assert corners["oracle"] == (1, 0, 0)
    assert corners["always_ask"] == (0, 1, 0)
    assert corners["always_dispatch"] == (1, 0, 1)
    assert found["oracle"]["1234"]["success"]["value"] == 1
    assert found["oracle"]["1234"]["success"]["n"] == 132
    assert found["do_nothing"]["1234"]["success"]["value"] == 0
