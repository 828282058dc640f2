"""A gateway that people use: the machine's clock, entropy and journal; tools simulated or real."""

from __future__ import annotations

from pathlib import Path

from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.challenge import KeyRing
from breadcrumbs.gateway.gateway import Gateway, GatewaySettings
from breadcrumbs.gateway.identity import SystemClock, SystemIds
from breadcrumbs.gateway.journal_store import POSTGRES
from breadcrumbs.gateway.sentence_encoder import SentenceEncoder
from breadcrumbs.gateway.worlds import Executor, World, WorldExecutor

LOST_AFTER_S = 15 * 60
"""Where gateways share a journal: how long a write may run before it counts as lost."""


def open_gateway(
    catalog: Catalog,
    journal: str | Path = ":memory:",
    settings: GatewaySettings = GatewaySettings(),
    *,
    executor: Executor | None = None,
    lost_after_s: float | None = None,
    encoder: Path | None = None,
) -> Gateway:
    """A gateway on the machine's clock and entropy, over an executor or a simulated world.

    `journal` is a file, or a `postgresql://` URL. Without `lost_after_s` a file is this gateway's
    alone; where several share one, it is the time after which a write that runs counts as lost.
    With the folder of a sentence `encoder` tools are found by meaning too; every tool is embedded
    here, about 20 ms each.

    Raises:
        ConfigError: the approval keys cannot be used.
        DataError: the journal cannot be opened.
        ModelError: the encoder cannot be loaded.
    """
    embed = None if encoder is None else SentenceEncoder(encoder)
    clock, ids = SystemClock(), SystemIds()
    keys = KeyRing.configured()
    opened = ApprovalJournal(journal, clock, ids, settings.ttl_s)
    if lost_after_s is None:
        lost_after_s = LOST_AFTER_S if str(journal).startswith(POSTGRES) else 0
    opened.recover(older_than_s=lost_after_s)
    runs = executor or WorldExecutor(World(catalog))
    return Gateway(
        catalog, runs, opened, clock=clock, ids=ids, settings=settings, keys=keys, embed=embed
    )
