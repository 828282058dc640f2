import pytest

from breadcrumbs.prompt_grammar import (
    ACT,
    ASK,
    CONFIRM,
    HELD_OUT_ACT,
    WAY,
    demands_confirmation,
    steering_of,
    varied_prompt,
    with_tier_2_off,
)
from breadcrumbs.prompts import COUPLED, DECOUPLED, system_prompt

NOW = "2026-03-02T09:00"
ON = [varied_prompt(NOW, 1, f"train-pair-{place:04d}") for place in range(600)]
OFF = [with_tier_2_off(prompt.text, 1, str(place)) for place, prompt in enumerate(ON)]


def test_there_are_more_than_forty_prompts_with_tier_2_on_and_off() -> None:
    assert len({prompt.steering for prompt in ON}) >= 40
    assert len({text.partition("\n")[0] for text in OFF}) >= 40


def test_none_is_frequent() -> None:
    texts = [prompt.text for prompt in ON]
    assert max(map(texts.count, texts)) <= 0.02 * len(texts)


def test_seed_and_place_fix_a_prompt() -> None:
    assert varied_prompt(NOW, 1, "a") == varied_prompt(NOW, 1, "a")
    assert len({varied_prompt(NOW, seed, "a").text for seed in range(20)}) > 10
    assert with_tier_2_off(ON[0].text, 1, "a") == with_tier_2_off(ON[0].text, 1, "a")


def test_steering_comes_first_and_the_time_is_told() -> None:
    for prompt in ON:
        assert steering_of(prompt.text) == prompt.steering
        assert NOW in prompt.rest
    assert steering_of(system_prompt(NOW).text) in DECOUPLED
    assert steering_of(f"You are a pirate.\n{ON[0].rest}") is None


def test_only_with_tier_2_off_leave_is_asked_in_the_chat() -> None:
    assert not any(demands_confirmation(prompt.text) for prompt in ON)
    assert not any(demands_confirmation(text) for text in DECOUPLED)
    assert all(demands_confirmation(text) for text in (*OFF, *COUPLED))


def test_switching_tier_2_off_changes_the_steering_alone() -> None:
    for on, off in zip(ON, OFF, strict=True):
        assert off.partition("\n")[2] == on.rest


def test_training_never_sees_what_is_held_out() -> None:
    assert not any(held in prompt.text for prompt in ON for held in HELD_OUT_ACT)
    others = [varied_prompt(NOW, 1, str(place), held_out=True).text for place in range(200)]
    assert any(held in text for text in others for held in HELD_OUT_ACT)


@pytest.mark.parametrize("text", [*ACT, *HELD_OUT_ACT, *ASK])
def test_no_part_of_tier_2_asks_for_leave(text: str) -> None:
    assert "confirm" not in text
    assert len(text.split()) <= 25


@pytest.mark.parametrize("text", CONFIRM)
def test_every_part_without_it_does(text: str) -> None:
    assert any(word in text for word in ("confirm", "permission", "yes", "consent", "go-ahead"))
    assert all(way.endswith(".") for way in WAY)
