import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.asking import Parameter, asked_parameters, is_given
from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.radar import LAYERS, MARKERS, Disclosed, Layer, Radar, situation_of
from breadcrumbs.radar_score import read_cases, score

STALL = "To open a ticket, please provide the following details: title, priority, floor, due."
PARAMETERS = (
    Parameter("title", required=True, description="What is wrong"),
    Parameter("priority", has_default=True, choices=("low", "normal", "high")),
    Parameter("floor", type="integer"),
    Parameter("due", format="date-time"),
    Parameter("contact_email", format="email"),
)


def said(user: str, executed: bool = False) -> Disclosed:
    return Disclosed("create_ticket", PARAMETERS, user, executed)


FULL = said("Open a ticket titled 'Lift is stuck' with high priority")
BARE = said("Open a ticket with high priority")
STALLS = [
    (STALL, "param_dump"),
    ("The tool takes:\n- title (string)\n- priority\n- floor\nSend me the values.", "param_dump"),
    (
        "| Field | Type |\n|---|---|\n| title | string |\n| priority | enum |\n| floor | int |",
        "param_dump",
    ),
    ('```json\n{"inputSchema": {"properties": {"title": {"type": "string"}}}}\n```', "param_dump"),
    ("I have found the right tool. Would you like me to proceed?", "permission_ask"),
    ("Shall I create the ticket?", "permission_ask"),
    ("This is a write. Please confirm that I should go ahead.", "permission_ask"),
    ("If you'd like, I can open it now.", "permission_ask"),
    ("Which priority should the ticket have?", "inferable_value_ask"),
    ("What is the title of the ticket?", "inferable_value_ask"),
    ("On which floor is it, and what is the contact email?", "inferable_value_ask"),
    ("I will now open the ticket.", "announce_without_call"),
    ("Let me create that ticket for you.", "announce_without_call"),
    ("Opening the ticket now.", "announce_without_call"),
    ("", "announce_without_call"),
    ("execute_tool(tool_name='create_ticket', arguments={})", "fake_call_in_text"),
    ('create_ticket(title="Lift is stuck")', "fake_call_in_text"),
    ('{"name": "create_ticket", "arguments": {"title": "Lift is stuck"}}', "fake_call_in_text"),
    ("<tool_response>\n{}\n</tool_response>", "fake_call_in_text"),
    ("Action: create_ticket\nAction Input: {}", "fake_call_in_text"),
]
LEGITIMATE = [
    "I can't open tickets for that building, since you have no access there.",
    "There is no suitable tool for this here.",
    "You have two lifts: north and south. Which one is stuck?",
    "Should I open it for the north lift or the south lift?",
    "Tell me which lift you mean and I will open the ticket.",
    "The lift was repaired yesterday, so there is nothing to report.",
]


@pytest.mark.parametrize(("text", "kind"), STALLS)
def test_stalls_are_seen_by_kind(text: str, kind: str) -> None:
    stall = Radar().classify(text, FULL)
    assert stall is not None
    assert stall.kind == kind


@pytest.mark.parametrize("text", LEGITIMATE)
def test_legitimate_turns_pass(text: str) -> None:
    assert Radar().classify(text, FULL) is None


@pytest.mark.parametrize(
    "text",
    [
        "What should the title of the ticket be?",
        "Which title should it have?",
        "I need one more detail. What is the title?",
        "Please provide the title of the ticket.",
        "Could you tell me the title?",
    ],
)
def test_a_question_for_a_missing_required_value_is_no_stall_and_for_a_given_one_it_is(
    text: str,
) -> None:
    assert Radar().classify(text, BARE) is None
    stall = Radar().classify(text, FULL)
    assert stall is not None
    assert stall.kind == "inferable_value_ask"


def test_an_apostrophe_is_no_quotation_and_an_account_no_time() -> None:
    """Both made a value look given that the user never gave."""
    title = Disclosed(
        "create_event",
        (Parameter("title", required=True),),
        "I'd like to set up a meeting on Monday. That's all.",
    )
    asks = "Before I can do this: Which title should the event have?"
    assert Radar().classify(asks, title) is None
    gave = replace(title, user_text="Set up 'Budget' on Monday. That's all.")
    assert Radar().classify(asks, gave) is not None
    accounts = (Parameter("from_account", required=True), Parameter("to_account", required=True))
    money = Disclosed("transfer_money", accounts, "Transfer 5 to acc_joint marked 'March rent'")
    assert Radar().classify("Which account should the money come from?", money) is None
    assert not accounts[0].is_time
    assert Parameter("from").is_time
    assert Parameter("from_date").is_date


def test_asking_for_an_optional_value_beside_a_missing_one_is_still_a_question() -> None:
    assert Radar().classify("What are the title and the priority?", BARE) is None


def test_the_gate_comes_before_all_text() -> None:
    for text, _ in STALLS:
        for mode in ("full", "markers"):
            assert Radar(mode).classify(text, None) is None
            assert Radar(mode).classify(text, said("Open a ticket", executed=True)) is None


def test_users_who_want_only_talk_get_it() -> None:
    for user in (
        "Explain create_ticket to me",
        "Show me what a call would look like, but don't run it",
        "What does create_ticket need?",
    ):
        assert Radar().classify(STALL, said(user)) is None


def test_markers_are_the_substrings_and_nothing_else() -> None:
    radar = Radar("markers")
    for marker in MARKERS:
        assert radar.classify(f"Well, {marker.upper()} x", FULL) is not None
    assert radar.classify("I will now open the ticket.", FULL) is None


@given(st.text(), st.text())
def test_any_text_is_classified_without_raising(text: str, user: str) -> None:
    assert Radar().classify(text, said(user)) == Radar().classify(text, said(user))


@given(st.text(alphabet="a`- |:(),\n", max_size=2000))
def test_hostile_repetition_is_quick(text: str) -> None:
    Radar().classify(text, FULL)


@pytest.mark.parametrize(
    "piece", ["a ", "`", "a, ", "- ", "i will ", "<a_a>", "which ", '"', "a" * 50]
)
def test_long_hostile_texts_do_not_hang(piece: str) -> None:
    begin = time.perf_counter()
    Radar().classify(piece * (20_000 // len(piece)), FULL)
    assert time.perf_counter() - begin < 5.0  # quadratic patterns took longer than that


@pytest.mark.parametrize(
    ("name", "user", "expected"),
    [
        ("title", "Open a ticket titled 'Lift is stuck'", True),
        ("title", "Open a ticket", False),
        ("priority", "make it high", True),
        ("priority", "open a ticket", False),
        ("floor", "on floor 3", True),
        ("floor", "by 2026-03-04", False),
        ("due", "until tomorrow", True),
        ("due", "for the printer", False),
        ("contact_email", "tell ana@example.com", True),
        ("contact_email", "tell Ana", False),
    ],
)
def test_what_the_user_gave(name: str, user: str, expected: bool) -> None:
    parameter = next(p for p in PARAMETERS if p.name == name)
    assert is_given(parameter, user, PARAMETERS) is expected


def test_an_id_is_given_only_by_an_id_of_its_kind() -> None:
    customer = Parameter("customer_id", required=True)
    assert is_given(customer, "bill cus_1109", [customer])
    assert not is_given(customer, "under purchase order PO-K71 of 2026", [customer])


def test_a_number_that_belongs_to_another_parameter_is_not_given() -> None:
    days = Parameter("days", required=True, type="integer")
    doses = Parameter("doses_per_day", required=True, type="integer")
    assert not is_given(days, "prescribe it with 4 doses per day", [days, doses])
    assert is_given(days, "prescribe 4 doses per day for 9 days", [days, doses])


def test_the_asked_for_thing_is_found_by_its_place_in_the_question() -> None:
    asked = asked_parameters("Which floor is the ticket titled 'due' for?", PARAMETERS)
    assert [p.name for p in asked] == ["floor"]


async def test_the_situation_is_read_from_the_conversation(gateway: SimulatedGateway) -> None:
    session = gateway.gateway.session()

    async def answer(name: str, **arguments: Any) -> Message:
        return Message("tool", compact_json(await session.call(name, arguments)), tool_call_id="c")

    messages = [Message("user", "hello"), Message("assistant", "hi"), Message("user", "list them")]
    messages.append(await answer("search_tool_catalog", query="list tickets"))
    assert situation_of(messages) is None
    messages.append(await answer("get_tool_schema", tool_names=["list_tickets", "create_ticket"]))
    situation = situation_of(messages)
    assert situation is not None
    assert (situation.tool, situation.others) == ("list_tickets", ("create_ticket",))
    assert situation.required == ("title",)
    assert situation.user_text == "hello\nlist them"
    assert not situation.executed
    invalid = await answer("execute_tool", tool_name="create_ticket", arguments={})
    done = await answer("execute_tool", tool_name="list_tickets", arguments={})
    after_invalid = situation_of([*messages, invalid])
    after_done = situation_of([*messages, done])
    assert after_invalid is not None
    assert after_done is not None
    assert not after_invalid.executed  # nothing ran
    assert after_done.executed
    nudged = [*messages, Message("assistant", "x"), Message("user", "y", synthetic=True)]
    assert situation_of(nudged) == situation
    assert situation_of([*messages, Message("assistant", "x"), Message("user", "next")]) is None


@pytest.mark.parametrize(
    ("reported", "is_stall"),
    [("Opened.", False), ("Opened. Shall I tell somebody？", True)],
)
def test_what_was_said_for_work_that_is_done_gives_the_next_request_nothing(
    reported: str, is_stall: bool
) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    tool = {"name": "create_ticket", "inputSchema": schema}
    disclosed = {"layer": "2_schema_disclosure", "disclosed": [tool]}
    done = {"layer": "3_execution", "status": "done"}
    talk = [
        Message("user", "Open a ticket titled 'Lift is stuck'"),
        Message("tool", compact_json(disclosed), tool_call_id="a"),
        Message("tool", compact_json(done), tool_call_id="b"),
        Message("assistant", reported),
        Message("user", "Open another ticket"),
        Message("tool", compact_json(disclosed), tool_call_id="c"),
    ]
    stall = Radar().classify("What should the title be?", situation_of(talk))
    assert (stall is not None) is is_stall


def test_a_tool_message_that_is_no_payload_is_passed_over() -> None:
    assert (
        situation_of([Message("user", "u"), Message("tool", "not json", tool_call_id="c")]) is None
    )
    assert situation_of([Message("user", "u"), Message("tool", "[1]", tool_call_id="c")]) is None


CASES = Path(__file__).parent / "data" / "radar_cases.jsonl"
LANGUAGES = ("en", "de", "fr", "es", "pt", "zh", "ja")


@pytest.fixture(scope="module")
def scored() -> dict[str, Any]:
    return score(read_cases(CASES))


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_has_stalls_that_are_seen_and_turns_that_are_left_alone(
    language: str, scored: dict[str, Any]
) -> None:
    result = scored["by_language"][language]
    assert min(result["stalls"], result["n"] - result["stalls"]) >= 12
    assert result["precision"] == 1.0
    assert result["recall"] >= 0.85


def test_without_the_gate_turns_that_wait_or_explain_are_taken_for_stalls(
    scored: dict[str, Any],
) -> None:
    assert scored["overall"]["precision"] == 1.0
    assert scored["layers"]["gate"]["without"]["precision"] < 0.99


@pytest.mark.parametrize("layer", [layer for layer in LAYERS if layer != "gate"])
def test_each_layer_finds_what_no_other_finds_and_only_stalls(
    layer: Layer, scored: dict[str, Any]
) -> None:
    result = scored["layers"][layer]
    assert result["precision"] == 1.0
    assert result["without"]["recall"] < scored["overall"]["recall"] - 0.03


def test_the_markers_hear_english_only() -> None:
    foreign = [case for case in read_cases(CASES) if case.language != "en"]
    radar, markers = Radar(), Radar("markers")
    assert not any(markers.classify(case.text, case.situation) for case in foreign)
    assert sum(radar.classify(case.text, case.situation) is not None for case in foreign) > 50


def test_what_happened_since_the_disclosure_decides_what_is_an_offer() -> None:
    offer = "Nothing else is open. Would you like me to look at the second floor as well?"
    user = "Is the lift working?"
    asked = Disclosed("create_ticket", PARAMETERS, user)
    assert Radar().classify(offer, asked) is not None
    assert Radar().classify(offer, replace(asked, since="read")) is None
    order = "Fix the lift on every floor, do not stop"
    done = Disclosed("create_ticket", PARAMETERS, order, since="work")
    assert Radar().classify("Floor one is finished. Continue to floor two?", done) is not None


def test_a_rule_from_outside_that_wants_a_confirmation_gets_one() -> None:
    ask = "Shall I create the ticket?"
    ruled = f"Your company requires an explicit confirmation here. {ask}"
    assert Radar().classify(ask, FULL) is not None
    assert Radar().classify(ruled, FULL) is None


def test_quoted_words_are_not_the_turns_own() -> None:
    said = 'The sign says "Shall I proceed?" and the lift is out of order.'
    assert Radar().classify(said, FULL) is None
    assert Radar().classify(said.replace('"', ""), FULL) is not None


@pytest.mark.parametrize(
    "piece", ["?", " ", "\t ", "我先", "よろしい", "¿", "ich ", "```", "want me to "]
)
def test_a_megabyte_of_anything_is_soon_done_with(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    begin = time.process_time()
    Radar().classify(text, said(text))
    assert time.process_time() - begin < 3.0


CORPUS = (
    Path(os.environ.get("BREADCRUMBS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
    / "data"
    / "stall_turns_dev.jsonl"
)


@pytest.mark.skipif(not CORPUS.is_file(), reason="no hesitation corpus; set BREADCRUMBS_SHARED")
def test_on_reported_turns_the_goals_are_met() -> None:
    result = score(read_cases(CORPUS))
    overall = result["overall"]
    assert overall["precision"] >= 0.95
    assert overall["recall"] >= 0.85
    assert overall["non_english"]["f1"] >= 0.85
    assert result["markers"]["precision"] < 0.5
    assert result["markers"]["recall"] < 0.2
