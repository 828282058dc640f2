"""A gateway that people use: simulated tools, but the machine's clock, entropy and journal."""

from __future__ import annotations

from pathlib import Path

from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.challenge import KeyRing
from breadcrumbs.gateway.gateway import Gateway, GatewaySettings
from breadcrumbs.gateway.identity import SystemClock, SystemIds
from breadcrumbs.gateway.journal_store import POSTGRES
from breadcrumbs.gateway.worlds import World, WorldExecutor

LOST_AFTER_S = 15 * 60
"""Where gateways share a journal: how long a write may run before it counts as lost."""


def open_gateway(
    catalog: Catalog,
    journal: str | Path = ":memory:",
    settings: GatewaySettings = GatewaySettings(),
) -> Gateway:
    """A gateway over a simulated world, on the machine's clock and entropy.

    `journal` is a file of this gateway alone, or a `postgresql://` URL that several share.

    Raises:
        ConfigError: the approval keys cannot be used.
        DataError: the journal cannot be opened.
    """
    clock, ids = SystemClock(), SystemIds()
    keys = KeyRing.configured()
    opened = ApprovalJournal(journal, clock, ids, settings.ttl_s)
    shared = str(journal).startswith(POSTGRES)
    opened.recover(older_than_s=LOST_AFTER_S if shared else 0)
    executor = WorldExecutor(World(catalog))
    return Gateway(catalog, executor, opened, clock=clock, ids=ids, settings=settings, keys=keys)
