"""The gateway as an MCP server: three tools, and held writes decided by what a client can do.

Every answer is one payload as JSON text, `next_step` last. Whatever a client answers when it is
asked only moves the journal's row; the row alone lets a write run.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from mcp import MCPError
from mcp.server import Server
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from breadcrumbs import __version__
from breadcrumbs.callers import LOCAL
from breadcrumbs.errors import DataError
from breadcrumbs.gateway import payloads
from breadcrumbs.gateway.approvals import ApprovalCard
from breadcrumbs.gateway.arguments import FieldError
from breadcrumbs.gateway.gateway import (
    MAX_HITS_ASKED,
    META_TOOLS,
    Gateway,
    GatewaySession,
    Principal,
)
from breadcrumbs.gateway.journal_store import POSTGRES
from breadcrumbs.gateway.lookalikes import lookalike_notes
from breadcrumbs.mcp_input import TWICE
from breadcrumbs.messages import compact_json
from breadcrumbs.visible import visible

logger = logging.getLogger(__name__)
NAME = "breadcrumbs"
INSTRUCTIONS = (
    "Tools are found, read and run in three steps. Each answer ends with next_step: do that."
    " Call search_tool_catalog(query='...') first."
)
MAX_SESSIONS = 1000
"""Of one caller; who opens more, by made-up ids too, loses the oldest of its own."""
MAX_FORM_CHARS = 8000
"""A card that is longer is not put into a form: nobody would read it there."""
TOOLS_TTL_MS = 3_600_000
_ANSWER = "approve"
_FORM = {
    "type": "object",
    "properties": {
        _ANSWER: {
            "type": "boolean",
            "title": "Run it",
            "description": "Yes runs it once, with these arguments. No refuses it.",
        }
    },
    "required": [_ANSWER],
}
_FAULTS = frozenset({"invalid", "failed", "unknown"})
"""What a client is told is an error; everything else is an answer."""
Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class FaceSettings:
    """How a client may be asked for a decision, and where else one can be made."""

    form_approval: bool = False
    """Take a client's form for a person's decision. The client attests that it was one."""
    approval_page: str | None = None
    """A page where signed-in people decide; the approval's id is put after it."""
    journal: str = ""
    """The journal as `breadcrumbs approvals` must name it."""
    roles: tuple[str, ...] = ()
    """Of who calls without a key; a key has its own."""


def meta_tools() -> list[Tool]:
    """The three tools as clients see them, in their fixed order."""
    described = {
        "search_tool_catalog": _tool(
            "Find tools by what they do. First step.",
            {
                "query": {"type": "string", "description": "What is to be done, in a few words"},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MAX_HITS_ASKED,
                    "default": 5,
                    "description": "How many matches at most",
                },
            },
            ("query",),
            ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        ),
        "get_tool_schema": _tool(
            "Read what a tool needs, before it is run. Second step.",
            {
                "tool_names": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": "Names that a search gave",
                }
            },
            ("tool_names",),
            ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
        ),
        "execute_tool": _tool(
            "Run a tool. A write waits for a person; its approval_id asks how it stands.",
            {
                "tool_name": {"type": "string", "description": "The tool, its schema read before"},
                "arguments": {"type": "object", "description": "As its schema asks"},
                "approval_id": {
                    "anyOf": [{"type": "string"}, {"type": "null"}],
                    "default": None,
                    "description": "Only to ask how a write stands that was held earlier",
                },
            },
            ("tool_name", "arguments"),
            ToolAnnotations(
                read_only_hint=False,
                destructive_hint=True,
                idempotent_hint=False,
                open_world_hint=True,
            ),
        ),
    }
    order = [tool["function"]["name"] for tool in META_TOOLS]
    return [described[name].model_copy(update={"name": name}) for name in order]


def _tool(
    description: str,
    properties: dict[str, Any],
    required: tuple[str, ...],
    annotations: ToolAnnotations,
) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return Tool(name="", description=description, input_schema=schema, annotations=annotations)


class McpFace:
    """Answers MCP requests over one gateway."""

    def __init__(self, gateway: Gateway, settings: FaceSettings = FaceSettings()) -> None:
        self._gateway = gateway
        self._settings = settings
        self._tools = meta_tools()
        self._known = {
            tool.name: frozenset(tool.input_schema["properties"]) for tool in self._tools
        }
        self._sessions: dict[str, OrderedDict[str, GatewaySession]] = {}
        """By caller, as many as there are keys, and by MCP session, the latest last."""

    def server(self) -> Server[Any]:
        """The protocol server, for any transport."""
        server: Server[Any] = Server(
            NAME,
            version=__version__,
            instructions=INSTRUCTIONS,
            cache_hints={"tools/list": CacheHint(ttl_ms=TOOLS_TTL_MS, scope="public")},
            on_list_tools=self._list,
            on_call_tool=self._call,
        )
        # What a client sends back with an answer was minted for this very call, here or by a
        # gateway with the same keys.
        server.middleware.append(RequestStateBoundary(self._seal(), default_audience=NAME))
        return server

    def _seal(self) -> RequestStateSecurity:
        ring = self._gateway.keys
        if ring is None:
            return RequestStateSecurity.ephemeral()
        return RequestStateSecurity(keys=list(ring.keys.values()))

    async def _list(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=self._tools)

    async def _call(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        session = self._session(context)
        try:
            if params.request_state is not None and TWICE not in (params.meta or {}):
                payload = await self._answered(session, params)
                return self._result(payload)
            arguments = params.arguments or {}
            misused = self._misused(params)
            payload = misused or await session.call(params.name, arguments)
            if _waits(payload) and not arguments.get("approval_id"):
                return await self._ask(context, session, payload)
            return self._result(payload)
        except DataError as error:  # the journal is gone: nothing is decided or begun without it
            return self._result(self._gateway.answer("", "unknown", reason=str(error)))
        finally:
            session.log.clear()  # the journal keeps what must be kept; a session may last for days

    def _session(self, context: Context) -> GatewaySession:
        """The conversation of a caller: its MCP session, or without one all that the caller asks.

        Kept under the caller's name too, so that a session id alone opens nothing. Without one it
        has the same name in every gateway: a call that is sent again may land on another, and
        must find its row there and not make a second.
        """
        token = get_access_token()
        caller = Principal(LOCAL, self._settings.roles)
        if token is not None:  # whose scopes are the key's roles
            caller = Principal(token.client_id, tuple(token.scopes))
        handle = context.request.headers.get("mcp-session-id", "") if context.request else ""
        theirs = self._sessions.setdefault(caller.name, OrderedDict())
        if handle not in theirs:
            lasting = f"caller {caller.name}" if context.request and not handle else None
            theirs[handle] = self._gateway.session(caller, lasting)
        theirs.move_to_end(handle)
        if len(theirs) > MAX_SESSIONS:
            theirs.popitem(last=False)
        return theirs[handle]

    def _misused(self, params: CallToolRequestParams) -> dict[str, Any] | None:
        """A key that stands twice, and arguments that a meta-tool does not have, are refused."""
        arguments = params.arguments or {}
        known = self._known.get(params.name, arguments)
        faults = [FieldError(key, "no such argument") for key in arguments if key not in known]
        if (twice := (params.meta or {}).get(TWICE)) is not None:
            faults = [FieldError(str(twice), "this key stands twice in one object")]
        if not faults:
            return None
        return payloads.usage_payload(
            params.name, faults, breadcrumb=self._gateway.settings.breadcrumbs
        )

    async def _ask(
        self, context: Context, session: GatewaySession, payload: dict[str, Any]
    ) -> CallToolResult | InputRequiredResult:
        """Ask by what the client can do: a page, a form where that is allowed, or not at all."""
        card = self._gateway.journal.get(payload["approval_id"])
        question = None if card is None else self._question(context, card)
        if card is None or question is None:
            return self._result(payload)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return InputRequiredResult(
                input_requests={_ANSWER: ElicitRequest(params=question)},
                request_state=f"{question.mode}:{card.id}",
            )
        if not context.session.can_send_request:
            return self._result(payload)
        answer = await self._elicited(context, card, question)
        return self._result(await self._decided(session, card, question.mode, answer))

    def _question(
        self, context: Context, card: ApprovalCard
    ) -> ElicitRequestFormParams | ElicitRequestURLParams | None:
        able = context.session.client_capabilities or ClientCapabilities()
        if able.elicitation is None:
            return None
        page, has_url = self._settings.approval_page, able.elicitation.url is not None
        if page is not None and has_url:
            return ElicitRequestURLParams(
                message=f"{visible(card.tool)} ({card.risk}) waits for approval.",
                url=f"{page.rstrip('/')}/{card.id}",
                elicitation_id=card.id,
            )
        has_form = able.elicitation.form is not None or not has_url  # a bare {} means forms
        message = form_text(card)
        if self._settings.form_approval and has_form and len(message) <= MAX_FORM_CHARS:
            return ElicitRequestFormParams(message=message, requested_schema=_FORM)
        return None

    async def _elicited(
        self,
        context: Context,
        card: ApprovalCard,
        question: ElicitRequestFormParams | ElicitRequestURLParams,
    ) -> ElicitResult | None:
        """A client's answer to a question sent to it; None where it gave none in time."""
        left = datetime.fromisoformat(card.expires_at) - self._gateway.clock.now()
        try:
            async with asyncio.timeout(max(left.total_seconds(), 0)):
                if isinstance(question, ElicitRequestURLParams):
                    return await context.session.elicit_url(
                        question.message, question.url, card.id, context.request_id
                    )
                return await context.session.elicit_form(
                    question.message, question.requested_schema, context.request_id
                )
        except (TimeoutError, MCPError, ValueError) as error:
            logger.warning("%s: no answer from the client: %s", card.id, type(error).__name__)
            return None

    async def _answered(
        self, session: GatewaySession, params: CallToolRequestParams
    ) -> dict[str, Any]:
        """A client comes back with its answer; its state names the row that we asked about."""
        mode, _, approval_id = (params.request_state or "").partition(":")
        given = (params.input_responses or {}).get(_ANSWER)
        payload = await self._standing(session, approval_id)
        card = self._gateway.journal.get(approval_id)
        if not _waits(payload) or card is None:
            return payload
        return await self._decided(
            session, card, mode, given if isinstance(given, ElicitResult) else None
        )

    async def _decided(
        self, session: GatewaySession, card: ApprovalCard, mode: str, answer: ElicitResult | None
    ) -> dict[str, Any]:
        """What an answer does: a form's yes or no goes to the journal, anything else to nobody.

        A client that declines or cancels may not have shown the question, so the row still waits;
        opening a page decides nothing either.
        """
        allowed = mode == "form" and self._settings.form_approval  # asked elsewhere, maybe
        if allowed and answer is not None and answer.action == "accept":
            said = (answer.content or {}).get(_ANSWER)
            if isinstance(said, bool):
                by = f"{session.principal.name}, by a form of the client"
                return await self._gateway.decide(card.id, approve=said, by=by)
        return await self._standing(session, card.id)

    async def _standing(self, session: GatewaySession, approval_id: str) -> dict[str, Any]:
        """How a write of this session stands; another's id looks like no id at all."""
        return await session.call(
            "execute_tool", {"tool_name": "", "arguments": {}, "approval_id": approval_id}
        )

    def _result(self, payload: dict[str, Any]) -> CallToolResult:
        """The payload as text alone: consumers of structured content may reorder its keys."""
        if _waits(payload):
            payload = self._with_way(payload)
        return CallToolResult(
            content=[TextContent(text=compact_json(payload))],
            is_error=payload["layer"] == "0_usage" or payload.get("status") in _FAULTS,
        )

    def _with_way(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Where a person decides, in front of the breadcrumb."""
        told = dict(payload)
        last = {key: told.pop(key) for key in (payloads.NEXT_STEP,) if key in told}
        way = f"breadcrumbs approvals approve {payload['approval_id']}"
        if self._settings.journal and not self._settings.journal.startswith(POSTGRES):
            way += f" --journal {shlex.quote(str(Path(self._settings.journal).resolve()))}"
        told["a_person_decides_by"] = way
        if self._settings.approval_page is not None:
            page = self._settings.approval_page.rstrip("/")
            told["approve_url"] = f"{page}/{payload['approval_id']}"
        return {**told, **last}


def form_text(card: ApprovalCard) -> str:
    """A held write in words, whole, from the stored row; hidden characters are written out."""
    lines = [f"Run {visible(card.tool)} ({card.risk})?"]
    lines += [
        f"{visible(name)} = {visible(compact_json(value))}"
        for name, value in card.arguments.items()
    ]
    lines += [] if card.arguments else ["no arguments"]
    lines += [f"careful: {visible(note)}" for note in lookalike_notes(card.arguments)]
    return "\n".join(lines)


def _waits(payload: Mapping[str, Any]) -> bool:
    """Whether a person must still decide."""
    return (
        payload.get("status") == "approval_required"
        and payload.get(payloads.NEXT_STEP) not in payloads.DECIDED.values()
    )
