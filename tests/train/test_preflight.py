"""Every check has a row that it lets pass and one that it must catch."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from breadcrumbs.errors import ConfigError, PreflightError
from breadcrumbs.train.adapter import folder_fault, lora, lora_fault
from breadcrumbs.train.batches import build_example, to_dataset
from breadcrumbs.train.config import AdapterConfig, TrainConfig
from breadcrumbs.train.preflight import examine, preflight, verify_dataset
from breadcrumbs.train.preview import show
from breadcrumbs.train.row_faults import Check, Reason, row_faults

CONFIG = TrainConfig(data="d", out="o", steps=1)


def reasons(rows: list[dict[str, Any]], renderer: Any, config: TrainConfig = CONFIG) -> set[str]:
    return {fault.reason for fault in examine(rows, renderer, config)[1]}


def texts(found: list[Reason]) -> list[str]:
    return [reason.text for reason in found]


def test_good_rows_pass_and_are_counted(make_rows: Any, renderer: Any) -> None:
    result = preflight(make_rows(3, 2), renderer, CONFIG)
    assert len(result.examples) == result.counts["rows"] == 8
    assert result.counts["dispatch"] == result.counts["clarify"] == 3
    assert result.counts["groups of twins"] == 5
    shown = "\n".join(result.lines())
    for check in Check:
        assert f"8 of 8 rows: {check}" in shown


def test_a_null_that_the_schema_allows_passes(make_row: Any, renderer: Any) -> None:
    assert reasons([make_row(1, "dispatch", note=None)], renderer) == set()


def test_arguments_as_text_are_caught(make_row: Any, renderer: Any) -> None:
    row = copy.deepcopy(make_row(7, "dispatch"))
    row["messages"][6]["tool_calls"][0]["arguments"] = json.dumps({"tool_name": "create_event"})
    with pytest.raises(PreflightError, match=r"dispatch-7: message 6: .*must be an object"):
        preflight([make_row(6, "dispatch"), row], renderer, CONFIG)


def test_inner_arguments_as_text_are_caught(make_row: Any, renderer: Any) -> None:
    row = copy.deepcopy(make_row(7, "dispatch"))
    call = row["messages"][6]["tool_calls"][0]
    call["arguments"] = {"tool_name": "create_event", "arguments": json.dumps({"title": "x"})}
    (reason,) = reasons([row], renderer)
    assert reason.startswith("message 6: execute_tool: arguments:")
    assert "object" in reason


def test_a_row_over_the_limit_is_caught_not_cut(make_row: Any, renderer: Any) -> None:
    config = TrainConfig(data="d", out="o", steps=1, max_tokens=100)
    assert any(
        "over max_tokens 100" in r for r in reasons([make_row(1, "dispatch")], renderer, config)
    )


def test_a_cut_decision_turn_is_caught(make_row: Any, renderer: Any, altered: Any) -> None:
    def cut(row: Any) -> dict[str, Any]:
        length = len(row.ids) - 3
        return {"ids": row.ids[:length], "labels": row.labels[:length]}

    found = reasons([make_row(1, "clarify")], altered(renderer, cut))
    assert "trained text differs from served text" in found
    assert "decision turn is cut or outside the loss mask" in found
    assert any("end-of-turn token is outside the loss mask" in reason for reason in found)


def test_a_decision_turn_outside_the_mask_is_caught(
    make_row: Any, renderer: Any, altered: Any
) -> None:
    def blank(row: Any) -> dict[str, Any]:
        span = row.turns[2]
        labels = list(row.labels)
        labels[span.start : span.end] = [-100] * (span.end - span.start)
        return {"labels": labels}

    assert reasons([make_row(1, "clarify")], altered(renderer, blank)) == {
        "decision turn (message 6) is outside the loss mask"
    }


@pytest.mark.parametrize("by", [-1, 1])
def test_a_shifted_mask_is_caught(make_row: Any, renderer: Any, altered: Any, by: int) -> None:
    def shift(row: Any) -> dict[str, Any]:
        labels = list(row.labels)
        return {"labels": labels[-by:] + labels[:-by]}

    example = build_example(make_row(1, "dispatch"), renderer)
    rolled = example.labels[-by:] + example.labels[:-by]
    shifted = dataclasses.replace(example, labels=rolled)
    found = texts(row_faults(make_row(1, "dispatch"), shifted, renderer, None))
    assert "labels do not lie on their own tokens" in found
    assert any("labels do not start behind the served prompt" in reason for reason in found)
    assert reasons([make_row(1, "dispatch")], altered(renderer, shift))


def test_a_mask_moved_onto_its_neighbours_is_caught(make_row: Any, renderer: Any) -> None:
    """The labels agree with their tokens, but the wrong tokens are in the loss."""
    example = build_example(make_row(1, "dispatch"), renderer)
    moved = tuple(
        token if at and example.labels[at - 1] != -100 else -100
        for at, token in enumerate(example.ids)
    )
    wrong = dataclasses.replace(example, labels=moved)
    found = texts(row_faults(make_row(1, "dispatch"), wrong, renderer, None))
    assert any("labels do not start behind the served prompt" in reason for reason in found)
    assert "decision turn is cut or outside the loss mask" in found


def test_a_turn_that_thinks_first_passes(make_row: Any, renderer: Any) -> None:
    row = copy.deepcopy(make_row(1, "dispatch"))
    row["messages"][6]["content"] = "<think>title: Review 1; start: 2026-03-02T09:00</think>"
    assert reasons([row], renderer) == set()


def test_a_deciding_token_outside_the_decision_is_caught(make_row: Any, renderer: Any) -> None:
    example = build_example(make_row(1, "clarify"), renderer)
    stray = dataclasses.replace(example, deciding=(example.decision - 1,))
    assert texts(row_faults(make_row(1, "clarify"), stray, renderer, None)) == [
        "a deciding token is not learnt, or lies behind the decision turn"
    ]


def test_a_target_that_parses_back_differently_is_caught(make_row: Any, renderer: Any) -> None:
    row = copy.deepcopy(make_row(1, "clarify"))
    row["messages"][6]["content"] = 'Now: <tool_call>\n{"name": "execute_tool"'
    assert any("does not parse" in reason for reason in reasons([row], renderer))


def test_a_lost_or_altered_row_is_caught(make_rows: Any, renderer: Any) -> None:
    rows = make_rows(2)
    examples = [build_example(row, renderer) for row in rows]
    verify_dataset(rows, examples, to_dataset(examples))
    with pytest.raises(PreflightError, match="4 rows became 3"):
        verify_dataset(rows, examples, to_dataset(examples[1:]))
    with pytest.raises(PreflightError, match="dispatch-0: altered while"):
        verify_dataset(rows, examples, to_dataset([examples[2], *examples[1:]]))


def test_many_faults_are_one_line_and_a_list_of_every_row(
    make_rows: Any, renderer: Any, tmp_path: Path
) -> None:
    config = TrainConfig(data="d", out=str(tmp_path), steps=1, max_tokens=100)
    with pytest.raises(PreflightError) as caught:
        preflight(make_rows(6), renderer, config)
    message = str(caught.value)
    assert "12 of 12 rows" in message
    assert "\n" not in message
    assert message.count(" tokens, over max_tokens") < 12
    assert f"rows that failed by check: {Check.LENGTH}: 12;" in message
    listed = tmp_path / "preflight_faults.jsonl"
    assert str(listed) in message
    found = [json.loads(line)["row"] for line in listed.read_text().splitlines()]
    assert found == [row["id"] for row in make_rows(6)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"r": 12}, "rank 12"),
        ({"use_dora": True}, "DoRA"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"bias": "all"}, "bias 'all'"),
        ({"target_modules": ["q_proj", "lm_head"]}, "output head"),
        ({"target_modules": ".*(proj|head)"}, "output head"),
        ({"target_modules": ["model.embed_tokens"]}, "embeddings"),
        ({"rank_pattern": {"q_proj": 4}}, "differ by module"),
        ({"trainable_token_indices": [1]}, "token rows"),
        ({"target_parameters": ["experts.w"]}, "target_parameters"),
        ({"alora_invocation_tokens": [1]}, "aLoRA"),
        ({"init_lora_weights": "pissa"}, "changes the base"),
        ({"peft_type": "IA3"}, "train LoRA"),
    ],
)
def test_an_adapter_no_server_loads_is_caught(change: dict[str, Any], words: str) -> None:
    settings = lora(AdapterConfig())
    assert lora_fault(settings) is None
    for key, value in change.items():
        setattr(settings, key, value)
    assert words in str(lora_fault(settings))


def test_an_adapter_folder_of_somebody_else_is_checked(tmp_path: Path) -> None:
    settings = lora(AdapterConfig())
    settings.save_pretrained(tmp_path)
    assert folder_fault(tmp_path) is None
    settings.use_dora = True
    settings.save_pretrained(tmp_path)
    assert "DoRA" in str(folder_fault(tmp_path))
    (tmp_path / "adapter_config.json").write_text("{")
    with pytest.raises(ConfigError, match="no adapter config can be read"):
        folder_fault(tmp_path)


def test_one_row_is_shown_with_its_mask(make_rows: Any, renderer: Any) -> None:
    result = preflight(make_rows(1), renderer, CONFIG)

    def shown(**settings: Any) -> str:
        console = Console(file=io.StringIO(), width=100, **settings)
        show(result, console)
        return str(console.file.getvalue())  # type: ignore[attr-defined]

    marked = shown(force_terminal=False)
    assert "dispatch-0:" in marked
    assert "⟦Done: it is on your calendar.<|im_end|>⟧" in marked
    assert marked.count("«") == 1
    assert "«<»⟦" in marked or "«<tool_call>»⟦" in marked
    assert "\x1b" not in marked
    coloured = shown(force_terminal=True, color_system="standard")
    assert "⟦" not in coloured
    assert "\x1b[30;42mDone: it is on your calendar.<|im_end|>\x1b[0m" in coloured


def test_what_a_terminal_would_obey_is_shown_not_obeyed(make_row: Any, renderer: Any) -> None:
    row = copy.deepcopy(make_row(1, "dispatch"))
    row["messages"][1]["content"] += " \x1b[2J [red]"
    console = Console(file=io.StringIO(), width=100)
    show(preflight([row], renderer, CONFIG), console)
    assert "\\u001b[2J [red]" in console.file.getvalue()  # type: ignore[attr-defined]
