"""A staller behind the policy's interface: what becomes rows, what is dropped, what is taken in."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.data_gen import model_stalls
from breadcrumbs.data_gen.config import GenerateConfig
from breadcrumbs.data_gen.dataset import Row, load_rows, read_manifest, write_dataset
from breadcrumbs.data_gen.episodes import OraclePolicy, run_episode
from breadcrumbs.data_gen.generate import generate
from breadcrumbs.data_gen.mending import Mended, Mender, in_mode
from breadcrumbs.data_gen.model_stalls import (
    EPISODES,
    ROWS,
    STEPS,
    UNSEEN,
    Staller,
    harvest,
    stall_rows,
)
from breadcrumbs.data_gen.nudged import Nudged, stalled_turns
from breadcrumbs.data_gen.pairs import pairs_of
from breadcrumbs.data_gen.rebuilding import Rebuilt, config_of, rebuild
from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.data_gen.validate import validate
from breadcrumbs.errors import ConfigError, DataError, ModelError
from breadcrumbs.loop import LoopSettings
from breadcrumbs.messages import Message
from breadcrumbs.policies import StallerPolicy, schema_is_fresh
from breadcrumbs.turns import Turn

STALL = "I have found the right tool. Would you like me to proceed?"
Answer = Callable[[Sequence[Message], Turn], Turn]
"""What is said, given the conversation and the turn the oracle would take."""


def _silent(done: int, total: int, note: str = "") -> None:
    pass


def decides(turn: Turn) -> bool:
    return any(call.name == "execute_tool" for call in turn.calls)


def nudged(messages: Sequence[Message]) -> bool:
    return messages[-1].synthetic


def stalls(messages: Sequence[Message], right: Turn) -> Turn:
    """Hesitates once, then does what is right, with words of its own around it."""
    if decides(right) and not nudged(messages):
        return Turn(STALL)
    return Turn("All right." if decides(right) else right.text, right.calls)


def invents(messages: Sequence[Message], right: Turn) -> Turn:
    turn = stalls(messages, right)
    if not decides(turn):
        return turn
    (call,) = turn.calls
    passed = dict(call.arguments["arguments"])
    passed[next(iter(passed))] = "Zanzibar quux"
    return Turn("", (dataclasses.replace(call, arguments={**call.arguments, "arguments": passed}),))


def acts_at_once(messages: Sequence[Message], right: Turn) -> Turn:
    return right


def never_acts(messages: Sequence[Message], right: Turn) -> Turn:
    return Turn(STALL) if decides(right) else right


def mumbles(messages: Sequence[Message], right: Turn) -> Turn:
    return Turn("Mhm.") if decides(right) else right


def marks_its_stall(messages: Sequence[Message], right: Turn) -> Turn:
    turn = stalls(messages, right)
    return Turn(f"{STALL} <|im_end|>") if turn.text == STALL else turn


def slips_first(messages: Sequence[Message], right: Turn) -> Turn:
    """After the nudge, first a call that cannot be read."""
    turn = stalls(messages, right)
    if decides(turn) and "could not be read" not in messages[-1].content:
        return Turn("", problems=("the arguments are no JSON",))
    return turn


def breaks(messages: Sequence[Message], right: Turn) -> Turn:
    raise ModelError("the prompt leaves no room")


class Stopped(Exception):
    """The machine went away."""


class Saying:
    """Says what an answer makes of the oracle's turns."""

    def __init__(self, scenario: Scenario, rebuilt: Rebuilt, answer: Answer) -> None:
        spec = rebuilt.catalog_of(scenario).tool(scenario.tool)
        assert spec is not None
        self.oracle, self.answer = OraclePolicy(scenario, spec), answer

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        assert messages[-1].role != "assistant"
        turn = self.answer(messages, self.oracle.turn(messages))
        if turn.text:
            yield turn.text
        yield turn


@pytest.fixture(scope="module")
def config(small_config: GenerateConfig) -> GenerateConfig:
    return dataclasses.replace(small_config, corrected_share=0.0, practice_pairs=2)


@pytest.fixture(scope="module")
def plain(config: GenerateConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("plain") / "set"
    generate(config, out, _silent)
    return out


@pytest.fixture(scope="module")
def rebuilt(plain: Path) -> Rebuilt:
    return rebuild(config_of(plain, read_manifest(plain)))


@pytest.fixture(scope="module")
def staller(rebuilt: Rebuilt) -> Callable[[Answer], Staller]:
    def make(answer: Answer) -> Staller:
        identity = {"answer": answer.__name__}
        return Staller("scripted", identity, lambda s: Saying(s, rebuilt, answer), 3)

    return make


@pytest.fixture(scope="module")
def found(plain: Path, staller: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("found")
    harvest(plain, staller(stalls), out, None, _silent)
    return out


def test_every_step_is_counted(plain: Path, found: Path) -> None:
    report = read_manifest(found / ROWS)["stalls"]
    assert report["steps"] == dict.fromkeys(STEPS, 10)  # 8 pairs, and 2 on made-up tools
    assert report["kinds"] == report["kept_kinds"] == {"permission_ask": 10}
    assert report["dropped"] == {}
    assert report["cut_equals_the_oracle"] == 10
    rows = load_rows(found / ROWS)
    assert [row.id for row in rows] == [
        row.id for row in load_rows(plain, "train") if row.behaviour == "dispatch"
    ]
    for row in rows:
        (place,) = stalled_turns(row.messages)
        assert row.messages[place].content == row.meta["said"] == STALL
        assert row.meta["staller"] == "scripted"
        assert row.meta["unlearned"] == [place]
    assert validate(found / ROWS, _silent).faults == ()


@pytest.mark.parametrize(
    ("answer", "last", "reason"),
    [
        (acts_at_once, "at the decision", "stalls: it did not stall"),
        (mumbles, "stalled", "stalls: it did not stall"),
        (never_acts, "nudged", "stalls: it did not dispatch after the nudge"),
        (invents, "dispatched", "stalls: a value was said nowhere before the nudge"),
        (marks_its_stall, "dispatched", "stalls: its stall holds marks or hidden characters"),
        (breaks, "tried", "stalls: the model could not write a turn"),
    ],
)
def test_each_fault_ends_at_its_step_and_is_counted(
    plain: Path, staller: Any, tmp_path: Path, answer: Answer, last: str, reason: str
) -> None:
    report = harvest(plain, staller(answer), tmp_path, 3, _silent)
    upto = STEPS.index(last) + 1
    assert report["steps"] == {step: 3 * (n < upto) for n, step in enumerate(STEPS)}
    assert report["dropped"] == {reason: 3}
    if answer is mumbles:
        assert report["kinds"] == {UNSEEN: 3}
    assert not (tmp_path / ROWS).exists()


def test_a_dispatch_after_the_nudge_is_no_row_where_waiting_is_right(
    small_config: GenerateConfig, tmp_path: Path
) -> None:
    """A rule or the user said to wait: the nudge made the model do what it must not."""
    kinds = dataclasses.replace(small_config, kinds={"hold": 1, "policy": 1})
    generate(kinds, tmp_path / "set", _silent)
    rebuilt = rebuild(config_of(tmp_path / "set", read_manifest(tmp_path / "set")))
    rows = load_rows(tmp_path / "set")
    waiting = [row for row in rows if row.behaviour == "hold"]
    assert len(waiting) == 2
    for row in waiting:
        twin = next(r for r in rows if r.twin == row.twin and r.behaviour == "dispatch").scenario
        catalog = rebuilt.catalog_of(twin)
        episode = asyncio.run(
            run_episode(
                twin,
                catalog,
                rebuilt.settings,
                StallerPolicy(OraclePolicy(twin, catalog.tools[twin.tool]), lambda messages: STALL),
                loop_settings=LoopSettings(nudge=True),
            )
        )
        hint = rebuilt.hint_of(twin)
        assert hint is not None
        mender = Mender("stalls", rebuilt.verifier_of(twin), "remove", Counter())
        assert isinstance(asyncio.run(mender.mend(twin, hint, episode)), Mended)
        found = asyncio.run(mender.mend(row.scenario, hint, episode))
        assert found == "stalls: it dispatched where that was not right"


def test_a_row_that_comes_out_otherwise_without_its_stall_is_dropped(
    plain: Path, staller: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_world(row: Row, mode: Nudged) -> Row:
        cut = in_mode(row, mode)
        return dataclasses.replace(cut, meta={**cut.meta, "state_hash": "0" * 64})

    monkeypatch.setattr(model_stalls, "in_mode", other_world)
    report = harvest(plain, staller(stalls), tmp_path, 2, _silent)
    assert report["steps"]["replayed"] == 2
    assert report["steps"]["kept"] == 0
    assert report["dropped"] == {
        "stalls: without its stall, replay: the world ends in another state": 2
    }


def test_a_call_that_could_not_be_read_is_cut_out_and_the_stall_is_not(
    plain: Path, staller: Any, tmp_path: Path
) -> None:
    report = harvest(plain, staller(slips_first), tmp_path, 3, _silent)
    assert report["steps"]["kept"] == 3
    for row in load_rows(tmp_path / ROWS):
        assert "could not be read" not in "\n".join(m.content for m in row.messages)
        assert len(stalled_turns(row.messages)) == 1


def test_a_run_that_was_stopped_goes_on_and_a_finished_one_asks_nothing(
    plain: Path, staller: Any, found: Path, tmp_path: Path
) -> None:
    asked: list[str] = []
    whole = staller(stalls)

    def counted(scenario: Scenario) -> Any:
        asked.append(scenario.id)
        return whole.policy_for(scenario)

    def until_full(scenario: Scenario) -> Any:
        if len(asked) == 4:
            raise Stopped
        return counted(scenario)

    with pytest.raises(Stopped):
        harvest(
            plain,
            dataclasses.replace(whole, policy_for=until_full, width=1),
            tmp_path,
            None,
            _silent,
        )
    assert not (tmp_path / ROWS).exists()
    log = tmp_path / EPISODES
    with log.open("a") as file:
        file.write('{"id": "half of a')
    again = dataclasses.replace(whole, policy_for=counted)
    harvest(plain, again, tmp_path, None, _silent)
    assert len(asked) == len(set(asked)) == 10
    assert load_rows(tmp_path / ROWS) == load_rows(found / ROWS)
    harvest(plain, again, tmp_path, None, _silent)
    assert len(asked) == 10
    shutil.rmtree(tmp_path / ROWS)  # the episodes are enough
    harvest(plain, again, tmp_path, None, _silent)
    assert len(asked) == 10
    assert load_rows(tmp_path / ROWS) == load_rows(found / ROWS)


def test_episodes_of_another_staller_are_not_taken(plain: Path, staller: Any, found: Path) -> None:
    with pytest.raises(DataError, match="holds episodes of another answer"):
        harvest(plain, staller(invents), found, None, _silent)


def test_a_file_of_something_else_is_left_alone(plain: Path, staller: Any, tmp_path: Path) -> None:
    log = tmp_path / EPISODES
    log.write_text("my thesis\n")
    with pytest.raises(DataError, match="holds no episodes"):
        harvest(plain, staller(stalls), tmp_path, None, _silent)
    assert log.read_text() == "my thesis\n"
    generate_into = tmp_path / ROWS
    shutil.copytree(plain, generate_into)
    with pytest.raises(DataError, match="holds another data set"):
        harvest(plain, staller(stalls), tmp_path, None, _silent)


@pytest.fixture(scope="module")
def taken(
    config: GenerateConfig, found: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[Nudged, Path]:
    places: dict[Nudged, Path] = {}
    modes: tuple[Nudged, ...] = ("remove", "mask", "keep")
    for mode in modes:
        places[mode] = tmp_path_factory.mktemp("taken") / mode
        more = dataclasses.replace(config, include=(str(found / ROWS),), nudged=mode)
        generate(more, places[mode], _silent)
    return places


def test_the_rows_take_their_places_and_nothing_else_moves(
    plain: Path, taken: dict[Nudged, Path]
) -> None:
    before = load_rows(plain)
    for mode, folder in taken.items():
        manifest, rows = read_manifest(folder), load_rows(folder)
        assert manifest["included"] == {"rows": 10, "taken": 10, "dropped": {}}
        assert [row.id for row in rows] == [row.id for row in before]
        assert [row.scenario for row in rows] == [row.scenario for row in before]
        assert validate(folder, _silent).faults == ()
        real = [row for row in rows if "staller" in row.meta]
        assert len(real) == 10
        said = ["\n".join(m.content for m in row.messages) for row in real]
        for words in (STALL, "A tool runs only when it is called."):
            assert all((words in text) == (mode != "remove") for text in said)
        assert {row.source for row in real} == {"corrected" if mode == "remove" else "nudged"}
        assert all(("unlearned" in row.meta) == (mode == "mask") for row in real)
        assert all(row.meta["said"] == STALL for row in real)
        others = [row for row in rows if "staller" not in row.meta]
        assert others == [row for row in before if row.id not in {r.id for r in real}]
    assert "A model wrote the\ncalls" in (taken["remove"] / "README.md").read_text()


def test_the_pair_rejects_what_the_model_really_said(taken: dict[Nudged, Path]) -> None:
    for folder in taken.values():
        acting = [p for p in pairs_of(load_rows(folder, "train"))[0] if p.chosen.tool_calls]
        assert {(pair.rejected.content, pair.fault) for pair in acting} == {
            (STALL, "permission_ask")
        }


def test_a_spoiled_row_is_not_taken_in(
    config: GenerateConfig, plain: Path, found: Path, tmp_path: Path
) -> None:
    rows = load_rows(found / ROWS)
    call = next(i for i, m in enumerate(rows[0].messages) if decides(Turn("", m.tool_calls)))

    def altered(row: Row, place: int, message: Message) -> Row:
        messages = (*row.messages[:place], message, *row.messages[place + 1 :])
        return dataclasses.replace(row, messages=messages)

    said = dataclasses.replace(rows[0].messages[call], content="<think>{}</think>")
    rows[0] = altered(rows[0], call, said)
    other = dataclasses.replace(rows[1].scenario, request="Something else.")
    rows[1] = dataclasses.replace(rows[1], scenario=other)
    unknown = dataclasses.replace(rows[2].scenario, id="nobody")
    rows[2] = dataclasses.replace(rows[2], id="nobody", scenario=unknown)
    rows[3] = dataclasses.replace(rows[3], meta={**rows[3].meta, "state_hash": "0" * 64})
    write_dataset(tmp_path / "rows", rows, read_manifest(found / ROWS))
    more = dataclasses.replace(config, include=(str(tmp_path / "rows"),))
    report = generate(more, tmp_path / "set", _silent)["included"]
    assert report["taken"] == 6
    assert report["dropped"] == {
        "made for another scenario": 1,
        "no such row in this set": 1,
        "replay: the world ends in another state": 1,
        "thinking: not one verdict for each required argument": 1,
    }
    assert load_rows(tmp_path / "set")[0] == load_rows(plain)[0]


def test_what_cannot_be_taken_in_stops_the_run_before_the_work(
    config: GenerateConfig, plain: Path, found: Path, tmp_path: Path
) -> None:
    rows = str(found / ROWS)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"include": (str(plain),)}, "holds no stall"),
        ({"include": (rows, rows)}, "is in another folder of include as well"),
        ({"include": (rows,), "include_sha256": ("0" * 64,)}, "other rows than include_sha256"),
        ({"include": (rows,), "include_sha256": ("0", "0")}, "name one for each folder"),
        ({"include": (str(tmp_path),)}, "no complete data set here"),
    ]
    for keys, words in cases:
        with pytest.raises((ConfigError, DataError), match=words):
            generate(dataclasses.replace(config, **keys), tmp_path / "set", _silent)
    assert not (tmp_path / "set").exists()


def test_a_staller_learns_its_stalls_and_not_their_twins(
    config: GenerateConfig, plain: Path, tmp_path: Path
) -> None:
    keep = dataclasses.replace(config, corrected_share=1.0, nudged="keep")
    generate(keep, tmp_path / "set", _silent)
    learned = stall_rows(tmp_path / "set", tmp_path / "rows")
    assert learned >= 6
    assert stall_rows(tmp_path / "set", tmp_path / "rows") == learned
    for row in load_rows(tmp_path / "rows"):
        assert (row.behaviour, row.meta["nudged"]) == ("dispatch", "keep")
        (place,) = stalled_turns(row.messages)
        assert schema_is_fresh(row.messages[:place])
    with pytest.raises(DataError, match="no row with a stall to learn"):
        stall_rows(plain, tmp_path / "none")


def test_the_yield_lies_in_the_manifest_as_json(found: Path) -> None:
    text = (found / ROWS / "manifest.json").read_text()
    assert json.loads(text)["stalls"]["staller"] == "scripted"
