"""The OpenAPI document, and what schemathesis finds with it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.service import ServiceSettings, create_app

SCHEMATHESIS = shutil.which("schemathesis")
BEARER = {"Authorization": "Bearer key"}
KEYS = ("key:chat+approve_all",)


@pytest.fixture
def app(gateway: SimulatedGateway) -> Any:
    settings = ServiceSettings(api_keys=KEYS)
    return create_app("small", ScriptedPolicy([]), gateway.gateway, settings)


def test_the_document_names_every_public_route_and_its_errors(app: Any) -> None:
    document = app.openapi()
    assert set(document["paths"]) == {
        "/v1/models",
        "/v1/models/{model}",
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/responses/{response}",
        "/v1/runs",
        "/v1/runs/{run_id}",
        "/v1/runs/{run_id}/events",
        "/v1/runs/{run_id}/cancel",
        "/v1/approvals",
        "/v1/approvals/{approval_id}",
        "/v1/session",
    }
    for methods in document["paths"].values():
        for route in methods.values():
            assert {"400", "401", "403", "404", "413", "500"} <= set(route["responses"])
            assert "422" not in route["responses"]
            assert route["security"]
            assert route["summary"]


@pytest.mark.skipif(
    SCHEMATHESIS is None,
    reason="no schemathesis on the path; it wants another jsonschema-rs, so an environment apart",
)
def test_schemathesis_finds_nothing(start: Callable[..., str]) -> None:
    url = start(api_keys=KEYS)
    assert SCHEMATHESIS is not None
    words = [
        SCHEMATHESIS,
        "run",
        f"{url}/openapi.json",
        "-H",
        f"Authorization: {BEARER['Authorization']}",
    ]
    words += ["--max-examples", "5", "--phases", "coverage,fuzzing", "--no-color"]
    # A body may fit the document and still ask for what is not served, or be read leniently.
    words += ["--exclude-checks", "positive_data_acceptance,negative_data_rejection"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
