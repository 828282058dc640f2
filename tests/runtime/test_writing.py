"""Which token comes next, and what of a turn under way is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from breadcrumbs.models import quiet
from breadcrumbs.rendering import Renderer, load_renderer
from breadcrumbs.turns import Turn, Usage, Wishes
from breadcrumbs.writing import Choice, Writing

LOGITS = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05]))


@pytest.fixture(scope="module")
def renderer(tiny_model_folder: Path) -> Renderer:
    with quiet():
        return load_renderer(tiny_model_folder)


def drawn(wishes: Wishes, count: int = 400) -> list[int]:
    choose = Choice(wishes)
    return [choose(LOGITS) for _ in range(count)]


@pytest.mark.parametrize(
    "wishes",
    [
        Wishes(),
        Wishes(temperature=0.0),
        Wishes(temperature=0.0, top_p=0.9),
        Wishes(temperature=1e-30),
    ],
)
def test_without_a_temperature_the_likeliest_token_comes(wishes: Wishes) -> None:
    assert set(drawn(wishes)) == {0}


def test_a_seed_repeats_the_draws_and_another_does_not() -> None:
    wishes = Wishes(temperature=1.0, seed=7)
    assert drawn(wishes) == drawn(wishes)
    assert drawn(wishes) != drawn(Wishes(temperature=1.0, seed=8))
    assert drawn(Wishes(temperature=1.0)) != drawn(Wishes(temperature=1.0))
    drawn(Wishes(temperature=1.0, seed=-(2**63)), 1)


def test_draws_follow_the_shares_and_the_temperature_sharpens_them() -> None:
    plain = drawn(Wishes(temperature=1.0, seed=1), 2000)
    assert abs(plain.count(0) / 2000 - 0.5) < 0.05
    assert set(plain) == {0, 1, 2, 3}
    cold = drawn(Wishes(temperature=0.3, seed=1), 2000)
    assert cold.count(0) / 2000 > 0.75


def test_top_p_keeps_the_fewest_tokens_with_that_share() -> None:
    assert set(drawn(Wishes(top_p=0.79, seed=1))) == {0, 1}
    assert set(drawn(Wishes(top_p=0.81, seed=1))) == {0, 1, 2}
    assert set(drawn(Wishes(top_p=1e-9, seed=1))) == {0}


def written(renderer: Renderer, text: str, **options: Any) -> tuple[list[str], Turn, int]:
    """The pieces shown, the turn, and how many tokens were taken."""
    ids = renderer.tokenizer.encode(text, add_special_tokens=False)
    writing = Writing(renderer, 1, (), 5, **{"limit": 500, **options})
    shown, taken = [], 0
    for token in [*ids, renderer.stop_ids[0]]:
        shown.append(writing.push(token))
        taken += 1
        if writing.done:
            break
    rest, turn = writing.finish()
    return [*shown, rest], turn, taken


def test_a_turn_ends_at_its_stop_token(renderer: Renderer) -> None:
    shown, turn, taken = written(renderer, "open a ticket")
    assert "".join(shown) == turn.text == "open a ticket"
    assert (turn.usage, turn.cut) == (Usage(5, taken - 1), False)


def test_a_limit_cuts_it_and_says_so(renderer: Renderer) -> None:
    whole = written(renderer, "open a ticket titled lift")[1]
    assert whole.usage is not None
    limit = whole.usage.completion - 1
    shown, turn, _ = written(renderer, "open a ticket titled lift", limit=limit)
    assert turn.cut
    assert turn.usage == Usage(5, limit)
    assert "".join(shown) == turn.text
    assert whole.text.startswith(turn.text)
    assert turn.text != whole.text


@pytest.mark.parametrize("stop", [("tick",), ("zzz", " tick"), ("ticket titled",), ("t t", "et")])
def test_no_piece_of_a_stop_text_is_ever_shown(stop: tuple[str, ...], renderer: Renderer) -> None:
    text = "open a ticket titled lift"
    end = min(at for at in map(text.find, stop) if at >= 0)
    shown, turn, taken = written(renderer, text, stop=stop)
    assert "".join(shown).strip() == turn.text == text[:end].strip()
    assert not turn.cut
    assert taken < len(renderer.tokenizer.encode(text, add_special_tokens=False)) + 1


def test_what_only_began_like_a_stop_text_is_shown(renderer: Renderer) -> None:
    shown, turn, _ = written(renderer, "open a ticket", stop=("ticket titled",))
    assert "".join(shown) == turn.text == "open a ticket"
    held = Writing(renderer, 1, (), 5, 500, ("ticket titled",))
    ids = renderer.tokenizer.encode("open a ticket", add_special_tokens=False)
    assert "ticket" not in "".join(map(held.push, ids))  # it may still become one
