"""The OpenAPI document, and requests made from it at random."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.service import ServiceSettings, create_app

schemathesis = pytest.importorskip("schemathesis", reason="a dev extra")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")
EXAMPLES = 6


@pytest.fixture
def app(gateway: SimulatedGateway) -> Any:
    keys = ("key:chat+approve_all",)
    settings = ServiceSettings(api_keys=keys)
    return create_app("small", ScriptedPolicy([]), gateway.gateway, settings)


@pytest.fixture
def document(app: Any) -> Any:
    loaded = schemathesis.openapi.from_dict(app.openapi())
    loaded.app = app
    return loaded


def test_the_document_names_every_public_route_and_its_errors(app: Any) -> None:
    document = app.openapi()
    assert {path for path in document["paths"]} == {
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


schema = schemathesis.pytest.from_fixture("document")


@pytest.mark.filterwarnings("ignore")  # of schemathesis
@schema.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
def test_requests_made_from_the_document_are_answered_as_it_says(case: Any) -> None:
    # A body may fit the document and still ask for what is not served, or be read leniently.
    meant = [checks.positive_data_acceptance, checks.negative_data_rejection]
    case.call_and_validate(headers={"Authorization": "Bearer key"}, excluded_checks=meant)
