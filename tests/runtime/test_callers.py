"""Who a bearer key is: known by the key, not by its place in a list."""

from __future__ import annotations

import pytest

from breadcrumbs.callers import caller_of, read_keys
from breadcrumbs.errors import ConfigError


def test_a_name_stays_with_its_key() -> None:
    first, second = "key-of-ann", "key-of-bob"
    bob = caller_of(f"Bearer {second}", (first, second))
    assert bob == caller_of(f"bearer  {second} ", (second,))  # ann's key was taken off the list
    assert bob not in (None, caller_of(f"Bearer {first}", (first, second)))
    assert second not in str(bob)


def test_a_keys_roles_stand_among_its_scopes() -> None:
    plain, both, alone = read_keys(("a", "b:chat+role=ops+role=admin", "c:role=admin"))
    assert (plain.roles, both.roles, alone.roles) == ((), ("admin", "ops"), ("admin",))
    assert (both.scopes, alone.scopes) == ({"chat"}, plain.scopes)
    assert both.name == read_keys(("b",))[0].name
    for wrong in ("d:role=", "d:chat+role=a b", "d:chat+role=a,b"):
        with pytest.raises(ConfigError, match="role=NAME for each role"):
            read_keys((wrong,))


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Basic a-key", "Bearer a-key2", "a-key"]
)
def test_anything_else_is_nobody(header: str) -> None:
    assert caller_of(header, ("a-key",)) is None
