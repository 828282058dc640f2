"""Recorded runs become rows by the rules of generated ones; what breaks a rule is no row."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest

from breadcrumbs.cli import main
from breadcrumbs.data_gen import trace_import, trace_judging, trace_reading
from breadcrumbs.data_gen.correction import Correction, correct
from breadcrumbs.data_gen.dataset import load_rows, read_manifest
from breadcrumbs.data_gen.episodes import Episode, OraclePolicy, run_episode
from breadcrumbs.data_gen.hints import load_hints
from breadcrumbs.data_gen.scenarios import (
    Blueprint,
    Recipe,
    Scenario,
    clarify,
    dispatch,
    make_blueprint,
)
from breadcrumbs.data_gen.stalls import StallKind
from breadcrumbs.data_gen.trace_import import import_reading, import_traces
from breadcrumbs.data_gen.trace_judging import only_gives_leave
from breadcrumbs.data_gen.trace_reading import read_runs
from breadcrumbs.errors import DataError
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.gateway.gateway import META_TOOLS, GatewaySettings
from breadcrumbs.gateway.search import ToolIndex
from breadcrumbs.messages import Message, ToolCall, compact_json, messages_from_dicts
from breadcrumbs.openai_wire import calls_out
from breadcrumbs.train.batches import decision_message
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.rows import read_rows

SMALL = Path(__file__).parent / "small"
CATALOG = load_catalog([SMALL / name for name in ("calendar.yaml", "bank.yaml", "travel.yaml")])
HINTS = load_hints(sorted(SMALL.glob("hints_*.yaml")))
SETTINGS = GatewaySettings(max_hits=2)
TOOL = "create_calendar_event"
SPEC, HINT = CATALOG.tools[TOOL], HINTS[TOOL]
KINDS: tuple[StallKind, ...] = get_args(StallKind)
CREDENTIAL = "ghp_" + "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY1zA2"


def silent(done: int, total: int, note: str = "") -> None:
    pass


def _blueprint() -> Blueprint:
    recipe = Recipe(phrasing="plain", optional_share=0.0, max_hits=2)
    made = make_blueprint(
        "t", "train", SPEC, HINT, CATALOG, ToolIndex(CATALOG), recipe, seed=3, drop="start"
    )
    assert isinstance(made, Blueprint)
    return made


BLUEPRINT = _blueprint()
SCENARIO: Scenario = dispatch(BLUEPRINT)


def corrected(kind: StallKind = "permission_ask") -> Correction:
    found = asyncio.run(correct(SCENARIO, SPEC, HINT, CATALOG, SETTINGS, kind))
    assert isinstance(found, Correction), found
    return found


def episode(scenario: Scenario) -> Episode:
    return asyncio.run(run_episode(scenario, CATALOG, SETTINGS, OraclePolicy(scenario, SPEC)))


STALLED = corrected()
NUDGED = list(STALLED.nudged.messages)
NUDGE_AT = next(place for place, message in enumerate(NUDGED) if message.synthetic)


def chat(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    body: dict[str, Any] = {"messages": []}
    for message in messages:
        one: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.tool_calls:
            one["tool_calls"] = calls_out(message.tool_calls)
        if message.tool_call_id is not None:
            one["tool_call_id"] = message.tool_call_id
        body["messages"].append(one)
    return body | ({"tools": [dict(tool) for tool in tools]} if tools else {})


def parts(message: Message) -> dict[str, Any]:
    """A message as the GenAI conventions write it."""
    if message.role == "tool":
        response = json.loads(message.content)
        answer = {"type": "tool_call_response", "id": message.tool_call_id, "response": response}
        return {"role": "tool", "parts": [answer]}
    thought, _, said = message.content.rpartition("</think>")
    found: list[dict[str, Any]] = []
    if thought:
        found.append({"type": "reasoning", "content": thought.removeprefix("<think>")})
    if said.strip():
        found.append({"type": "text", "content": said.lstrip("\n")})
    for call in message.tool_calls:
        found.append(
            {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        )
    return {"role": message.role, "parts": found}


def attributes(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A model call's attributes, messages as JSON text: the answer, and all before it."""
    system, *before, answer = messages
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": system.content}]),
        "gen_ai.input.messages": json.dumps([parts(message) for message in before]),
        "gen_ai.output.messages": json.dumps([parts(answer) | {"finish_reason": "stop"}]),
        "gen_ai.tool.definitions": json.dumps(
            [{"type": "function", **tool["function"]} for tool in tools]
        ),
    }


def model_calls(messages: Sequence[Message]) -> list[Sequence[Message]]:
    return [messages[: n + 1] for n, m in enumerate(messages) if m.role == "assistant"]


def typed(value: Any) -> dict[str, Any]:
    """A plain value as OTLP JSON types it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, list):
        return {"arrayValue": {"values": [typed(item) for item in value]}}
    if isinstance(value, Mapping):
        pairs = [{"key": key, "value": typed(item)} for key, item in value.items()]
        return {"kvlistValue": {"values": pairs}}
    return {"stringValue": str(value)}


def as_chat(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(chat(messages, tools)) + "\n"


def as_spans(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """One span a line, an unrelated one among them, as a console exporter writes."""
    spans = [
        {"name": "chat m", "attributes": attributes(some, tools)} for some in model_calls(messages)
    ]
    return "".join(json.dumps(span) + "\n" for span in spans)


def as_otlp(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """One OTLP document, its values structured instead of JSON text."""
    spans = []
    for some in model_calls(messages):
        plain = attributes(some, tools)
        values = {k: json.loads(v) if v[0] in "[{" else v for k, v in plain.items()}
        pairs = [{"key": key, "value": typed(value)} for key, value in values.items()]
        spans.append({"name": "chat m", "attributes": pairs})
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}, indent=1)


def as_events(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """Log records with the conventions' one event."""
    name = "gen_ai.client.inference.operation.details"
    records = [
        {
            "eventName": name,
            "attributes": [
                {"key": key, "value": typed(value)}
                for key, value in attributes(some, tools).items()
            ],
        }
        for some in model_calls(messages)
    ]
    return json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})


def imported(tmp_path: Path, *runs: Sequence[Message]) -> dict[str, Any]:
    """The summary of some runs, and beside it the rows' messages."""
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(as_chat(run, ()) for run in runs), encoding="utf-8")
    made = import_reading(read_runs(path), silent)
    return made.to_dict() | {"made": made.rows}


def changed(place: int, message: Message) -> list[Message]:
    return [*NUDGED[:place], message, *NUDGED[place + 1 :]]


def said_instead(text: str) -> list[Message]:
    """The stalled run with another user turn behind the stall."""
    return changed(NUDGE_AT, Message("user", text))


def with_arguments(messages: Sequence[Message], **arguments: Any) -> list[Message]:
    """The run, the executed call passing something else too."""
    made = []
    for message in messages:
        calls = tuple(
            dataclasses.replace(
                call,
                arguments={
                    **call.arguments,
                    "arguments": {**call.arguments["arguments"], **arguments},
                },
            )
            if call.name == "execute_tool"
            else call
            for call in message.tool_calls
        )
        made.append(dataclasses.replace(message, tool_calls=calls))
    return made


@pytest.mark.parametrize("written", [as_chat, as_spans, as_otlp, as_events])
def test_a_recorded_stall_becomes_the_row_that_correction_makes(
    tmp_path: Path, written: Any
) -> None:
    path, out = tmp_path / "runs", tmp_path / "set"
    path.write_text(written(NUDGED, STALLED.nudged.tools), encoding="utf-8")
    summary = import_traces(path, out, silent)
    (row,) = load_rows(out, "train")
    assert row.messages == STALLED.episode.messages
    assert [dict(tool) for tool in row.tools] == [dict(t) for t in STALLED.nudged.tools]
    assert row.source == "imported"
    assert row.scenario.gold_arguments == SCENARIO.gold_arguments
    assert row.meta["stalls"] == [STALLED.kind]
    assert row.meta["verified"] == ["format", "protocol", "grounding"]
    assert row.meta["not_verified"] == ["replay"]
    assert (summary["runs"], summary["rows"], summary["corrected"]) == (1, 1, 1)
    assert summary["stalls"] == {STALLED.kind: 1}
    assert summary["parts_of_longer_runs"] == (0 if written is as_chat else 4)
    text = compact_json([message.to_dict() for message in row.messages])
    assert STALLED.stall not in text
    assert STALLED.nudge not in text
    assert "No row was replayed" in (out / "README.md").read_text()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_stall_is_counted_by_its_kind(tmp_path: Path, kind: StallKind) -> None:
    found = corrected(kind)
    summary = imported(tmp_path, found.nudged.messages)
    assert summary["corrected"] == 1
    assert sum(summary["stalls"].values()) == 1
    assert summary["made"][0].messages == found.episode.messages


def test_a_person_who_only_says_go_on_is_a_nudge_too(tmp_path: Path) -> None:
    summary = imported(tmp_path, said_instead("Yes, please go ahead."))
    assert summary["corrected"] == 1
    assert summary["made"][0].messages == STALLED.episode.messages


@pytest.mark.parametrize(
    "answer",
    [
        "Yes, but make it private.",
        "No.",
        "Yes, on the home calendar.",
        "Thanks.",
        "do not",
        STALLED.nudge + " Use the home calendar.",
        "",
    ],
)
def test_an_answer_that_says_more_than_go_on_is_not_kept(tmp_path: Path, answer: str) -> None:
    assert not only_gives_leave(answer)
    summary = imported(tmp_path, said_instead(answer))
    assert summary["rows"] == 0
    assert summary["dropped"] == {trace_judging.SAID_MORE: 1}
    assert summary["stalls"] == {STALLED.kind: 1}


def test_a_value_from_nowhere_is_not_kept(tmp_path: Path) -> None:
    loose = with_arguments(NUDGED, location="Cellar of the old mill")
    summary = imported(tmp_path, loose)
    assert summary["rows"] == 0
    assert summary["dropped"] == {"grounding: a value has no source": 1}
    reckless = imported(tmp_path, with_arguments(episode(SCENARIO).messages, location="Cellar"))
    assert reckless["dropped"] == {"grounding: a value has no source": 1}
    assert reckless["stalls"] == {}
    assert summary["called_with_a_value_from_nowhere"] == 0
    assert reckless["called_with_a_value_from_nowhere"] == 1


def test_a_value_that_only_a_go_ahead_could_give_is_not_kept(tmp_path: Path) -> None:
    """A word of leave can be a value by chance: it was not known before, so it has no source."""
    run = with_arguments(said_instead("Yes, great."), location="great")
    assert imported(tmp_path, run)["dropped"] == {"grounding: a value has no source": 1}


def test_what_still_speaks_of_the_nudge_is_not_kept(tmp_path: Path) -> None:
    for text in ("Done, thank you for confirming.", f"Done. {STALLED.stall}", "Sorry, done now."):
        last = len(NUDGED) - 1
        summary = imported(tmp_path, changed(last, Message("assistant", text)))
        assert summary["dropped"] == {trace_judging.SPEAKS_OF_IT: 1}, text


def test_a_question_behind_the_nudge_is_no_dispatch(tmp_path: Path) -> None:
    """Cut, the turn behind the schema would be a text: a row that teaches to ask for what is known."""
    talk = [Message("assistant", "Fine."), Message("user", "Yes.")]
    run = [*NUDGED[: NUDGE_AT + 1], *talk, *NUDGED[NUDGE_AT + 1 :]]
    assert imported(tmp_path, run)["dropped"] == {trace_judging.TALKED_ON: 1}


def test_two_stalls_and_two_nudges_are_cut(tmp_path: Path) -> None:
    run = [*NUDGED[: NUDGE_AT + 1], *NUDGED[NUDGE_AT - 1 :]]
    summary = imported(tmp_path, run)
    assert summary["stalls"] == {STALLED.kind: 2}
    assert summary["made"][0].messages == STALLED.episode.messages


def test_stalls_without_a_call_are_counted_and_left(tmp_path: Path) -> None:
    summary = imported(tmp_path, NUDGED[:NUDGE_AT])
    assert summary["stalls"] == {STALLED.kind: 1}
    assert summary["dropped"] == {trace_judging.NEVER_CALLED: 1}
    assert summary["rows"] == 0


def test_a_clean_dispatch_and_a_right_question_are_kept_as_they_were(tmp_path: Path) -> None:
    asking = episode(clarify(BLUEPRINT)).messages
    dispatched = list(episode(SCENARIO).messages)
    place = next(
        n for n, m in enumerate(dispatched) for c in m.tool_calls if c.name == "execute_tool"
    )
    start = str(SCENARIO.gold_arguments["start"])
    answered = [*asking, Message("user", f"At {start}."), *dispatched[place:]]
    summary = imported(tmp_path, dispatched, answered)
    assert summary["kept_as_they_were"] == {
        "dispatched_at_once": 1,
        "asked_for_a_missing_value": 1,
    }
    clean, question = summary["made"]
    assert clean.messages == tuple(dispatched)
    assert question.messages == asking
    assert question.behaviour == "clarify"
    assert question.scenario.missing == ("start",)
    assert question.scenario.withheld == {"start": SCENARIO.gold_arguments["start"]}


@pytest.mark.parametrize(
    "question", ["I am here to help.", "What start time and what location should it have?"]
)
def test_a_question_for_something_else_is_no_row(tmp_path: Path, question: str) -> None:
    asking = list(episode(clarify(BLUEPRINT)).messages)
    start = str(SCENARIO.gold_arguments["start"])
    called = [m for m in episode(SCENARIO).messages if m.role != "user"][5:]
    run = [*asking[:-1], Message("assistant", question), Message("user", start), *called]
    summary = imported(tmp_path, run)
    assert summary["dropped"] == {trace_import.ASKED_OTHERWISE: 1}


def test_a_new_wish_behind_a_stall_is_a_request_of_its_own(tmp_path: Path) -> None:
    clean = list(episode(SCENARIO).messages)
    summary = imported(tmp_path, [*NUDGED[:NUDGE_AT], *clean[1:]])
    assert summary["requests"] == 2
    assert summary["dropped"] == {trace_judging.NEVER_CALLED: 1}
    assert summary["kept_as_they_were"]["dispatched_at_once"] == 1


def test_a_question_for_what_was_said_is_no_row(tmp_path: Path) -> None:
    """The same run, the value in the request: then asking was a stall, and the answer new."""
    asking = episode(clarify(BLUEPRINT)).messages
    dispatched = list(episode(SCENARIO).messages)
    place = next(
        n for n, m in enumerate(dispatched) for c in m.tool_calls if c.name == "execute_tool"
    )
    start = str(SCENARIO.gold_arguments["start"])
    knowing = [asking[0], Message("user", SCENARIO.request), *asking[2:]]
    summary = imported(tmp_path, [*knowing, Message("user", start), *dispatched[place:]])
    assert summary["rows"] == 0
    assert summary["dropped"] == {trace_judging.SAID_MORE: 1}


def test_definitions_that_say_too_little_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    names = [{"type": "function", "function": {"name": t["function"]["name"]}} for t in META_TOOLS]
    odd = [*META_TOOLS, {"type": "function", "function": {"name": {}, "parameters": {}}}]
    for tools, whose in ((names, "not recorded"), ([{"a": 1}], "not recorded"), (odd, "recorded")):
        path.write_text(json.dumps(chat(NUDGED, tools)))
        (row,) = import_reading(read_runs(path), silent).rows
        assert row.meta["tools"].startswith(whose)
        assert list(row.tools) == (odd if whose == "recorded" else list(META_TOOLS))


def test_each_request_of_a_run_stands_alone(tmp_path: Path) -> None:
    clean = list(episode(SCENARIO).messages)
    other = with_arguments(clean[2:], location="Hall Seven")
    wish = Message("user", f"{SCENARIO.request} The location is Hall Seven.")
    again = [*clean, wish, *other]
    summary = imported(tmp_path, again)
    assert (summary["runs"], summary["requests"], summary["rows"]) == (1, 2, 2)
    assert [row.meta["request"] for row in summary["made"]] == [1, 2]
    lacking = [*clean, Message("user", "The same in Hall Seven."), *other]
    summary = imported(tmp_path, lacking)
    assert summary["rows"] == 1
    assert summary["dropped"] == {"grounding: a value has no source": 1}


def test_plain_tools_are_refused_with_the_reason(tmp_path: Path) -> None:
    call = ToolCall("a", "get_weather", {"city": "Split"})
    run = [Message("user", "Weather?"), Message("assistant", "", (call,))]
    run += [Message("tool", "sunny", tool_call_id="a"), Message("assistant", "It is sunny.")]
    summary = imported(tmp_path, run, run[:1] + run[-1:])
    assert summary["refused"] == {trace_judging.PLAIN_TOOLS: 1, trace_judging.NO_CALLS: 1}
    assert summary["refused_at"][trace_judging.PLAIN_TOOLS] == ["line 1"]
    assert summary["requests"] == 0


def test_a_run_with_a_credential_is_left_out_and_never_shown(tmp_path: Path) -> None:
    run = list(NUDGED)
    run[1] = dataclasses.replace(run[1], content=f"{run[1].content} My token is {CREDENTIAL}.")
    argument = with_arguments(NUDGED, location=CREDENTIAL)
    summary = imported(tmp_path, run, argument)
    assert summary["refused"] == {trace_import.CREDENTIAL: 2}
    assert CREDENTIAL not in json.dumps({k: v for k, v in summary.items() if k != "made"})
    assert summary["rows"] == 0


def test_broken_lines_are_counted_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    lines = ['{"messages": [', "7", '{"a": 1}', '{"messages": [{"role": "robot"}]}', "{}"]
    lines += ['{"name": "GET /", "attributes": {"http.route": "/"}}']
    lines += ['{"name": "gen_ai.choice", "attributes": {}}']
    lines += ['{"attributes": {"gen_ai.input.messages": "not json"}}']
    lines += [
        '{"attributes": {"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "blob"}]}]}}'
    ]
    good = as_chat(NUDGED, ())
    path.write_text("\n".join([*lines, good]), encoding="utf-8")
    made = import_reading(read_runs(path), silent)
    assert made.refused == {
        trace_reading.NOT_JSON: ["line 1"],
        trace_reading.NO_RUN: ["line 2", "line 3", "line 5"],
        trace_reading.NOT_CHAT: ["line 4"],
        trace_reading.NO_MESSAGES: ["line 6"],
        trace_reading.OLD_CONVENTION: ["line 7"],
        trace_reading.BAD_ATTRIBUTE: ["line 8"],
        trace_reading.NOT_TEXT: ["line 9"],
    }
    assert len(made.rows) == 1


def _payload(messages: Sequence[Message], of: str, /, **changes: Any) -> list[Message]:
    made = []
    for message in messages:
        payload = json.loads(message.content) if message.role == "tool" else {}
        if payload.get("layer") == of:
            message = dataclasses.replace(message, content=compact_json(payload | changes))
        made.append(message)
    return made


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (_payload(NUDGED, "2_schema_disclosure", disclosed=7), trace_judging.BAD_PAYLOAD),
        (
            _payload(NUDGED, "2_schema_disclosure", disclosed=[{"name": "x"}]),
            trace_judging.BAD_PAYLOAD,
        ),
        (_payload(NUDGED, "3_execution", status=[]), trace_judging.BAD_PAYLOAD),
        (_payload(NUDGED, "3_execution", layer=["3"]), trace_judging.BAD_PAYLOAD),
        (with_arguments(NUDGED, location=2**60), trace_judging.BAD_ARGUMENTS),
        ([m for m in NUDGED if not m.tool_calls], trace_judging.NO_CALLS),
        ([m for n, m in enumerate(NUDGED) if n != 2], trace_judging.UNPAIRED),
    ],
)
def test_a_run_of_another_shape_is_refused(tmp_path: Path, run: list[Message], reason: str) -> None:
    summary = imported(tmp_path, run)
    assert summary["refused"] == {reason: 1}
    assert summary["rows"] == 0


def _renamed(messages: Sequence[Message], name: str) -> list[Message]:
    """The run, its tool under another name."""
    made = []
    for message in messages:
        calls = [
            dataclasses.replace(
                c, arguments=json.loads(json.dumps(c.arguments).replace(TOOL, name))
            )
            for c in message.tool_calls
        ]
        content = message.content.replace(TOOL, name)
        made.append(dataclasses.replace(message, content=content, tool_calls=tuple(calls)))
    return made


def _disclosed(**changes: Any) -> list[Message]:
    """The run, the schema that was disclosed having other keywords too."""
    message = next(m for m in NUDGED if "2_schema_disclosure" in m.content)
    (tool,) = json.loads(message.content)["disclosed"]
    other = tool | {"inputSchema": tool["inputSchema"] | changes}
    return _payload(NUDGED, "2_schema_disclosure", disclosed=[other])


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (_renamed(NUDGED, "call me now"), trace_import.ODD_NAME),
        (_disclosed(patternProperties={"(?=a)a": {}}), trace_import.ODD_SCHEMA),
        (_payload(NUDGED, "3_execution", status="failed"), trace_import.NOT_DONE),
        (
            _payload(NUDGED, "1_catalog", matches=[]),
            "protocol: search shows the tool where it should not, or does not",
        ),
        (_payload(NUDGED, "3_execution", last="x"), "format: payload"),
        (with_arguments(NUDGED, title=7), "protocol: arguments do not fit the schema"),
        (NUDGED[1:], trace_import.NO_SYSTEM),
        (NUDGED[:-1], "format: roles"),
    ],
)
def test_a_request_that_breaks_a_rule_is_dropped(
    tmp_path: Path, run: list[Message], reason: str
) -> None:
    summary = imported(tmp_path, run)
    assert summary["dropped"] == {reason: 1}
    assert summary["rows"] == 0


def test_a_request_is_kept_once(tmp_path: Path) -> None:
    renamed = [dataclasses.replace(m) for m in NUDGED]
    renamed[-1] = Message("assistant", "It stands in the calendar.")
    summary = imported(tmp_path, NUDGED, NUDGED, renamed)
    assert summary["parts_of_longer_runs"] == 1
    assert summary["dropped"] == {trace_import.DUPLICATE: 1}
    assert summary["rows"] == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"messages": [], "messages": []}', "stands twice"),
        ('{"messages": ' + "[" * 200 + "]" * 200 + "}", "nested deeper"),
        ('{"messages": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"messages": NaN}', "NaN"),
        ("not a run", "neither JSON nor JSON lines"),
        ("", "holds nothing"),
    ],
)
def test_hostile_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path, out = tmp_path / "runs.jsonl", tmp_path / "set"
    path.write_text(as_chat(NUDGED, ()) + text if text.startswith("{") else text)
    with pytest.raises(SystemExit) as stop:
        main(["data", "import", str(path), "--out", str(out)])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert said in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["runs.jsonl"]


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_reading, "MAX_FILE_BYTES", 100)
    path = tmp_path / "runs.jsonl"
    path.write_text("x" * 101)
    with pytest.raises(DataError, match="over 100 bytes; split it"):
        import_traces(path, tmp_path / "set", silent)


def test_the_command_prints_writes_and_says_what_cannot_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "runs.jsonl", tmp_path / "set"
    path.write_text(as_chat(NUDGED, ()) + "broken\n")
    main(["data", "import", str(path), "--out", str(out)])
    text = capsys.readouterr().out
    assert "1 runs read" in text
    assert f"stall, {STALLED.kind}: 1" in text
    assert "refused, not JSON: 1 (first: line 2)" in text
    assert "not replayed" in text
    main(["data", "import", str(path), "--out", str(out), "--json"])
    again = json.loads(capsys.readouterr().out)
    assert again == read_manifest(out)["imported"]
    for words in (["show"], ["stats"], ["export", "--out", str(tmp_path / "x.jsonl")]):
        main(["data", words[0], str(out), *words[1:]])
    assert "imported, never replayed" in capsys.readouterr().out
    assert len((tmp_path / "x.jsonl").read_text().splitlines()) == 1
    with pytest.raises(SystemExit) as stop:
        main(["data", "validate", str(out)])
    assert stop.value.code == 2
    assert "no world" in capsys.readouterr().err


def test_no_row_means_no_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "runs.jsonl", tmp_path / "set"
    path.write_text(as_chat(NUDGED[:NUDGE_AT], ()))
    with pytest.raises(SystemExit) as stop:
        main(["data", "import", str(path), "--out", str(out)])
    assert stop.value.code == 1
    assert "nothing was written" in capsys.readouterr().out
    assert not out.exists()


def test_training_reads_an_import_and_finds_its_decision(tmp_path: Path) -> None:
    path, out = tmp_path / "runs.jsonl", tmp_path / "set"
    path.write_text(as_chat(NUDGED, ()))
    import_traces(path, out, silent)
    config = TrainConfig(data=str(out), out=str(tmp_path / "adapter"), steps=1)
    (row,) = read_rows(config)
    at = decision_message(messages_from_dicts(row["messages"]), row["behaviour"], row["tool"])
    (call,) = row["messages"][at]["tool_calls"]
    assert call["name"] == "execute_tool"
    assert row["tools"] == [dict(tool) for tool in META_TOOLS]
    assert row["meta"]["tools"].startswith("not recorded")
