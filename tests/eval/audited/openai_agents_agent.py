"""An agent of openai-agents over the three gateway tools, as its documentation builds one."""

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from gateway_answers import CATALOG, SCHEMA, request
from openai import AsyncOpenAI

set_tracing_disabled(True)


@function_tool
def search_tool_catalog(query: str) -> str:
    """Find tools."""
    return CATALOG


@function_tool
def get_tool_schema(tool_names: list[str]) -> str:
    """Read schemas."""
    return SCHEMA


@function_tool
def execute_tool(tool_name: str, arguments: str) -> str:
    """Run a tool."""
    os._exit(3)  # an audit must never come here


agent = Agent(
    name="desk",
    instructions="Use the tools.",
    tools=[search_tool_catalog, get_tool_schema, execute_tool],
    model=OpenAIChatCompletionsModel("audited", AsyncOpenAI()),
)
asyncio.run(Runner.run(agent, request()))
