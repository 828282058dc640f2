"""A model behind an OpenAI-compatible server, streamed as it comes; nothing is recorded.

For serving. What `endpoint` is for, asking again and never asking twice, would hold up a person:
here a try that fails is an error, and closing the turn drops the connection, which stops the work
behind it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import httpx2

from breadcrumbs.call_format import THINK_CLOSER, THINK_OPENER, split_thinking
from breadcrumbs.endpoint_config import EndpointConfig, checked_address, endpoint_key
from breadcrumbs.endpoint_wire import StreamedAnswer, chunks_of, error_in, request_body, turn_of
from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.imports.bounded_http import bounded_client
from breadcrumbs.messages import Message, json_object
from breadcrumbs.turns import Turn, Wishes
from breadcrumbs.visible import visible

MAX_ANSWER_BYTES = 8 * 1024 * 1024
MAX_SAID = 200


@dataclass(frozen=True, slots=True)
class RemoteModel:
    """One model of one server; a policy for any number of conversations at once."""

    config: EndpointConfig
    _address: str
    _client: httpx2.AsyncClient = field(repr=False)

    def wishing(self, wishes: Wishes) -> RemoteModel:
        """The same model; the server is told the wishes."""
        said = {key: value for key, value in asdict(wishes).items() if value not in (None, ())}
        options = {**self.config.options, **said}
        return replace(self, config=replace(self.config, options=options))

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """Text as the server streams it, then the turn.

        Raises:
            ModelError: no usable answer comes.
        """
        config = self.config
        body = request_body(config.model, messages, tools, config.options, stream=True)
        whole, shown = StreamedAnswer(), 0
        try:
            async with self._client.stream("POST", self._address, json=body) as response:
                if response.status_code != 200:
                    raise self._error(await _said(response))
                async with aclosing(chunks_of(response.aiter_lines())) as chunks:
                    async for chunk in chunks:
                        if (error := error_in(chunk)) is not None:
                            raise self._error(f"broke off: {_short(error)}")
                        whole.add(chunk)
                        text = _speech("".join(whole.content))
                        if len(text) > shown:
                            yield text[shown:]
                            shown = len(text)
        except httpx2.HTTPError as error:
            raise self._error(_short(error) or type(error).__name__) from None
        if whole.finish is None:
            raise self._error("broke its stream off")
        yield turn_of(whole.completion(), 1 + sum(len(m.tool_calls) for m in messages))

    async def check(self) -> None:
        """Ask the server for its models.

        Raises:
            ModelError: it does not answer, or does not have this one.
        """
        place = self._address.removesuffix("/chat/completions") + "/models"
        try:
            response = await self._client.get(place)
        except httpx2.HTTPError as error:
            raise self._error(_short(error) or type(error).__name__) from None
        listed = json_object(response.text).get("data")
        names = [str(m["id"]) for m in listed or () if isinstance(m, dict) and "id" in m]
        if self.config.model not in names:
            there = _short(", ".join(names)) or "none"
            raise self._error(f"has no model {self.config.model!r}; there are: {there}")

    def _error(self, what: str) -> ModelError:
        return ModelError(f"{self._address}: {what}")


@asynccontextmanager
async def open_remote(config: EndpointConfig) -> AsyncIterator[RemoteModel]:
    """A model for the length of a block.

    Raises:
        ConfigError: the address or the key in the environment cannot be used.
    """
    address, key = checked_address(config), endpoint_key()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with bounded_client(headers, MAX_ANSWER_BYTES, config.timeout_s) as client:
        yield RemoteModel(config, address, client)


def _speech(text: str) -> str:
    """What of a text that is still being written is meant for the user: no reasoning."""
    start = text.lstrip()
    if start.startswith(THINK_OPENER) and THINK_CLOSER not in start:
        return ""
    if THINK_OPENER.startswith(start):
        return ""  # it may become the opener
    return split_thinking(text)[1].lstrip()


async def _said(response: httpx2.Response) -> str:
    text = (await response.aread()).decode("utf-8", "replace")
    return f"answered {response.status_code}: {_short(json_object(text).get('error') or text)}"


def _short(what: object) -> str:
    message = what.get("message") if isinstance(what, dict) else what
    text = visible(" ".join(str(message).split()))
    return text if len(text) <= MAX_SAID else f"{text[:MAX_SAID]}..."
