"""Doors that nobody watches: a browser that another site steers to a service without tokens, clients that share a name,
and bodies that are no JSON. Each refusal says why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import services, stores
from tests.factories.services import TENANTS

from iceberg_compaction.interfaces.service.access import guard
from iceberg_compaction.interfaces.service.service_settings import AuthMode
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.work import WorkKind
from iceberg_compaction.record.rules.work_book import WorkBook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.services import Service

PAUSE = {"tables": "shop.events"}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with services.running(services.make_house()) as running:
        yield running


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "10.0.0.1", "[::2]:80"]
)
def test_a_name_that_leads_here_by_a_trick_of_dns_is_refused_while_there_is_no_token(
    service: Service, host: str
) -> None:
    answer = service.ask("GET", "fleet", headers={"Host": host})
    assert answer.status_code == 403
    assert "AUTH=none" in answer.json()["detail"]
    assert service.ask("GET", "/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "127.0.0.1"])
def test_names_of_this_machine_are_answered(service: Service, host: str) -> None:
    assert service.ask("GET", "fleet", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost"])
def test_a_page_of_another_site_changes_nothing(service: Service, origin: str) -> None:
    answer = service.ask("POST", "schedules/pause", json=PAUSE, headers={"Origin": origin})
    assert answer.status_code == 403
    assert "another site" in answer.json()["detail"]
    assert service.get("schedules/pauses")["items"] == []


def test_a_page_of_the_service_itself_may_ask(service: Service) -> None:
    assert service.ask("POST", "policies/validate", json={}, headers={"Origin": service.url}).status_code == 200


def test_where_auth_none_is_written_out_any_name_leads_to_the_service_but_no_other_site() -> None:
    with services.running(services.make_house(auth=AuthMode.NONE)) as running:
        named = {"Host": "compaction.internal"}
        assert running.ask("GET", "fleet", headers=named).status_code == 200
        assert running.ask("POST", "schedules/pause", json=PAUSE, headers=named).status_code == 200
        strange = {**named, "Origin": "http://evil.example"}
        assert running.ask("POST", "schedules/resume", json=PAUSE, headers=strange).status_code == 403


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"table": nope}', "The body is no JSON: Expecting value at character 10."),
        (b'{"table": 1e999}', "The body is no JSON"),
        (b'{"table": ' + b"[" * 40 + b"]" * 40 + b"}", "more than 32 lists and objects within one another"),
    ],
)
def test_what_is_wrong_with_a_body_is_said(service: Service, body: bytes, words: str) -> None:
    answer = service.ask("POST", "compact", data=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:iceberg-compaction:problem:no-json")
    assert words in answer.json()["detail"]


def test_keys_of_clients_with_one_name_never_meet() -> None:
    house = services.make_house(tenants=TENANTS)
    book = WorkBook(entries=house.store.entries)
    for tenant in TENANTS:  # tables with a history are not looked for in the catalog
        _remember(house, f"{tenant}.events")
    with services.running(house) as running:
        seen = set()
        for tenant in TENANTS:
            made = guard.token_book(house).create("ci", Role.OPERATOR, tenants=(tenant,))
            headers = {"Idempotency-Key": "nightly"}
            order = {"table": f"{tenant}.events"}
            for _ in range(2):
                answer = running.ask("POST", "compact", token=made.secret, json=order, headers=headers)
                assert answer.status_code == 202, answer.text
                seen.add(answer.json()["run_id"])
    assert len(seen) == len(book.list()) == 2


def _remember(house: Any, table: str) -> None:
    house.store.save(stores.make_record(table, table))


def test_only_work_that_deletes_for_good_is_an_admins() -> None:
    from iceberg_compaction.interfaces.service.api import work_roles

    assert {kind for kind in WorkKind if work_roles.role_for(kind, {}) is Role.ADMIN} == {WorkKind.EXPIRE, WorkKind.TTL}
