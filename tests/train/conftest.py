"""A tokenizer, a model and rows small enough to train on in a second, all made here."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

CALENDAR = {
    "name": "create_event",
    "description": "Put an event on a calendar.",
    "risk": "write",
    "requiresApproval": True,
    "inputSchema": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "start": {"type": "string", "format": "date-time"},
            "note": {"type": ["string", "null"], "default": None},
        },
        "required": ["title", "start"],
    },
}


def function(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {"name": name, "description": name, "parameters": parameters},
    }


TOOLS = [
    function("search_tool_catalog", {"query": {"type": "string"}}, ["query"]),
    function(
        "get_tool_schema",
        {"tool_names": {"type": "array", "items": {"type": "string"}}},
        ["tool_names"],
    ),
    function(
        "execute_tool",
        {"tool_name": {"type": "string"}, "arguments": {"type": "object"}},
        ["tool_name", "arguments"],
    ),
]


def say(role: str, content: str = "", **rest: Any) -> dict[str, Any]:
    return {
        "role": role,
        "content": content,
        "tool_calls": [],
        "tool_call_id": None,
        "synthetic": False,
        **rest,
    }


def call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return say("assistant", tool_calls=[{"id": f"c{number}", "name": name, "arguments": arguments}])


def answer(number: int, payload: dict[str, Any]) -> dict[str, Any]:
    return say("tool", json.dumps(payload, separators=(",", ":")), tool_call_id=f"c{number}")


def make_row(number: int, behaviour: str, note: str | None = "") -> dict[str, Any]:
    """One conversation; `note` is passed on unless empty, and None is a null that is allowed."""
    title, start = f"Review {number}", f"2026-03-{number % 27 + 1:02d}T09:00"
    asked = f"Put 'Review {number}' on my calendar"
    matches = [] if behaviour == "decline" else [{"name": "create_event", "risk": "write"}]
    messages = [
        say("system", "Act through the gateway. Now: 2026-03-02T09:00."),
        say("user", asked + (f" at {start}." if behaviour == "dispatch" else ".")),
        call(0, "search_tool_catalog", {"query": "create event"}),
        answer(0, {"layer": "1_catalog", "matches": matches, "next_step": "Read the schema."}),
    ]
    if behaviour == "decline":
        messages.append(say("assistant", "There is no tool here for that."))
    else:
        schema = {"layer": "2_schema_disclosure", "disclosed": [CALENDAR], "next_step": "Call it."}
        messages += [
            call(1, "get_tool_schema", {"tool_names": ["create_event"]}),
            answer(1, schema),
        ]
    if behaviour == "clarify":
        messages.append(say("assistant", f"When does review {number} start?"))
    if behaviour == "dispatch":
        arguments = {"title": title, "start": start} | ({} if note == "" else {"note": note})
        done = {"layer": "3_execution", "tool": "create_event", "status": "done"}
        messages += [
            call(2, "execute_tool", {"tool_name": "create_event", "arguments": arguments}),
            answer(2, done),
            say("assistant", "Done: it is on your calendar."),
        ]
    return {
        "id": f"{behaviour}-{number}",
        "twin": f"pair-{number}" if behaviour != "decline" else f"alone-{number}",
        "split": "train",
        "behaviour": behaviour,
        "tool": "create_event",
        "messages": messages,
        "tools": TOOLS,
    }


def make_rows(pairs: int, declines: int = 0) -> list[dict[str, Any]]:
    rows = [make_row(n, b) for n in range(pairs) for b in ("dispatch", "clarify")]
    return rows + [make_row(pairs + n, "decline") for n in range(declines)]


def write_data(folder: Path, rows: list[dict[str, Any]]) -> None:
    """The rows as a data set on disk, as `breadcrumbs generate` leaves it."""
    from breadcrumbs.data_gen.dataset import Row, write_dataset
    from breadcrumbs.data_gen.scenarios import Scenario
    from breadcrumbs.messages import messages_from_dicts

    stored = []
    for row in rows:
        scenario = Scenario(
            id=row["id"],
            blueprint=row["twin"],
            twin=row["twin"],
            split="train",
            domain="calendar",
            tool=row["tool"],
            behaviour=row["behaviour"],
            request="",
            system_prompt="",
            now="2026-03-02T09:00",
            seed=0,
            search_query="create event",
            gold_arguments={},
        )
        messages = tuple(messages_from_dicts(row["messages"]))
        stored.append(Row(row["id"], scenario, "oracle", messages, tuple(row["tools"]), {}))
    write_dataset(folder, stored, {"inputs_hash": "x", "config": {"max_hits": 2}, "dropped": {}})


@pytest.fixture(name="write_data", scope="session")
def write_data_fixture() -> Any:
    return write_data


class Altered:
    """A renderer whose rows come out wrong in one way; everything else is the real one."""

    def __init__(self, inner: Any, alter: Any) -> None:
        self._inner, self._alter = inner, alter

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def training_row(self, messages: Any, tools: Any) -> Any:
        row = copy.copy(self._inner.training_row(messages, tools))
        for name, value in self._alter(row).items():
            object.__setattr__(row, name, value)
        return row


@pytest.fixture(name="altered", scope="session")
def altered_fixture() -> Any:
    return Altered


@pytest.fixture(name="make_row", scope="session")
def make_row_fixture() -> Any:
    return make_row


@pytest.fixture(name="make_rows", scope="session")
def make_rows_fixture() -> Any:
    return make_rows


@pytest.fixture
def tools() -> list[dict[str, Any]]:
    return TOOLS


@pytest.fixture
def schema_payload() -> str:
    return json.dumps({"layer": "2_schema_disclosure", "disclosed": [CALENDAR]})


@pytest.fixture(scope="session")
def tokenizer(build_tokenizer: Any) -> Any:
    """ChatML, trained on the rows."""
    return build_tokenizer([json.dumps(row) for row in make_rows(8, 2)], 700)


@pytest.fixture(scope="session")
def model_folder(
    build_model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The random Llama with that tokenizer, in bfloat16."""
    folder: Path = build_model(tokenizer, tmp_path_factory.mktemp("model"), "bfloat16")
    return folder


@pytest.fixture(scope="session")
def renderer(model_folder: Path) -> Any:
    from breadcrumbs.rendering import load_renderer

    return load_renderer(model_folder)


@pytest.fixture
def adapted(build_adapted: Any) -> Any:
    """That Llama with an adapter of random weights, in float32."""
    return build_adapted()


@pytest.fixture(scope="session")
def build_adapted(model_folder: Path) -> Any:
    """Makes such a model."""
    return lambda: _adapted(model_folder)


def _adapted(model_folder: Path) -> Any:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from breadcrumbs.train.fitting import quiet_libraries

    torch.manual_seed(1)
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    with quiet_libraries():
        base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
        model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=targets))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "lora_B" in name:
                tensor.normal_(std=0.2)
    return model


@pytest.fixture(scope="session")
def published(
    build_adapted: Any, renderer: Any, model_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """That adapter, published. Copy it before you change anything."""
    from breadcrumbs.train.config import TrainConfig
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.serving import publish

    out: Path = tmp_path_factory.mktemp("published")
    config = TrainConfig(data="d", out=str(out), model=str(model_folder), steps=6)
    with quiet_libraries():
        publish(build_adapted(), renderer, config, make_rows(4, 2), out)
    return out


@pytest.fixture(scope="session")
def data(small_config: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small data set that gives pairs of both directions."""
    from breadcrumbs.data_gen.config import Amount
    from breadcrumbs.data_gen.generate import generate

    out = tmp_path_factory.mktemp("pairs") / "data"
    few = dataclasses.replace(
        small_config,
        train=Amount(pairs=3, declines=1),
        eval_tools=Amount(pairs=1),
        eval_domain=Amount(pairs=1),
        phrasing="plain",
    )
    generate(few, out, lambda done, total, note="": None)
    return out


@pytest.fixture(scope="session")
def pairs(data: Path) -> list[Any]:
    from breadcrumbs.train.config import DpoConfig
    from breadcrumbs.train.pairs import read_pairs

    return read_pairs(DpoConfig(data=str(data), out="o", adapter="a", steps=1))


@pytest.fixture(scope="session")
def adapter(model_folder: Path, renderer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A supervised adapter to go on from."""
    from breadcrumbs.train.config import TrainConfig
    from breadcrumbs.train.fitting import quiet_libraries
    from breadcrumbs.train.sft import fit

    out = tmp_path_factory.mktemp("sft") / "adapter"
    config = TrainConfig(data="d", out=str(out), model=str(model_folder), steps=2, warmup=1)
    with quiet_libraries():
        fit(config, make_rows(2), model_folder, renderer)
    return out
