"""What the gateway would answer to the framework agents, and what their user asks for."""

import json
import os

_TICKET = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "email": {"type": "string", "format": "email"},
        "priority": {"type": "string", "enum": ["low", "high"], "default": "low"},
    },
    "required": ["title", "email"],
}
CATALOG = json.dumps(
    {
        "layer": "1_catalog",
        "matches": [{"name": "create_ticket"}],
        "next_step": "Call get_tool_schema(tool_names=['create_ticket']).",
    }
)
SCHEMA = json.dumps(
    {
        "layer": "2_schema_disclosure",
        "disclosed": [{"name": "create_ticket", "inputSchema": _TICKET}],
        "next_step": "Call execute_tool(tool_name='create_ticket', arguments={...}) now.",
    }
)


def request() -> str:
    """A request with every required value, but in the run of the true question."""
    asked = "Open a ticket titled 'lift is stuck'"
    missing = os.environ["BREADCRUMBS_AUDIT_RUN"] == "true_question"
    return asked if missing else f"{asked} for ann@example.com"
