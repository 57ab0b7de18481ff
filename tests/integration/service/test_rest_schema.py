"""Every route of the OpenAPI document is asked all that the document allows, and much that it does not: the service
answers what it says that it does, and never with an error of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import schemathesis
from hypothesis import given
from schemathesis import GenerationMode, checks
from schemathesis.specs.openapi import checks as openapi_checks
from tests.factories import lake as lakes
from tests.factories import services
from tests.factories.examples import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.services import Service

pytestmark = pytest.mark.filterwarnings("ignore")  # of schemathesis' own libraries
CHECKS = (
    checks.not_a_server_error,
    openapi_checks.status_code_conformance,
    openapi_checks.content_type_conformance,
    openapi_checks.response_schema_conformance,
    openapi_checks.response_headers_conformance,
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("lake"), namespace="shop")
    lakes.append_small_files(lakes.make_table(lake.catalog, "shop.sales"), 3)
    with services.running(services.make_house(lake.settings, auth="none")) as running:
        yield running
    lake.catalog.close()


@pytest.fixture(scope="module")
def schema(service: Service) -> Any:
    made = schemathesis.openapi.from_dict(service.app.openapi())
    made.config.base_url = service.url
    return made


def operations() -> list[str]:
    document = services.app_factory.make_app(services.make_house()).openapi()
    return [f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.name.lower())
@pytest.mark.parametrize("label", operations())
def test_the_document_is_what_the_service_does(schema: Any, label: str, mode: GenerationMode) -> None:
    method, path = label.split(" ")
    operation: Any = schema[path][method]

    @examples(3, suppress_health_check=list(hypothesis.HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.validate_response(case.call(timeout=30), checks=CHECKS)

    with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # nothing about the route can be wrong
        ask()
