"""What the gateway answers: three layers, and the breadcrumb that is always the last key.

Tool data is nested as data and serialised as JSON, so nothing in it can become a `next_step`
of the payload. One breadcrumb text serves every schema disclosure, whether or not the user gave
all values: it says to call, to use defaults, not to ask for confirmation, and to ask only for
what is found nowhere.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from breadcrumbs.gateway.arguments import MAX_FAULTS, FieldError
from breadcrumbs.gateway.catalog import ToolSpec
from breadcrumbs.messages import compact_json

NEXT_STEP = "next_step"
_PLAIN = re.compile(r"[\w.:+/@-]{1,64}")
"""What of a catalog may enter a directive: one word. A name or default with more could direct."""
NOTHING_FITS = "No tool fits. Tell the user that this cannot be done here."
DECIDED: Mapping[str, str] = {
    "approved": "It was approved and has not begun. Tell the user. Do not call it again.",
    "executing": "It was approved and is running. Tell the user. Do not call it again.",
}
"""What `approval_required` says once nobody has to decide any more, by the row's state."""
DENIED_AGAIN = (
    "Stop: call no tool for this any more. Tell the user that it was denied and that nothing was"
    " changed."
)
NEXT_AFTER: Mapping[str, str] = {
    "done": "Tell the user in one sentence what was done.",
    "approval_required": (
        "Tell the user that this waits for approval and has not run. Do not call it again."
    ),
    "denied": (
        "Do not call this again with the same arguments. Tell the user that it was denied and"
        " nothing was changed."
    ),
    "expired": "Tell the user that the approval ran out and nothing was changed.",
    "failed": "Tell the user that it failed and why.",
    "unknown": "Tell the user that the outcome is unknown and a person must check. Do not retry.",
    "unauthorized": "Tell the user that this tool is not open to them.",
    "not_found": "Call search_tool_catalog(query='...') to find a tool that exists.",
}


def catalog_payload(hits: Sequence[ToolSpec], *, breadcrumb: bool) -> dict[str, Any]:
    """Layer 1: what a search found."""
    payload: dict[str, Any] = {
        "layer": "1_catalog",
        "matches": [{"name": spec.name, "description": spec.description} for spec in hits],
    }
    text = "Call get_tool_schema(tool_names=['NAME']) or say that none fits."
    return _ended(payload, text if hits else NOTHING_FITS, breadcrumb)


def schema_payload(
    disclosed: Sequence[ToolSpec],
    unauthorized: Sequence[str],
    not_found: Sequence[str],
    *,
    breadcrumb: bool,
) -> dict[str, Any]:
    """Layer 2: schemas, and the names that cannot be shown."""
    payload: dict[str, Any] = {
        "layer": "2_schema_disclosure",
        "disclosed": [
            {
                "name": spec.name,
                "description": spec.description,
                "risk": str(spec.risk),
                "requiresApproval": spec.requires_approval,
                "inputSchema": _shown_schema(spec),
            }
            for spec in disclosed
        ],
        "unauthorized": list(unauthorized),
        "not_found": list(not_found),
    }
    if disclosed:
        text = dispatch_breadcrumb(disclosed)
    else:
        text = NEXT_AFTER["unauthorized" if unauthorized else "not_found"]
    return _ended(payload, text, breadcrumb)


def _shown_schema(spec: ToolSpec) -> dict[str, Any]:
    """The schema less what goes without saying, which saves tokens in every prompt.

    That is `additionalProperties: false`, which holds for nearly all, and the type of a parameter
    whose enum shows it.
    """
    shown = copy.deepcopy(dict(spec.input_schema))
    if shown.get("additionalProperties") is False:
        del shown["additionalProperties"]
    for schema in shown["properties"].values():
        values = schema.get("enum", ())
        if schema.get("type") == "string" and values and all(isinstance(v, str) for v in values):
            del schema["type"]
    return shown


def dispatch_breadcrumb(disclosed: Sequence[ToolSpec]) -> str:
    """The directive after a schema: the exact call, what it requires, and a default as example."""
    name = _name(disclosed[0].name) if len(disclosed) == 1 else "NAME"
    return (
        f"Call execute_tool(tool_name='{name}', arguments={{{_required(disclosed)}}}) now. Default"
        f" non-critical fields{_example(disclosed)}. Ask for no confirmation, only for a required"
        " value found nowhere."
    )


def _required(disclosed: Sequence[ToolSpec]) -> str:
    """The required names of a single tool, near where the model has to decide."""
    names = disclosed[0].required if len(disclosed) == 1 else ()
    return ", ".join((*(name for name in names if _PLAIN.fullmatch(name)), "..."))


def _example(disclosed: Sequence[ToolSpec]) -> str:
    for spec in disclosed:
        for name, schema in spec.input_schema["properties"].items():
            default = schema.get("default")
            if not (isinstance(default, str | int | float) and _PLAIN.fullmatch(name)):
                continue
            if not isinstance(default, str):
                return f" (e.g. {name} {compact_json(default)})"
            if _PLAIN.fullmatch(default):
                return f" (e.g. {name} '{default}')"
    return ""


def _name(tool: str) -> str:
    return tool if _PLAIN.fullmatch(tool) else "NAME"


def execution_payload(
    tool: str,
    status: str,
    *,
    breadcrumb: bool,
    next_step: str | None = None,
    **details: Any,
) -> dict[str, Any]:
    """Layer 3: how a call went; `details` (result, reason, approval_id, ...) go in between."""
    payload: dict[str, Any] = {"layer": "3_execution", "tool": tool, "status": status, **details}
    return _ended(payload, next_step or NEXT_AFTER[status], breadcrumb)


def invalid_payload(
    spec: ToolSpec, errors: Sequence[FieldError], *, breadcrumb: bool
) -> dict[str, Any]:
    """Layer 3: arguments that the schema refuses, field by field."""
    # Only the schema's own names enter the directive: a made-up field name could carry anything.
    known = spec.input_schema["properties"]
    heads = [error.path.partition(".")[0] for error in errors]
    named = dict.fromkeys(h for h in heads if h in known and _PLAIN.fullmatch(h))
    fields = ", ".join(named) or "the arguments"
    return execution_payload(
        spec.name,
        "invalid",
        breadcrumb=breadcrumb,
        next_step=(
            f"Mend {fields} and call execute_tool(tool_name='{_name(spec.name)}',"
            " arguments={...}) again. Ask the user only for a required value that is found nowhere."
        ),
        errors=[error.to_dict() for error in errors],
    )


def not_disclosed_payload(tool: str, *, breadcrumb: bool) -> dict[str, Any]:
    """Layer 3: a call before its schema was read."""
    return execution_payload(
        tool,
        "not_disclosed",
        breadcrumb=breadcrumb,
        next_step=f"Call get_tool_schema(tool_names=['{_name(tool)}']) first.",
    )


def usage_payload(name: str, errors: Sequence[FieldError], *, breadcrumb: bool) -> dict[str, Any]:
    """A meta-tool that does not exist, or was called with wrong arguments.

    A caller may make up any number of those; the first are named and the rest counted.
    """
    shown = list(errors[:MAX_FAULTS])
    if len(errors) > MAX_FAULTS:
        shown.append(FieldError("", f"and {len(errors) - MAX_FAULTS} more faults"))
    payload: dict[str, Any] = {
        "layer": "0_usage",
        "call": name,
        "status": "invalid",
        "errors": [error.to_dict() for error in shown],
    }
    text = (
        "Call search_tool_catalog(query='...'), get_tool_schema(tool_names=['NAME']) or"
        " execute_tool(tool_name='NAME', arguments={...})."
    )
    return _ended(payload, text, breadcrumb)


def _ended(payload: dict[str, Any], next_step: str, breadcrumb: bool) -> dict[str, Any]:
    if breadcrumb:
        payload[NEXT_STEP] = next_step
    return payload
