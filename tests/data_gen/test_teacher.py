"""A real HTTP endpoint that stalls: what becomes rows, what is dropped and why, what is kept."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from breadcrumbs.cli import main
from breadcrumbs.config import load
from breadcrumbs.data_gen.config import Amount, GenerateConfig, config_dict
from breadcrumbs.data_gen.dataset import Row, load_rows, read_manifest
from breadcrumbs.data_gen.episodes import OraclePolicy
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.mending import text_fault
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.data_gen.verify import effect_difference, replay
from breadcrumbs.endpoint_config import KEY_VARIABLE, EndpointConfig, Prices, check_endpoint
from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.openai_wire import ChatRequest, completion, messages_in
from breadcrumbs.turns import Turn

CATALOG = load_catalog()
NOTHING = Amount(pairs=0)
BASE = GenerateConfig(
    held_out_tools=("scheduled_jobs",),
    train=Amount(pairs=8),
    eval_tools=NOTHING,
    eval_domain=NOTHING,
    corrected_share=1.0,
)
USAGE = {"prompt_tokens": 1000, "completion_tokens": 10}
KEY = "very-secret-key-1"
Answer = Callable[[list[Message], Turn], Turn]
"""What is said, given the conversation and the turn the oracle would take."""


def other_words(requests: list[str]) -> list[str]:
    return [f"When you find a moment: {text}" for text in requests]


def tells_what_is_missing(requests: list[str]) -> list[str]:
    return [f"{word} {requests[0]}" for word in ("Listen.", "Hear me.")[: len(requests)]]


class StallingModel:
    """Plays a model over HTTP; it knows the oracle's turns, so that each fault is one change."""

    def __init__(self, rows: list[Row], answer: Answer) -> None:
        self.scenarios = {row.scenario.request: row.scenario for row in rows}
        self.answer = answer
        self.asked: list[str] = []
        self.keys: set[str | None] = set()
        self.words: Callable[[list[str]], list[str]] = other_words
        self.refuse_after: int | None = None
        self.hang_after: int | None = None
        self.app = Starlette(
            routes=[Route("/v1/chat/completions", self.complete, methods=["POST"])]
        )

    async def complete(self, request: Request) -> Response:
        body = await request.body()
        self.keys.add(request.headers.get("authorization"))
        if self.refuse_after is not None and len(self.asked) >= self.refuse_after:
            return JSONResponse({"error": {"message": f"bad key {KEY}"}}, 401)
        self.asked.append(body.decode())
        if self.hang_after is not None and len(self.asked) > self.hang_after:
            await asyncio.sleep(60)
        asked = ChatRequest.model_validate_json(body)
        messages = messages_in(asked)
        if asked.tools is None:
            texts = self.words(json.loads(messages[-1].content)["requests"])
            said = completion({}, json.dumps({"requests": texts}), "stop", usage=USAGE)
            return JSONResponse(said)
        user = next(m.content for m in messages if m.role == "user")
        scenario = self.scenarios[user]
        spec = CATALOG.tool(scenario.tool)
        assert spec is not None
        turn = self.answer(messages, OraclePolicy(scenario, spec).turn(messages))
        head = {"id": "x", "created": 0, "model": "yard"}
        return JSONResponse(completion(head, turn.text, "stop", calls=turn.calls, usage=USAGE))


def decides(turn: Turn) -> bool:
    return any(call.name == "execute_tool" for call in turn.calls)


def nudged(messages: list[Message]) -> bool:
    return messages[-1].role == "user" and len(messages) > 2


def recites(messages: list[Message], right: Turn) -> Turn:
    """Recites the schema; after the nudge, does what is right."""
    if not decides(right):
        return Turn(f"Sure! {right.text}", right.calls)
    if nudged(messages):
        return Turn("", right.calls)
    schema = json.loads(messages[-1].content)["disclosed"][0]["inputSchema"]
    fields = "\n".join(f"- {name}" for name in schema["properties"])
    return Turn(f"Please provide the following details:\n{fields}\nWould you like to proceed?")


def with_arguments(turn: Turn, change: Callable[[dict[str, Any]], None]) -> Turn:
    call = turn.calls[0]
    arguments = dict(call.arguments["arguments"])
    change(arguments)
    asked = {**call.arguments, "arguments": arguments}
    return Turn("", (type(call)(call.id, call.name, asked),))


def takes_from_the_nudge(messages: list[Message], right: Turn) -> Turn:
    """Passes a word of the nudge where the request's value belongs."""
    turn = recites(messages, right)
    if not decides(turn):
        return turn

    def change(arguments: dict[str, Any]) -> None:
        name = next(iter(arguments))
        arguments[name] = "held for approval"

    return with_arguments(turn, change)


def invents(messages: list[Message], right: Turn) -> Turn:
    turn = recites(messages, right)
    if not decides(turn):
        return turn
    return with_arguments(turn, lambda a: a.update({next(iter(a)): "Zanzibar quux"}))


def searches_with_marks(messages: list[Message], right: Turn) -> Turn:
    turn = recites(messages, right)
    if not turn.calls or turn.calls[0].name != "search_tool_catalog":
        return turn
    call = turn.calls[0]
    query = f"{call.arguments['query']} <|im_end|>"
    return Turn("", (type(call)(call.id, call.name, {"query": query}),))


def acts_at_once(messages: list[Message], right: Turn) -> Turn:
    return Turn(right.text, right.calls)


def never_acts(messages: list[Message], right: Turn) -> Turn:
    return Turn("Would you like to proceed?") if decides(right) else right


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows as the oracle makes them."""
    out = tmp_path_factory.mktemp("plain") / "set"
    generate(_without(BASE), out, _silent)
    return out


@pytest.fixture(scope="module")
def rows(plain: Path) -> list[Row]:
    return load_rows(plain)


def _without(config: GenerateConfig) -> GenerateConfig:
    return dataclasses.replace(config, corrected_share=0.0)


def config_for(url: str, **changes: Any) -> GenerateConfig:
    settings: dict[str, Any] = {"base_url": f"{url}/v1", "model": "yard", "concurrency": 3}
    return dataclasses.replace(BASE, endpoint=EndpointConfig(**{**settings, **changes}))


def test_the_endpoints_stall_can_stay_without_loss(
    rows: list[Row], serving: Any, tmp_path: Path
) -> None:
    model = StallingModel(rows, recites)
    with serving(model.app) as url:
        config = dataclasses.replace(config_for(url), nudged="mask")
        generate(config, tmp_path / "set", _silent)
    made = [row for row in load_rows(tmp_path / "set") if row.source == "nudged"]
    assert len(made) == 8
    for row in made:
        (place,) = row.meta["unlearned"]
        assert row.messages[place].content == row.meta["said"]
        assert row.messages[place].content.startswith("Please provide the following details")
        assert "Sure!" not in "\n".join(message.content for message in row.messages)
    assert validate(tmp_path / "set", _silent).faults == ()


def test_a_stall_becomes_a_row_with_the_oracles_effect(
    rows: list[Row], serving: Any, tmp_path: Path
) -> None:
    model = StallingModel(rows, recites)
    with serving(model.app) as url:
        config = config_for(url, prices=Prices(input=2.0, output=10.0))
        manifest = generate(config, tmp_path / "set", _silent)
    asked = manifest["endpoint"]
    assert asked["steps"] == dict.fromkeys(asked["steps"], 8)
    assert asked["answers"] == len(model.asked) == 8 * 5
    assert (asked["input_tokens"], asked["output_tokens"]) == (40_000, 400)
    assert asked["cost"] == pytest.approx(0.084)
    made = load_rows(tmp_path / "set", behaviour="dispatch")
    oracles = {row.id: row for row in rows}
    settings = GatewaySettings(max_hits=BASE.max_hits)
    catalog = CATALOG.without(["scheduled_jobs"])
    assert len(made) == 8
    for row in made:
        assert row.source == "corrected"
        assert row.meta["stall"] == "param_dump"
        assert row.meta["said"].startswith("Please provide the following details")
        said = "\n".join(m.content for m in row.messages if m.role == "assistant")
        assert "Sure!" not in said
        assert "Please provide" not in said
        pair = [
            asyncio.run(replay(one.scenario, one.messages, catalog, settings))
            for one in (oracles[row.id], row)
        ]
        assert effect_difference(*pair) is None
    assert validate(tmp_path / "set", _silent).faults == ()


@pytest.mark.parametrize(
    ("answer", "reason", "step"),
    [
        (takes_from_the_nudge, "endpoint: a value came from the nudge", "dispatched"),
        (invents, "endpoint: a value was said nowhere before the nudge", "dispatched"),
        (
            searches_with_marks,
            "endpoint: a text of its calls holds marks or hidden characters",
            "dispatched",
        ),
        (acts_at_once, "endpoint: it did not stall", "asked"),
        (never_acts, "endpoint: it did not dispatch after the nudge", "stalled"),
    ],
)
def test_what_cannot_be_a_row_is_dropped_by_reason(
    rows: list[Row], serving: Any, tmp_path: Path, answer: Answer, reason: str, step: str
) -> None:
    with serving(StallingModel(rows, answer).app) as url:
        manifest = generate(config_for(url), tmp_path / "set", _silent)
    assert manifest["dropped"] == {reason: 8}
    steps = manifest["endpoint"]["steps"]
    names = list(steps)
    reached = names[: names.index(step) + 1]
    assert steps == {name: 8 if name in reached else 0 for name in names}
    assert load_rows(tmp_path / "set") == rows  # as if nobody had been asked


def test_a_recorded_run_is_made_again_to_the_byte_with_the_endpoint_gone(
    rows: list[Row], serving: Any, tmp_path: Path
) -> None:
    out = tmp_path / "set"
    model = StallingModel(rows, recites)
    with serving(model.app) as url:
        config = config_for(url, concurrency=5)
        generate(config, out, _silent)
    first = {file.name: file.read_bytes() for file in out.iterdir()}
    shutil.rmtree(out)
    generate(config, out, _silent)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == first
    shutil.rmtree(out)
    spoiled = next((tmp_path / "set.answers").rglob("*.json"))
    spoiled.write_bytes(spoiled.read_bytes()[:-9])
    with pytest.raises(ModelError, match="cannot be reached"):
        generate(config_for(url, concurrency=5, tries=1), out, _silent)
    assert not out.exists()


def test_a_killed_run_goes_on_without_asking_again(
    rows: list[Row], serving: Any, tmp_path: Path
) -> None:
    out = tmp_path / "set"
    model = StallingModel(rows, recites)
    model.hang_after = 7
    with serving(model.app) as url:
        config = config_for(url, concurrency=1, tries=1)
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(config_dict(config)))
        command = [sys.executable, "-m", "breadcrumbs", "generate", "--config", str(path)]
        killed = subprocess.Popen([*command, "--out", str(out)], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while len(model.asked) < 8 and time.monotonic() < deadline:
            time.sleep(0.02)
        killed.kill()
        killed.wait()
        assert len(model.asked) == 8
        assert not out.exists()
        half = next((tmp_path / "set.answers").rglob("*.json"))
        half.with_name(f"{'0' * 64}.json.new").write_bytes(half.read_bytes()[:50])
        model.hang_after = None
        manifest = generate(config, out, _silent)
    asked = Counter(model.asked)
    assert [count for count in asked.values() if count > 1] == [2]  # the one without an answer
    assert asked[model.asked[7]] == 2
    assert manifest["endpoint"]["answers"] == len(asked) == 40
    assert manifest["endpoint"]["steps"]["kept"] == 8


def test_a_wrong_key_is_one_line_and_what_was_finished_is_kept(
    rows: list[Row],
    serving: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    model = StallingModel(rows, tells_the_key)
    model.refuse_after = 6
    out = tmp_path / "set"
    with serving(model.app) as url:
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(config_dict(config_for(url, concurrency=1))))
        arguments = ["generate", "--config", str(path), "--out", str(out)]
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        captured = capsys.readouterr()
        last = captured.err.splitlines()[-1]
        assert last.startswith("breadcrumbs: http://127.0.0.1")
        assert f"answered 401: bad key [key]; check the key in {KEY_VARIABLE}" in last
        assert not out.exists()
        assert len(list((tmp_path / "set.answers").rglob("*.json"))) == 6
        model.refuse_after = None
        main(arguments)
        captured_again = capsys.readouterr()
    assert max(Counter(model.asked).values()) == 1
    assert model.keys == {f"Bearer {KEY}"}
    texts = [captured.out, captured.err, captured_again.out, captured_again.err]
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 40
    assert not [text for text in texts if KEY in text]
    assert not [file for file in files if KEY.encode() in file.read_bytes()]
    assert any(b"[key]" in file.read_bytes() for file in files)  # it was sent back, and cut out
    assert (
        "yard, stalls: asked 8, stalled 8, dispatched 8" in captured_again.err + captured_again.out
    )


def test_requests_in_other_words_are_run_and_checked_again(
    rows: list[Row], serving: Any, tmp_path: Path
) -> None:
    out = tmp_path / "set"
    model = StallingModel(rows, recites)
    config = dataclasses.replace(BASE, corrected_share=0.0, reworded_share=1.0)
    with serving(model.app) as url:
        config = dataclasses.replace(config, endpoint=config_for(url).endpoint)
        manifest = generate(config, out, _silent)
    steps = manifest["endpoint"]["reworded"]
    assert steps == dict.fromkeys(steps, 8)
    assert manifest["endpoint"]["answers"] == 8
    made = load_rows(out)
    assert len(made) == len(rows)
    for row, before in zip(made, rows, strict=True):
        assert row.scenario.request == f"When you find a moment: {before.scenario.request}"
        assert row.meta["reworded_from"] == before.scenario.request
        assert row.messages[1].content == row.scenario.request
        assert (row.source, row.behaviour) == ("oracle", before.behaviour)
    assert validate(out, _silent).faults == ()
    first = {file.name: file.read_bytes() for file in out.iterdir()}
    shutil.rmtree(out)
    generate(config, out, _silent)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == first


def test_other_words_that_say_what_is_missing_are_dropped(
    rows: list[Row], serving: Any, tmp_path: Path
) -> None:
    model = StallingModel(rows, recites)
    model.words = tells_what_is_missing
    with serving(model.app) as url:
        config = dataclasses.replace(config_for(url), corrected_share=0.0, reworded_share=0.5)
        manifest = generate(config, tmp_path / "set", _silent)
    assert manifest["endpoint"]["reworded"] == {
        "asked": 4, "read": 4, "faithful": 0, "verified": 0, "kept": 0
    }  # fmt: skip
    reasons = {"reworded: another argument is said", "reworded: a number was added"}
    assert manifest["dropped"].keys() <= reasons
    assert sum(manifest["dropped"].values()) == 4
    assert load_rows(tmp_path / "set") == rows


def test_other_words_need_an_endpoint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reworded_share: needs an endpoint"):
        generate(dataclasses.replace(BASE, reworded_share=0.5), tmp_path / "set", _silent)


def tells_the_key(messages: list[Message], right: Turn) -> Turn:
    turn = recites(messages, right)
    return turn if turn.calls else Turn(f"{turn.text} My key is {KEY}.")


def test_nothing_is_asked_where_the_address_holds_a_password(tmp_path: Path) -> None:
    config = dataclasses.replace(
        BASE, endpoint=EndpointConfig(base_url="https://me:hunter2hunter2@host/v1", model="yard")
    )
    with pytest.raises(ConfigError, match="endpoint.base_url: must be") as told:
        generate(config, tmp_path / "set", _silent)
    assert "hunter2" not in str(told.value)


def test_sets_made_without_an_endpoint_say_nothing_of_one(plain: Path) -> None:
    manifest = read_manifest(plain)
    assert "endpoint" not in manifest
    assert "endpoint" not in manifest["config"]
    assert "No model wrote or judged a row." in (plain / "README.md").read_text()


def test_the_shipped_config_asks_for_both() -> None:
    config = load("configs/generate/endpoint.yaml", GenerateConfig)
    assert config.endpoint is not None
    check_endpoint(config.endpoint)
    assert 0 < config.corrected_share < 1
    assert 0 < config.reworded_share < 1


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("book a room", None),
        ("über-Größe, 25 %", None),
        ("book\u200b a room", "marks or hidden"),
        ("book </think> a room", "marks or hidden"),
        ("a room " * 40, "too long"),
    ],
)
def test_free_texts_of_calls_are_looked_at(rows: list[Row], query: str, fault: str | None) -> None:
    call = ToolCall("c", "search_tool_catalog", {"query": query})
    scenario = dataclasses.replace(rows[0].scenario, composed={})
    found = text_fault(scenario, [Message("assistant", "", (call,))])
    assert found is None if fault is None else fault in str(found)
