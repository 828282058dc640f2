"""Any OpenAI-compatible endpoint as a policy: asked within bounds, recorded, never asked twice.

Owns the HTTP side: one try's time, tries with growing pauses, the size of answers, what failed
in one line. The key travels in a header and is cut out of everything the endpoint says back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx2

from breadcrumbs.endpoint_config import (
    KEY_VARIABLE,
    EndpointConfig,
    checked_address,
    endpoint_key,
)
from breadcrumbs.endpoint_record import Answers
from breadcrumbs.endpoint_wire import (
    StreamedAnswer,
    check_completion,
    chunks_of,
    error_in,
    read_json,
    request_body,
    tokens_of,
    turn_of,
)
from breadcrumbs.errors import ConfigError, ModelError
from breadcrumbs.gateway.imports.bounded_http import TooLarge, bounded_client
from breadcrumbs.messages import Message, compact_json, json_object
from breadcrumbs.turns import Turn
from breadcrumbs.visible import visible

MAX_ANSWER_BYTES = 8 * 1024 * 1024
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
LONGEST_WAIT_S = 300.0
"""An endpoint that asks for a longer wait (`Retry-After`) ends the run."""
SAID_CHARS = 200
"""Characters of an endpoint's own error message that are shown."""
CUT_KEY = "[key]"
_RETRIED = frozenset({408, 409, 425, 429})
_ADVICE = {
    401: f"check the key in {KEY_VARIABLE}",
    403: f"check the key in {KEY_VARIABLE} and what it may use",
    404: "check base_url and model",
}


class _TryAgain(Exception):
    """A try failed in a way that may pass; `wait_s` is what the endpoint asked for."""

    def __init__(self, message: str, wait_s: float | None = None) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass(slots=True)
class Used:
    """What the answers of a run were metered at, recorded ones included."""

    answers: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    unmetered: int = 0
    """Answers without a usable `usage`."""

    def add(self, answer: Mapping[str, Any]) -> None:
        """Count one answer."""
        tokens = tokens_of(answer)
        self.answers += 1
        if tokens is None:
            self.unmetered += 1
        else:
            self.input_tokens += tokens.input
            self.output_tokens += tokens.output

    def to_dict(self, config: EndpointConfig) -> dict[str, Any]:
        """Plain JSON values, with the cost where the config has prices."""
        found: dict[str, Any] = {
            "answers": self.answers,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "unmetered_answers": self.unmetered,
        }
        if config.prices is not None:
            cost = (
                self.input_tokens * config.prices.input + self.output_tokens * config.prices.output
            )
            found["cost"] = round(cost / 1e6, 6)
        return found


@dataclass(slots=True)
class Endpoint:
    """One endpoint under way; made by `open_endpoint`."""

    config: EndpointConfig
    answers: Answers
    _address: str
    _key: str = field(repr=False)
    _client: httpx2.AsyncClient = field(repr=False)
    _free: asyncio.Semaphore
    _sleep: Callable[[float], Awaitable[Any]]
    used: Used = field(default_factory=Used)

    async def turn(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], seed: int
    ) -> Turn:
        """The model's next turn; a recorded one where this was asked before.

        Raises:
            ModelError: no usable answer comes; says why, in one line, without the key.
            ConfigError: the answer cannot be recorded.
        """
        config = self.config
        body = request_body(config.model, messages, tools, config.options, stream=config.stream)
        answer = self.answers.get(body, seed)
        if answer is None:
            async with self._free:
                answer = await self._ask(body)
            self.answers.put(body, seed, answer)
        self.used.add(answer)
        turn = turn_of(answer, 1 + sum(len(message.tool_calls) for message in messages))
        if self._key and self._key in compact_json(asdict(turn)):
            raise self._error("sends the key back, spelt otherwise; do not trust it")
        return turn

    async def _ask(self, body: Mapping[str, Any]) -> dict[str, Any]:
        for number in range(1, self.config.tries + 1):
            try:
                return await self._try(body)
            except _TryAgain as failed:
                if number == self.config.tries:
                    times = f" {number} times" if number > 1 else ""
                    raise self._error(f"{failed}{times}; run the same command to go on") from None
                await self._sleep(self._pause(number, failed))
        raise AssertionError("tries is at least 1")

    def _pause(self, number: int, failed: _TryAgain) -> float:
        """Seconds before the next try: what was asked for, else doubling, both with jitter."""
        if failed.wait_s is not None:
            if failed.wait_s > LONGEST_WAIT_S:
                raise self._error(
                    f"{failed}, and asks to wait {failed.wait_s:.0f} s; run the same command then"
                ) from None
            return failed.wait_s * random.uniform(1.0, 1.1)
        return min(FIRST_PAUSE_S * 2.0 ** (number - 1), LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)

    async def _try(self, body: Mapping[str, Any]) -> dict[str, Any]:
        limit = self.config.timeout_s
        content = compact_json(body).encode()
        kind = {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(limit),
                self._client.stream(
                    "POST", self._address, content=content, headers=kind
                ) as response,
            ):
                if response.status_code != 200:
                    text = (await response.aread()).decode("utf-8", "replace")
                    raise self._refusal(response, text)
                answer = await self._read(response)
        except TimeoutError:
            raise _TryAgain(f"gave no answer within {limit:g} s") from None
        except TooLarge as error:
            raise self._error(f"cannot be used: {error}") from None
        except httpx2.HTTPError as error:
            reason = self._clean(str(error)) or type(error).__name__
            raise _TryAgain(f"cannot be reached ({reason})") from None
        return answer

    async def _read(self, response: httpx2.Response) -> dict[str, Any]:
        """The completion, whole and without the key, from a body or a stream of chunks."""
        try:
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                answer = await self._read_stream(response)
            else:
                text = (await response.aread()).decode("utf-8", "replace")
                answer = read_json(text, "the answer")
                if isinstance(answer, dict) and answer.get("error") and not answer.get("choices"):
                    # Routers answer so where the server behind them failed.
                    raise _TryAgain(f"answered with an error{self._said(text)}")
            if self._key:
                answer = read_json(compact_json(answer).replace(self._key, CUT_KEY), "")
            check_completion(answer)
        except ModelError as error:
            raise self._error(f"cannot be used: {error}") from None
        found: dict[str, Any] = answer
        return found

    async def _read_stream(self, response: httpx2.Response) -> dict[str, Any]:
        whole = StreamedAnswer()
        async with aclosing(chunks_of(response.aiter_lines())) as chunks:
            async for chunk in chunks:
                if (error := error_in(chunk)) is not None:
                    raise _TryAgain(f"broke its stream off{self._named(error)}")
                whole.add(chunk)
        if whole.finish is None:
            raise _TryAgain("broke its stream off")
        return whole.completion()

    def _refusal(self, response: httpx2.Response, text: str) -> Exception:
        status, said = response.status_code, self._said(text)
        if status in _RETRIED or status >= 500:
            return _TryAgain(f"answered {status}{said}", _asked_wait(response.headers))
        if 300 <= status < 400:
            return self._error(f"answered {status}: redirects are not followed; mend base_url")
        return self._error(f"answered {status}{said}; {_ADVICE.get(status, 'mend the request')}")

    def _said(self, text: str) -> str:
        """The error message in an answer, as `_named` says it."""
        return self._named(json_object(text).get("error"))

    def _named(self, error: Any) -> str:
        """The endpoint's own error message, cut to a line's length."""
        message = error.get("message") if isinstance(error, dict) else error
        shown = self._clean(message if isinstance(message, str) else "")
        return f": {shown}" if shown else ""

    def _clean(self, text: str) -> str:
        # Cut the key before the length: half of a key is not found any more.
        text = text.replace(self._key, CUT_KEY) if self._key else text
        text = " ".join(text.split())
        return visible(text if len(text) <= SAID_CHARS else f"{text[:SAID_CHARS]}...")

    def _error(self, what: str) -> ModelError:
        return ModelError(f"{self._address}: {what}")


def _asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by `Retry-After`: a number, or the time until a date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


@asynccontextmanager
async def open_endpoint(
    config: EndpointConfig,
    folder: Path,
    *,
    sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
) -> AsyncIterator[Endpoint]:
    """An endpoint for the length of a block; answers are recorded in `folder`.

    Raises:
        ConfigError: the address or the key in the environment cannot be used.
    """
    address, key = checked_address(config), endpoint_key()
    try:
        httpx2.URL(address)
    except httpx2.InvalidURL:
        raise ConfigError("endpoint.base_url: is no address; write https://host/v1") from None
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with bounded_client(headers, MAX_ANSWER_BYTES, None) as client:
        gate = asyncio.Semaphore(config.concurrency)
        yield Endpoint(config, Answers(folder), address, key, client, gate, sleep)


class EndpointPolicy:
    """The endpoint's model as a policy for one conversation; the same `seed`, the same record."""

    def __init__(self, endpoint: Endpoint, seed: int) -> None:
        self._endpoint = endpoint
        self._seed = seed

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> AsyncGenerator[str | Turn, None]:
        """The whole turn once it has come: a try that fails half-way has said nothing.

        Raises:
            ModelError: no usable answer comes.
        """
        turn = await self._endpoint.turn(messages, tools, self._seed)
        if turn.text:
            yield turn.text
        yield turn
