"""An endpoint's model in whole episodes. Its answers are recorded, so that none is asked for twice.

A model that goes wrong is scored; a server that gives no answer is an error of the whole run.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from breadcrumbs.data_gen.scenarios import Scenario
from breadcrumbs.endpoint import EndpointPolicy, open_endpoint
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.errors import ModelError
from breadcrumbs.eval.players import Tools
from breadcrumbs.eval.playing import Stage, play_all
from breadcrumbs.eval.transcripts import Transcript
from breadcrumbs.messages import Message
from breadcrumbs.turns import Turn


class _NoAnswer(Exception):
    """Passes through the loop, which takes a `ModelError` for the model's own failure."""


async def play_remote(
    config: EndpointConfig,
    answers: Path,
    scenarios: Sequence[Scenario],
    stage: Stage,
    *,
    runs: int,
    step: Callable[[], None],
) -> list[Transcript]:
    """`play_all` with the endpoint's model; each run on a scenario is asked anew.

    Raises:
        ModelError: no usable answer came; what was answered is kept in `answers`.
        ConfigError: the address or the key cannot be used, or nothing can be recorded.
    """
    async with open_endpoint(config, answers) as endpoint:
        try:
            return await play_all(
                lambda scenario, number: _Remote(EndpointPolicy(endpoint, number)),
                scenarios,
                stage,
                runs=runs,
                step=step,
            )
        except _NoAnswer as failed:
            raise ModelError(str(failed)) from None


class _Remote:
    """The endpoint's turns; a missing answer ends everything."""

    def __init__(self, inner: EndpointPolicy) -> None:
        self._inner = inner

    async def stream(
        self, messages: Sequence[Message], tools: Tools
    ) -> AsyncGenerator[str | Turn, None]:
        try:
            async for item in self._inner.stream(messages, tools):
                yield item
        except ModelError as error:
            raise _NoAnswer(str(error)) from error
