"""An agent of pydantic-ai over the three gateway tools, as its documentation builds one."""

import os

from gateway_answers import CATALOG, SCHEMA, request
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(OpenAIChatModel("audited"), system_prompt="Use the tools.")


@agent.tool_plain
def search_tool_catalog(query: str) -> str:
    """Find tools."""
    return CATALOG


@agent.tool_plain
def get_tool_schema(tool_names: list[str]) -> str:
    """Read schemas."""
    return SCHEMA


@agent.tool_plain
def execute_tool(tool_name: str, arguments: dict) -> str:
    """Run a tool."""
    os._exit(3)  # an audit must never come here


agent.run_sync(request())
