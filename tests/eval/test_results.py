"""The whole evaluation with a tiny random model: garbage is scored, finished cells are kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs import config as configs
from breadcrumbs.data_gen.dataset import Row, write_dataset
from breadcrumbs.data_gen.episodes import OraclePolicy, run_episode
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.errors import ConfigError, DataError
from breadcrumbs.eval.config import EvalConfig
from breadcrumbs.eval.metrics import EXTRAS, METRICS
from breadcrumbs.eval.results import evaluate, read_results, table
from breadcrumbs.gateway.gateway import GatewaySettings

PAIRS = 3


@pytest.fixture(scope="session")
def data(
    tmp_path_factory: pytest.TempPathFactory,
    make_scenario: Callable[..., Scenario],
    catalog: Any,
    catalog_file: Path,
    hints_file: Path,
) -> Path:
    folder = tmp_path_factory.mktemp("data") / "set"
    made = [
        make_scenario(kind, id=f"{kind}-{i}", now=f"2026-03-0{i + 1}T09:30")
        for i in range(PAIRS)
        for kind in ("dispatch", "clarify", "decline")
    ]
    rows = [_row(scenario, catalog) for scenario in made]
    config = {"catalogs": [str(catalog_file)], "hints": [str(hints_file)], "max_hits": 2}
    write_dataset(folder, rows, {"config": config, "dropped": {}})
    return folder


def _row(scenario: Scenario, catalog: Any) -> Row:
    oracle = OraclePolicy(scenario, catalog.tool(scenario.tool))
    episode = asyncio.run(run_episode(scenario, catalog, GatewaySettings(max_hits=2), oracle))
    return Row(scenario.id, scenario, "oracle", episode.messages, episode.tools, {})


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of one layer with a byte-level tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    marks = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    inner = Tokenizer(models.BPE({text: i for i, text in enumerate(marks + alphabet)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", additional_special_tokens=marks[:2]
    )
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    size = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
    config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=8192, **size, **heads)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def settings(data: Path, model_folder: Path, tmp_path: Path) -> EvalConfig:
    cells = [
        {"breadcrumb": on, "split": "held_out_tools", "dispatch": PAIRS, "clarify": PAIRS}
        | ({"decline": 1} if on else {})
        for on in (True, False)
    ]
    body = {
        "version": 1,
        "model": str(model_folder),
        "data": str(data),
        "out": str(tmp_path / "eval"),
        "cells": cells,
        "search_turns": 2,
        "episodes": {"dispatch": 1, "clarify": 1, "max_rounds": 2},
        "max_new_tokens": 12,
        "text_budget": 8,
    }
    return configs.parse(body, EvalConfig, "test")


class Notes:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int, str]] = []

    def __call__(self, done: int, total: int, note: str = "") -> None:
        self.seen.append((done, total, note))

    @property
    def loaded(self) -> bool:
        return any("loading" in note for _, _, note in self.seen)


def test_a_run_scores_garbage_and_keeps_what_is_done(settings: EvalConfig) -> None:
    notes = Notes()
    results = evaluate(settings, notes)
    assert notes.loaded
    assert notes.seen[-1][0] == notes.seen[-1][1] == 2 * 2 * PAIRS + 1 + 2 + 2
    assert all(0 <= done <= total for done, total, _ in notes.seen)
    without_model = ["oracle", "always_dispatch", "always_ask", "do_nothing"]
    assert list(results["eval"]) == ["base", *without_model]
    right, idle = (
        results["eval"][name]["breadcrumb_on"]["held_out_tools"]
        for name in ("oracle", "do_nothing")
    )
    assert (right["dad"]["value"], right["uar"]["value"], right["ask_f1"]["value"]) == (1, 0, 1)
    assert (idle["dad"]["value"], idle["oar"]["value"], idle["uar"]["value"]) == (0, 1, 0)
    along = results["breakdown"]["always_ask"]["breadcrumb_on"]["held_out_tools"]
    assert set(along) <= {"distractors"}  # one tool, one kind: nothing else to tell apart
    base = results["eval"]["base"]["breadcrumb_on"]["held_out_tools"]
    assert set(base) == {*METRICS, *EXTRAS}
    assert (base["dad"]["value"], base["oar"]["value"], base["dad"]["n"]) == (0.0, 1.0, PAIRS)
    assert (base["search_call_parsed"]["n"], base["end_state"]["n"]) == (2, 2)
    off = results["eval"]["base"]["breadcrumb_off"]["held_out_tools"]
    assert off["end_state"] == {"value": None, "low": None, "high": None, "n": 0}
    act = results["eval"]["always_dispatch"]["breadcrumb_on"]["held_out_tools"]
    assert (act["dad"]["value"], act["arguments_exact"]["value"], act["uar"]["value"]) == (1, 1, 1)
    assert read_results(settings.out) == json.loads(json.dumps(results))
    assert "always_ask" in table(results)

    again = Notes()
    assert evaluate(settings, again) == results
    assert not again.loaded
    _a_kept_text_is_scored_anew(settings)
    _an_unfinished_or_foreign_file_is_made_anew(settings, results)


def _a_kept_text_is_scored_anew(settings: EvalConfig) -> None:
    path = settings.out / "cells" / "base-breadcrumb_on-held_out_tools.jsonl"
    head, *records = [json.loads(line) for line in path.read_text().splitlines()]
    assert [r["scenario"] for r in records][:2] == ["dispatch-0", "dispatch-1"]
    assert {"text", "calls", "problems", "score", "request", "missing"} <= set(records[0])
    assert set(records[0]["axes"]) == {"kind", "risk", "schema", "distractors"}
    kept = path.read_text()
    records[0]["text"] = (
        '<tool_call>\n{"name": "execute_tool", "arguments": {"tool_name": "plan_meeting",'
        ' "arguments": {"title": "Budget sync", "start": "2026-03-09T14:00"}}}\n</tool_call>'
    )
    path.write_text("\n".join(json.dumps(entry) for entry in (head, *records)) + "\n")
    changed = evaluate(settings, Notes())["eval"]["base"]["breadcrumb_on"]["held_out_tools"]
    assert changed["dad"]["value"] == pytest.approx(1 / PAIRS, abs=1e-4)
    assert changed["arguments_exact"]["value"] == 0.0  # 45 minutes were asked for
    path.write_text(kept)


def _an_unfinished_or_foreign_file_is_made_anew(
    settings: EvalConfig, results: dict[str, Any]
) -> None:
    cell = settings.out / "cells" / "base-breadcrumb_off-held_out_tools.jsonl"
    kept = cell.read_text()
    cell.write_text(kept[: len(kept) // 2])
    notes = Notes()
    assert evaluate(settings, notes)["eval"] == results["eval"]
    assert notes.loaded
    assert cell.read_text() == kept
    cell.write_text(kept.replace('"fingerprint": "', '"fingerprint": "0'))
    evaluate(settings, Notes())
    assert cell.read_text() == kept
    assert not list(settings.out.rglob("*.new"))


def test_batch_size_does_not_change_a_text(settings: EvalConfig, tmp_path: Path) -> None:
    import dataclasses

    body = {
        "dtype": "float32",
        "episodes": dataclasses.replace(settings.episodes, dispatch=0, clarify=0),
    }
    one = dataclasses.replace(settings, out=tmp_path / "one", batch_tokens=1024, **body)
    all_ = dataclasses.replace(settings, out=tmp_path / "all", **body)
    assert evaluate(one, Notes())["eval"] == evaluate(all_, Notes())["eval"]
    for file in (tmp_path / "one/cells").iterdir():
        assert file.read_text() == (tmp_path / "all/cells" / file.name).read_text()


def test_mistakes_are_named(settings: EvalConfig, tmp_path: Path) -> None:
    import dataclasses

    with pytest.raises(DataError, match="no complete data set"):
        evaluate(dataclasses.replace(settings, data=tmp_path / "none"), Notes())
    with pytest.raises(ConfigError, match="train first"):
        evaluate(dataclasses.replace(settings, adapter=tmp_path / "none"), Notes())
    with pytest.raises(DataError, match="no results.json"):
        read_results(tmp_path)
    many = dataclasses.replace(settings.cells[0], dispatch=99)
    with pytest.raises(DataError, match="99 dispatch scenarios wanted"):
        evaluate(dataclasses.replace(settings, cells=(many,)), Notes())
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write here"):
        evaluate(dataclasses.replace(settings, out=tmp_path / "file"), Notes())


def test_the_shipped_config_is_what_the_results_promise() -> None:
    demo = configs.load("configs/eval/demo.yaml", EvalConfig)
    counts = {(c.tier, c.split): (c.dispatch, c.clarify) for c in demo.cells}
    assert counts == {
        ("breadcrumb_on", "held_out_tools"): (100, 100),
        ("breadcrumb_on", "held_out_domain"): (60, 60),
        ("breadcrumb_off", "held_out_tools"): (40, 40),
        ("breadcrumb_off", "held_out_domain"): (40, 40),
    }
    assert demo.episodes.count == 40


def test_two_cells_of_one_place_are_refused(settings: EvalConfig) -> None:
    body = configs.to_dict(settings)
    body["cells"] = [body["cells"][0]] * 2
    with pytest.raises(ConfigError, match="two cells"):
        configs.parse(body, EvalConfig, "test")
