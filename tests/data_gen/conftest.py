from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from breadcrumbs.data_gen.hints import ToolHint, load_hints
from breadcrumbs.gateway.catalog import Catalog, load_catalog

SMALL = Path(__file__).parent / "small"


@pytest.fixture(scope="session")
def small_catalog() -> Catalog:
    return load_catalog([SMALL / name for name in ("calendar.yaml", "bank.yaml", "travel.yaml")])


@pytest.fixture(scope="session")
def small_hints() -> Mapping[str, ToolHint]:
    return load_hints(sorted(SMALL.glob("hints_*.yaml")))
