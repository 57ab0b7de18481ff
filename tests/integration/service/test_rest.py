"""The REST interface over a real lake, through a real server: what clients ask, and what they get."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import services

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.table_schedule import TableWatch
from iceberg_compaction.model.work import WorkState
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.record import health_log
from iceberg_compaction.record.service import schedule_book
from iceberg_compaction.workflow import diagnose, operate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.services import Service

# The request of an Airflow guide, as it stands there.
AIRFLOW = {"table": "sales", "strategy": "time-series", "options": {"target_file_size": "1GB", "max_cost": 10.0}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Three tables: one that needs work, one that nobody has looked at, one of another namespace."""
    lake = lakes.file_lake(tmp_path_factory.mktemp("lake"), namespace="shop")
    lake.catalog.create_namespace("bank")
    for name in ("shop.sales", "shop.new", "bank.accounts"):
        lakes.append_small_files(lakes.make_table(lake.catalog, name), 6)
    house = services.make_house(lake.settings)
    looks = [
        diagnose.diagnose_table(lake.catalog, name, policy, diagnose.HealthLook(now_ms=wiring.now_ms())).entry(
            wiring.now_ms()
        )
        for name in ("shop.sales", "bank.accounts")
        for policy in [house.policies.followed().rewrite]
    ]
    health_log.HealthLog(entries=house.store.entries).save(looks)
    with services.running(house) as running:
        yield running
    lake.catalog.close()


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    content: dict[str, Any] = answer.json()
    assert content["status"] == status
    assert content["type"].startswith("urn:iceberg-compaction:problem:")
    assert content["detail"]
    return content


def test_the_airflow_request_is_accepted_as_it_stands(service: Service) -> None:
    answer = service.ask(
        "POST", "/api/v1/compact", data=json.dumps(AIRFLOW), headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 202, answer.text
    accepted = answer.json()
    assert answer.headers["location"] == accepted["run"]
    request = accepted["work"]["request"]
    assert (request["table"], request["strategy"], request["catalog"]) == ("shop.sales", "time-series", "lake")
    assert request["options"] == {"target-file-size": "1GB", "max-cost": 10.0}
    assert service.get(accepted["run"])["work"]["state"] == "queued"
    cancelled = service.ask("POST", accepted["cancel"]).json()
    assert cancelled["state"] == "cancelled"
    assert service.house.store.run(accepted["run_id"]) is None


def test_a_dry_run_answers_with_the_plan_and_queues_nothing(service: Service) -> None:
    before = service.get("work")["items"]
    answer = service.ask("POST", "compact", json={"table": "shop.sales", "dry_run": True})
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["table"] == "shop.sales"
    assert len(plan["files"]["file_path"]) == 6
    assert plan["groups"][0]["reason"]
    assert service.get("work")["items"] == before
    healthy = service.ask("POST", "compact", json={"table": "shop.sales", "dry_run": True, "strategy": "delete-files"})
    assert healthy.json()["groups"] == []


def test_one_key_is_one_request(service: Service) -> None:
    key = {"Idempotency-Key": "order 1"}
    first = service.ask("POST", "compact", json={"table": "shop.sales"}, headers=key).json()
    again = service.ask("POST", "compact", json={"table": "shop.sales"}, headers=key).json()
    assert again["work"]["request"] == first["work"]["request"]
    other = service.ask("POST", "compact", json={"table": "shop.new"}, headers=key)
    assert problem(other, 422)["type"].endswith(":key-reused")
    service.ask("POST", first["cancel"])


def test_waiting_ends_with_the_work(service: Service) -> None:
    answer = service.ask("POST", "compact?wait=0.4", json={"table": "shop.sales"})
    assert answer.status_code == 202
    work_id = answer.json()["run_id"]
    book = service.app.state.desk.book
    assert book.cancel(work_id, by="me", now_ms=wiring.now_ms()).state is WorkState.CANCELLED
    ended = service.get(f"work/{work_id}")
    assert ended["state"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"table": "shop.nothing"}, "shop.nothing"),
        ({"table": "nothing"}, "nothing"),
    ],
)
def test_a_table_that_is_not_there(service: Service, body: dict[str, Any], words: str) -> None:
    assert words in problem(service.ask("POST", "compact", json=body), 404)["detail"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"table": "shop.sales", "strategy": "magic"}, "magic"),
        ({"table": "shop.sales", "options": {"target_file_size": "big"}}, "target"),
        ({"table": "shop.sales", "options": {"max_cots": 1}}, "did you mean max-cost"),
        ({"table": "shop.sales", "options": {"prices": "/etc/passwd"}}, "not a file"),
        ({"table": "shop.sales", "catalog": "other"}, "There is no catalog 'other'"),
        ({"table": "shop..sales"}, "not a table name"),
        ({"table": "shop.*"}, "is a pattern; name one table"),
        ({"table": "shop.sales", "options": {"where": "id = 1; drop"}}, "cannot be read: ';'"),
        ({"tables": "shop.sales"}, "body"),
        ({"table": 7}, "body.table"),
        ([], "body"),
    ],
)
def test_what_cannot_be_meant_is_told(service: Service, body: Any, words: str) -> None:
    assert words in problem(service.ask("POST", "compact", json=body), 422)["detail"]


def test_housekeeping_is_planned_and_queued(service: Service) -> None:
    for verb in ("expire", "orphans", "manifests", "deletes", "tags", "statistics", "maintain"):
        answer = service.ask("POST", f"maintenance/{verb}", json={"table": "shop.sales", "dry_run": True})
        assert answer.status_code == 200, answer.text
        assert answer.json()["table"] == "shop.sales"
    body = {"table": "shop.sales", "options": {"steps": "expire,rewrite"}, "dry_run": True}
    steps = service.ask("POST", "maintenance/maintain", json=body).json()["steps"]
    assert [(each["step"], each["outcome"]["kind"]) for each in steps] == [
        ("expire", "healthy"),
        ("rewrite", "skipped"),
    ]
    assert "6" in steps[1]["outcome"]["sentence"]
    wrong = service.ask("POST", "maintenance/maintain", json={**body, "options": {"steps": "polish"}})
    assert "no steps of upkeep" in problem(wrong, 422)["detail"]
    body = {"table": "shop.sales", "options": {"older-than": "7d", "retain_last": 3}}
    accepted = service.ask("POST", "maintenance/expire", json=body).json()
    assert accepted["work"]["request"]["options"] == {"older_than": "7d", "retain_last": 3}
    service.ask("POST", accepted["cancel"])
    wrong = service.ask("POST", "maintenance/expire", json={"table": "shop.sales", "options": {"retain_lats": 3}})
    assert "retain_lats" in problem(wrong, 422)["detail"]
    wrong = service.ask("POST", "maintenance/expire", json={"table": "shop.sales", "options": {"retain_last": "x"}})
    assert "retain_last" in problem(wrong, 422)["detail"]


def test_tables_come_from_the_store_page_by_page(service: Service) -> None:
    page = service.get("tables?limit=1")
    assert [each["table"] for each in page["items"]] == ["bank.accounts"]
    rest = service.get(f"tables?limit=1&after={page['next']}")
    assert [each["table"] for each in rest["items"]] == ["shop.sales"]
    assert rest["next"] is None
    assert [each["table"] for each in service.get("tables?pattern=shop.*")["items"]] == ["shop.sales"]
    table = service.get("tables/shop.sales")
    assert table["health"]["figures"]["data_files"] == 6
    assert table["due"]["state"] in ("due", "quiet", "unknown")
    assert service.get("tables/shop.sales/health")["table"] == "shop.sales"
    assert len(service.get("tables/shop.sales/health/history")["items"]) == 1
    problem(service.ask("GET", "tables/shop.nothing"), 404)
    for path in ("health", "health/history"):
        assert "Nobody has looked" in problem(service.ask("GET", f"tables/shop.new/{path}"), 404)["detail"]
        assert "There is no table" in problem(service.ask("GET", f"tables/shop.none/{path}"), 404)["detail"]
    assert service.get("tables/shop.new")["health"] is None
    problem(service.ask("GET", "tables/shop.none"), 404)
    problem(service.ask("GET", "tables?after=%21"), 422)


def test_tables_say_live_what_only_they_know(service: Service) -> None:
    assert service.get("tables/shop.new/diagnosis")["data_files"] == 6
    assert service.get("tables/shop.new/explain")["verdict"] == "runs"
    assert service.get("tables/shop.new/plan")["table"] == "shop.new"
    assert service.get("tables/shop.new/partitions")["items"][0]["files"] == 6
    policy = service.get("tables/shop.new/policy")
    assert policy["table"] == "shop.new"
    problem(service.ask("GET", "tables/shop.nothing/explain"), 404)


def test_policies_are_put_checked_and_deleted(service: Service) -> None:
    document = {"tables": {"shop.new": {"strategy": "full"}}}
    assert service.ask("POST", "policies/validate", json=document).json()["ok"]
    wrong = {"tables": {"shop.new": {"strategy": "magic", "colour": "red"}}}
    reviewed = service.ask("POST", "policies/validate", json=wrong).json()
    assert not reviewed["ok"]
    assert any("colour" in each for each in reviewed["problems"])
    problem(service.ask("PUT", "policies/night", json=wrong), 422)
    assert service.ask("PUT", "policies/night", json=document).status_code == 200
    try:
        assert service.get("policies/night")["document"] == document
        assert [each["name"] for each in service.get("policies")["items"]] == ["night"]
        strategy = next(
            each for each in service.get("tables/shop.new/policy")["settings"] if each["name"] == "strategy"
        )
        assert strategy["value"] == "full"
        assert strategy["origin"]["source"] == "policy night"
    finally:
        assert service.ask("DELETE", "policies/night").status_code == 204
    problem(service.ask("DELETE", "policies/night"), 404)
    problem(service.ask("PUT", "policies/..%2Fx", json=document), 404)


def test_the_fleet_in_figures(service: Service) -> None:
    fleet = service.get("fleet")
    assert fleet["figures"]["tables"] == 2
    assert fleet["figures"]["data_files"] == 12
    ranks = service.get("fleet/ranking?limit=1")
    assert ranks["items"][0]["rank"] == 1
    assert service.get(f"fleet/ranking?after={ranks['next']}")["items"][0]["rank"] == 2
    assert service.get("fleet/spending")["items"] == []
    assert service.get("usage")["items"] == []
    assert service.ask("GET", "usage?format=csv").text.startswith("month,tenant,runs")
    problem(service.ask("GET", "usage?month=May"), 422)


def event_ids(service: Service, run_id: str, last: str = "") -> list[str]:
    headers = {"Last-Event-ID": last} if last else {}
    lines = service.ask("GET", f"runs/{run_id}/events", headers=headers).text.splitlines()
    return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]


def test_runs_are_listed_reported_checked_and_undone(service: Service) -> None:
    house = service.house
    made = wiring.new_run(store=house.store)
    catalog = house.catalogs.catalog("lake")
    world = operate.House(catalog=catalog, engines=wiring.engine_factory("inline"))
    operation = RewriteFiles(table="bank.accounts", policy=house.policies.followed())
    outcome = operate.operate(operation, world, made)
    assert outcome.kind.value == "compacted"
    listed = service.get("runs")["items"]
    assert [each["run_id"] for each in listed] == [made.run_id]
    assert service.get("runs?kind=healthy")["items"] == []
    assert service.get("runs?table=shop.sales")["items"] == []
    assert service.get("runs?since=1d")["items"] == listed
    run = service.get(f"runs/{made.run_id}")
    assert run["record"]["outcome"]["files_removed"] == 6
    assert service.get(f"runs/{made.run_id}/report")["state"] == "ended"
    page = service.ask("GET", f"runs/{made.run_id}/report?format=html")
    assert "<h1>" in page.text
    stream = service.ask("GET", f"runs/{made.run_id}/events").text
    kinds = [line.removeprefix("event: ") for line in stream.splitlines() if line.startswith("event: ")]
    assert kinds[0] == "planning"
    assert kinds[-1] == "end"
    ids = event_ids(service, made.run_id)
    assert ids[-1] == f"{made.run_id}/{len(ids) - 1}"
    assert event_ids(service, made.run_id, last=ids[-2]) == ids[-1:]
    assert event_ids(service, made.run_id, last=str(len(ids) - 2)) == ids[-1:]
    for of_another in (f"{'0' * 32}/{len(ids)}", "9" * 200, "x", "/"):  # such as an attempt before
        assert event_ids(service, made.run_id, last=of_another) == ids
    assert service.ask("POST", f"runs/{made.run_id}/undo", json={"dry_run": True}).json()["table"] == "bank.accounts"
    for verb, body in (("verify", None), ("undo", {})):
        answer = service.ask("POST", f"runs/{made.run_id}/{verb}", json=body)
        assert answer.status_code == 202, answer.text
        assert answer.json()["work"]["request"]["run_id"] == made.run_id
        service.ask("POST", answer.json()["cancel"])
    assert service.ask("POST", f"runs/{made.run_id}/cancel").json()["state"] == "ended"
    problem(service.ask("GET", "runs/nothing"), 404)
    assert service.get("unfinished-runs")["items"] == []


def test_blockers_have_an_end(service: Service) -> None:
    made = service.ask("POST", "tables/shop.sales/blockers", json={"seconds": "2h", "reason": "a migration"})
    assert made.status_code == 201, made.text
    assert service.get("tables/shop.sales/blockers")["items"] == [made.json()]
    waiting = service.ask("POST", "compact", json={"table": "shop.sales"}).json()
    assert "asks for peace on the table (a migration) until" in waiting["work"]["sentence"]
    assert service.get(f"work/{waiting['run_id']}")["sentence"] == waiting["work"]["sentence"]
    assert service.get(f"runs/{waiting['run_id']}")["work"]["sentence"] == waiting["work"]["sentence"]
    service.ask("POST", waiting["cancel"])
    problem(service.ask("POST", "tables/shop.slaes/blockers", json={"seconds": 60}), 404)
    assert service.ask("DELETE", f"tables/shop.sales/blockers/{made.json()['blocker_id']}").status_code == 204
    assert service.get("tables/shop.sales/blockers")["items"] == []
    problem(service.ask("POST", "tables/shop.sales/blockers", json={"seconds": 0}), 422)


def test_schedules_are_shown_paused_and_resumed(service: Service) -> None:
    book = schedule_book.ScheduleBook(service.house.store.entries)
    watches = [
        TableWatch(table=name, pointer=f"s3a://lake/{name.replace('.', '/')}/metadata/00001-x.metadata.json")
        for name in ("shop.new", "shop.sales")
    ]
    assert book.save("lake", watches, (), {})
    document = {"tables": {"shop.new": {"schedule": {"cron": "0 2 * * *", "time-zone": "Europe/Berlin"}}}}
    assert service.ask("PUT", "policies/times", json=document).status_code == 200
    first = service.get("schedules?limit=1")
    assert first["items"][0]["schedule"] == "0 2 * * * Europe/Berlin"
    assert first["items"][0]["next_run_ms"] > wiring.now_ms() - 86_400_000
    assert [each["table"] for each in service.get(f"schedules?after={first['next']}")["items"]] == ["shop.sales"]
    paused = service.ask("POST", "schedules/pause", json={"tables": "shop.*"})
    assert paused.status_code == 200
    assert service.get("schedules/pauses")["items"] == [paused.json()]
    assert service.get("tables/shop.new/schedule")["paused_by"] == "shop.*"
    assert service.get("tables/shop.new/schedule")["next_run_ms"] is None
    assert service.ask("POST", "schedules/resume", json={"tables": "shop.*"}).status_code == 204
    problem(service.ask("POST", "schedules/resume", json={"tables": "shop.*"}), 404)
    problem(service.ask("GET", "tables/shop.nothing/schedule"), 404)
    service.ask("DELETE", "policies/times")
    now = service.ask("POST", "tables/shop.new/schedule/run")
    assert now.status_code == 202, now.text
    service.ask("POST", now.json()["cancel"])


def test_writers_and_buckets_tell_of_changes(service: Service) -> None:
    book = schedule_book.ScheduleBook(service.house.store.entries)
    book.save(
        "lake", [TableWatch(table="shop.sales", pointer="s3a://lake/shop/sales/metadata/1.metadata.json")], (), {}
    )
    service.app.state.desk.folders._read_at = None
    key = "shop/sales/metadata/00002-y.metadata.json"
    entity = {"bucket": {"name": "lake", "arn": "x"}, "object": {"key": key, "size": 7}}
    bodies: list[Any] = [
        {"table": "shop.sales"},
        {"EventName": "s3:ObjectCreated:Put", "Records": [{"eventVersion": "2.0", "s3": entity}]},
        {"detail-type": "Object Created", "detail": entity},
    ]
    for body in bodies:
        answer = service.ask("POST", "notify", json=body)
        assert (answer.status_code, answer.json()) == (202, {"accepted": 1, "ignored": 0}), answer.text
        assert book.take_notices("lake") == ["shop.sales"]
    data = {"bucket": {"name": "lake"}, "object": {"key": "shop/sales/data/x.parquet"}}
    for body in ({"table": "shop.nothing"}, {"Records": [{"s3": data}]}):
        assert service.ask("POST", "notify", json=body).json() == {"accepted": 0, "ignored": 1}
    assert book.take_notices("lake") == []


def test_probes_pages_and_metrics(service: Service) -> None:
    for path in ("/healthz", "/readyz"):
        head = service.ask("HEAD", path)
        assert (head.status_code, head.text) == (200, "")
    assert service.get("/healthz")["ok"]
    assert service.get("/readyz")["ok"]
    text = service.ask("GET", "/metrics").text
    assert "iceberg_compaction_service_requests_total" in text
    assert 'iceberg_compaction_service_tables{tenant=""} 2.0' in text
    assert "shop.sales" not in text
    page = service.ask("GET", "/docs")
    assert "/api/v1/compact" in page.text
    assert "http://" not in page.text.replace("http://www.w3.org", "")
    assert "https://" not in page.text
    problem(service.ask("GET", "nowhere"), 404)
    problem(service.ask("PATCH", "tables"), 405)


def test_acts_are_in_the_audit_log(service: Service) -> None:
    service.ask("POST", "compact", json={"table": "shop.nothing"})
    newest = service.get("audit?limit=1")["items"][0]
    assert newest["action"] == "POST /api/v1/compact"
    assert newest["status"] == 404
    assert newest["table"] == "shop.nothing"
    assert newest["principal"] == "anybody"
