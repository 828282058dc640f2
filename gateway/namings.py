"""The meta-tools under other names and payload shapes, so that a model does not learn one wrapper.

Loop, gateway, radar, checks and replays speak the gateway's own words and nothing else. This is the
border: a `Naming` turns a conversation into the one a model sees, and what a model wrote back. Both
ways permute words, so whatever goes out comes back to the letter, and a model that calls a name
which is not on offer has called something that does not exist.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from breadcrumbs.errors import ConfigError
from breadcrumbs.gateway.payloads import NEXT_STEP
from breadcrumbs.gateway.protocol import EXECUTE, SCHEMA, SEARCH
from breadcrumbs.messages import Message, ToolCall, compact_json, json_object

Words = Mapping[str, str]
LAYERS = ("0_usage", "1_catalog", "2_schema_disclosure", "3_execution")
_ENTRIES = ("matches", "disclosed")
"""Keys of payloads that hold one entry for each tool."""
_ORDER = (
    *("layer", "matches", "disclosed", "unauthorized", "not_found", "call", "tool", "status"),
    *("approval_id", "expires_at", "result", "reason", "errors"),
    *("name", "description", "risk", "requiresApproval", "inputSchema"),
)
"""Keys of the gateway's own payloads and of their entries, in the order they have there."""


def _permutation(renamed: Words) -> dict[str, str]:
    """The renaming, completed so that no two words become the same."""
    back = {new: old for old, new in renamed.items()}
    whole = dict(renamed)
    for new in back:
        if new not in whole:
            end = new
            while end in back:
                end = back[end]
            whole[new] = end
    return whole


def _inverse(words: Words) -> dict[str, str]:
    return {new: old for old, new in words.items()}


@dataclass(frozen=True)
class _Way:
    """One direction over the border: how calls are renamed, and the arguments of each."""

    calls: Words
    arguments: Mapping[str, Words]

    def call(self, call: ToolCall) -> ToolCall:
        """The call in the words of the other side; its id stays."""
        names = self.arguments.get(call.name, {})
        arguments = {names.get(key, key): value for key, value in call.arguments.items()}
        return ToolCall(call.id, self.calls.get(call.name, call.name), arguments)

    def text(self, text: str) -> str:
        """The text with every meta-tool it names, and the arguments of calls it spells out."""
        return self._named.sub(self._said, text)

    @cached_property
    def _named(self) -> re.Pattern[str]:
        names = "|".join(map(re.escape, sorted(self.calls, key=len, reverse=True)))
        return re.compile(
            rf"(?<![\w-])(?P<name>{names})(?![\w-])(?:"
            r"\((?P<a>\w+)=(?:'[^'\n]*', (?P<b>\w+)(?==))?"
            r"|\"\s*,\s*\"arguments\"\s*:\s*\{\s*\"(?P<c>\w+)\"\s*:"
            r"(?:\s*\"[^\"\n]*\"\s*,\s*\"(?P<d>\w+)\"\s*:)?"
            r"| with (?:the )?(?P<e>\w+))?"
        )

    def _said(self, found: re.Match[str]) -> str:
        names = self.arguments.get(found["name"], {})
        pieces, at = [self.calls[found["name"]]], found.end("name")
        for group in "abcde":
            if found[group] is not None:
                said = names.get(found[group], found[group])
                pieces += [found.string[at : found.start(group)], said]
                at = found.end(group)
        return "".join((*pieces, found.string[at : found.end()]))


@dataclass(frozen=True, eq=False)
class Naming:
    """One set of names and payload shapes; as it stands, the gateway's own.

    What is renamed is given from the gateway's word to the shown one. `next_step` keeps its name
    and its place: the last key of every payload.
    """

    name: str
    calls: Words = field(default_factory=dict)
    """The three meta-tools. Shown names have two words or more, so that no prose holds them."""
    arguments: Mapping[str, Words] = field(default_factory=dict)
    """By the gateway's name of the call."""
    keys: Words = field(default_factory=dict)
    """Keys of payloads and of their entries."""
    layers: Words = field(default_factory=dict)
    """Values of `layer`."""
    order: tuple[str, ...] = ()
    """Keys, by the gateway's name, that come first; the others follow in its order."""
    inside: str = ""
    """The key of an object that holds all of a payload but `next_step`."""
    by_name: bool = False
    """Whether matches and schemas lie in an object by the tool's name instead of in a list."""

    @cached_property
    def _out(self) -> _Way:
        arguments = {call: _permutation(names) for call, names in self.arguments.items()}
        return _Way(_permutation(self.calls), arguments)

    @cached_property
    def _back(self) -> _Way:
        arguments = {
            self.calls.get(call, call): _inverse(_permutation(names))
            for call, names in self.arguments.items()
        }
        return _Way(_inverse(_permutation(self.calls)), arguments)

    @cached_property
    def _keys_out(self) -> Words:
        return _permutation(self.keys)

    @cached_property
    def _places(self) -> Mapping[str, int]:
        """Where a key stands in a shown payload, by the gateway's name."""
        rest = [key for key in _ORDER if key not in self.order]
        return {key: place for place, key in enumerate((*self.order, *rest))}

    @property
    def is_own(self) -> bool:
        """Whether nothing is renamed."""
        return not (self.calls or self.keys or self.inside or self.by_name or self.order)

    def show(self, messages: Iterable[Message]) -> list[Message]:
        """The conversation as a model sees it. What the user says is not touched."""
        return [self._message(m, self._out, self.show_payload) for m in messages]

    def hear(self, messages: Iterable[Message]) -> list[Message]:
        """A conversation that a model saw, in the gateway's words."""
        return [self._message(m, self._back, self.hear_payload) for m in messages]

    def _message(
        self,
        message: Message,
        way: _Way,
        payload: Callable[[Mapping[str, Any]], dict[str, Any]],
    ) -> Message:
        if self.is_own or (message.role == "user" and not message.synthetic):
            return message
        if message.role == "tool":
            found = json_object(message.content)
            if compact_json(found) != message.content:
                return message  # no payload of ours
            return dataclasses.replace(message, content=compact_json(payload(found)))
        return dataclasses.replace(
            message,
            content=way.text(message.content),
            tool_calls=tuple(map(way.call, message.tool_calls)),
        )

    def show_tools(self, tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The definitions of the meta-tools, in OpenAI's format, as a model sees them."""
        return self._renamed(tools, self._out)

    def hear_tools(self, tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Shown definitions in the gateway's words."""
        return self._renamed(tools, self._back)

    def _renamed(self, tools: Iterable[Mapping[str, Any]], way: _Way) -> list[dict[str, Any]]:
        return [dict(tool) if self.is_own else _renamed_tool(tool, way) for tool in tools]

    def show_text(self, text: str) -> str:
        """A text of ours, such as a system prompt."""
        return self._out.text(text) if self.calls else text

    def hear_text(self, text: str) -> str:
        """A model's text in the gateway's words."""
        return self._back.text(text) if self.calls else text

    def hear_call(self, call: ToolCall) -> ToolCall:
        """A model's call in the gateway's words."""
        return self._back.call(call)

    def show_payload(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """A gateway payload as a model sees it; what is none stays as it is."""
        if self.is_own or "layer" not in payload:
            return dict(payload)
        body = {key: value for key, value in payload.items() if key != NEXT_STEP}
        body = self._usage(body, self._out)
        body["layer"] = self.layers.get(body["layer"], body["layer"])
        for key in _ENTRIES:
            if key in body:
                body[key] = self._shown_entries(body[key])
        shown = self._shown(body)
        if self.inside:
            shown = {self.inside: shown}
        if NEXT_STEP in payload:
            shown[NEXT_STEP] = self._out.text(payload[NEXT_STEP])
        return shown

    def _shown(self, body: Mapping[str, Any]) -> dict[str, Any]:
        last = len(self._places)
        keys = sorted(body, key=lambda key: self._places.get(key, last))
        return {self._keys_out.get(key, key): body[key] for key in keys}

    def _shown_entries(self, entries: Sequence[Mapping[str, Any]]) -> Any:
        if not self.by_name:
            return [self._shown(entry) for entry in entries]
        return {
            entry["name"]: self._shown({k: v for k, v in entry.items() if k != "name"})
            for entry in entries
        }

    def hear_payload(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        """A shown payload in the gateway's words; what is none stays as it is."""
        if self.is_own or self._layer(shown) is None:
            return dict(shown)
        body = self._heard(shown[self.inside] if self.inside else shown)
        body.pop(NEXT_STEP, None)
        body["layer"] = self._layer(shown)
        body = self._usage(body, self._back)
        for key in _ENTRIES:
            if key in body:
                body[key] = self._heard_entries(body[key])
        if NEXT_STEP in shown:
            body[NEXT_STEP] = self._back.text(shown[NEXT_STEP])
        return body

    def _heard(self, shown: Mapping[str, Any]) -> dict[str, Any]:
        names = _inverse(self._keys_out)
        body = {names.get(key, key): value for key, value in shown.items()}
        known = [key for key in _ORDER if key in body]
        return {key: body[key] for key in (*known, *(k for k in body if k not in _ORDER))}

    def _heard_entries(self, entries: Any) -> list[dict[str, Any]]:
        if not self.by_name:
            return [self._heard(entry) for entry in entries]
        return [{"name": name, **self._heard(entry)} for name, entry in entries.items()]

    def _usage(self, body: dict[str, Any], way: _Way) -> dict[str, Any]:
        """A payload about a misused call: its name, and the arguments that are at fault."""
        if body["layer"] != "0_usage":
            return body
        names = way.arguments.get(body["call"], {})
        errors = []
        for error in body["errors"]:
            head, dot, rest = error["field"].partition(".")
            errors.append({**error, "field": f"{names.get(head, head)}{dot}{rest}"})
        return {**body, "call": way.calls.get(body["call"], body["call"]), "errors": errors}

    def _layer(self, shown: Mapping[str, Any]) -> str | None:
        """The gateway's name of a shown payload's layer; None where it is no payload of ours."""
        body = shown.get(self.inside) if self.inside else shown
        if not isinstance(body, Mapping):
            return None
        layer = body.get(self.keys.get("layer", "layer"))
        known = {self.layers.get(own, own): own for own in LAYERS}
        return known.get(layer) if isinstance(layer, str) else None


def _renamed_tool(tool: Mapping[str, Any], way: _Way) -> dict[str, Any]:
    function = tool["function"]
    names = way.arguments.get(function["name"], {})
    parameters = function["parameters"]
    parameters = {
        **parameters,
        "properties": {names.get(n, n): s for n, s in parameters["properties"].items()},
        "required": [names.get(name, name) for name in parameters["required"]],
    }
    name = way.calls.get(function["name"], function["name"])
    return {**tool, "function": {**function, "name": name, "parameters": parameters}}


def _calls(search: str, schema: str, execute: str) -> Words:
    return {SEARCH: search, SCHEMA: schema, EXECUTE: execute}


def _arguments(query: str, names: str, tool: str, values: str) -> Mapping[str, Words]:
    return {
        SEARCH: {"query": query},
        SCHEMA: {"tool_names": names},
        EXECUTE: {"tool_name": tool, "arguments": values},
    }


def _layers(usage: str, catalog: str, schema: str, execution: str) -> Words:
    return dict(zip(LAYERS, (usage, catalog, schema, execution), strict=True))


OWN = Naming("gateway")
_ALL = (
    OWN,
    Naming(
        "toolbox",
        _calls("find_tools", "describe_tools", "run_tool"),
        _arguments("text", "names", "name", "input"),
        {"layer": "stage", "matches": "tools", "disclosed": "schemas", "not_found": "unknown"}
        | {"unauthorized": "forbidden", "inputSchema": "parameters", "result": "output"}
        | {"requiresApproval": "needs_approval"},
        _layers("usage", "found", "described", "ran"),
    ),
    Naming(
        "registry",
        _calls("registry_lookup", "registry_inspect", "registry_invoke"),
        _arguments("keywords", "entries", "entry", "params"),
        {"layer": "registry", "matches": "entries", "disclosed": "definitions", "tool": "entry"}
        | {"inputSchema": "schema", "not_found": "missing", "unauthorized": "closed"},
        _layers("error", "lookup", "definition", "invocation"),
        by_name=True,
    ),
    Naming(
        "camel",
        _calls("searchTools", "getToolSchemas", "callTool"),
        _arguments("query", "toolNames", "toolName", "toolInput"),
        {"layer": "kind", "matches": "hits", "disclosed": "toolSchemas", "not_found": "notFound"}
        | {"approval_id": "approvalId", "expires_at": "expiresAt", "call": "calledName"}
        | {"name": "toolName"},
        _layers("usageError", "searchHits", "toolSchemas", "callOutcome"),
        order=("unauthorized", "not_found"),
    ),
    Naming(
        "server",
        _calls("mcp_search", "mcp_schema", "mcp_call"),
        _arguments("q", "tools", "tool", "args"),
        {"layer": "type", "matches": "tools", "disclosed": "tools_disclosed", "reason": "message"},
        _layers("invalid_request", "tool_list", "tool_schema", "tool_result"),
        order=("status", "layer"),
        inside="content",
    ),
    Naming(
        "capabilities",
        _calls("discover_capabilities", "load_capabilities", "use_capability"),
        _arguments("intent", "ids", "id", "parameters"),
        {"layer": "step", "matches": "capabilities", "disclosed": "loaded", "name": "id"}
        | {"description": "summary", "tool": "capability", "risk": "effect", "result": "outcome"},
        _layers("refused", "discovery", "loading", "use"),
        order=("inputSchema", "risk", "requiresApproval"),
    ),
    Naming(
        "api",
        _calls("api-search", "api-docs", "api-request"),
        _arguments("search", "endpoints", "endpoint", "body"),
        {"layer": "answers", "matches": "endpoints", "disclosed": "docs", "name": "endpoint"}
        | {"tool": "endpoint_called", "inputSchema": "body_schema", "result": "response"}
        | {"unauthorized": "401", "not_found": "404", "status": "state"},
        _layers("bad_request", "search", "docs", "request"),
    ),
    Naming(
        "skills",
        _calls("lookup_skills", "open_skills", "perform_skill"),
        _arguments("task", "skills", "skill", "values"),
        {"layer": "page", "matches": "skills", "disclosed": "opened", "tool": "skill"}
        | {"inputSchema": "takes", "errors": "problems", "requiresApproval": "held_for_approval"},
        _layers("help", "index", "manual", "report"),
        inside="skillbook",
        by_name=True,
    ),
    Naming(
        "deferred",
        _calls("tool_search", "load_tool_definitions", "call_loaded_tool"),
        _arguments("query", "names", "name", "arguments"),
        {"layer": "object", "matches": "references", "disclosed": "tools", "tool": "tool_name"}
        | {"inputSchema": "input_schema", "requiresApproval": "requires_approval"},
        _layers("tool_error", "tool_search_result", "tool_definitions", "tool_output"),
        order=("not_found", "unauthorized"),
    ),
    Naming(
        "workbench",
        _calls("browse_workbench", "read_instructions", "operate_instrument"),
        _arguments("need", "instruments", "instrument", "settings"),
        {"layer": "sheet", "matches": "shelf", "disclosed": "instructions", "name": "instrument"}
        | {"tool": "operated", "status": "reading", "inputSchema": "settings"},
        _layers("mistake", "shelf", "instructions", "operation"),
        order=("status", "tool"),
    ),
)
NAMINGS: Mapping[str, Naming] = {naming.name: naming for naming in _ALL}


def naming_of(name: str) -> Naming:
    """The naming of that name.

    Raises:
        ConfigError: there is none.
    """
    if name not in NAMINGS:
        raise ConfigError(f"no naming {name!r}; choose from {', '.join(NAMINGS)}")
    return NAMINGS[name]


def layer_of(payload: Mapping[str, Any]) -> str | None:
    """The layer of a payload under whatever naming; None where it is no payload of a gateway."""
    layers = (naming._layer(payload) for naming in NAMINGS.values())
    return next((layer for layer in layers if layer is not None), None)
