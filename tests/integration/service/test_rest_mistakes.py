"""Requests that people send by mistake: a flag in the query, a form instead of JSON, a slash too much, one name twice.
None of them may do something else than was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import services

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.services import Service

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("lake"), namespace="shop")
    lakes.append_small_files(lakes.make_table(lake.catalog, "shop.sales"), 6)
    with services.running(services.make_house(lake.settings)) as running:
        yield running
    lake.catalog.close()


def refused(service: Service, status: int, words: str, method: str, path: str, **more: Any) -> None:
    answer = service.ask(method, path, **more)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert words in answer.json()["detail"]
    assert service.get("work")["items"] == []


@pytest.mark.parametrize("path", ["compact", "maintenance/expire", "maintenance/orphans"])
def test_a_dry_run_that_is_asked_for_in_the_query_does_no_work(service: Service, path: str) -> None:
    body = {"table": "shop.sales"}
    refused(service, 422, "query.dry_run: it is not known", "POST", f"{path}?dry_run=true", json=body)
    refused(service, 422, "this address takes wait", "POST", f"{path}?dry-run", json=body)


def test_filters_that_nobody_knows_do_not_list_everything(service: Service) -> None:
    refused(service, 422, "query.tables: it is not known", "GET", "runs?tables=shop.sales")
    refused(service, 422, "this address takes none", "GET", "fleet?tenant=shop")
    assert service.ask("GET", "/healthz?probe=1").status_code == 200
    assert service.ask("GET", "/metrics?name[]=x").status_code == 200  # as Prometheus may be set up


@pytest.mark.parametrize(
    ("kind", "words"),
    [("application/x-www-form-urlencoded", "it came as application/x-www-form-urlencoded"), (None, "it came without")],
)
def test_a_body_that_is_not_called_json_is_told_what_is_missing(service: Service, kind: str | None, words: str) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    body = b'{"table": "shop.sales"}'  # as `curl -d` sends it
    refused(service, 415, "Content-Type: application/json", "POST", "compact", data=body, headers=headers)
    refused(service, 415, words, "POST", "compact", data=body, headers=headers)


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/merge-patch+json"]
)
def test_other_ways_to_call_it_json_are_read(service: Service, kind: str) -> None:
    body = b'{"table": "shop.sales", "dry_run": true}'
    assert service.ask("POST", "compact", data=body, headers={"Content-Type": kind}).status_code == 200


def test_a_slash_at_the_end_is_told_and_leads_nowhere_else(service: Service) -> None:
    refused(service, 404, "without the slash at its end", "POST", "compact/", json={"table": "shop.sales"})
    refused(service, 404, "without the slash at its end", "GET", "tables/")


def test_one_name_twice_is_refused(service: Service) -> None:
    body = b'{"table": "shop.sales", "table": "bank.accounts"}'
    refused(service, 400, "'table' is there twice", "POST", "compact", data=body, headers=JSON)


@pytest.mark.parametrize("steps", [5, True, False, 0, 1.5, {"rewrite": 1}])
def test_steps_that_are_no_list_are_refused(service: Service, steps: Any) -> None:
    body = {"table": "shop.sales", "options": {"steps": steps}}
    refused(service, 422, "are no steps of upkeep", "POST", "maintenance/maintain", json=body)
    refused(service, 422, "are no steps of upkeep", "POST", "maintenance/maintain", json={**body, "dry_run": True})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retain_last": 0}, "retain_last: it must be at least 1"),
        ({"retain_last": -1}, "retain_last: it must be at least 1"),
        ({"retain_last": True}, "retain_last: it must be a whole number"),
        ({"older_than": 0}, "of the wrong kind"),
    ],
)
def test_values_that_the_command_line_refuses_are_refused(service: Service, options: Any, words: str) -> None:
    refused(service, 422, words, "POST", "maintenance/expire", json={"table": "shop.sales", "options": options})


def test_a_table_that_the_scheduler_has_not_seen_is_not_called_missing(service: Service) -> None:
    refused(service, 404, "The scheduler has not seen shop.sales", "GET", "tables/shop.sales/schedule")
    refused(service, 404, "There is no table", "GET", "tables/shop.none/schedule")
