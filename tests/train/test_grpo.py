"""Training by reward on a model of two layers: what it is shown, how it is taught, resumed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from breadcrumbs.data_gen.episodes import OraclePolicy
from breadcrumbs.errors import DataError, PreflightError
from breadcrumbs.gateway.gateway import META_TOOLS
from breadcrumbs.messages import Message
from breadcrumbs.train.config import GrpoConfig
from breadcrumbs.train.grpo import build_trainer, fit_rollouts, read_tried, readable
from breadcrumbs.train.run import METRICS, ROLLOUTS, SERVING

STALL = "Would you like me to go on?"


class Stopped(Exception):
    """The machine went away."""


@pytest.fixture(scope="module")
def config(data: Path, adapter: Path, model_folder: Path) -> GrpoConfig:
    return GrpoConfig(
        adapter=str(adapter),
        data=str(data),
        out="",
        model=str(model_folder),
        dtype="float32",
        steps=3,
        warmup=0,
        save_every=1,
        learning_rate=1e-2,
        generations=2,
        max_new_tokens=6000,
        beta=0.0,
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def trainer_for(config: GrpoConfig, renderer: Any, out: Path) -> tuple[Any, list[Any]]:
    from breadcrumbs.train.fitting import quiet_libraries

    tried = read_tried(config)
    with quiet_libraries():
        return build_trainer(config, config.model, renderer, tried, out), tried


class Scripted:
    """Writes turns in place of the model: in every try, or in every second, those of the oracle."""

    def __init__(self, trainer: Any, renderer: Any, every: int) -> None:
        self.trainer, self.renderer, self.every = trainer, renderer, every
        self.going: list[int] = []

    def __call__(self, prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
        if not any(environment._answers for environment in self.trainer.environments):
            self.going = list(range(len(prompt_ids)))
        texts = [self.turn(place) for place in self.going]
        self.going = [p for p, text in zip(self.going, texts, strict=True) if "<tool_call>" in text]
        return [self.renderer.tokenizer(text + "<|im_end|>")["input_ids"] for text in texts], None

    def turn(self, place: int) -> str:
        environment = self.trainer.environments[place]
        scenario = environment._scenario
        if place % self.every:
            return STALL
        spec = environment._catalog.tools[scenario.tool]
        messages = [Message("system", scenario.system_prompt), Message("user", scenario.request)]
        messages += [Message("tool", json.dumps(a.payload)) for a in environment._answers]
        turn = OraclePolicy(scenario, spec).turn(messages)
        calls = [json.dumps({"name": c.name, "arguments": c.arguments}) for c in turn.calls]
        return f"<tool_call>\n{calls[0]}\n</tool_call>" if calls else turn.text


def taught(config: GrpoConfig, renderer: Any, out: Path, every: int) -> tuple[float, float, Any]:
    """How much likelier a search is than a stall as the first turn, before and after training."""
    from breadcrumbs.train.fitting import quiet_libraries

    short = dataclasses.replace(config, out=str(out), steps=2, batch_scenarios=1)
    trainer, tried = trainer_for(short, renderer, out)
    trainer._generate_single_turn = Scripted(trainer, renderer, every)
    record = tried[0][1]
    messages = [Message(m["role"], m["content"]) for m in record["prompt"]]
    prompt = renderer.prompt_ids(messages, META_TOOLS)
    before = gap(trainer.model, renderer, prompt)
    with quiet_libraries():
        trainer.train()
    return before, gap(trainer.model, renderer, prompt), trainer


def gap(model: Any, renderer: Any, prompt: list[int]) -> float:
    from breadcrumbs.train.golden import last_logits

    search, stall = (renderer.tokenizer(t)["input_ids"][0] for t in ("<tool_call>", STALL))
    logits = last_logits(model, prompt, 1)[0]
    return float(logits[search] - logits[stall])


def test_tries_that_earn_more_become_likelier(
    config: GrpoConfig, renderer: Any, tmp_path: Path
) -> None:
    """The whole of TRL's tool loop at the gateway, with turns that are written for it."""
    before, after, _ = taught(config, renderer, tmp_path, every=2)
    assert after > before + 0.05
    for line in lines_of(tmp_path / ROLLOUTS):
        assert set(line["right"].values()) == {0.5}
    for line in lines_of(tmp_path / METRICS):
        assert line["rewards/rewards/mean"] < 0.5
        assert line["tools/failure_frequency"] == 0


def test_tries_that_earn_the_same_teach_nothing(
    config: GrpoConfig, renderer: Any, tmp_path: Path
) -> None:
    """The control, and the reason for the curriculum."""
    before, after, _ = taught(config, renderer, tmp_path, every=1)
    assert after == pytest.approx(before, abs=1e-6)
    for line in lines_of(tmp_path / METRICS):
        assert line["rewards/rewards/mean"] == 1.0
        assert line["frac_reward_zero_std"] == 1.0


def test_the_prompt_is_the_one_that_is_served(
    config: GrpoConfig, renderer: Any, tmp_path: Path
) -> None:
    trainer, tried = trainer_for(dataclasses.replace(config, out=str(tmp_path)), renderer, tmp_path)
    prompts = [record["prompt"] for _, record in tried]
    trainer._batch_environments = [None] * len(prompts)
    found, _, _ = trainer._tokenize_prompts(prompts)
    for ids, prompt in zip(found, prompts, strict=True):
        messages = [Message(m["role"], m["content"]) for m in prompt]
        assert list(ids) == renderer.prompt_ids(messages, META_TOOLS)
    trainer._env_tools = {None: trainer.tools}  # the control: as TRL reads the tools off methods
    with pytest.raises(Exception, match="search_tool_catalog|execute_tool|arg"):
        trainer._tokenize_prompts(prompts)


def test_calls_are_read_as_they_are_in_service(renderer: Any) -> None:
    from trl.chat_template_utils import parse_response

    tokenizer = readable(renderer)
    text = '<think>{}</think>\n<tool_call>\n{"name": "execute_tool", "arguments": {"a": 1}}\n</tool_call>'
    served = renderer.call_format.parse_turn(text)
    prefix = tokenizer("<|im_start|>assistant\n")["input_ids"]
    parsed = parse_response(tokenizer, tokenizer(text + "<|im_end|>")["input_ids"], prefix=prefix)
    (call,) = parsed["tool_calls"]
    assert call["function"] == {"name": served.calls[0].name, "arguments": {"a": 1}}
    assert getattr(renderer.tokenizer, "response_template", None) is None  # published as it was


def test_a_template_that_trl_cannot_read_is_refused(renderer: Any) -> None:
    import copy

    other = copy.copy(renderer)
    other.template = "{{ messages }}"
    with pytest.raises(PreflightError, match="cannot read its calls"):
        readable(other)


def test_a_run_is_published_and_goes_on_to_the_same_losses(
    config: GrpoConfig, renderer: Any, tmp_path: Path
) -> None:
    from breadcrumbs.train.fitting import quiet_libraries

    tried = read_tried(config)

    def fit(name: str, report: Any = None) -> Path:
        mine = dataclasses.replace(config, out=str(tmp_path / name), max_new_tokens=24)
        with quiet_libraries():
            fit_rollouts(mine, tried, mine.model, renderer, report)
        return Path(mine.out)

    def stop_at_two(done: int, total: int, note: str = "") -> None:
        if done == 2:
            raise Stopped

    whole = fit("whole")
    assert (whole / SERVING).is_file()
    assert "scored by its log" in (whole / "README.md").read_text()
    with pytest.raises(Stopped):
        fit("again", stop_at_two)
    again = fit("again")
    assert lines_of(whole / ROLLOUTS) == lines_of(again / ROLLOUTS)
    assert [line["step"] for line in lines_of(again / METRICS)] == [1, 2, 3]
    for before, after in zip(lines_of(whole / METRICS), lines_of(again / METRICS), strict=True):
        assert after["loss"] == pytest.approx(before["loss"], abs=1e-5)
        assert after["completions/mean_length"] == before["completions/mean_length"]


def test_one_direction_alone_is_refused(
    config: GrpoConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from breadcrumbs.data_gen import dataset

    rows = dataset.load_rows(config.data, "train")
    assert {row.behaviour for row, _ in read_tried(config)} >= {"dispatch", "clarify"}
    kept = [row for row in rows if row.behaviour == "dispatch"]
    monkeypatch.setattr(dataset, "load_rows", lambda *_: kept)
    with pytest.raises(DataError, match="has no clarify scenario to try"):
        read_tried(config)
