"""The suite on a real, small data set: kept cells, what a comparison says, and its exit status."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs import config as configs
from breadcrumbs.cli import main
from breadcrumbs.data_gen.dataset import load_scenarios
from breadcrumbs.data_gen.generate import Amount, GenerateConfig, generate
from breadcrumbs.data_gen.shape import Past, Shape
from breadcrumbs.data_gen.speech import Surface
from breadcrumbs.errors import ConfigError, DataError, ModelError
from breadcrumbs.eval.compare import compare_runs
from breadcrumbs.eval.limits import read_limits
from breadcrumbs.eval.playing import every_combination
from breadcrumbs.eval.report import write_report
from breadcrumbs.eval.suite import Suite, choose
from breadcrumbs.eval.suite_config import SuiteConfig
from breadcrumbs.eval.suite_view import (
    COLUMNS_OF_TIERS,
    ROWS_OF_TIERS,
    effects_table,
    grid_table,
    suite_table,
)

GENERATE = GenerateConfig(
    held_out_tools=("scheduled_jobs", "book_vehicle", "issue_refund"),
    held_out_domain="clinic",
    train=Amount(pairs=1),
    eval_tools=Amount(pairs=6, declines=2),
    eval_domain=Amount(pairs=0),
    eval_kinds={"held": 1, "policy": 1},
)


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite") / "data"
    manifest = generate(GENERATE, folder, _silent)
    assert manifest["eval_kinds"] == {"held": 1, "policy": 1}
    assert "kinds" not in manifest
    return folder


@pytest.fixture
def settings(data: Path, tmp_path: Path) -> SuiteConfig:
    body = {
        "version": 1,
        "data": str(data),
        "out": str(tmp_path / "a"),
        "policies": ["oracle", "wavering"],
        "plain": {"dispatch": 6, "clarify": 2, "decline": 1},
        "kinds": {"held": 1, "policy": 1},
    }
    return configs.parse(body, SuiteConfig, "test")


def run(settings: SuiteConfig) -> tuple[dict[str, Any], list[str]]:
    suite = Suite.prepare(settings, _silent)
    return suite.run(), suite.made


def test_finished_cells_are_kept_and_scored_anew_without_playing(settings: SuiteConfig) -> None:
    results, made = run(settings)
    assert made == ["oracle_1234", "wavering_1234"]
    assert results["episodes"]["oracle"]["1234"]["success"]["value"] == 1.0
    assert results["episodes"]["oracle"]["1234"]["success"]["n"] == 13
    assert results["breakdown"]["oracle"]["kind"]["held"]["held_told"]["value"] == 1.0
    assert "oracle" in suite_table(results)
    assert run(settings) == (results, [])
    kept = settings.out / "cells" / "oracle_1234.jsonl"
    assert json.loads((settings.out / "cells" / "oracle_1234.json").read_text())["figures"]
    head, first, *rest = kept.read_text().splitlines()
    spoiled = json.loads(first)
    spoiled["end"]["changes"] = {"desk.x/1": {"made": "up"}}
    kept.write_text("\n".join([head, json.dumps(spoiled), *rest]) + "\n")
    again, made = run(settings)
    assert made == []
    assert again["episodes"]["oracle"]["1234"]["collateral"]["value"] > 0
    kept.write_text("\n".join([head, first, *rest[:-1]]) + "\n")  # one line is lost
    assert run(settings) == (results, ["oracle_1234"])


def test_the_page_shows_episodes_by_their_segments(settings: SuiteConfig) -> None:
    results, _ = run(settings)
    page = write_report(settings.out).read_text()
    for segment in ("steering", "user", "catalog", "schema", "breadcrumb", "decides"):
        assert f'class="seg seg-{segment}"' in page, segment
    shown = page.count('class="transcript"')
    assert shown == sum(results["episodes"][p]["1234"]["success"]["n"] for p in settings.policies)
    assert 'data-open="t-episodes-oracle" data-figure="success"' in page
    right = re.findall(r'data-yes="([^"]*)" data-no="[^"]*"><summary><b class="good">', page)
    assert right
    assert all("success" in yes.split() for yes in right)


def _check_grids(results: dict[str, Any], text: str, page: str) -> None:
    """Each cell stands where its tiers say, as text and on the page."""
    names = [(row, column) for row in ROWS_OF_TIERS for column in COLUMNS_OF_TIERS]
    assert {"".join(name) for name in names} == {t.name for t in every_combination()}
    for policy, cells in results["episodes"].items():
        successes = [f"{cells[row + column]['success']['value']:.2f}" for row, column in names]
        lines = text.partition(f"{policy}: success")[2].splitlines()[2:6]
        assert [one.split(",")[0][-4:] for line in lines for one in line.split(" /")[:4]] == (
            successes
        )
        table = page.partition(f"<h4>{policy}</h4>")[2].partition("</table>")[0]
        assert re.findall(r'class="heat"[^>]*>([\d.]+)', table) == successes
    assert len({f["success"]["value"] for f in results["episodes"]["wavering"].values()}) > 2


def test_the_grid_has_sixteen_cells_and_finds_what_moves_the_wavering(
    settings: SuiteConfig,
) -> None:
    plain = dataclasses.replace(settings.plain, clarify=0, decline=0)
    grid = dataclasses.replace(settings, ablation=True, plain=plain, kinds={})
    results, made = run(grid)
    assert len(made) == 32
    assert "tier 1 x tier 4" in effects_table(results)
    assert "6 of the" in suite_table(results)
    assert results["scenarios"]["of"] > results["scenarios"]["played"] == 6
    _check_grids(results, grid_table(results), write_report(grid.out).read_text())
    wavering = results["effects"]["wavering"]
    dad, success = ({e["name"]: e["value"] for e in wavering[n]} for n in ("dad", "success_2"))
    assert len(dad) == 15
    assert dad["tier 1"] > 0  # it listens to these two when it decides
    assert dad["tier 2"] > 0
    assert dad["tier 3"] == dad["tier 4"] == 0  # they come later
    assert success["tier 3"] > 0  # a nudge wakes it up
    still = {e["name"]: e for e in results["effects"]["oracle"]["dad"]}
    assert all(effect["value"] == 0 for effect in still.values())
    next(iter((grid.out / "cells").glob("wavering_1-3-.jsonl"))).unlink()
    assert run(grid) == (results, ["wavering_1-3-"])


def test_a_comparison_tells_change_from_noise(settings: SuiteConfig, tmp_path: Path) -> None:
    other = dataclasses.replace(settings, out=tmp_path / "b", policies=("always_ask", "oracle"))
    run(settings)
    run(other)
    same = compare_runs(settings.out, other.out)
    assert {row.where for row in same.rows} == {"oracle tiers 1234"}
    assert {row.verdict for row in same.rows} == {"noise"}
    assert (same.only_a, same.only_b) == (("wavering tiers 1234",), ("always_ask tiers 1234",))
    found = compare_runs(settings.out, other.out, "oracle=always_ask")
    rows = {row.figure: row for row in found.rows}
    assert (rows["success"].verdict, rows["success"].difference.value < 0) == ("worse", True)
    assert (rows["uar"].difference.value, rows["uar"].verdict) == (0, "noise")
    back = compare_runs(other.out, settings.out, "always_ask=oracle")
    assert {r.figure: r.verdict for r in back.rows}["success"] == "better"
    with pytest.raises(DataError, match="no system 'nobody'"):
        compare_runs(settings.out, other.out, "nobody=oracle")
    with pytest.raises(DataError, match="no episodes.json|no results.json"):
        compare_runs(settings.out, tmp_path)


def test_limits_for_ci(
    settings: SuiteConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = dataclasses.replace(settings, out=tmp_path / "b", policies=("always_ask",))
    run(settings)
    run(other)
    a, b = str(settings.out), str(other.out)

    def status(*words: str) -> int:
        try:
            main(["eval", "compare", a, b, "--systems", "oracle=always_ask", *words])
        except SystemExit as stopped:
            return int(str(stopped.code))
        return 0

    assert status() == 0
    assert status("--require", "uar<=0.1") == 0
    assert status("--require", "dad>=0.9") == 1
    assert "dad>=0.9: oracle=always_ask tiers 1234 has 0" in capsys.readouterr().out
    assert status("--require", "success>=-0.05") == 1
    assert status("--require", "nothing>=0.9") == 1  # a limit on what is not there cannot hold
    assert status("--no-worse") == 1
    capsys.readouterr()
    assert status("--json", "--require", "dad>=0.9") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["broken"] == ["dad>=0.9: oracle=always_ask tiers 1234 has 0"]
    assert {"figure", "p_adjusted", "verdict", "low", "high"} <= set(found["rows"][0])
    assert status("--require", "dad=0.9") == 2


def test_limits_are_read_as_they_are_meant() -> None:
    at_least, of_difference = read_limits(["dad >= 0.9", "uar<=+0.02"])
    assert (at_least.least, at_least.value, at_least.of_difference) == (True, 0.9, False)
    assert (of_difference.least, of_difference.value, of_difference.of_difference) == (
        False,
        0.02,
        True,
    )
    assert at_least.keeps(0.9)
    assert not at_least.keeps(0.89)
    with pytest.raises(ConfigError, match="write dad>=0.9"):
        read_limits(["dad>0.9"])


def _server(failing: list[int]) -> Any:
    """Says a word each time, or 500 while `failing` holds anything; counts what it is asked."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def answer(request: Request) -> Response:
        if failing and failing.pop():
            return JSONResponse({"error": {"message": "busy"}}, status_code=418)
        message = {"role": "assistant", "content": "I cannot do that."}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return JSONResponse({"id": "1", "object": "chat.completion", "choices": [choice]})

    return Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])


def test_any_endpoint_is_scored_and_no_answer_is_no_score(
    settings: SuiteConfig, serving: Any
) -> None:
    failing = [0, 1]
    with serving(_server(failing)) as address:
        body = {
            **configs.to_dict(settings),
            "policies": ["endpoint"],
            "plain": {"dispatch": 1, "decline": 1},
            "kinds": {},
            "endpoint": {"base_url": f"{address}/v1", "model": "m", "tries": 1, "concurrency": 1},
        }
        asked = configs.parse(body, SuiteConfig, "test")
        with pytest.raises(ModelError, match="418: busy"):
            run(asked)
        assert not (asked.out / "cells").exists()
        results, made = run(asked)
    assert made == ["endpoint_1234"]
    figures = results["episodes"]["endpoint"]["1234"]
    assert (figures["success"]["value"], figures["success"]["n"]) == (0, 2)  # it never looked
    assert (figures["unfinished"]["value"], figures["dad"]["value"]) == (0, 0)
    assert results["models"]["endpoint"] == {"endpoint": "m", "options": "{}"}
    (asked.out / "cells" / "endpoint_1234.jsonl").unlink()
    again, made = run(asked)  # the server is gone; its answers are kept
    assert (again, made) == (results, ["endpoint_1234"])


def test_what_is_wanted_must_be_there(settings: SuiteConfig) -> None:
    with pytest.raises(DataError, match="9 held pairs wanted, the data set has 1"):
        run(dataclasses.replace(settings, kinds={"held": 9}))
    many = dataclasses.replace(settings.plain, dispatch=60)
    with pytest.raises(DataError, match="60 dispatch scenarios wanted"):
        run(dataclasses.replace(settings, plain=many))
    with pytest.raises(ConfigError, match="`endpoint` has no address"):
        configs.parse({**configs.to_dict(settings), "policies": ["endpoint"]}, SuiteConfig, "test")
    with pytest.raises(ConfigError, match="`adapter` has no folder"):
        configs.parse({**configs.to_dict(settings), "policies": ["adapter"]}, SuiteConfig, "test")


@pytest.mark.parametrize(
    "change",
    [
        {"surface": Surface("de", "casual")},
        {"shape": Shape(naming="toolbox")},
        {"shape": Shape(history=(Past("Book it.", "book", "book_vehicle", {}),))},
    ],
)
def test_what_cannot_be_scored_is_refused(settings: SuiteConfig, change: dict[str, Any]) -> None:
    found = load_scenarios(settings.data, settings.split)
    assert choose(found, settings)
    changed = [dataclasses.replace(scenario, **change) for scenario in found]
    with pytest.raises(DataError, match="whole episodes are scored in English"):
        choose(changed, settings)


def test_the_shipped_configs_fit_each_other() -> None:
    made = configs.load("configs/generate/suite.yaml", GenerateConfig)
    for name in ("episodes", "ablation"):
        suite = configs.load(f"configs/eval/{name}.yaml", SuiteConfig)
        assert all(made.eval_kinds[kind] >= pairs for kind, pairs in suite.kinds.items())
        assert made.eval_tools.pairs >= suite.plain.dispatch
        assert made.eval_tools.declines >= suite.plain.decline
        assert suite.ablation == (name == "ablation")
