"""Runs tools on real MCP servers: the second executor, behind the same gateway code.

The tools come in through the import code; before a write the server is asked for its tools again,
and a tool that is no longer the one that was read does not run.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from mcp.types import CallToolResult, TextContent

from breadcrumbs.errors import CatalogError
from breadcrumbs.gateway.catalog import Catalog, Risk, ToolSpec
from breadcrumbs.gateway.imports.drafts import Draft, Refusal
from breadcrumbs.gateway.imports.importing import Import, KnownDrafts
from breadcrumbs.gateway.imports.live import LiveServer, cleaned, find_tools
from breadcrumbs.gateway.imports.secret_scan import redact
from breadcrumbs.gateway.upstream_session import Masker, Upstream, UpstreamLimits
from breadcrumbs.gateway.worlds import OutcomeUnknown, ToolFailure
from breadcrumbs.messages import compact_json

logger = logging.getLogger(__name__)
CHANGED = (
    "the tool changed on its server since its schema was read; nothing was run: read its schema"
    " again"
)
MAX_REASON = 4096
"""Characters of a tool's own words on why it failed."""
MAX_TOLD = 20
"""Refused tools that are named at a time."""


class UpstreamExecutor:
    """Live servers as one catalog of tools, and the calls to them.

    `labels` are drafts of the operator's own files: their risk, roles and keywords count for the
    tools that a server has under the same name, description and schema.
    """

    def __init__(
        self,
        servers: Sequence[LiveServer],
        labels: Sequence[Draft | Refusal] = (),
        limits: UpstreamLimits = UpstreamLimits(),
    ) -> None:
        self.catalog = Catalog({})
        self.on_catalog: Callable[[Catalog], None] = lambda catalog: None
        """Told of each new catalog."""
        self.prepare: Callable[[Catalog], None] = lambda catalog: None
        """Asked before, in another thread, to do what takes long with it."""
        self._labels = labels
        self._limits = limits
        mask = Masker(servers)
        self._places = {server.name: _Place(self._upstream(server, mask)) for server in servers}
        self._own_names: dict[str, str] = {}
        self._told: frozenset[tuple[str, str]] = frozenset()
        self._refreshing: set[asyncio.Task[None]] = set()
        self._known = KnownDrafts()
        self._importing = asyncio.Lock()

    async def open(self) -> Catalog:
        """Start every server and import what it offers.

        Raises:
            CatalogError: a server does not start, named; or none offers a tool.
        """
        try:
            await asyncio.gather(*(self._ask(place) for place in self._places.values()))
            await self._import()
            if not self.catalog.tools:
                raise CatalogError("none of the servers offers a tool that can be used")
        except BaseException:
            await self.close()
            raise
        return self.catalog

    async def run(self, spec: ToolSpec, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool on its server, once.

        Raises:
            ToolFailure: it says that it could not, has changed, or was not reached.
            OutcomeUnknown: no answer, or none that can be used; it may have acted.
        """
        place = self._places[spec.upstream or ""]
        if spec.risk is not Risk.READ or place.age_s() > self._limits.fresh_s:
            try:
                await asyncio.shield(self._refresh(place))
            except CatalogError as error:
                raise ToolFailure(f"{error}; nothing was run") from error
        now = self.catalog.tool(spec.name)
        if now is None or now.content_hash != spec.content_hash:
            raise ToolFailure(CHANGED)
        answer = await place.upstream.call(self._own_names[spec.name], arguments)
        return result_of(answer, self._limits.answer_bytes, place.upstream.mask)

    async def close(self) -> None:
        """End every session."""
        for task in self._refreshing:
            task.cancel()
        await asyncio.gather(*(place.upstream.close() for place in self._places.values()))

    def _upstream(self, server: LiveServer, mask: Masker) -> Upstream:
        return Upstream(server, self._limits, mask, lambda: self._on_change(server.name))

    def _on_change(self, name: str) -> None:
        place = self._places[name]
        place.asked = None  # whoever comes before the answer asks for himself
        self._refresh(place)

    def _refresh(self, place: _Place) -> asyncio.Task[None]:
        """Ask a server for its tools from now on: one question is open, at most one more waits.

        All who come while one is open share the one after it, whatever number they are.
        """
        if place.waiting is None:
            task = asyncio.create_task(self._ask_and_import(place))
            place.waiting = task
            self._refreshing.add(task)
            task.add_done_callback(self._refreshed)
        return place.waiting

    def _refreshed(self, task: asyncio.Task[None]) -> None:
        self._refreshing.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("%s", error)

    async def _ask_and_import(self, place: _Place) -> None:
        if await self._ask(place):
            await self._import()

    async def _ask(self, place: _Place) -> bool:
        """Ask a server for its tools; True where they are not what they were."""
        async with place.asking:
            place.waiting = None  # who comes from here on needs a later answer
            tools = await place.upstream.tools()
            place.asked = time.monotonic()
            changed, place.tools = tools != place.tools, tools
        return changed

    async def _import(self) -> None:
        """Bring in what the servers offer now, off the loop: a server can make that take long."""
        async with self._importing:
            lists = [(place.upstream.server, place.tools) for place in self._places.values()]
            report = await asyncio.to_thread(self._checked, lists)
            live = [tool for tool in report.tools if tool.upstream is not None]
            specs = [dataclasses.replace(tool.spec, upstream=tool.upstream) for tool in live]
            catalog = Catalog({spec.name: spec for spec in specs})
            await asyncio.to_thread(self.prepare, catalog)
            self._tell(report.refused)
            self._own_names = {tool.spec.name: tool.own_name for tool in live}
            self.catalog = catalog
            self.on_catalog(catalog)

    def _checked(self, lists: Sequence[tuple[LiveServer, list[dict[str, Any]]]]) -> Import:
        found = (draft for server, tools in lists for draft in find_tools(server, tools))
        return self._known.import_drafts(chain(self._labels, found))

    def _tell(self, refused: Sequence[Refusal]) -> None:
        """Say what is refused that was not the last time; of many, the first and how many more."""
        now = dict.fromkeys((refusal.tool, refusal.reason) for refusal in refused)
        new = [refusal for refusal in now if refusal not in self._told]
        self._told = frozenset(now)
        for tool, reason in new[:MAX_TOLD]:
            logger.warning("refused: %s: %s", tool, reason)
        if len(new) > MAX_TOLD:
            logger.warning("refused: %d more", len(new) - MAX_TOLD)


@dataclasses.dataclass(slots=True)
class _Place:
    """A server, and the tools it had when it was asked last."""

    upstream: Upstream
    tools: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    asked: float | None = None
    asking: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)
    waiting: asyncio.Task[None] | None = None
    """The question that is put once the open one is answered."""

    def age_s(self) -> float:
        return float("inf") if self.asked is None else time.monotonic() - self.asked


def result_of(
    answer: CallToolResult, max_bytes: int, clean: Callable[[str], str] = redact
) -> dict[str, Any]:
    """What a tool answered, as a payload carries it: its structured form if it gave one.

    Raises:
        ToolFailure: the tool says that it failed; its words, `clean` of credentials.
        OutcomeUnknown: the answer is larger than `max_bytes`.
    """
    texts = [block.text for block in answer.content if isinstance(block, TextContent)]
    if answer.is_error:
        said = cleaned("\n".join(texts), clean) or "the tool says that it failed"
        raise ToolFailure(said if len(said) <= MAX_REASON else f"{said[:MAX_REASON]}… (cut)")
    result: dict[str, Any]
    if isinstance(answer.structured_content, dict):
        result = answer.structured_content
    elif len(texts) == len(answer.content):
        result = {"text": "\n".join(texts)}
    else:
        blocks = [block.model_dump(by_alias=True, exclude_none=True) for block in answer.content]
        result = {"content": blocks}
    size = len(compact_json(result).encode())
    if size > max_bytes:
        raise OutcomeUnknown(f"the tool answered {size} bytes; {max_bytes} at most are taken")
    return result
