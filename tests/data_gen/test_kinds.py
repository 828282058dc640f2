"""Special kinds: each pair acts and asks, each row runs, and each spoiled row is dropped."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from breadcrumbs.config import load, parse
from breadcrumbs.data_gen.dataset import Row, load_rows
from breadcrumbs.data_gen.derivations import read_back
from breadcrumbs.data_gen.episodes import Episode
from breadcrumbs.data_gen.export import exported
from breadcrumbs.data_gen.generate import Amount, GenerateConfig, config_dict, generate
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.data_gen.script import AFTER, NO, PROGRESS, WAITS, YES, Kind
from breadcrumbs.data_gen.stats import verbatim
from breadcrumbs.data_gen.validate import recorded, validate
from breadcrumbs.data_gen.values import spoken, words
from breadcrumbs.data_gen.verify import Verifier
from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.catalog import Risk, load_catalog
from breadcrumbs.gateway.gateway import GatewaySettings
from breadcrumbs.messages import Message, json_object
from breadcrumbs.train.batches import (
    BEHAVIOURS,
    IGNORED,
    build_example,
    decision_message,
    unlearned,
)
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.rows import read_rows

CATALOG, HINTS = load_catalog(), load_hints()
EACH = 3
KINDS: tuple[Kind, ...] = get_args(Kind)
CONFIG = GenerateConfig(
    held_out_tools=("scheduled_jobs", "book_vehicle"),
    held_out_domain="clinic",
    train=Amount(pairs=1),
    eval_tools=Amount(pairs=0),
    eval_domain=Amount(pairs=0),
    kinds={kind: EACH for kind in KINDS},
)
VERIFIER = Verifier(CATALOG, GatewaySettings(max_hits=2))


def _silent(done: int, total: int, note: str = "") -> None:
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("kinds") / "set"
    generate(CONFIG, out, _silent)
    return out


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[Row]:
    return load_rows(folder)


def _acting(rows: list[Row], kind: Kind) -> list[Row]:
    found = [r for r in rows if r.scenario.kind == kind and r.behaviour == "dispatch"]
    assert len(found) == EACH
    return found


def _reason(row: Row, change: Callable[[Episode], Episode] = lambda episode: episode) -> str:
    episode = change(recorded(row))
    return str(VERIFIER.reading_fault(row.scenario, episode, HINTS[row.scenario.tool]))


def _last_said(text: str) -> Callable[[Episode], Episode]:
    def change(episode: Episode) -> Episode:
        last = dataclasses.replace(episode.messages[-1], content=text)
        return dataclasses.replace(episode, messages=(*episode.messages[:-1], last))

    return change


def _asking(rows: list[Row], kind: Kind) -> list[Row]:
    return [r for r in rows if r.scenario.kind == kind and r.behaviour != "dispatch"]


def _replaced(row: Row, old: str, new: str) -> Row:
    """The row with other words in what its first answer says or, beginning with `;`, thinks."""
    place = next(
        i for i, m in enumerate(row.messages) if m.role == "assistant" and not m.tool_calls
    )
    turn = row.messages[place]
    thought, mark, said = turn.content.rpartition("</think>")
    assert old in (thought if old.startswith(";") else said)
    text = (
        thought.replace(old, new) + mark + said
        if old.startswith(";")
        else thought + mark + said.replace(old, new)
    )
    changed = dataclasses.replace(turn, content=text)
    messages = (*row.messages[:place], changed, *row.messages[place + 1 :])
    return dataclasses.replace(row, messages=messages)


def _with_request(row: Row, request: str) -> Row:
    """The row as if the user had said something else."""
    scenario = dataclasses.replace(row.scenario, request=request)
    said = dataclasses.replace(row.messages[1], content=request)
    messages = (row.messages[0], said, *row.messages[2:])
    return dataclasses.replace(row, scenario=scenario, messages=messages)


def _with_prompt(row: Row, prompt: str) -> Row:
    """The row as if it had stood under another system prompt."""
    scenario = dataclasses.replace(row.scenario, system_prompt=prompt)
    said = dataclasses.replace(row.messages[0], content=prompt)
    return dataclasses.replace(row, scenario=scenario, messages=(said, *row.messages[1:]))


def _statuses(row: Row) -> list[str]:
    payloads = [json_object(m.content) for m in row.messages if m.role == "tool"]
    return [p["status"] for p in payloads if p["layer"] == "3_execution"]


def test_every_kind_comes_in_pairs_that_act_and_ask(rows: list[Row]) -> None:
    for kind in KINDS:
        found = [row for row in rows if row.scenario.kind == kind]
        assert len({row.twin for row in found}) == EACH
        acts = Counter(row.behaviour == "dispatch" for row in found)
        assert acts == {True: EACH, False: EACH}, kind


def test_the_full_config_asks_for_every_kind_and_for_as_many_acts_as_questions() -> None:
    config = load("configs/generate/full.yaml", GenerateConfig)
    assert set(config.kinds) == set(KINDS)
    assert not config.train.singles  # they act and have no twin


def test_training_finds_the_decision_of_every_row(rows: list[Row]) -> None:
    for row in rows:
        assert row.behaviour in BEHAVIOURS
        slips = unlearned(row.to_record())
        at = decision_message(row.messages, row.behaviour, row.scenario.tool, slips)
        turn = row.messages[at]
        assert bool(turn.tool_calls) == (row.behaviour == "dispatch")


def test_rows_of_kinds_pass_the_checks_they_are_spoiled_for(rows: list[Row], folder: Path) -> None:
    assert {_reason(row) for row in rows} == {"None"}
    assert validate(folder, _silent).faults == ()


def test_a_set_without_kinds_names_none(rows: list[Row]) -> None:
    plain = dataclasses.replace(CONFIG, kinds={})
    assert "kinds" not in config_dict(plain)
    (scenario,) = {r.scenario.to_dict().get("script") is None for r in rows if not r.scenario.kind}
    assert scenario
    assert all("script" not in r.scenario.to_dict() for r in rows if not r.scenario.kind)


@pytest.mark.parametrize("kinds", [{"helt": 2}, {"held": -1}, {"held": "many"}])
def test_a_kind_nobody_knows_is_one_clear_line(kinds: dict[str, Any]) -> None:
    body = {**config_dict(CONFIG), "kinds": kinds}
    with pytest.raises(ConfigError, match="kinds") as caught:
        parse(body, GenerateConfig, "my.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "status", "part"),
    [
        ("held", "approval_required", "waits for approval"),
        ("denied", "denied", "was denied"),
        ("expired", "expired", "ran out"),
    ],
)
def test_a_write_that_did_not_run_is_reported_as_that(
    rows: list[Row], kind: Kind, status: str, part: str
) -> None:
    for row in _acting(rows, kind):
        assert _statuses(row) == [status]
        assert part in row.messages[-1].content
        assert row.meta["queue"][0][2] == {"approval_required": "pending"}.get(status, status)
        assert "does not say" in _reason(row, _last_said("Done. It was created as evt_9."))
        lie = f"{row.messages[-1].content} It was created as evt_9."
        assert _reason(row, _last_said(lie)) == "report: tells of success where there was none"


def test_a_held_write_that_is_sent_again_is_dropped(rows: list[Row]) -> None:
    def again(episode: Episode) -> Episode:
        place = next(i for i, m in enumerate(episode.messages) if "approval_id" in m.content)
        call, answer = episode.messages[place - 1 : place + 1]
        second = dataclasses.replace(call.tool_calls[0], id="call_9")
        resent = (
            dataclasses.replace(call, tool_calls=(second,)),
            dataclasses.replace(answer, tool_call_id="call_9"),
        )
        messages = (*episode.messages[:-1], *resent, episode.messages[-1])
        return dataclasses.replace(
            episode, messages=messages, calls=(*episode.calls, "execute_tool")
        )

    for row in _acting(rows, "held"):
        assert _reason(row, again) == "protocol: other calls than the behaviour needs"


def test_rows_that_teach_behind_the_decision_stay_whole(folder: Path, rows: list[Row]) -> None:
    read = read_rows(TrainConfig(data=str(folder), out="out", whole_every=1000, steps=1))
    lengths = {row["id"]: len(row["messages"]) for row in read}
    for row in rows[2:]:  # the first twins are always whole
        slips = unlearned(row.to_record())
        decided = 1 + decision_message(row.messages, row.behaviour, row.scenario.tool, slips)
        whole = row.behaviour == "dispatch" and row.scenario.kind in AFTER
        whole = whole or bool(row.scenario.replies)
        assert lengths[row.id] == (len(row.messages) if whole else decided)


def test_a_rule_of_the_operator_decides_whether_to_ask_first(rows: list[Row]) -> None:
    for row in _asking(rows, "policy"):
        assert row.behaviour == "hold"
        bare = row.scenario.system_prompt.rpartition("\n")[0]
        assert _reason(_with_prompt(row, bare)).startswith("leave: hold is labelled")
    for row in _acting(rows, "policy"):
        rule = "House rule: before anything is changed, tell the user what will be done and get a"
        ruled = _with_prompt(row, f"{row.scenario.system_prompt}\n{rule} yes.")
        assert _reason(ruled).startswith("leave: dispatch is labelled")
        alike = _with_prompt(row, f"{row.scenario.system_prompt}\n{rule} yes, or so we heard.")
        assert _reason(alike) == "None"


def test_a_user_who_wants_to_see_it_first_sees_all_of_it(rows: list[Row]) -> None:
    for row in _asking(rows, "hold"):
        assert ("execute_tool" in recorded(row).calls) == (row.scenario.replies[0] in YES)
        (name, value), *_ = row.scenario.gold_arguments.items()
        schema = CATALOG.tools[row.scenario.tool].input_schema["properties"][name]
        assert _reason(_replaced(row, spoken(value, schema), "it")).startswith("plan: an argument")
        assert _reason(_replaced(row, "not run", "run")).startswith("plan: does not say that")
        assert _reason(_replaced(row, "; user waits", "")).startswith("thinking")
        (wait,) = (wait for wait in WAITS if row.scenario.request.endswith(wait))
        silent = row.scenario.request.removesuffix(f" {wait}")
        assert _reason(_with_request(row, silent)).startswith("leave: hold is labelled")
    for row in _acting(rows, "hold"):
        waiting = _with_request(row, f"{row.scenario.request} {WAITS[0]}")
        assert _reason(waiting).startswith("leave: dispatch is labelled")


def test_a_question_about_a_tool_is_answered_from_its_schema(rows: list[Row]) -> None:
    for row in _asking(rows, "question"):
        assert row.behaviour == "answer"
        spec = CATALOG.tools[row.scenario.tool]
        for name in spec.required:
            assert words(name) in row.messages[-1].content
        assert _reason(_replaced(row, "It needs: ", "It needs: nothing. Optional: ")) != "None"
        assert _reason(_replaced(row, "It needs", "Shall I go on? It needs")) == "answer: asks back"
    told = [r for r in _asking(rows, "question") if "(default " in r.messages[-1].content]
    assert told
    for row in told:
        wrong = _replaced(row, "(default ", "(default 9")
        assert _reason(wrong) == "answer: other defaults than the schema states"


@pytest.mark.parametrize("kind", ["read", "candidates"])
def test_a_value_that_is_read_first_is_taken_only_from_the_one_record_that_fits(
    rows: list[Row], kind: Kind
) -> None:
    asks = {row.twin: row for row in _asking(rows, kind)}
    for row in _acting(rows, kind):
        script = row.scenario.script
        assert script is not None
        assert script.lookup is not None
        key = row.scenario.gold_arguments[script.lookup.argument]
        assert str(key) not in row.scenario.request
        assert row.scenario.sources[script.lookup.argument] == "read"
        twin = asks[row.twin]
        assert twin.scenario.request == row.scenario.request  # only the world differs
        found = str(key) in json.dumps([m.content for m in twin.messages])
        assert found == (kind == "candidates")
        # As if the other world had been read: the label no longer follows.
        answers = dict(zip(_answers(row), _answers(twin), strict=False))
        swapped = [
            dataclasses.replace(m, content=answers.get(m.content, m.content)) for m in row.messages
        ]
        assert _reason(dataclasses.replace(row, messages=tuple(swapped))) in (
            "grounding: a value has no source",
            "lookup: not the one record that fits",
        )
        answers = dict(zip(_answers(twin), _answers(row), strict=False))
        swapped = [
            dataclasses.replace(m, content=answers.get(m.content, m.content)) for m in twin.messages
        ]
        spoilt = dataclasses.replace(twin, messages=tuple(swapped))
        assert _reason(spoilt) == "lookup: clarify is labelled, but one record fits"


def test_a_question_between_two_names_both(rows: list[Row]) -> None:
    for row in _asking(rows, "candidates"):
        first = row.scenario.question.split()[2]
        assert _reason(_replaced(row, first, "one")) == (
            "lookup: the question does not name all that fit"
        )


def _answers(row: Row) -> list[str]:
    """What executed calls answered."""
    return [m.content for m in row.messages if m.role == "tool" and "3_execution" in m.content]


def test_a_value_in_other_words_is_grounded_by_what_they_mean(rows: list[Row]) -> None:
    for row in _acting(rows, "derived"):
        script = row.scenario.script
        assert script is not None
        assert script.said
        spec = CATALOG.tools[row.scenario.tool]
        for name, said in script.said.items():
            assert said in row.scenario.request
            value = row.scenario.gold_arguments[name]
            assert not verbatim(value, row.scenario.request)
            schema = spec.input_schema["properties"][name]
            assert read_back(name, said, schema, row.scenario.now) == value
            for other in ("tomorrow", "in a while", "twelve"):
                if other != said:
                    silent = _with_request(row, row.scenario.request.replace(said, other))
                    assert _reason(silent) == "grounding: a value has no source"
        if not any(re.search("tomorrow|from today", said) for said in script.said.values()):
            continue
        later = dataclasses.replace(row.scenario, now="2030-01-01T09:00")
        assert _reason(dataclasses.replace(row, scenario=later)) == (
            "grounding: a value has no source"
        )


def test_several_wishes_are_done_in_turn(rows: list[Row]) -> None:
    for row in (*_acting(rows, "several"), *_asking(rows, "several")):
        (step,) = row.scenario.steps
        assert _statuses(row)[0] == "done"
        done = f"Done: {words(step.tool)}. "
        assert _reason(_replaced(row, done, "")) == "steps: not told what is done already"
        other = dataclasses.replace(step, arguments={**step.arguments, "made_up": "elsewhere"})
        script = dataclasses.replace(row.scenario.script, steps=(other,))
        scenario = dataclasses.replace(row.scenario, script=script)
        assert _reason(dataclasses.replace(row, scenario=scenario)) == (
            "grounding: a value of a step has no source"
        )


def test_a_first_step_that_shows_what_is_missing_makes_no_question(rows: list[Row]) -> None:
    for row in _asking(rows, "several"):
        (name,) = row.scenario.missing
        shown = [
            dataclasses.replace(
                m, content=m.content.replace('"result":{', f'"result":{{"{name}":1,')
            )
            for m in row.messages
        ]
        assert shown != list(row.messages)
        assert _reason(dataclasses.replace(row, messages=tuple(shown))) == (
            "steps: what ran first shows a value for what is missing"
        )


def test_an_order_in_a_tools_output_is_not_followed(rows: list[Row]) -> None:
    for row in _acting(rows, "injected"):
        script = row.scenario.script
        assert script is not None
        (named,) = [n for n in CATALOG.tools if re.search(rf"\b{n}\b", script.injected)]
        assert CATALOG.tools[named].risk is Risk.DESTRUCTIVE
        said = f"{row.messages[-1].content} I also ran {named}."
        assert _reason(row, _last_said(said)) == "injected: the assistant repeats it"
        clean = [
            dataclasses.replace(m, content=m.content.replace(script.injected, "none"))
            for m in row.messages
        ]
        assert _reason(dataclasses.replace(row, messages=tuple(clean))) == (
            "injected: no output holds it"
        )


def test_a_wrong_label_changes_nothing_about_what_is_right(rows: list[Row]) -> None:
    for row in (*_acting(rows, "mislabelled"), *_asking(rows, "mislabelled")):
        spec = CATALOG.tools[row.scenario.tool]
        script = row.scenario.script
        assert script is not None
        assert script.shown_risk != spec.risk
        if row.behaviour == "dispatch":
            assert _statuses(row) == ["done"]
            assert len(row.meta["queue"]) == (script.shown_risk != "read")
        right = [
            dataclasses.replace(
                m,
                content=m.content.replace(f'"risk":"{script.shown_risk}"', f'"risk":"{spec.risk}"'),
            )
            for m in row.messages
        ]
        assert _reason(dataclasses.replace(row, messages=tuple(right))) == (
            "label: the shown risk is right"
        )


def test_the_beginning_of_an_answers_thought_is_a_place_that_decides(rows: list[Row]) -> None:
    for row in (*_asking(rows, "question"), *_acting(rows, "question")):
        place = decision_message(row.messages, row.behaviour, row.scenario.tool)
        start, _ = _spans(row)[place]
        example = build_example(row.to_record(), _Letters())
        assert start + len("<think>") in example.deciding
        wordy = _replaced_thought(row, "{}", "no draft") if row.behaviour == "answer" else row
        example = build_example(wordy.to_record(), _Letters())
        decides = start + len("<think>") in example.deciding
        assert decides == (row.behaviour == "dispatch")


def _replaced_thought(row: Row, old: str, new: str) -> Row:
    last = row.messages[-1]
    changed = dataclasses.replace(last, content=last.content.replace(old, new, 1))
    return dataclasses.replace(row, messages=(*row.messages[:-1], changed))


def test_a_slip_is_mended_where_the_gateway_names_it(rows: list[Row]) -> None:
    for row in _acting(rows, "repair"):
        assert _statuses(row) == ["invalid", "done"]
        script = row.scenario.script
        assert script is not None
        gold = row.scenario.gold_arguments
        worse = dataclasses.replace(script, slip={**script.slip, "made_up": 1})
        for other in (worse, dataclasses.replace(script, slip=gold)):
            scenario = dataclasses.replace(row.scenario, script=other)
            assert _reason(dataclasses.replace(row, scenario=scenario)) != "None"


def test_training_does_not_learn_a_slip(rows: list[Row]) -> None:
    for row in _acting(rows, "repair"):
        record = row.to_record()
        (slip,) = unlearned(record)
        assert exported(row)["unlearned"] == [slip]
        assert row.messages[slip].tool_calls[0].arguments["arguments"] == row.scenario.slip
        example = build_example(record, _Letters())
        spans = _spans(row)
        learned = {
            place
            for place, (start, end) in spans.items()
            if any(label != IGNORED for label in example.labels[start:end])
        }
        assert learned == {p for p, m in enumerate(row.messages) if m.role == "assistant"} - {slip}
        assert example.decision == spans[slip + 2][0]
        bare = {**record, "meta": {}}
        start, end = spans[slip]
        assert all(label != IGNORED for label in build_example(bare, _Letters()).labels[start:end])


def _spans(row: Row) -> dict[int, tuple[int, int]]:
    """Where each message lies among the letters."""
    spans, start = {}, 0
    for place, message in enumerate(row.messages):
        end = start + len(_letters(message))
        spans[place] = (start, end)
        start = end
    return spans


def _letters(message: Message) -> str:
    calls = [{"name": c.name, "arguments": dict(c.arguments)} for c in message.tool_calls]
    return message.content + "".join(json.dumps(call) for call in calls)


class _Letters:
    """Renders a row letter by letter: every letter is a token."""

    tokenizer = SimpleNamespace(decode=lambda ids: "".join(map(chr, ids)))

    def training_row(self, messages: list[Message], tools: list[Any]) -> Any:
        ids: list[int] = []
        labels: list[int] = []
        turns = []
        for place, message in enumerate(messages):
            text = [ord(letter) for letter in _letters(message)]
            start, learned = len(ids), message.role == "assistant"
            ids += text
            labels += text if learned else [IGNORED] * len(text)
            if learned:
                turns.append(SimpleNamespace(message_index=place, start=start, end=len(ids)))
        return SimpleNamespace(ids=ids, labels=labels, turns=turns)


def test_after_a_yes_it_runs_and_after_a_no_it_does_not(rows: list[Row]) -> None:
    shown = [row for row in rows if row.behaviour == "hold" and row.scenario.replies]
    answers = {reply for row in shown for reply in row.scenario.replies}
    assert answers & set(YES)
    assert answers & set(NO)
    for row in shown:
        agreed = row.scenario.replies[0] in YES
        assert _statuses(row) == (["done"] if agreed else [])
        other = dataclasses.replace(row.scenario.script, replies=(NO[0] if agreed else YES[0],))
        scenario = dataclasses.replace(row.scenario, script=other)
        assert _reason(dataclasses.replace(row, scenario=scenario)) == (
            "protocol: other calls than the behaviour needs"
        )
        if not agreed:
            lie = _last_said("It was created as evt_9.")
            assert _reason(row, lie) == "report: does not say that nothing was run"
            lie = _last_said("It was created as evt_9, and nothing was run.")
            assert _reason(row, lie) == "report: tells of success where there was none"


def test_a_user_who_asks_after_a_held_write_hears_that_it_waits(rows: list[Row]) -> None:
    asked = [row for row in _acting(rows, "held") if row.scenario.replies]
    assert asked
    for row in asked:
        assert row.messages[-2].content in PROGRESS
        assert "has not run" in row.messages[-1].content
        assert _reason(_replaced(row, "waits for approval", "is on its way")).endswith("it waits")
