"""Who a bearer key is: known by the key, not by its place in a list."""

from __future__ import annotations

import pytest

from breadcrumbs.callers import caller_of


def test_a_name_stays_with_its_key() -> None:
    first, second = "key-of-ann", "key-of-bob"
    bob = caller_of(f"Bearer {second}", (first, second))
    assert bob == caller_of(f"bearer  {second} ", (second,))  # ann's key was taken off the list
    assert bob not in (None, caller_of(f"Bearer {first}", (first, second)))
    assert second not in str(bob)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic a-key", "Bearer a-key2", "a-key"]
)
def test_anything_else_is_nobody(header: str) -> None:
    assert caller_of(header, ("a-key",)) is None
