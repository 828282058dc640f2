from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from breadcrumbs.train.curriculum import Curriculum, recall

TWINS = [name for name in "abcdefgh" for _ in range(2)]


def drawn(curriculum: Curriculum, steps: range) -> Counter[int]:
    return Counter(index for step in steps for index in curriculum.draw(step))


def taught(share_of: dict[int, float]) -> Curriculum:
    """Every scenario tried a few times; those named come out right that often, others always."""
    curriculum = Curriculum(TWINS, 2, 0)
    for step in range(20):
        curriculum.record(step, {index: share_of.get(index, 1.0) for index in range(16)})
    return curriculum


def test_what_comes_out_right_half_the_time_is_tried_most() -> None:
    found = drawn(taught({4: 0.5, 5: 0.5}), range(30, 130))
    assert found[4] > 2 * max(count for index, count in found.items() if index not in (4, 5))
    assert found[0] > 0  # what is learnt is still met
    even = drawn(taught({}), range(30, 130))
    assert even[4] < found[4] / 2  # the control: nothing is special about it


def test_never_right_is_as_rare_as_always_right() -> None:
    found = drawn(taught({4: 0.0, 5: 0.0}), range(30, 430))
    assert found[4] < 2 * found[0] + 40


def test_twins_are_drawn_together_and_draws_are_those_of_the_seed() -> None:
    curriculum = Curriculum(TWINS, 2, 0)
    for step in range(10):
        first, second = curriculum.draw(step)
        assert TWINS[first] == TWINS[second]
    assert [curriculum.draw(n) for n in range(9)] == [
        Curriculum(TWINS, 2, 0).draw(n) for n in range(9)
    ]
    other = Curriculum(TWINS, 2, 1)
    assert [curriculum.draw(n) for n in range(9)] != [other.draw(n) for n in range(9)]


def test_a_draw_does_not_depend_on_the_step_before_it() -> None:
    """Batches are fetched ahead; what is only sometimes known must not count."""
    one, two = Curriculum(TWINS, 2, 0), Curriculum(TWINS, 2, 0)
    two.record(6, dict.fromkeys(range(16), 1.0))
    assert [one.draw(7)] == [two.draw(7)]
    two.record(5, dict.fromkeys(range(2, 16), 1.0))
    assert any(one.draw(n) != two.draw(n) for n in range(8, 60))


def test_few_scenarios_fill_a_step_by_turns() -> None:
    assert len(Curriculum(["a", "a"], 5, 0).draw(0)) == 5


def test_an_interrupted_run_recalls_its_outcomes(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    lines = [{"step": n + 1, "right": {f"s{n % 16}": 1.0}} for n in range(20)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    again, whole = Curriculum(TWINS, 2, 0), Curriculum(TWINS, 2, 0)
    recall(path, again, [f"s{n}" for n in range(16)])
    for n in range(20):
        whole.record(n, {n % 16: 1.0})
    assert [again.draw(n) for n in range(22, 40)] == [whole.draw(n) for n in range(22, 40)]
    fresh = Curriculum(TWINS, 2, 0)
    recall(tmp_path / "none", fresh, [])
    assert [fresh.draw(n) for n in range(22, 40)] != [whole.draw(n) for n in range(22, 40)]
