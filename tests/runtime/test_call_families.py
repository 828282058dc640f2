"""Every syntax of calls as templates write it and back; hostile text is a problem, never a call."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breadcrumbs.call_format import (
    FORMATS,
    GEMMA,
    GLM,
    HARMONY,
    KINDS,
    LLAMA,
    MISTRAL,
    PYTHONIC,
    XML,
    CallFormat,
    TextStream,
    parse_turn,
)
from breadcrumbs.chat_templates import pinned

SCHEMA = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "flag": {"type": "boolean"},
    "list": {"type": "array"},
    "object": {"type": "object"},
    "maybe": {"type": ["string", "null"]},
    "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
    "any": {},
}
TOOLS = [{"function": {"name": "f", "parameters": {"properties": SCHEMA}}}]
GOOD: dict[str, str] = {
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"count": 7, "text": "a"}}\n</tool_call>',
    "xml": "<tool_call>\n<function=f>\n<parameter=count>\n7\n</parameter>\n<parameter=text>\na\n"
    "</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>f\n<arg_key>count</arg_key>\n<arg_value>7</arg_value>\n"
    "<arg_key>text</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    "llama": '{"name": "f", "parameters": {"count": 7, "text": "a"}}',
    "gemma": '<|tool_call>call:f{count:7,text:<|"|>a<|"|>}<tool_call|>',
    "harmony": ' to=functions.f<|channel|>commentary json<|message|>{"count": 7, "text": "a"}',
    "pythonic": "<|tool_call_start|>[f(count=7, text='a')]<|tool_call_end|>",
    "mistral": '[TOOL_CALLS] [{"name": "f", "arguments": {"count": 7, "text": "a"}, "id": "x"}]',
}


def calls(form: CallFormat, text: str) -> list[tuple[str, Any]]:
    turn = parse_turn(text, form, tools=TOOLS)
    assert not turn.problems, turn.problems
    return [(call.name, call.arguments) for call in turn.calls]


def shipped(name: str) -> str:
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    return (folder / f"{name}.jinja").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", KINDS, ids=lambda form: form.kind)
def test_a_call_is_read(form: CallFormat) -> None:
    text = GOOD[form.kind]
    assert calls(form, text) == [("f", {"count": 7, "text": "a"})]
    assert calls(form, f"{text}{form.stop_behind(True)} more") == [("f", {"count": 7, "text": "a"})]
    assert calls(form, f"No call here.{form.stop_text}") == []


def test_the_table_knows_templates_that_trl_ships() -> None:
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    texts = [path.read_text(encoding="utf-8") for path in folder.glob("*.jinja")]
    shipped_hashes = {hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts}
    assert set(FORMATS) <= shipped_hashes
    assert {form.kind for form in FORMATS.values()} == {form.kind for form in KINDS} - {"mistral"}


@pytest.mark.parametrize("form", KINDS, ids=lambda form: form.kind)
@given(text=st.text(max_size=60))
def test_no_text_raises(form: CallFormat, text: str) -> None:
    parse_turn(text, form, tools=TOOLS)
    parse_turn(form.opener + text, form, tools=TOOLS)
    parse_turn(f"{form.opener}{text}{form.closer}", form, tools=TOOLS)


def _pieces(form: CallFormat) -> list[str]:
    marks = [form.opener, form.closer, *form.stops, *form.markup, *form.thinks]
    own = ["call:", "f", "{", "}", "[", "]", "(", ")", "=", ",", ":", '"', "'", "7", "null", "a "]
    tags = ["<function=f>", "<parameter=text>", "</parameter>", "</function>", "<arg_key>", "NaN"]
    return [mark for mark in [*marks, *own, *tags, GOOD[form.kind], "<", "<|", "é\n"] if mark]


@pytest.mark.parametrize("form", KINDS, ids=lambda form: form.kind)
@given(data=st.data())
def test_no_mixture_raises_and_streaming_shows_the_same_text(
    form: CallFormat, data: st.DataObject
) -> None:
    text = "".join(data.draw(st.lists(st.sampled_from(_pieces(form)), max_size=10)))
    turn = parse_turn(text, form, tools=TOOLS)
    for size in (1, 4, 1000):
        stream = TextStream(form, tools=TOOLS)
        shown = "".join(stream.push(text[at : at + size]) for at in range(0, len(text), size))
        rest, streamed = stream.finish()
        assert streamed == turn
        assert shown + rest == turn.text


HOSTILE = [
    (XML, "<tool_call>\n<function=f>\n<parameter=count>\n7", "cut off"),
    (XML, "<tool_call>\n<function=f>\n<parameter=count>\nsix\n</parameter>\n</function>\n</tool_call>", "count"),
    (XML, "<tool_call><function=f><parameter=flag>NaN</parameter></function></tool_call>", "NaN"),
    (XML, "<tool_call><function=f><parameter=text>a</parameter><parameter=text>b</parameter></function></tool_call>", "twice"),
    (XML, "<tool_call><function=f>and<parameter=text>a</parameter></function></tool_call>", "text stands between"),
    (XML, "<tool_call><tool_call><function=f></function></tool_call>", "names no tool"),
    (XML, "<tool_call><function=f><function=g></function></tool_call>", "text stands between"),
    (XML, f"<tool_call><function=f><parameter=list>{'[' * 100_000}</parameter></function></tool_call>", "nested"),
    (XML, '<tool_call><function=f><parameter=object>{"a": 1, "a": 2}</parameter></function></tool_call>', "twice"),
    (GLM, "<tool_call>f\n<arg_key>count</arg_key>\n<arg_value>7", "cut off"),
    (GLM, "<tool_call>f\n<arg_key>count</arg_key>\n<arg_value>7</arg_value>", "cut off"),
    (GLM, "<tool_call>f<arg_key>text</arg_key><arg_value>a</arg_value><arg_key>text</arg_key><arg_value>b</arg_value></tool_call>", "twice"),
    (GLM, "<tool_call><arg_key>text</arg_key></tool_call>", "names no tool"),
    (GLM, "<tool_call>f g</tool_call>", "text stands between"),
    (LLAMA, '{"name": "f", "parameters": {"count": ', "malformed"),
    (LLAMA, '{"name": "f", "parameters": {"count": NaN}}', "NaN"),
    (LLAMA, '{"name": "f", "name": "g", "parameters": {}}', "twice"),
    (LLAMA, '{"name": "f", "parameters": {}}{"name": "g", "parameters": {}}', "text stands behind"),
    (LLAMA, '{"name": "f", "parameters": {}, "arguments": {}}', "'arguments'"),
    (LLAMA, '{"name": "f", "parameters": "{}"}', "must be a JSON object"),
    (LLAMA, '{"name": 7, "parameters": {}}', "name of a tool"),
    (LLAMA, '{"name": "f", "parameters": ' + '{"a":' * 100_000, "nested"),
    (GEMMA, "<|tool_call>call:f{count:7", "cut off"),
    (GEMMA, '<|tool_call>call:f{text:<|"|>a', "cut off"),
    (GEMMA, "<|tool_call>call:f{count:NaN}<tool_call|>", "missing"),
    (GEMMA, "<|tool_call>call:f{count:1,count:2}<tool_call|>", "twice"),
    (GEMMA, "<|tool_call>call:f{object:{a:1,a:2}}<tool_call|>", "twice"),
    (GEMMA, "<|tool_call>call:f{count:7}and<tool_call|>", "text stands behind"),
    (GEMMA, "<|tool_call><|tool_call>call:f{}<tool_call|>", "does not begin with call:"),
    (GEMMA, "<|tool_call>call:f[7]<tool_call|>", "no mapping"),
    (GEMMA, f"<|tool_call>call:f{{a:{'[' * 100_000}}}<tool_call|>", "nested"),
    (HARMONY, ' to=functions.f<|channel|>commentary json<|message|>{"a": ', "malformed"),
    (HARMONY, ' to=functions.f<|channel|>commentary json<|message|>{"a": 1} {"b": 2}', "text stands behind"),
    (HARMONY, ' to=functions.f<|channel|>commentary json<|message|>{"a": NaN}', "NaN"),
    (HARMONY, ' to=functions.f<|channel|>commentary json<|message|>{"a": 1, "a": 2}', "twice"),
    (HARMONY, " to=functions.f<|channel|>commentary json<|message|>[1]", "must be a JSON object"),
    (HARMONY, " to=functions.f and then", "header"),
    (HARMONY, " to=functions. to=functions.f<|message|>{}", "header"),
    (PYTHONIC, "<|tool_call_start|>[f(count=7", "cut off"),
    (PYTHONIC, "<|tool_call_start|>[f(text='a", "cut off"),
    (PYTHONIC, "<|tool_call_start|>[f(count=7, count=8)]<|tool_call_end|>", "twice"),
    (PYTHONIC, '<|tool_call_start|>[f(object={"a": 1, "a": 2})]<|tool_call_end|>', "twice"),
    (PYTHONIC, "<|tool_call_start|>[f(7)]<|tool_call_end|>", "missing"),
    (PYTHONIC, "<|tool_call_start|>[f(count=nan)]<|tool_call_end|>", "missing"),
    (PYTHONIC, "<|tool_call_start|>[f(text='a' 'b')]<|tool_call_end|>", "missing"),
    (PYTHONIC, "<|tool_call_start|>[f(text='\\x41')]<|tool_call_end|>", "unknown escape"),
    (PYTHONIC, "<|tool_call_start|>[f(text=open('/etc/passwd'))]<|tool_call_end|>", "missing"),
    (PYTHONIC, "<|tool_call_start|>[__import__('os').system('x')]<|tool_call_end|>", "missing"),
    (PYTHONIC, "<|tool_call_start|>[f()] and<|tool_call_end|>", "text stands behind"),
    (PYTHONIC, "<|tool_call_start|><|tool_call_start|>[f()]<|tool_call_end|>", "missing"),
    (PYTHONIC, f"<|tool_call_start|>[f(list={'[' * 100_000})]<|tool_call_end|>", "nested"),
    (MISTRAL, '[TOOL_CALLS] [{"name": "f", "arguments": {"a": ', "malformed"),
    (MISTRAL, '[TOOL_CALLS] [{"name": "f", "arguments": {"a": NaN}}]', "NaN"),
    (MISTRAL, '[TOOL_CALLS] [{"name": "f", "name": "g"}]', "twice"),
    (MISTRAL, '[TOOL_CALLS] {"name": "f", "arguments": {}}', "not a list of calls"),
    (MISTRAL, "[TOOL_CALLS] []", "not a list of calls"),
    (MISTRAL, "[TOOL_CALLS] [7]", "not a JSON object"),
    (MISTRAL, "[TOOL_CALLS]f[ARGS][]", "must be a JSON object"),
    (MISTRAL, '[TOOL_CALLS]f[ARGS]{"a": 1, "a": 2}', "twice"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "text", "said"), HOSTILE, ids=lambda value: getattr(value, "kind", None)
)
def test_what_is_no_call_becomes_a_problem(form: CallFormat, text: str, said: str) -> None:
    turn = parse_turn(text, form, tools=TOOLS)
    assert turn.calls == ()
    assert turn.problems
    assert any(said in problem for problem in turn.problems), turn.problems
    assert all(len(problem) < 250 and "\n" not in problem for problem in turn.problems)


def test_a_text_of_many_openers_takes_no_time() -> None:
    for form in KINDS:
        parse_turn(f"{form.opener}{form.closer or ' '}" * 20_000, form, tools=TOOLS)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("text", "7", "7"),
        ("text", "null", "null"),
        ("text", "", ""),
        ("text", "a\nb", "a\nb"),
        ("count", "7", 7),
        ("flag", "true", True),
        ("flag", "True", True),
        ("list", '["7", 7]', ["7", 7]),
        ("object", '{"a": {"b": null}}', {"a": {"b": None}}),
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "7", "7"),
        ("either", "7", 7),
        ("either", "seven", "seven"),
        ("any", "7", 7),
        ("any", "seven", "seven"),
        ("undeclared", "7", "7"),
    ],
)
def test_bare_text_gets_the_type_that_the_schema_gives(key: str, text: str, value: Any) -> None:
    xml = f"<tool_call>\n<function=f>\n<parameter={key}>\n{text}\n</parameter>\n</function>\n</tool_call>"
    glm = f"<tool_call>f\n<arg_key>{key}</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>"
    for form, written in ((XML, xml), (GLM, glm)):
        ((_, arguments),) = calls(form, written)
        assert arguments == {key: value}
        assert type(arguments[key]) is type(value)


def test_literals_of_both_kinds() -> None:
    pythonic = (
        "<|tool_call_start|>[f(text='it\\'s \\\\ a\\nb', count=-7, flag=True, maybe=None, "
        'list=[\'a\', "it\'s", 1e-05], object={"a": [true, null]}), g()]<|tool_call_end|>'
    )
    assert calls(PYTHONIC, pythonic) == [
        (
            "f",
            {
                "text": "it's \\ a\nb",
                "count": -7,
                "flag": True,
                "maybe": None,
                "list": ["a", "it's", 1e-05],
                "object": {"a": [True, None]},
            },
        ),
        ("g", {}),
    ]
    gemma = (
        '<|tool_call>call:f{count:2.5,flag:false,list:[<|"|>a, b<|"|>,null],'
        'object:{a_b:{},c:<|"|>{}<|"|>}}<tool_call|>'
    )
    assert calls(GEMMA, gemma) == [
        (
            "f",
            {"count": 2.5, "flag": False, "list": ["a, b", None], "object": {"a_b": {}, "c": "{}"}},
        )
    ]


def test_several_calls_and_text_around_them() -> None:
    two = GOOD["xml"] + "\n" + GOOD["xml"]
    turn = parse_turn(f"Let me look.\n\n{two}", XML, first_id=3, tools=TOOLS)
    assert [call.id for call in turn.calls] == ["call_3", "call_4"]
    assert turn.text == "Let me look."
    newer = '[TOOL_CALLS]f[ARGS]{"count": 7}[TOOL_CALLS]g[CALL_ID]abc[ARGS]{}'
    assert calls(MISTRAL, newer) == [("f", {"count": 7}), ("g", {})]


def test_ids_are_shown_as_a_template_takes_them() -> None:
    assert XML.shown_id("call_1") == "call_1"
    shown = [MISTRAL.shown_id(f"call_{number}") for number in range(1, 200)]
    assert shown[0] == "call00001"
    shown += [
        MISTRAL.shown_id(text) for text in ("chatcmpl-tool-7", "chatcmpl-tool-8", "VvvODy9mT")
    ]
    assert shown[-1] == "VvvODy9mT"
    assert len(set(shown)) == len(shown)
    assert all(len(text) == 9 and text.isalnum() for text in shown)


def test_a_json_text_that_is_no_call_is_said() -> None:
    turn = parse_turn('Here: {"name": "f", "parameters": {}}', LLAMA)
    assert turn.calls == ()
    assert turn.text == 'Here: {"name": "f", "parameters": {}}'
    assert calls(LLAMA, "<|python_tag|>" + GOOD["llama"]) == [("f", {"count": 7, "text": "a"})]


def test_harmony_keeps_its_channels_apart() -> None:
    thought = "<|channel|>analysis<|message|>So.<|end|>"
    turn = parse_turn(f"{thought}<|start|>assistant{GOOD['harmony']}<|call|>", HARMONY)
    assert turn.thinking == "So."
    assert turn.text == ""
    assert turn.calls[0].arguments == {"count": 7, "text": "a"}
    written = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
    assert calls(HARMONY, written) == [("f", {})]
    said = parse_turn(
        f"{thought}<|start|>assistant<|channel|>final<|message|>Done.<|return|>", HARMONY
    )
    assert (said.thinking, said.text, said.calls) == ("So.", "Done.", ())
    quoted = "<|channel|>final<|message|>I wrote to=functions.f to you.<|return|>"
    assert parse_turn(quoted, HARMONY).text == "I wrote to=functions.f to you."


def test_reasoning_that_the_prompt_opened_is_kept_apart() -> None:
    from dataclasses import replace

    form = replace(XML, starts_thinking=True)
    turn = parse_turn(f"So.\n</think>\n\n{GOOD['xml']}", form, tools=TOOLS)
    assert turn.thinking == "So."
    assert len(turn.calls) == 1
    stream = TextStream(form, tools=TOOLS)
    assert stream.push("So.") == ""
    assert stream.push("</think>Yes.") == "Yes."
    assert parse_turn("never closed", form).text == ""


def test_a_gemma_thought_is_one() -> None:
    turn = parse_turn(f"<|channel>thought\nSo.\n<channel|>{GOOD['gemma']}", GEMMA)
    assert turn.thinking == "So."
    assert len(turn.calls) == 1


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text("ab '\"\\\n{}[]<é", max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@given(value=st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3))
def test_objects_survive_the_templates(chatml_tokenizer: Any, value: dict[str, Any]) -> None:
    """What a template writes of an object, its parser reads back as that object, or not at all."""
    for name, form in (
        ("qwen3_5_nothink", XML),
        ("glm4moe", GLM),
        ("llama3_1", LLAMA),
        ("gemma4_v5", GEMMA),
        ("gptoss", HARMONY),
        ("lfm2_v2", PYTHONIC),
    ):
        call = {
            "id": "call00001",
            "type": "function",
            "function": {"name": "f", "arguments": {"object": value}},
        }
        messages = [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
        ]
        before, text = (
            chatml_tokenizer.apply_chat_template(
                messages[:count], tools=[_declared()], chat_template=pinned(shipped(name)),
                tokenize=False,
                add_generation_prompt=count == 2,
            )
            for count in (2, 3)
        )  # fmt: skip
        assert text.startswith(before)
        turn = parse_turn(text[len(before) :], form, tools=TOOLS)
        read = [json.loads(json.dumps(dict(call.arguments))) for call in turn.calls]
        assert read == [{"object": value}] or (not read and turn.problems), (name, text)


def _declared() -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"object": {"type": "object"}}, "required": []}
    return {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": parameters},
    }
