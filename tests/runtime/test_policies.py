from collections.abc import Sequence
from typing import Any

import pytest

from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.messages import Message, compact_json
from breadcrumbs.policies import ScriptedPolicy, StallerPolicy, schema_is_fresh
from breadcrumbs.turns import Policy, Turn


async def take(policy: Policy, messages: Sequence[Message] = ()) -> list[str | Turn]:
    return [item async for item in policy.stream(messages, [])]


async def test_a_script_is_said_in_order_and_then_it_is_over(script: Any) -> None:
    policy = ScriptedPolicy([script.search, Turn("Done.")])
    assert await take(policy) == [script.search]
    assert await take(policy) == ["Done.", Turn("Done.")]
    with pytest.raises(ModelError, match="no further turn"):
        await take(policy)


async def test_a_staller_stalls_only_after_a_schema_and_only_so_often(
    gateway: SimulatedGateway, script: Any
) -> None:
    session = gateway.gateway.session()
    found = await session.call("search_tool_catalog", {"query": "ticket"})
    shown = await session.call("get_tool_schema", {"tool_names": ["create_ticket"]})
    before = [
        Message("user", script.request),
        Message("tool", compact_json(found), tool_call_id="a"),
    ]
    after = [*before, Message("tool", compact_json(shown), tool_call_id="b")]
    nudged = [
        *after,
        Message("assistant", script.stall),
        Message("user", "Call it.", synthetic=True),
    ]
    assert [schema_is_fresh(m) for m in ([], before, after, nudged)] == [False, False, True, True]

    policy = StallerPolicy(
        ScriptedPolicy([script.schema, script.execute]), lambda messages: script.stall, times=2
    )
    assert await take(policy, before) == [script.schema]
    assert await take(policy, after) == [script.stall, Turn(script.stall)]
    assert await take(policy, nudged) == [script.stall, Turn(script.stall)]
    assert await take(policy, nudged) == [script.execute]
