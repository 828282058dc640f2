import pytest

from breadcrumbs.prompts import COUPLED, DECOUPLED, system_prompt


def test_parts_join_with_one_newline_and_steering_comes_first() -> None:
    prompt = system_prompt("2026-03-02T09:00")
    assert prompt.text == f"{prompt.steering}\n{prompt.rest}"
    assert "2026-03-02T09:00" in prompt.rest
    assert prompt.steering in DECOUPLED


def test_wordings_are_chosen_by_index_and_count_round() -> None:
    texts = [system_prompt("t", wording=i).steering for i in range(len(DECOUPLED) + 1)]
    assert texts == [*DECOUPLED, DECOUPLED[0]]
    assert len(set(DECOUPLED)) >= 3


@pytest.mark.parametrize("text", DECOUPLED)
def test_tier_2_leaves_approval_to_the_gateway(text: str) -> None:
    assert len(text.split()) <= 40  # at most 60 tokens
    assert "confirm" not in text.lower()
    assert "missing" in text or "not given" in text


@pytest.mark.parametrize("text", COUPLED)
def test_without_tier_2_the_prompt_asks_for_confirmation(text: str) -> None:
    assert system_prompt("t", decoupled=False, wording=COUPLED.index(text)).steering == text
    assert "confirm" in text or "permission" in text
