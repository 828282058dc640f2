"""Proof that a server serves this adapter, and renders its prompts: what vLLM lets be asked.

The golden prompts go to `/tokenize` as messages, the canary as token ids to `/v1/completions`.
A server without the first cannot show its template, which is said; one without the second cannot
show whose weights answer, which is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from breadcrumbs.endpoint_config import EndpointConfig, checked_address, endpoint_key
from breadcrumbs.errors import ModelError
from breadcrumbs.gateway.imports.bounded_http import bounded_client
from breadcrumbs.messages import json_object, messages_from_dicts
from breadcrumbs.openai_wire import message_out
from breadcrumbs.train.adapter_check import CANARY_GAP, CANARY_SLACK, check_files
from breadcrumbs.train.adapter_folder import read_adapter
from breadcrumbs.visible import visible

MAX_ANSWER_BYTES = 8 * 1024 * 1024
TIMEOUT_S = 120.0
_ABSENT = frozenset({404, 405, 501})


async def check_endpoint(base_url: str, model: str, folder: Path) -> list[str]:
    """Check the adapter in `folder` against the server at `base_url` (https://host/v1).

    Returns a line for each thing that holds, or that the server does not let be asked.

    Raises:
        ModelError: the first thing that does not hold.
        ConfigError: address or key cannot be used.
    """
    facts = read_adapter(folder)
    address = checked_address(EndpointConfig(base_url=base_url, model=model))
    key = endpoint_key()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with bounded_client(headers, MAX_ANSWER_BYTES, TIMEOUT_S) as client:
        server = _Server(address.removesuffix("/chat/completions"), model, client)
        return [
            check_files(folder, facts),
            await _golden(server, facts),
            await _canary(server, facts, folder),
        ]


@dataclass(frozen=True, slots=True)
class _Server:
    """A server under `address`, which ends in its version."""

    address: str
    model: str
    _client: httpx2.AsyncClient = field(repr=False)

    async def ask(self, place: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer; None where there is no such place.

        Raises:
            ModelError: it does not answer, or not with an object.
        """
        try:
            response = await self._client.post(place, json={"model": self.model, **body})
        except httpx2.HTTPError as error:
            raise ModelError(f"{place}: {visible(str(error)) or type(error).__name__}") from None
        if response.status_code in _ABSENT:
            return None
        if response.status_code != 200:
            said = visible(" ".join(response.text.split()))[:200]
            raise ModelError(f"{place}: answered {response.status_code}: {said}")
        return json_object(response.text)


async def _golden(server: _Server, facts: Mapping[str, Any]) -> str:
    place = f"{server.address.rpartition('/')[0]}/tokenize"
    for number, one in enumerate(facts["golden"]):
        messages = [message_out(message) for message in messages_from_dicts(one["messages"])]
        answer = await server.ask(place, {"messages": messages, "tools": one["tools"]})
        if answer is None:
            return f"golden: {server.address} has no /tokenize, so its template cannot be seen"
        ids = answer.get("tokens")
        if ids != one["prompt_ids"]:
            raise ModelError(
                f"golden conversation {number}: {server.address} builds another prompt than the "
                "adapter was trained on; start it with the adapter's chat_template.jinja"
            )
    return f"golden: {len(facts['golden'])} conversations, token for token, by {server.address}"


async def _canary(server: _Server, facts: Mapping[str, Any], folder: Path) -> str:
    canary = facts["canary"]
    adapted, base = float(canary["adapter_logprob"]), float(canary["base_logprob"])
    gap = adapted - base
    if not gap >= CANARY_GAP:
        raise ModelError(f"{folder}: adapter and base cannot be told apart; train longer")
    ids = [*facts["golden"][int(canary["golden"])]["prompt_ids"], *canary["behind"]]
    body = {
        "prompt": ids,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 1,
        "return_tokens_as_token_ids": True,
    }
    place = f"{server.address}/completions"
    found = _first_token(await server.ask(place, body))
    if found is None:
        raise ModelError(
            f"{place}: gives no log-probability of a token, so nothing shows that the adapter is "
            "in use; leave --adapter out to serve it unproved"
        )
    token, logprob = found
    shown = f"{logprob:.2f} nats (published {adapted:.2f}, {base:.2f} without the adapter)"
    if token not in _names(folder, int(canary["token"])):
        raise ModelError(f"{place}: the adapter is not in use: another token than the canary's")
    if abs(logprob - adapted) > CANARY_SLACK * gap:
        raise ModelError(f"{place}: these are other weights: canary {shown}")
    return f"canary: {shown}, by {server.address}"


def _first_token(answer: Mapping[str, Any] | None) -> tuple[str, float] | None:
    """The token a completion begins with and its log-probability in nats."""
    try:
        logprobs = (answer or {})["choices"][0]["logprobs"]
        return str(logprobs["tokens"][0]), float(logprobs["token_logprobs"][0])
    except (KeyError, IndexError, TypeError, ValueError):
        return None


def _names(folder: Path, token: int) -> set[str]:
    """How servers write a token: by its number, as text, or as the vocabulary has it."""
    from breadcrumbs.models import quiet
    from breadcrumbs.rendering import load_renderer

    with quiet():
        tokenizer = load_renderer(folder).tokenizer
    return {
        f"token_id:{token}",
        str(tokenizer.decode([token])),
        str(tokenizer.convert_ids_to_tokens(token)),
    }
