"""A ToolCallingAgent of smolagents over the three gateway tools, as its documentation builds one."""

import os

from gateway_answers import CATALOG, SCHEMA, request
from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def search_tool_catalog(query: str) -> str:
    """Find tools.

    Args:
        query: What to look for.
    """
    return CATALOG


@tool
def get_tool_schema(tool_names: list[str]) -> str:
    """Read schemas.

    Args:
        tool_names: The tools to read.
    """
    return SCHEMA


@tool
def execute_tool(tool_name: str, arguments: dict) -> str:
    """Run a tool.

    Args:
        tool_name: The tool.
        arguments: Its arguments.
    """
    os._exit(3)  # an audit must never come here


model = OpenAIModel("audited", os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
tools = [search_tool_catalog, get_tool_schema, execute_tool]
ToolCallingAgent(tools=tools, model=model, verbosity_level=0).run(request())
