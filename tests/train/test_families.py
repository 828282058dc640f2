"""What docs/families.md says of each family is true: verified anew, and the table compared."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.chat_templates import PINNED_CLOCK, shipped_template
from breadcrumbs.errors import ModelError, PreflightError
from breadcrumbs.messages import messages_from_dicts
from breadcrumbs.rendering import Renderer
from breadcrumbs.train.batches import IGNORED, build_example
from breadcrumbs.train.config import TrainConfig
from breadcrumbs.train.families import (
    FAMILIES,
    OURS,
    TABLE_BEGINS,
    TABLE_ENDS,
    Family,
    Verdict,
    table,
    template_of,
    tokenizer_of,
    verified,
    verify,
    whole_row,
)
from breadcrumbs.train.family_rows import EVERY_THOUGHT, FAMILY_ROWS, PLAIN
from breadcrumbs.train.preflight import examine, preflight, template_fault
from breadcrumbs.train.row_faults import Check, row_faults
from breadcrumbs.train.training_template import training_template

PAGE = Path(__file__).parents[2] / "docs" / "families.md"
TEMPLATES = [(family, name) for family in FAMILIES for name in family.templates]
CONFIG = TrainConfig(data="d", out="o", steps=1)
OPENS_THOUGHTS = ("qwen3_5_think", "qwen3_6", "qwen3_8")
WHOLE = FAMILY_ROWS[PLAIN][0]
DECISION = 6  # the message behind the schema


def _changed(tokenizer: Any, name: str, old: str, new: str) -> tuple[Any, str]:
    """A tokenizer of the template's family, and the template with a piece exchanged."""
    family = next(family for family, known in TEMPLATES if known == name)
    template = template_of(name)
    assert old in template
    return tokenizer_of(family, tokenizer), template.replace(old, new)


@pytest.fixture(scope="module")
def verdicts(chatml_tokenizer: Any) -> dict[tuple[str, str], Verdict]:
    return {
        (family.name, name): verify(family, name, chatml_tokenizer) for family, name in TEMPLATES
    }


@pytest.mark.parametrize(
    ("family", "name"), TEMPLATES, ids=lambda value: getattr(value, "name", value)
)
def test_what_a_family_writes_is_served_and_read_back(
    verdicts: dict[tuple[str, str], Verdict], family: Family, name: str
) -> None:
    verdict = verdicts[family.name, name]
    if name in OPENS_THOUGHTS:
        assert verdict.faults[EVERY_THOUGHT] is None
        assert "opens a thought, and the turn has none" in str(verdict.faults[PLAIN])
    else:
        assert verdict.faults[PLAIN] is None
    assert verdict.faults["segments"] is None
    assert verdict.faults["generation tags"] is None


@pytest.mark.parametrize(
    ("family", "name"), TEMPLATES, ids=lambda value: getattr(value, "name", value)
)
def test_the_decision_turn_is_served_learnt_and_read_back(
    chatml_tokenizer: Any, family: Family, name: str
) -> None:
    """By hand, without the preflight: what a server sends, what is in the loss, what it reads."""
    tokenizer = tokenizer_of(family, chatml_tokenizer)
    renderer = Renderer(tokenizer, template_of(name))
    row = whole_row(renderer)
    assert (row is not WHOLE) == (name in OPENS_THOUGHTS)
    messages = messages_from_dicts(row["messages"])
    example = build_example(row, renderer)
    start, end = example.decision, example.decision_end
    prompt = tokenizer.apply_chat_template(
        [renderer.template_message(message) for message in messages[:DECISION]],
        tools=renderer.template_tools(row["tools"]),
        chat_template=renderer.template,
        add_generation_prompt=True,
        return_dict=False,
    )
    assert list(example.ids[:start]) == list(prompt)
    assert example.labels[start:end] == example.ids[start:end]
    assert example.labels[start - 1] == IGNORED
    assert example.ids[end - 1] in renderer.stop_ids
    turn = renderer.call_format.parse_turn(
        tokenizer.decode(list(example.ids[start:end])), tools=row["tools"]
    )
    (right,) = messages[DECISION].tool_calls
    assert [(call.name, call.arguments) for call in turn.calls] == [(right.name, right.arguments)]
    # The control: without its last token in the loss, the same turn is refused.
    labels = (*example.labels[: end - 1], IGNORED, *example.labels[end:])
    cut = dataclasses.replace(example, labels=labels)
    checks = {reason.check for reason in row_faults(row, cut, renderer, None)}
    assert {Check.END, Check.DECISION} <= checks


@pytest.mark.parametrize(
    ("family", "name"), TEMPLATES, ids=lambda value: getattr(value, "name", value)
)
def test_a_template_that_drops_tools_is_refused(
    chatml_tokenizer: Any, family: Family, name: str
) -> None:
    with pytest.raises(ModelError, match="no tool support"):
        Renderer(
            tokenizer_of(family, chatml_tokenizer), "{% set tools = none %}" + template_of(name)
        )


def test_a_template_that_says_the_system_message_only_once_is_refused(
    chatml_tokenizer: Any,
) -> None:
    """As Mistral Nemo's own does: behind a call, the model would no longer know its rules."""
    forgetful = _changed(
        chatml_tokenizer,
        OURS,
        "{%- if loop.index0 == first and first %}",
        "{%- if loop.last and first %}",
    )
    with pytest.raises(ModelError, match=r"behind a call it leaves out the system message\)"):
        Renderer(*forgetful)


@pytest.mark.parametrize("name", ["qwen2_5", "llama3_2"])
def test_a_template_that_reorders_arguments_is_found_out(chatml_tokenizer: Any, name: str) -> None:
    """It would train the arguments of a tool before the tool's name, which no turn has served."""
    renderer = Renderer(
        *_changed(chatml_tokenizer, name, "| tojson }}", "| tojson(sort_keys=1) }}")
    )
    assert not renderer.call_format.sorts_keys
    reasons = {fault.reason for fault in examine([WHOLE], renderer, CONFIG)[1]}
    assert f"message {DECISION}: target parses back with its arguments in another order" in reasons


def test_a_template_whose_values_would_be_misread_is_refused(chatml_tokenizer: Any) -> None:
    quoting = _changed(
        chatml_tokenizer, "qwen3_5_nothink", "{{- args_value }}", "{{- args_value | tojson }}"
    )
    with pytest.raises(ModelError, match="format that is not known"):
        Renderer(*quoting)  # its texts would come back with the quotes
    as_python = _changed(
        chatml_tokenizer, "glm4moe", "v | tojson(ensure_ascii=False) if v is not string else v", "v"
    )
    reasons = {fault.reason for fault in examine([WHOLE], Renderer(*as_python), CONFIG)[1]}
    assert any("target does not parse" in reason for reason in reasons)


@pytest.mark.model
def test_the_table_of_the_page_is_what_is_found() -> None:
    from breadcrumbs.models import SMALL, resolve_model
    from breadcrumbs.rendering import load_renderer

    page = PAGE.read_text(encoding="utf-8")
    written = page.partition(TABLE_BEGINS)[2].partition(TABLE_ENDS)[0].strip()
    assert written == table(verified(load_renderer(resolve_model(SMALL)).tokenizer))


def test_a_failing_check_stands_in_the_table_with_its_reason() -> None:
    failing = Verdict("Qwen2.5", "t", "xml", dict.fromkeys(["segments"], "a | <b>"), False)
    faults = {
        check: failing.faults.get(check) for check in (*FAMILY_ROWS, "segments", "generation tags")
    }
    text = table([dataclasses.replace(failing, faults=faults)])
    assert "| no (1) | ours |" in text
    assert "1. a \\| &lt;b>" in text


def test_a_template_changed_by_one_character_is_found_out(chatml_tokenizer: Any) -> None:
    """The control of the verification: each way of going wrong is a fault of the right check."""
    renderer = Renderer(chatml_tokenizer, template_of("qwen2_5"))
    assert examine([WHOLE], renderer, CONFIG)[1] == []
    other = renderer.template.replace(
        "tool_call.arguments | tojson", "tool_call.arguments | tojson | replace('true', 'false')"
    )
    assert other != renderer.template
    reasons = {f.reason for f in examine([WHOLE], Renderer(chatml_tokenizer, other), CONFIG)[1]}
    assert any("parses back to another call" in reason for reason in reasons)


def test_a_template_that_rewrites_its_prompts_is_refused_with_the_reason(
    chatml_tokenizer: Any,
) -> None:
    template = template_of("qwen2_5").replace(
        "{{- '<|im_start|>assistant\\n' }}", "{{- '<|im_start|>assistant\\n<think>\\n' }}"
    )
    assert template != template_of("qwen2_5")
    renderer = Renderer(chatml_tokenizer, template)
    fault = template_fault(renderer)
    assert fault is not None
    assert "differs from the served prompt" in fault
    (found,) = examine([WHOLE], renderer, CONFIG)[1]
    assert found.row == "every row"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("llama3", "no tool support"),
        ("phi3", "no tool support"),
        ("cohere2", "no tool support"),
        ("muse_glimmer", "format that is not known"),
    ],
)
def test_templates_that_cannot_carry_calls_are_refused(
    chatml_tokenizer: Any, name: str, said: str
) -> None:
    with pytest.raises(ModelError, match=said):
        Renderer(chatml_tokenizer, shipped_template(name))


def test_a_tokenizer_without_the_familys_end_of_turn_is_refused(chatml_tokenizer: Any) -> None:
    with pytest.raises(ModelError, match=r"no token <\|eot_id\|>"):
        Renderer(chatml_tokenizer, shipped_template("llama3_1"))


def test_an_unknown_template_is_probed(chatml_tokenizer: Any) -> None:
    for family, name in TEMPLATES:
        known = Renderer(tokenizer_of(family, chatml_tokenizer), template_of(name))
        probed = Renderer(
            tokenizer_of(family, chatml_tokenizer), "{# a fork #}" + template_of(name)
        )
        assert probed.call_format == known.call_format, name


def test_a_template_with_a_clock_is_pinned_once(chatml_tokenizer: Any) -> None:
    family = next(family for family in FAMILIES if family.name.startswith("Llama"))
    tokenizer = tokenizer_of(family, chatml_tokenizer)
    renderer = Renderer(tokenizer, shipped_template("llama3_2"))
    again = Renderer(tokenizer, renderer.template)
    assert again.template == renderer.template
    assert renderer.template.count(PINNED_CLOCK) == 1
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi."}], chat_template=renderer.template, tokenize=False
    )
    assert "Today Date: 26 Jul 2024" in text
    unpinned = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi."}],
        chat_template=shipped_template("llama3_2"),
        tokenize=False,
        date_string="26 Jul 2024",
    )
    assert text == unpinned


def test_the_tagged_template_masks_what_is_learnt(chatml_tokenizer: Any) -> None:
    renderer = Renderer(chatml_tokenizer, template_of("qwen2_5"))
    template = training_template(renderer)
    assert template != renderer.template
    messages = messages_from_dicts(WHOLE["messages"])
    tagged = chatml_tokenizer.apply_chat_template(
        [m.to_template() for m in messages],
        tools=list(WHOLE["tools"]),
        chat_template=template,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    trained = renderer.training_row(messages, list(WHOLE["tools"]))
    assert list(tagged["input_ids"]) == trained.ids
    assert [bool(m) for m in tagged["assistant_masks"]] == [x != -100 for x in trained.labels]


def test_rows_of_a_template_that_loses_thoughts_are_refused(chatml_tokenizer: Any) -> None:
    family = next(family for family in FAMILIES if family.name.startswith("Llama"))
    renderer = Renderer(tokenizer_of(family, chatml_tokenizer), shipped_template("llama3_1"))
    with pytest.raises(PreflightError, match="parses back to other text"):
        preflight(list(FAMILY_ROWS["thought before the call"]), renderer, CONFIG)
