"""The document of the HTTP interface: it is one of OpenAPI, and the server does as it says."""

from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from tests.safety.hosted import Hosted

spec = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is missing")
schemathesis: Any = pytest.importorskip("schemathesis", reason="schemathesis is missing")
# Any: its own types are made at run time
LIBERAL = settings(
    max_examples=5,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def document(hosted: Hosted) -> dict[str, Any]:  # Any: JSON
    return httpx.get(f"http://{hosted.http}/v2/openapi.json", timeout=60).json()


@pytest.mark.slow
def test_the_document_is_valid(hosted: Hosted) -> None:
    spec.validate(document(hosted))


@pytest.mark.slow
def test_what_is_made_of_the_document_is_answered_as_it_says(hosted: Hosted) -> None:
    """Sound and unsound requests of every operation: no 5xx, and the statuses and types told."""
    schema = schemathesis.openapi.from_dict(document(hosted))
    schema.config.base_url = f"http://{hosted.http}"
    failed: list[str] = []
    for result in schema.get_all_operations():
        operation = result.ok()
        case_of = operation.as_strategy()
        failed += tried(case_of)
    assert not failed, "\n\n".join(failed[:5])
    hosted.serves()


def tried(cases: Any) -> list[str]:  # Any: a strategy
    """Return what is wrong with the answers to some requests of one operation."""
    checks: Any = pytest.importorskip("schemathesis.specs.openapi.checks")  # Any: as above
    found: list[str] = []
    told = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]

    @LIBERAL
    @given(cases)
    def ask(case: Any) -> None:  # Any: a request
        answer = case.call(timeout=60)
        if answer.status_code >= 500 and answer.status_code != 501:
            found.append(f"{case.as_curl_command()}\n{answer.status_code} {answer.text[:300]}")
        try:
            case.validate_response(answer, checks=told)
        except (AssertionError, BaseExceptionGroup) as error:
            found.append(f"{case.as_curl_command()}\n{error}")

    ask()
    return found
