"""`breadcrumbs data`: what it prints, what it finds, and how it ends."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pyarrow
import pytest
from pyarrow import parquet

from breadcrumbs import data_cli
from breadcrumbs.cli import main
from breadcrumbs.data_gen.config import Amount, GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows, read_manifest, write_dataset
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.scenarios import Behaviour
from breadcrumbs.data_gen.splits import SPLITS
from breadcrumbs.openai_wire import ChatRequest, messages_in

HIDDEN = "Pay\u202e 001\u200b \x1b[2K now"


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def config(small_config: GenerateConfig) -> GenerateConfig:
    return dataclasses.replace(small_config, phrasing="plain", corrected_share=0.5)


@pytest.fixture(scope="module")
def folder(config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("data") / "set"
    generate(config, out, _silent)
    return out


@pytest.fixture(autouse=True)
def unchanged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """No command may change the set by a byte."""
    monkeypatch.setenv("COLUMNS", "160")
    before = _hashes(folder)
    yield
    assert _hashes(folder) == before


def _hashes(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def run(capsys: pytest.CaptureFixture[str], *words: Any) -> tuple[int, str, str]:
    status = 0
    try:
        main(["data", *map(str, words)])
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def respelled(folder: Path, out: Path, change: Callable[[Row], Row]) -> Path:
    """A copy of the set with every row changed and the manifest made to fit."""
    rows = [change(row) for row in load_rows(folder)]
    kept = {k: v for k, v in read_manifest(folder).items() if k not in ("counts", "files")}
    write_dataset(out, rows, kept)
    return out


def only(row_id: str, change: Callable[[Row], Row]) -> Callable[[Row], Row]:
    return lambda row: change(row) if row.id == row_id else row


def with_request(row: Row, text: str) -> Row:
    scenario = dataclasses.replace(row.scenario, request=text)
    messages = tuple(
        dataclasses.replace(m, content=text) if m.role == "user" else m for m in row.messages
    )
    return dataclasses.replace(row, scenario=scenario, messages=messages)


def test_show_draws_every_part_and_marks_the_decision(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = next(r for r in load_rows(folder) if r.behaviour == "dispatch" and r.split == "train")
    status, out, _ = run(capsys, "show", folder, row.id)
    assert status == 0
    lines = out.splitlines()
    assert lines[0] == row.id
    labels = [line.split()[0] for line in lines if line[:1].isalpha()]
    wanted = ["steering", "system", "user", "call", "catalog", "breadcrumb", "call", "schema"]
    wanted += ["breadcrumb", "think", "call", "tool_result", "breadcrumb", "assistant"]
    shown = [label for label in labels if label in {*wanted, "nudge"}]
    assert shown[-len(wanted) :] == wanted
    marked = [n for n, line in enumerate(lines) if "DECISION POINT" in line]
    assert len(marked) == 1
    assert lines[marked[0] + 1].startswith("think")
    assert lines[marked[0] + 2].startswith("call        call_3 execute_tool")
    for text in (row.scenario.request, json.loads(row.messages[5].content)["next_step"]):
        assert text in out


def test_show_finds_by_id_and_by_number(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = load_rows(folder, "held_out_domain", behaviour="clarify")
    narrow = ("--split", "held_out_domain", "--behaviour", "clarify", "--json")
    for which, row in (("1", rows[1]), (rows[0].id, rows[0])):
        status, out, _ = run(capsys, "show", folder, which, *narrow)
        assert status == 0
        assert json.loads(out) == json.loads(json.dumps(row.to_record()))
    assert json.loads(run(capsys, "show", folder, "--json")[1])["id"] == load_rows(folder)[0].id


def test_show_writes_hidden_characters_out(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load_rows(folder)[0]
    made = respelled(folder, tmp_path / "odd", only(first.id, lambda r: with_request(r, HIDDEN)))
    _, out, _ = run(capsys, "show", made, first.id)
    assert r"Pay\u202e 001\u200b \u001b[2K now" in out
    assert not any(char in out for char in "\u202e\u200b\x1b")
    record = json.loads(run(capsys, "show", made, first.id, "--json")[1])
    assert record["scenario"]["request"] == HIDDEN


def test_choices_are_the_words_of_the_data() -> None:
    kinds = {p.name: p.type for p in data_cli.show_command.params}
    assert tuple(kinds["split"].choices) == SPLITS  # type: ignore[attr-defined]
    assert tuple(kinds["behaviour"].choices) == get_args(Behaviour)  # type: ignore[attr-defined]


def test_stats_counts_what_the_rows_hold(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = run(capsys, "stats", folder, "--json")
    printed = json.loads(out)
    found = printed.pop("stats")
    assert status == 0
    assert printed == read_manifest(folder)
    rows = load_rows(folder)
    assert sum(cell["rows"] for cell in found["cells"]) == len(rows)
    corrected = sum(cell["rows"] for cell in found["cells"] if cell["source"] == "corrected")
    assert corrected == sum(row.source == "corrected" for row in rows) > 0
    assert found["decisions"]["train"] == {"act": 8, "ask": 8, "decline": 2, "act_per_ask": 1.0}
    assert found["decisions"]["held_out_tools"]["decline"] == 0
    systems = found["system_templates"]
    assert systems["distinct"] == 4
    assert systems["most_frequent"][0]["share"] >= 0.25
    assert "{now}" in systems["most_frequent"][0]["template"]
    _, text, _ = run(capsys, "stats", folder)
    assert "what is done at the decision point" in text
    assert "1.00 : 1" in text
    assert "{now}" in text


def test_words_of_a_manifest_are_not_obeyed(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "set"
    shutil.copytree(folder, made)
    manifest = read_manifest(made)
    manifest["dropped"] = {"[bold]\x1b[2K\u202e": 1}
    (made / "manifest.json").write_text(json.dumps(manifest))
    status, out, _ = run(capsys, "stats", made)
    assert status == 0
    assert out.count(r"[bold]\u001b[2K\u202e") == 2
    assert "\x1b" not in out


def test_a_value_that_is_not_said_as_it_is_passed_is_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = json.loads(run(capsys, "stats", folder, "--json")[1])["stats"]["not_verbatim"]
    said = next(
        row
        for row in load_rows(folder)
        if row.behaviour == "dispatch" and row.scenario.tool == "transfer_money"
    )
    made = respelled(
        folder, tmp_path / "other", only(said.id, lambda r: with_request(r, "Send the usual."))
    )
    after = json.loads(run(capsys, "stats", made, "--json")[1])["stats"]["not_verbatim"]
    assert after["rows"] == before["rows"] + 1
    assert after["why"]["said otherwise"] == before["why"].get("said otherwise", 0) + 1


def test_a_template_that_repeats_is_shown_with_its_share(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def same(row: Row) -> Row:
        value = next(iter(row.scenario.gold_arguments.values()), "x")
        return with_request(row, f"Do it with {value} now.") if row.split == "train" else row

    made = respelled(folder, tmp_path / "dull", same)
    found = json.loads(run(capsys, "stats", made, "--json")[1])["stats"]
    first = found["request_openings"]["most_frequent"][0]
    assert first["template"] == "Do it with"
    assert first["rows"] == 18
    templates = [one["template"] for one in found["request_templates"]["most_frequent"]]
    assert any(text.startswith("Do it with {") for text in templates)


def test_the_plot_is_the_same_twice_and_never_in_the_set(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a.svg", "b.svg"):
        assert run(capsys, "stats", folder, "--plot", tmp_path / name)[0] == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert "dispatch" in (tmp_path / "a.svg").read_text()
    for place, words in (
        (folder / "a.svg", "lies in the data set"),
        (tmp_path / "a.exe", "ending in .svg"),
        (tmp_path / "no" / "a.svg", "cannot write"),
    ):
        status, _, err = run(capsys, "stats", folder, "--plot", place)
        assert status == 2
        assert words in err


def test_equal_sets_do_not_differ(
    config: GenerateConfig, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generate(config, tmp_path / "again", _silent)
    status, out, _ = run(capsys, "diff", folder, tmp_path / "again")
    assert status == 0
    assert out.splitlines()[-1] == "equal"
    found = json.loads(run(capsys, "diff", folder, tmp_path / "again", "--json")[1])
    assert found["equal"] is True
    assert found["counts"]["all"] == {"trajectories": [26, 26]}


def test_diff_names_a_changed_row_and_nothing_else(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load_rows(folder)[0]
    made = respelled(folder, tmp_path / "other", only(first.id, lambda r: with_request(r, "Hm.")))
    status, out, _ = run(capsys, "diff", folder, made)
    assert status == 1
    assert f"changed: {first.id}: scenario, messages" in out.splitlines()
    assert not any(line.startswith(("only", "config", "row moved")) for line in out.splitlines())
    found = json.loads(run(capsys, "diff", folder, made, "--json")[1])
    assert found["changed"] == {first.id: ["scenario", "messages"]}


def test_diff_compares_configs_tools_and_splits(
    config: GenerateConfig, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = dataclasses.replace(
        config,
        held_out_tools=("transfer_money",),
        train=Amount(pairs=7, declines=2),
    )
    generate(other, tmp_path / "other", _silent)
    found = json.loads(run(capsys, "diff", folder, tmp_path / "other", "--json")[1])
    assert found["config"]["config.train.pairs"] == [8, 7]
    assert found["config"]["config.held_out_tools"] == [
        ["create_calendar_event"],
        ["transfer_money"],
    ]
    assert "inputs_hash" in found["config"]
    assert "config.seed" not in found["config"]
    assert found["moved_tools"] == {
        "create_calendar_event": ["held_out_tools", "train"],
        "transfer_money": ["train", "held_out_tools"],
    }
    assert set(found["only_a"]) >= {"train-pair-0007-dispatch", "train-pair-0007-clarify"}
    assert found["counts"]["split"]["train"] == [18, 16]
    status, out, _ = run(capsys, "diff", folder, tmp_path / "other")
    assert status == 1
    assert "config.train.pairs: 8 -> 7" in out
    assert "split train: 18 -> 16  (-2)" in out
    assert "tool moved: transfer_money: train -> held_out_tools" in out


def test_diff_sees_another_order(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {k: v for k, v in read_manifest(folder).items() if k not in ("counts", "files")}
    write_dataset(tmp_path / "back", load_rows(folder)[::-1], kept)
    status, out, _ = run(capsys, "diff", folder, tmp_path / "back")
    assert status == 1
    assert "the rows stand in another order" in out
    assert "changed:" not in out


def test_a_good_set_validates(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "validate", folder)
    assert (status, out) == (0, "0 faults; 26 rows read back and run again\n")
    assert "validate: 26/26, 0 s left" in err
    assert json.loads(run(capsys, "validate", folder, "--json")[1]) == {
        "rows": 26,
        "faults": 0,
        "by_reason": {},
    }


def with_message(row: Row, position: int, **changes: Any) -> Row:
    messages = list(row.messages)
    messages[position] = dataclasses.replace(messages[position], **changes)
    return dataclasses.replace(row, messages=tuple(messages))


def with_scenario(row: Row, **changes: Any) -> Row:
    return dataclasses.replace(row, scenario=dataclasses.replace(row.scenario, **changes))


def with_meta(row: Row, **changes: Any) -> Row:
    return dataclasses.replace(row, meta={**row.meta, **changes})


def other_result(row: Row) -> Row:
    payload = row.messages[-2].content
    return with_message(row, -2, content=payload.replace('"next_step":"', '"next_step":"Please! '))


def other_draft(row: Row) -> Row:
    text = row.messages[6].content
    return with_message(row, 6, content=text.replace("<think>{", '<think>{"more": 1, ', 1))


SPOILERS: dict[str, tuple[Callable[[Row], Row], str]] = {
    "request": (lambda r: with_request(r, "Do it."), "grounding: a value has no source"),
    "payload": (other_result, "replay: the conversation differs"),
    "draft": (other_draft, "thinking: the draft is not what is called, or in another order"),
    "state": (
        lambda r: with_meta(r, state_hash="0" * 64),
        "replay: the world ends in another state",
    ),
    "queue": (lambda r: with_meta(r, queue=[]), "replay: the approval queue differs"),
    "outcome": (lambda r: with_meta(r, outcome="stalled"), "protocol: ended stalled"),
    "label": (
        lambda r: with_scenario(r, behaviour="clarify"),
        "protocol: other calls than the behaviour needs",
    ),
    "answer": (
        lambda r: dataclasses.replace(r, messages=(*r.messages[:7], r.messages[8])),
        "format: roles",
    ),
    "id": (
        lambda r: with_message(r, 7, tool_call_id="call_9"),
        "format: a tool message answers no call",
    ),
    "mark": (
        lambda r: with_message(r, -1, synthetic=True),
        "replay: a message has other marks or call ids",
    ),
    "tools": (
        lambda r: dataclasses.replace(r, tools=r.tools[:2]),
        "replay: other tools were offered",
    ),
    "split": (lambda r: with_scenario(r, split="held_out_tools"), "row: belongs to another split"),
    "name": (
        lambda r: dataclasses.replace(r, id=f"{r.id}-x"),
        "row: a column says other than the scenario",
    ),
    "shape": (
        lambda r: with_message(r, 3, content='{"layer":"1_catalog","next_step":"x"}'),
        "row: not shaped as a trajectory",
    ),
    "seed": (
        lambda r: with_scenario(r, tool="no_such_tool"),
        "inputs: the row's tool has no hints",
    ),
}


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_spoiled_row_is_named_with_its_reason(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spoiler: str
) -> None:
    change, reason = SPOILERS[spoiler]
    row = next(r for r in load_rows(folder, "train") if r.meta["queue"])
    made = respelled(folder, tmp_path / "spoiled", only(row.id, change))
    status, out, _ = run(capsys, "validate", made, "--json")
    found = json.loads(out)["by_reason"]
    assert status == 1
    assert list(found) == [reason]
    assert row.id in found[reason][0]
    status, out, _ = run(capsys, "validate", made)
    assert status == 1
    assert f"{reason}: 1" in out
    assert row.id in out


def test_rows_that_stand_twice_are_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = load_rows(folder)
    again = with_scenario(rows[1], id="another-id")
    kept = {k: v for k, v in read_manifest(folder).items() if k not in ("counts", "files")}
    write_dataset(
        tmp_path / "twice", [*rows, rows[0], dataclasses.replace(again, id="another-id")], kept
    )
    status, out, _ = run(capsys, "validate", tmp_path / "twice", "--json")
    found = json.loads(out)["by_reason"]
    assert status == 1
    assert [place.split(" (")[1] for place in found["row: the id stands twice"]] == [
        f"{rows[0].id})"
    ]
    assert "another-id" in found["row: asks what another row asks"][0]
    status, _, err = run(capsys, "diff", folder, tmp_path / "twice")
    assert status == 2
    assert "stands twice" in err


def test_files_counts_and_inputs_are_held_to_the_manifest(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(change: Callable[[dict[str, Any]], None]) -> list[str]:
        made = tmp_path / "set"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(folder, made)
        manifest = read_manifest(made)
        change(manifest)
        (made / "manifest.json").write_text(json.dumps(manifest))
        status, out, _ = run(capsys, "validate", made, "--json")
        faults = list(json.loads(out)["by_reason"])
        assert status == (1 if faults else 0)
        return faults

    assert found(lambda m: None) == []
    assert found(lambda m: m["files"]["train.parquet"].update(bytes=1)) == [
        "files: not the bytes the manifest names"
    ]
    assert found(lambda m: m["counts"]["behaviour"].update(clarify=99)) == [
        "counts: the manifest says other numbers than the rows"
    ]
    assert found(lambda m: m.update(inputs_hash="0")) == [
        "inputs: made by another version, catalog or hints than those here"
    ]


def test_a_damaged_file_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "set"
    shutil.copytree(folder, made)
    (made / "train.parquet").write_bytes((made / "train.parquet").read_bytes()[:-40])
    (made / "held_out_tools.parquet").unlink()
    status, out, _ = run(capsys, "validate", made, "--json")
    found = json.loads(out)["by_reason"]
    assert status == 1
    assert found["files: not the bytes the manifest names"] == ["train.parquet"]
    assert found["files: missing or unreadable"] == ["held_out_tools.parquet"]
    torn = ["train.parquet", "held_out_tools.parquet"]
    assert found["files: no Parquet that can be read"] == torn


def placed(tmp_path: Path, kind: str, request: str, tool: dict[str, Any]) -> Path:
    """A benchmark of a kind that holds a request and a tool, each deep inside."""
    wrapped = {"type": "function", "function": tool}
    body = {"question": [[{"role": "user", "content": request}]], "tools": json.dumps([wrapped])}
    path = tmp_path / f"benchmark.{kind}"
    noise = {"question": "What is the tallest mountain that can be seen from here?"}
    if kind == "parquet":
        table = {"data": [json.dumps(noise), json.dumps(body)]}
        parquet.write_table(pyarrow.table(table), path)
    elif kind == "txt":
        path.write_text(f"Some words.\n\n{request}\n")
    else:
        lines = [json.dumps(one) for one in (noise, body)]
        whole = kind == "json"
        path.write_text(f"[{', '.join(lines)}]" if whole else "\n".join(lines))
    return path


def definition(row: Row) -> dict[str, Any]:
    tool = json.loads(row.messages[5].content)["disclosed"][0]
    named = {"name": tool["name"], "description": tool["description"]}
    return {**named, "parameters": tool["inputSchema"]}


@pytest.mark.parametrize("kind", ["json", "jsonl", "parquet", "txt"])
def test_a_leak_is_found_in_every_kind_of_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    row = next(r for r in load_rows(folder, "train") if r.meta["queue"])
    shouted = row.scenario.request.upper()
    path = placed(tmp_path, kind, shouted, definition(row))
    status, out, _ = run(capsys, "leaks", folder, "--against", path, "--json")
    found = json.loads(out)
    assert status == 1
    assert found["request"]["exact"] == 1
    hit = next(o for o in found["overlaps"] if o["kind"] == "request" and o["exact"])
    assert row.id in hit["rows"]
    assert (hit["file"], hit["found"]) == (str(path), shouted)
    if kind != "txt":
        assert found["tool"]["exact"] == 1


def test_what_is_not_there_is_not_found(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"name": "paint", "description": "Paint it.", "parameters": {"type": "object"}}
    for kind in ("json", "jsonl", "parquet", "txt"):
        path = placed(tmp_path, kind, "Please repaint the garden fence in green.", other)
        status, out, _ = run(capsys, "leaks", folder, "--against", path)
        assert status == 0
        assert "requests: 0 equal, 0 alike from 0.8" in out
        assert "tools: 0 equal, 0 alike from 0.8" in out


def test_a_request_that_is_nearly_the_same_is_found(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "move money between my accounts from one to the other as soon as you can please today"
    first = load_rows(folder)[0]
    made = respelled(folder, tmp_path / "long", only(first.id, lambda r: with_request(r, long)))
    words = long.split()
    near, far = [*words, "now"], [w for pair in zip(words, words[::-1], strict=True) for w in pair]
    (tmp_path / "near.txt").write_text(" ".join(near))
    (tmp_path / "far.txt").write_text(" ".join(far))
    status, out, _ = run(capsys, "leaks", made, "--against", tmp_path / "near.txt", "--json")
    (hit,) = json.loads(out)["overlaps"]
    assert status == 1
    assert (hit["exact"], hit["rows"]) == (False, [first.id])
    assert hit["similarity"] == pytest.approx(15 / 16)
    assert run(capsys, "leaks", made, "--against", tmp_path / "far.txt")[0] == 0


def test_a_tool_with_another_schema_is_nearly_the_same(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = next(r for r in load_rows(folder, "train") if r.meta["queue"])
    tool = definition(row)
    tool["parameters"] = {**tool["parameters"], "required": []}
    path = placed(tmp_path, "json", "Nothing.", tool)
    found = json.loads(run(capsys, "leaks", folder, "--against", path, "--json")[1])
    assert (found["tool"]["exact"], found["tool"]["near"]) == (0, 1)


def test_leaks_between_splits_and_sets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = folder / "train.parquet"
    status, out, _ = run(capsys, "leaks", folder, "--split", "train", "--against", train, "--json")
    found = json.loads(out)
    assert status == 1
    assert found["request"]["exact"] == found["request"]["compared"] > 10
    assert found["tool"]["exact"] == found["tool"]["compared"] == 3
    held = ("--split", "held_out_domain", "--against", train)
    assert run(capsys, "leaks", folder, *held)[0] == 0


def test_examples_of_leaks_hide_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = load_rows(folder)[0]
    made = respelled(folder, tmp_path / "odd", only(first.id, lambda r: with_request(r, HIDDEN)))
    (tmp_path / "b.txt").write_text(f"{HIDDEN}\n")
    status, out, _ = run(capsys, "leaks", made, "--against", tmp_path / "b.txt")
    assert status == 1
    assert out.count(r"\u202e") == 2
    assert not any(char in out for char in "\u202e\u200b\x1b")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("b.json", b"{", "b.json:1: neither JSON nor JSON lines"),
        ("b.jsonl", b'{"a": 1}\n\n[[\n', "b.jsonl:3: neither JSON nor JSON lines"),
        ("b.json", b"[" * 100_000, "neither JSON nor JSON lines"),
        ("b.parquet", b"PAR1", "cannot read: no Parquet that can be read"),
        ("b.txt", b"\xff\xfe", "not UTF-8"),
        ("b.json", None, "b.json: cannot read: No such file"),
        ("b.parquet", None, "b.parquet: cannot read: No such file"),
    ],
)
def test_a_file_that_cannot_be_compared_is_one_clear_line(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    said: str,
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    status, out, err = run(capsys, "leaks", folder, "--against", tmp_path / name)
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert said in err


def test_the_export_says_the_same_with_arguments_as_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "below" / "rows.jsonl"
    status, said, _ = run(capsys, "export", folder, "--out", out)
    rows = load_rows(folder)
    assert (status, said) == (0, f"{len(rows)} rows written to {out}\n")
    lines = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    for row, line in zip(rows, lines, strict=True):
        assert line["tools"] == [dict(tool) for tool in row.tools]
        request = ChatRequest(model="m", **line)
        assert messages_in(request) == list(row.messages)
        calls = [call for message in line["messages"] for call in message.get("tool_calls", ())]
        assert all(isinstance(call["function"]["arguments"], str) for call in calls)
        assert calls
    run(capsys, "export", folder, "--out", out, "--split", "held_out_tools")
    assert len(out.read_text().splitlines()) == len(load_rows(folder, "held_out_tools"))


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from breadcrumbs.cli import main\n"
        "try: main(['data', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'pydantic', 'datasketch', 'matplotlib', 'pyarrow')"
        " if m in sys.modules], 'breadcrumbs.data_gen' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[] False"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "SET", "nobody"), "no row with the id 'nobody'"),
        (("show", "SET", "train-pair-0000-dispath"), "near: train-pair-0000-dispatch"),
        (("show", "SET", "999"), "no row 999; there are 26, counted from 0"),
        (
            ("show", "SET", "--split", "held_out_tools", "--behaviour", "decline"),
            "no rows are left",
        ),
        (("show", "NONE"), "no complete data set here"),
        (("show", "HALF"), "no complete data set here"),
        (("show", "TORN"), "train.parquet: damaged or missing"),
        (("stats", "NONE"), "no complete data set here"),
        (("stats", "HALF"), "no complete data set here"),
        (("stats", "TORN"), "train.parquet: damaged or missing"),
        (("diff", "SET", "NONE"), "none: no complete data set here"),
        (("diff", "HALF", "SET"), "half: no complete data set here"),
        (("diff", "SET", "TORN"), "train.parquet: damaged or missing"),
        (("validate", "NONE"), "no complete data set here"),
        (("validate", "HALF"), "no complete data set here"),
        (("leaks", "NONE", "--against", "ROWS"), "no complete data set here"),
        (("leaks", "HALF", "--against", "ROWS"), "no complete data set here"),
        (("leaks", "TORN", "--against", "ROWS"), "train.parquet: damaged or missing"),
        (("export", "NONE", "--out", "FILE"), "no complete data set here"),
        (("export", "HALF", "--out", "FILE"), "no complete data set here"),
        (("export", "TORN", "--out", "FILE"), "train.parquet: damaged or missing"),
        (("export", "SET", "--out", "BELOW_A_FILE"), "cannot write here"),
        (("export", "SET", "--out", "INSIDE"), "lies in the data set"),
    ],
)
def test_bad_input_is_one_clear_line(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    places = {"SET": folder, "NONE": tmp_path / "none", "HALF": tmp_path / "half"}
    places |= {"TORN": tmp_path / "torn", "FILE": tmp_path / "rows.jsonl"}
    places |= {"BELOW_A_FILE": tmp_path / "file" / "x.jsonl", "INSIDE": folder / "train.parquet"}
    places["ROWS"] = folder / "held_out_tools.parquet"
    (tmp_path / "file").write_text("in the way")
    shutil.copytree(folder, places["HALF"])
    (places["HALF"] / "manifest.json").unlink()
    shutil.copytree(folder, places["TORN"])
    (places["TORN"] / "train.parquet").write_bytes(b"PAR1 but no more")
    status, out, err = run(capsys, *(places.get(word, word) for word in words))
    assert (status, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("breadcrumbs: ")
    assert said in err
    assert not places["FILE"].exists()
