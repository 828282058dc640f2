"""A gateway that people use: simulated tools, but the machine's clock, entropy and journal."""

from __future__ import annotations

from pathlib import Path

from breadcrumbs.gateway.approvals import ApprovalJournal
from breadcrumbs.gateway.catalog import Catalog
from breadcrumbs.gateway.gateway import Gateway, GatewaySettings
from breadcrumbs.gateway.identity import SystemClock, SystemIds
from breadcrumbs.gateway.worlds import World, WorldExecutor


def open_gateway(
    catalog: Catalog,
    journal: str | Path = ":memory:",
    settings: GatewaySettings = GatewaySettings(),
) -> Gateway:
    """A gateway over a simulated world, on the machine's clock and entropy."""
    clock, ids = SystemClock(), SystemIds()
    opened = ApprovalJournal(journal, clock, ids)
    opened.recover()
    executor = WorldExecutor(World(catalog))
    return Gateway(catalog, executor, opened, clock=clock, ids=ids, settings=settings)
