"""Every route by every role, on the own and a foreign tenant: who may do what, and that nobody can tell a foreign table
from one that does not exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.factories import lake as lakes
from tests.factories import services, stores
from tests.factories.services import TENANTS

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.table_schedule import TableWatch
from iceberg_compaction.model.work import WorkRequest
from iceberg_compaction.record import health_log
from iceberg_compaction.record.service import schedule_book
from iceberg_compaction.workflow import diagnose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.services import Service

ANY, OWN = "all tenants", "own tenant"


class Rule(NamedTuple):
    """What a route needs. `{table}` and `{run}` are of the tenant in question."""

    role: Role
    scope: str = OWN  # ANY: the role must hold for all tenants
    body: Any = None
    good: tuple[int, ...] = (200, 201, 202, 204)


V, O, A = Role.VIEWER, Role.OPERATOR, Role.ADMIN  # noqa: E741
UPKEEP = {"table": "{table}"}
DRY = {"table": "{table}", "dry_run": True}
WORK = "GET /api/v1/work"
RULES: dict[str, list[Rule]] = {
    "POST /api/v1/compact": [Rule(O, body=UPKEEP), Rule(V, body=DRY)],
    "POST /api/v1/maintenance/manifests": [Rule(O, body=UPKEEP), Rule(V, body=DRY)],
    "POST /api/v1/maintenance/expire": [Rule(A, body=UPKEEP), Rule(V, body=DRY)],
    "POST /api/v1/maintenance/orphans": [
        Rule(O, body=UPKEEP),
        Rule(A, body={**UPKEEP, "options": {"to_quarantine": False}}),
        Rule(A, body={**UPKEEP, "options": {"older_than": "1s", "allow_recent": True}}),
        Rule(A, body={**UPKEEP, "options": {"force-share": True}}),
        Rule(A, ANY, body={**UPKEEP, "options": {"locations": ["file:///"]}}),
    ],
    "POST /api/v1/maintenance/maintain": [
        Rule(O, body=UPKEEP),
        Rule(O, body={**UPKEEP, "options": {"steps": "rewrite,manifests", "max-cost": 1}}),
        Rule(A, body={**UPKEEP, "options": {"steps": "rewrite, expire"}}),
        Rule(A, body={**UPKEEP, "options": {"steps": ["ttl"]}}),
        Rule(A, body={**UPKEEP, "options": {"snapshot-retention": "2h"}}),
        Rule(A, body={**UPKEEP, "options": {"expire_snapshots": True}}),
        Rule(A, body={**UPKEEP, "options": {"maintenance-ttl-keep": "1d"}}),
    ],
    WORK: [Rule(V)],
    f"{WORK}/{{run}}": [Rule(V)],
    "GET /api/v1/tables": [Rule(V)],
    "GET /api/v1/tables/{table}": [Rule(V)],
    "GET /api/v1/tables/{table}/health": [Rule(V)],
    "GET /api/v1/tables/{table}/health/history": [Rule(V)],
    "GET /api/v1/tables/{table}/diagnosis": [Rule(V)],
    "GET /api/v1/tables/{table}/partitions": [Rule(V)],
    "GET /api/v1/tables/{table}/explain": [Rule(V)],
    "GET /api/v1/tables/{table}/plan": [Rule(V)],
    "GET /api/v1/tables/{table}/policy": [Rule(V)],
    "GET /api/v1/tables/{table}/blockers": [Rule(V)],
    "POST /api/v1/tables/{table}/blockers": [Rule(O, body={"seconds": 1})],
    "DELETE /api/v1/tables/{table}/blockers/none": [Rule(O, good=(404,))],
    "POST /api/v1/notify": [Rule(O, body=UPKEEP)],
    "GET /api/v1/schedules": [Rule(V)],
    "GET /api/v1/schedules/pauses": [Rule(V)],
    "POST /api/v1/schedules/pause": [
        Rule(O, body={"tables": "{table}"}),
        Rule(O, body={"tables": "shop"}),
        Rule(O, ANY, body={"tables": "sh*"}),
    ],
    "POST /api/v1/schedules/resume": [Rule(O, body={"tables": "{table}"}, good=(204, 404))],
    "GET /api/v1/tables/{table}/schedule": [Rule(V)],
    "POST /api/v1/tables/{table}/schedule/run": [Rule(O)],
    "GET /api/v1/runs": [Rule(V)],
    "GET /api/v1/unfinished-runs": [Rule(V)],
    "GET /api/v1/runs/{done}": [Rule(V)],
    "GET /api/v1/runs/{done}/report": [Rule(V)],
    "GET /api/v1/runs/{done}/events": [Rule(V)],
    "POST /api/v1/runs/{done}/cancel": [Rule(O)],
    "POST /api/v1/runs/{done}/verify": [Rule(O)],
    "POST /api/v1/runs/{done}/undo": [Rule(O, body={}), Rule(A, body={"despite_differences": True})],
    "GET /api/v1/policies": [Rule(V, ANY)],
    "POST /api/v1/policies/validate": [Rule(V, body={})],
    "GET /api/v1/policies/none": [Rule(V, ANY, good=(404,))],
    "PUT /api/v1/policies/mine": [Rule(A, ANY, body={})],
    "DELETE /api/v1/policies/none": [Rule(A, ANY, good=(404,))],
    "GET /api/v1/fleet": [Rule(V)],
    "GET /api/v1/fleet/ranking": [Rule(V)],
    "GET /api/v1/fleet/spending": [Rule(V)],
    "GET /api/v1/usage": [Rule(V)],
    "GET /api/v1/workers": [Rule(V, ANY)],
    "GET /api/v1/audit": [Rule(A)],
    "GET /api/v1/tokens": [Rule(A)],
    "POST /api/v1/tokens": [
        Rule(A, ANY, body={"name": "x", "role": "viewer"}),
        Rule(A, body={"name": "x", "role": "viewer", "tenants": ["shop"]}),
    ],
    "DELETE /api/v1/tokens/none": [Rule(A, good=(404,))],
    "GET /metrics": [Rule(V, ANY)],
}
OPEN = {"GET /healthz", "GET /readyz"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Two tenants, each with a table, work that waits and a run that has ended."""
    lake = lakes.file_lake(tmp_path_factory.mktemp("lake"), namespace="shop")
    lake.catalog.create_namespace("bank")
    house = services.make_house(lake.settings, tenants=TENANTS, auth="tokens")
    for tenant in ("shop", "bank"):
        name = f"{tenant}.sales"
        lakes.append_small_files(lakes.make_table(lake.catalog, name), 2)
        look = diagnose.diagnose_table(lake.catalog, name, house.policies.followed().rewrite).entry(wiring.now_ms())
        health_log.HealthLog(entries=house.store.entries).save([look])
        watch = TableWatch(table=name, pointer=f"s3://lake/{tenant}/sales/metadata/1.metadata.json")
        schedule_book.ScheduleBook(house.store.entries).save("lake", [watch], (), {})
        house.store.save(stores.make_record(f"done-{tenant}", table=name, started_ms=wiring.now_ms()))
    with services.running(house) as running:
        for tenant in ("shop", "bank"):
            request = WorkRequest(
                work_id=f"run-{tenant}", catalog="lake", table=f"{tenant}.sales", tenant=tenant, requested_ms=1
            )
            running.app.state.desk.book.put(request)
        yield running
    lake.catalog.close()


def filled(value: Any, tenant: str) -> Any:
    if isinstance(value, dict):
        return {name: filled(each, tenant) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    names = {"{table}": f"{tenant}.sales", "{run}": f"run-{tenant}", "{done}": f"done-{tenant}"}
    for mark, text in names.items():
        value = value.replace(mark, text)
    return value


def ask(service: Service, label: str, rule: Rule, token: str | None, tenant: str = "shop") -> Any:
    method, path = label.split(" ")
    return service.ask(method, filled(path, tenant), token=token, json=filled(rule.body, tenant))


CASES = [(label, number) for label, rules in RULES.items() for number in range(len(rules))]


@pytest.mark.parametrize(("label", "number"), CASES, ids=[f"{label} {number}" for label, number in CASES])
def test_every_route_asks_for_its_role(service: Service, label: str, number: int) -> None:
    rule = RULES[label][number]
    assert ask(service, label, rule, None).status_code == 401
    assert ask(service, label, rule, "ict_wrong").status_code == 401
    for role in Role:
        for tenant in (None, "shop"):
            answer = ask(service, label, rule, service.token(role, tenant))
            may = role.covers(rule.role) and (tenant is None or rule.scope == OWN)
            assert (answer.status_code in rule.good) if may else (answer.status_code == 403), (
                role,
                tenant,
                answer.status_code,
                answer.text[:300],
            )


@pytest.mark.parametrize(
    "label",
    [label for label in RULES if any(mark in str((label, RULES[label])) for mark in ("{table}", "{run}", "{done}"))],
)
def test_a_foreign_table_is_one_that_does_not_exist(service: Service, label: str) -> None:
    for rule in RULES[label]:
        if rule.scope == ANY:
            continue
        token = service.token(Role.ADMIN, "shop")
        if label.startswith("POST /api/v1/schedules"):
            continue  # any text may be a pattern: not one's own is forbidden
        foreign, missing = ask(service, label, rule, token, "bank"), ask(service, label, rule, token, "nobody")
        assert foreign.status_code == (202 if label.endswith("/notify") else 404), foreign.text[:300]
        assert foreign.text.replace("bank", "nobody") == missing.text


def test_lists_sums_and_logs_name_own_tables_only(service: Service) -> None:
    token = service.token(Role.ADMIN, "shop")
    ask(service, "POST /api/v1/compact", Rule(O, body=UPKEEP), service.token(Role.ADMIN), "bank")
    for path in (
        "tables",
        "runs",
        "work",
        "fleet",
        "fleet/ranking",
        "fleet/spending",
        "usage",
        "audit",
        "unfinished-runs",
    ):
        answer = service.ask("GET", path, token=token)
        assert answer.status_code == 200
        assert "bank" not in answer.text, path
        assert "bank" in service.ask("GET", path, token=service.token(Role.ADMIN)).text or path in (
            "usage",
            "unfinished-runs",
        )
    assert service.get("fleet", token=token)["figures"]["tables"] == 1
    assert service.get("runs?table=bank.sales", token=token)["items"] == []
    assert service.get("work?table=bank.sales", token=token)["items"] == []
    # A bare name means the own table, and no error names the other one.
    accepted = service.ask("POST", "compact", token=token, json={"table": "sales"})
    assert accepted.json()["work"]["request"]["table"] == "shop.sales"
    wrong = service.ask("POST", "compact", token=token, json={"table": "shop.sale"})
    assert "did you mean" not in wrong.text


def test_a_tenants_admin_makes_tokens_within_the_tenant_only(service: Service) -> None:
    token = service.token(Role.ADMIN, "shop")
    for tenants in (None, ["bank"], ["shop", "bank"]):
        body = {"name": "x", "role": "admin", "tenants": tenants}
        assert service.ask("POST", "tokens", token=token, json=body).status_code == 403
    unknown = service.ask(
        "POST", "tokens", token=service.token(Role.ADMIN), json={"name": "x", "role": "viewer", "tenants": ["shpo"]}
    )
    assert (unknown.status_code, "no tenant 'shpo'" in unknown.json()["detail"]) == (422, True)
    every = service.get("tokens", token=service.token(Role.ADMIN))["items"]
    foreign = next(each for each in every if each["tenants"] is None)
    assert service.ask("DELETE", f"tokens/{foreign['token_id']}", token=token).status_code == 404
    made = service.ask("POST", "tokens", token=token, json={"name": "x", "role": "viewer", "tenants": ["shop"]}).json()
    assert made["token"]["expires_ms"] - made["token"]["created_ms"] == 90 * 86_400_000
    assert made["secret"] not in service.ask("GET", "tokens", token=token).text
    assert service.get("fleet", token=made["secret"])["figures"]["tables"] == 1
    assert service.ask("DELETE", f"tokens/{made['token']['token_id']}", token=token).status_code == 200


def test_refused_acts_are_in_the_audit_log_without_secrets(service: Service) -> None:
    viewer, admin = service.token(Role.VIEWER, "shop"), service.token(Role.ADMIN)
    service.ask("POST", "compact", token=viewer, json={"table": "shop.sales"})
    newest = service.get("audit?limit=1", token=admin)["items"][0]
    assert (newest["principal"], newest["status"]) == ("viewer shop", 403)
    text = service.ask("GET", "audit?limit=1000", token=admin).text
    assert not any(secret in text for secret in service.secrets.values())


def test_no_route_is_forgotten(service: Service) -> None:
    def plain(label: str) -> str:
        return re.sub(r"\{\w+\}|none|mine", "{}", label)

    tested = {plain(label) for label in [*RULES, *OPEN]} | {"POST /api/v1/maintenance/{}"}
    paths = service.app.openapi()["paths"]
    documented = {plain(f"{method.upper()} {path}") for path, methods in paths.items() for method in methods}
    assert documented - tested == set()
