"""`breadcrumbs serve`: loads a model, or finds one at a server, and answers until stopped."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import uvicorn

from breadcrumbs.callers import keys_for
from breadcrumbs.endpoint_config import EndpointConfig
from breadcrumbs.gateway.catalog import load_catalog
from breadcrumbs.live_gateway import open_gateway
from breadcrumbs.loop import LoopSettings
from breadcrumbs.monitoring import CONTENT_VARIABLE
from breadcrumbs.nudge import NudgeStyle
from breadcrumbs.service import MAX_RUN_S, ServiceSettings, create_app

if TYPE_CHECKING:
    from fastapi import FastAPI

MAX_DRAIN_S = 5


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says."""

    model: str
    adapter: Path | None = None
    """Loaded here; behind an endpoint the server has it."""
    endpoint: str | None = None
    """An OpenAI-compatible server that has the model: https://host/v1."""
    catalogs: Sequence[Path] | None = None
    encoder: Path | None = None
    journal: str = "approvals.sqlite"
    host: str = "127.0.0.1"
    port: int = 8000
    nudge: NudgeStyle = "contract"


def serve(options: ServeOptions) -> None:
    """Answer until stopped.

    Raises:
        ConfigError: another than a loopback host without API keys, or bad keys or address.
        ModelError: the model, adapter or encoder cannot be loaded, or the server has no such model.
        CatalogError: a catalog is malformed.
        DataError: the journal cannot be opened.
    """
    keys = keys_for(options.host)
    content = os.environ.get(CONTENT_VARIABLE, "").lower() == "true"
    loop = LoopSettings(max_s=MAX_RUN_S, nudge_style=options.nudge)
    settings = ServiceSettings(api_keys=keys, trace_content=content, loop=loop)
    if options.endpoint is None:
        asyncio.run(_answer(options, _local_app(options, settings)))
    else:
        asyncio.run(_serve_remote(options, options.endpoint, settings))


def _local_app(options: ServeOptions, settings: ServiceSettings) -> FastAPI:
    from breadcrumbs.conversations import Conversations
    from breadcrumbs.local_model import LocalModel, LocalPolicy

    catalog = load_catalog(options.catalogs)
    local = LocalModel.load(options.model, adapter=options.adapter)
    gateway = open_gateway(
        catalog, options.journal, local.gateway_settings(), encoder=options.encoder
    )
    name = (options.adapter or Path(options.model)).name
    if not Conversations.can_serve(local):
        return create_app(name, LocalPolicy(local), gateway, settings)
    policy = Conversations(local)
    settings = replace(settings, turns_at_once=policy.at_once)
    return create_app(name, policy, gateway, settings)


async def _serve_remote(options: ServeOptions, address: str, settings: ServiceSettings) -> None:
    from breadcrumbs.remote_model import open_remote

    config = EndpointConfig(base_url=address, model=options.model)
    async with open_remote(config) as remote:
        await remote.check()
        catalog = load_catalog(options.catalogs)
        gateway = open_gateway(catalog, options.journal, encoder=options.encoder)
        settings = replace(settings, turns_at_once=config.concurrency)
        await _answer(options, create_app(options.model, remote, gateway, settings))


async def _answer(options: ServeOptions, app: FastAPI) -> None:
    click.echo(f"breadcrumbs: {options.model} on http://{options.host}:{options.port}", err=True)
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        log_level="warning",
        timeout_graceful_shutdown=MAX_DRAIN_S,
    )
    await uvicorn.Server(config).serve()
