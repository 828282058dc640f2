"""The ways public trainers go wrong without a word, each reproduced, each caught beforehand."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.errors import PreflightError
from breadcrumbs.train.batches import IGNORED, build_example
from breadcrumbs.train.config import DpoConfig, TrainConfig
from breadcrumbs.train.preflight import examine, preflight, rollout_fault, verify_dataset

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONFIG = TrainConfig(data="d", out="o", steps=1)


def trl_template(name: str) -> str:
    import trl

    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text()


def in_template_shape(row: dict[str, Any]) -> list[dict[str, Any]]:
    from breadcrumbs.messages import messages_from_dicts

    return [message.to_template() for message in messages_from_dicts(row["messages"])]


@pytest.fixture(scope="module")
def in_trl(model_folder: Path, renderer: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What stock TRL makes of conversations at a `max_length`."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    from breadcrumbs.train.fitting import quiet_libraries

    tokenizer = copy.deepcopy(renderer.tokenizer)
    tokenizer.chat_template = trl_template("qwen2_5_training")

    def build(rows: list[dict[str, Any]], max_length: int | None) -> Any:
        columns = [
            {"messages": in_template_shape(row), "tools": json.dumps(row["tools"])} for row in rows
        ]
        with quiet_libraries():
            return SFTTrainer(
                model=str(model_folder),
                args=SFTConfig(
                    output_dir=str(tmp_path_factory.mktemp("trl")),
                    max_length=max_length,
                    assistant_only_loss=True,
                    use_cpu=True,
                    bf16=False,
                    disable_tqdm=True,
                ),
                train_dataset=Dataset.from_list(columns, on_mixed_types="use_json"),
                processing_class=tokenizer,
            ).train_dataset

    return build


def test_trap_max_length_cuts_the_end_where_the_decision_stands(
    make_rows: Any, renderer: Any, in_trl: Any
) -> None:
    rows = make_rows(1)
    examples = [build_example(row, renderer) for row in rows]
    whole = in_trl(rows, None)
    assert [tuple(ids) for ids in whole["input_ids"]] == [example.ids for example in examples]
    cut = in_trl(rows, examples[0].decision)
    assert len(cut) == 2  # and TRL has not said a word
    with pytest.raises(PreflightError, match="dispatch-0: altered while the dataset was built"):
        verify_dataset(rows, examples, cut)


def test_trap_max_length_drops_every_row(make_rows: Any, renderer: Any, in_trl: Any) -> None:
    rows = make_rows(1)
    examples = [build_example(row, renderer) for row in rows]
    first = min(at for one in examples for at, label in enumerate(one.labels) if label != IGNORED)
    nothing = in_trl(rows, first - 1)  # TRL's mask takes the line end of the role with it
    assert len(nothing) == 0  # and TRL would train on that
    with pytest.raises(PreflightError, match="2 rows became 0 in the dataset"):
        verify_dataset(rows, examples, nothing)


@pytest.mark.parametrize("template", [CHATML, trl_template("phi3"), trl_template("lfm2")])
def test_trap_template_without_tool_support_deletes_the_calls(
    make_rows: Any, renderer: Any, altered: Any, template: str
) -> None:
    rows = make_rows(1)
    text = renderer.tokenizer.apply_chat_template(
        in_template_shape(rows[0]), tools=rows[0]["tools"], chat_template=template, tokenize=False
    )
    assert '"tool_name": "create_event"' not in text  # rendered without an error
    blind = altered(renderer, lambda _: {})
    blind.template = template
    with pytest.raises(PreflightError, match="every row: the chat template drops tools"):
        preflight(rows, blind, CONFIG)


def test_trap_arrow_merges_structs_and_puts_nulls_into_arguments(
    make_rows: Any, renderer: Any
) -> None:
    from datasets import Dataset

    rows = make_rows(1)
    kept = [{"id": row["id"], "messages": row["messages"]} for row in rows]
    merged = [
        {**row, "messages": messages["messages"]}
        for row, messages in zip(rows, Dataset.from_list(kept), strict=True)
    ]
    with pytest.raises(PreflightError, match=r"injected null at message 2 search_tool_catalog\."):
        preflight(merged, renderer, CONFIG)


def test_trap_arguments_as_json_text_are_encoded_twice(make_row: Any, renderer: Any) -> None:
    row = copy.deepcopy(make_row(7, "dispatch"))
    call = row["messages"][6]["tool_calls"][0]
    shape = in_template_shape(row)
    shape[6]["tool_calls"][0]["function"]["arguments"] = json.dumps(call["arguments"])
    text = renderer.tokenizer.apply_chat_template(
        shape, tools=row["tools"], chat_template=renderer.template, tokenize=False
    )
    assert '"arguments": "{\\"tool_name\\"' in text  # rendered without an error
    call["arguments"] = json.dumps(call["arguments"])
    with pytest.raises(PreflightError, match=r"dispatch-7: message 6: .*must be an object"):
        preflight([make_row(6, "dispatch"), row], renderer, CONFIG)


def test_trap_training_template_is_not_the_serving_one(
    make_row: Any, tokenizer: Any, altered: Any
) -> None:
    """TRL's training template of Qwen3 keeps an empty thought in every turn."""
    from breadcrumbs.rendering import Renderer

    serving = Renderer(tokenizer, trl_template("qwen3"))
    assert examine([make_row(1, "dispatch")], serving, CONFIG)[1] == []
    patched = Renderer(tokenizer, trl_template("qwen3_training"))
    mixed = altered(serving, lambda _: {})
    mixed.training_row = patched.training_row
    _, faults = examine([make_row(1, "dispatch")], mixed, CONFIG)
    assert "trained text differs from served text" in {fault.reason for fault in faults}


def test_trap_end_of_turn_token_outside_the_mask(
    make_row: Any, renderer: Any, altered: Any
) -> None:
    """The loss looks healthy, and the model never stops."""

    def unlearnt(row: Any) -> dict[str, Any]:
        labels = list(row.labels)
        for turn in row.turns:
            labels[turn.end - 1] = IGNORED
        return {"labels": labels}

    _, faults = examine([make_row(1, "dispatch")], altered(renderer, unlearnt), CONFIG)
    ends = [fault for fault in faults if "end-of-turn token is outside" in fault.reason]
    assert len(ends) == 4


def test_trap_dpo_trains_on_tool_results_behind_the_turn(
    pairs: list[Any], renderer: Any, altered: Any
) -> None:
    from breadcrumbs.train.pairs import preflight_pairs

    config = DpoConfig(data="d", out="o", adapter="a", steps=1)
    assert preflight_pairs(pairs[:1], renderer, config)
    more = renderer.tokenizer("\n<|im_start|>user\n<tool_response>\n{}\n</tool_response><|im_end|>")

    def with_result(row: Any) -> dict[str, Any]:
        turns = list(row.turns)
        end = turns[-1].end + len(more["input_ids"])
        turns[-1] = type(turns[-1])(turns[-1].message_index, turns[-1].start, end)
        ids = row.ids[: row.turns[-1].end] + more["input_ids"]
        return {"ids": ids, "labels": row.labels[: len(ids)], "turns": turns}

    with pytest.raises(PreflightError) as caught:
        preflight_pairs(pairs[:1], altered(renderer, with_result), config)
    assert "its chosen side is more than one served assistant turn" in str(caught.value)
    assert "its rejected side is more than one served assistant turn" in str(caught.value)


def test_trap_grpo_knows_templates_by_their_exact_text(tokenizer: Any, renderer: Any) -> None:
    from breadcrumbs.rendering import Renderer

    assert rollout_fault(renderer) is None
    ours = Renderer(tokenizer, renderer.template + "{# ours #}")
    assert "does not know this chat template" in str(rollout_fault(ours))
    named = copy.deepcopy(tokenizer)
    named.response_template = {"defaults": {"role": "assistant"}}
    assert rollout_fault(Renderer(named, ours.template)) is None
