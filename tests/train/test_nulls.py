from __future__ import annotations

import copy
from typing import Any

import pytest

from breadcrumbs.messages import Message, ToolCall
from breadcrumbs.train.nulls import injected_nulls

Tools = list[dict[str, Any]]


def calling(name: str, arguments: dict[str, Any]) -> Message:
    return Message("assistant", "", (ToolCall("c", name, arguments),))


def executing(arguments: dict[str, Any]) -> Message:
    return calling("execute_tool", {"tool_name": "create_event", "arguments": arguments})


def test_a_null_for_a_key_of_another_tool_is_injected(tools: Tools) -> None:
    message = calling("search_tool_catalog", {"query": "x", "tool_names": None})
    assert injected_nulls([message], tools) == ["message 0 search_tool_catalog.tool_names"]


def test_a_null_the_disclosed_schema_allows_is_kept(tools: Tools, schema_payload: str) -> None:
    disclosed = Message("tool", schema_payload, tool_call_id="b")
    assert injected_nulls([disclosed, executing({"title": "t", "note": None})], tools) == []


@pytest.mark.parametrize("arguments", [{"title": None}, {"title": "t", "query": None}])
def test_a_null_the_disclosed_schema_forbids_is_injected(
    tools: Tools, schema_payload: str, arguments: dict[str, Any]
) -> None:
    disclosed = Message("tool", schema_payload, tool_call_id="b")
    found = injected_nulls([disclosed, executing(arguments)], tools)
    key = next(key for key, value in arguments.items() if value is None)
    assert found == [f"message 1 execute_tool.arguments.{key}"]


def test_nulls_inside_lists_are_found(tools: Tools) -> None:
    message = calling("get_tool_schema", {"tool_names": ["a", None]})
    assert injected_nulls([message], tools) == ["message 0 get_tool_schema.tool_names[1]"]


def test_merged_tool_definitions_are_found_and_null_defaults_kept(tools: Tools) -> None:
    merged = copy.deepcopy(tools)
    properties = merged[0]["function"]["parameters"]["properties"]
    properties["query"]["default"] = None
    properties["query"]["enum"] = ["a", None]
    assert injected_nulls([], merged) == []
    properties["tool_names"] = None
    properties["default"] = None  # a parameter of that name, not the keyword
    assert injected_nulls([], merged) == [
        "tools[0].function.parameters.properties.tool_names",
        "tools[0].function.parameters.properties.default",
    ]
