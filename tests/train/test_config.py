from __future__ import annotations

from typing import Any

import pytest

from breadcrumbs.config import load, parse
from breadcrumbs.errors import ConfigError
from breadcrumbs.train.config import GrpoConfig, TrainConfig


def read(**keys: Any) -> TrainConfig:
    body = {"version": 1, "data": "d", "out": "o", "steps": 3, **keys}
    return parse(body, TrainConfig, "train.yaml")


def test_the_demo_config_loads() -> None:
    config = load("configs/train/demo.yaml", TrainConfig)
    assert config.adapter.targets == "all-linear"
    assert config.decision_weight == 0.5


def test_adapter_is_read_from_its_group() -> None:
    assert read(adapter={"rank": 8, "targets": ["q_proj", "v_proj"]}).adapter.targets == (
        "q_proj",
        "v_proj",
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"epochs": 2.0}, "exactly one of steps and epochs"),
        ({"steps": None}, "exactly one of steps and epochs"),
        ({"adapter": {"rank": 12}}, "rank must be one of"),
        ({"adapter": {"use_dora": True}}, "use_dora"),
        ({"learning_rte": 1e-3}, "learning_rte"),
        ({"decision_weight": 1.5}, "decision_weight"),
        ({"split": "test"}, "split"),
    ],
)
def test_wrong_settings_are_named(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(**keys)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"steps": None, "epochs": 1.0}, "grpo is counted in steps"),
        ({"max_tokens": 100}, "max_new_tokens bounds one"),
        ({"generations": 1}, "generations"),
        ({"stage": "dpo"}, "stage"),
    ],
)
def test_wrong_settings_of_tries_are_named(keys: dict[str, Any], words: str) -> None:
    body = {"version": 1, "data": "d", "out": "o", "adapter": "a", "steps": 3}
    assert parse(body, GrpoConfig, "grpo.yaml").generations == 4
    with pytest.raises(ConfigError, match=words):
        parse({**body, **keys}, GrpoConfig, "grpo.yaml")
