"""The OpenAPI document, and requests made from it at random."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from breadcrumbs.gateway.gateway import SimulatedGateway
from breadcrumbs.policies import ScriptedPolicy
from breadcrumbs.service import ServiceSettings, create_app

EXAMPLES = 15
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


def of(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of the document, with what it refers to beside it."""
    return {**schema, "components": document["components"]}


def check(document: dict[str, Any], route: dict[str, Any], answer: Any) -> None:
    assert answer.status_code < 500, answer.text
    told = route["responses"].get(str(answer.status_code)) or route["responses"]["default"]
    content = told.get("content", {}).get("application/json", {})
    if content.get("schema"):
        jsonschema_rs.validator_for(of(document, content["schema"])).validate(answer.json())


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["input", "model", "messages"]), inner)
    ),
    max_leaves=5,
)
NAMES = st.sampled_from(["x", "small", "small-loop", "%00", "%2e%2e%2f", "\u202e"])


def try_route(
    client: TestClient, document: dict[str, Any], path: str, method: str, bodies: Any
) -> list[int]:
    """Send requests made at random, and check every answer; their statuses."""
    front, brace, rest = path.partition("{")
    behind = rest.partition("}")[2]
    statuses = []

    @given(sent=bodies | ANYTHING, name=NAMES)
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
    def answered(sent: Any, name: str) -> None:
        place = f"{front}{name if brace else ''}{behind}"
        answer = client.request(method, place, json=sent, headers=BEARER)
        check(document, document["paths"][path][method], answer)
        statuses.append(answer.status_code)

    answered()
    return statuses


def test_requests_made_from_the_document_are_answered_as_it_says(app: Any) -> None:
    made_from = pytest.importorskip("hypothesis_jsonschema", reason="a dev extra").from_schema
    document = app.openapi()
    seen: set[int] = set()
    with TestClient(app, raise_server_exceptions=False) as client:
        for path, methods in document["paths"].items():
            for method, route in methods.items():
                body = route.get("requestBody", {}).get("content", {}).get("application/json")
                fitting = made_from(of(document, body["schema"])) if body else st.none()
                seen.update(try_route(client, document, path, method, fitting))
    assert {200, 201, 400, 404} <= seen


def test_a_wrong_answer_would_be_seen(app: Any) -> None:
    class Answer:
        status_code, text = 404, ""

        def json(self) -> Any:
            return {"detail": "not in OpenAI's shape"}

    document = app.openapi()
    with pytest.raises(jsonschema_rs.ValidationError):
        check(document, document["paths"]["/v1/runs/{run_id}"]["get"], Answer())


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
