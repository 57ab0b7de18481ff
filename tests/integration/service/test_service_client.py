"""The client of the service, and `--server`, against a real service that works: what programs and people call."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import service_houses, services
from typer.testing import CliRunner

from iceberg_compaction import Client, errors
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.interfaces.client import transport
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.principal import Role
from iceberg_compaction.model.rewrite_plan import Plan
from iceberg_compaction.model.work import WorkState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.factories.services import Service

TABLES = ("sales", "visits", "clicks", "carts", "returns")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("lake"), namespace="shop")
    for name in TABLES:
        lakes.append_small_files(lakes.make_table(lake.catalog, lake.name(name)), 6)
    house = services.make_house(lake.settings)
    with services.running(house) as running, service_houses.working(house):
        running.token(Role.ADMIN)
        yield running
    lake.catalog.close()


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.url, token=service.token(Role.ADMIN)) as made:
        yield made


def test_a_program_compacts_watches_verifies_and_undoes(client: Client) -> None:
    plan = client.plan("shop.sales")
    assert isinstance(plan, Plan)
    assert plan.input_files == 6
    work = client.compact("shop.sales", wait=True)
    assert (work.state, work.outcome) == (WorkState.DONE, Kind.COMPACTED)
    ended = client.outcome(work)
    assert (ended.files_removed, ended.files_added) == (6, 1)
    assert {"planned", "finished"} <= {event.kind for event in client.events(work.run_id)}
    assert client.run(work.run_id).record is not None
    assert client.report(work.run_id).run_id == work.run_id
    assert [record.run_id for record in client.runs("shop.sales", kind="compacted")] == [work.run_id]
    assert client.verify(work.run_id).verdict.value == "proved"
    assert client.undo(work.run_id).outcome is Kind.UNDONE
    assert client.inspect("shop.sales").data_files == 6
    assert client.explain("shop.sales").table == "shop.sales"
    assert client.policy_of("shop.sales").table == "shop.sales"


def test_one_key_is_one_piece_of_work(client: Client) -> None:
    first = client.compact("shop.visits", wait=True, key="nightly 1")
    again = client.compact("shop.visits", wait=True, key="nightly 1")
    assert again.request.work_id == first.request.work_id
    assert len(list(client.runs("shop.visits"))) == 1
    with pytest.raises(errors.ConfigError, match="Idempotency-Key"):
        client.compact("shop.clicks", key="nightly 1")


def test_policies_peace_and_notices(client: Client) -> None:
    document = {"tables": {"shop.clicks": {"strategy": "full"}}}
    assert client.validate_policy(document).ok
    client.put_policy("clicks", document)
    assert [policy.name for policy in client.policies()] == ["clicks"]
    assert client.policy_of("shop.clicks").policy.rewrite.strategy == "full"
    client.delete_policy("clicks")
    assert list(client.policies()) == []
    blocker = client.block("shop.clicks", "1h", reason="backfill")
    waiting = client.compact("shop.clicks", wait=1.0)
    assert waiting.state is WorkState.QUEUED
    client.unblock("shop.clicks", blocker)
    assert client.wait(waiting, 60).outcome is Kind.COMPACTED
    answer = client.notify("shop.clicks")
    assert answer.accepted + answer.ignored == 1
    assert client.notify("shop.nothing").accepted == 0
    assert client.fleet().figures.tables >= 0


def test_trouble_is_an_error_of_the_library(service: Service, client: Client) -> None:
    with pytest.raises(errors.NoSuchTableError, match="nothing"):
        client.compact("shop.nothing")
    with pytest.raises(errors.ConfigError, match="costs"):
        client.compact("shop.sales", options={"max_costs": 1})
    with pytest.raises(errors.UnauthenticatedError):
        list(Client(service.url, token="ict_wrong").runs())
    viewer = Client(service.url, token=service.token(Role.VIEWER))
    with pytest.raises(errors.ForbiddenError, match="operator"):
        viewer.compact("shop.sales")
    with pytest.raises(errors.ConfigError, match="There is no"):
        client.run("unknown")
    for url in ("", "localhost:8080", "ftp://x", "http://"):
        with pytest.raises(errors.ConfigError, match="URL of a service"):
            Client(url)


class Moody:
    """A server that answers as its list says: what a load balancer in trouble does."""

    def __init__(self, answers: list[tuple[int, dict[str, str], bytes]]) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                outer.seen.append((self.command, dict(self.headers)))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, headers, content = answers.pop(0)
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = _answer

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def moody() -> Iterator[Any]:
    made: list[Moody] = []

    def make(*answers: tuple[int, dict[str, str], bytes]) -> Moody:
        made.append(Moody(list(answers)))
        return made[-1]

    yield make
    for each in made:
        each.server.shutdown()
        each.server.server_close()


def test_faults_that_pass_are_tried_again_with_the_same_key(moody: Any) -> None:
    busy = (503, {"Retry-After": "3"}, b"")
    server = moody(busy, (429, {}, b""), (200, {}, b'{"ok": true}'))
    pauses: list[float] = []
    made = transport.Transport(url=server.url, token="t", pause=pauses.append)
    assert made.send("POST", "/x", dict[str, bool], {}, key="k") == {"ok": True}
    assert pauses == [3.0, 1.0]
    assert [headers["Idempotency-Key"] for _, headers in server.seen] == ["k"] * 3
    server = moody(busy)
    with pytest.raises(errors.UnreachableError):
        transport.Transport(url=server.url, pause=pauses.append).send("POST", "/x", None, {})  # may not be repeated


def test_a_token_does_not_follow_a_redirect_and_strangers_are_recognised(moody: Any) -> None:
    other = moody()
    server = moody((302, {"Location": f"{other.url}/steal"}, b""), (200, {}, b"<html>"), (404, {}, b"<html>"))
    made = transport.Transport(url=server.url, token="secret")
    with pytest.raises(errors.CompactionError, match="no service of iceberg-compaction"):
        made.get("/x", dict[str, bool])
    assert other.seen == []
    with pytest.raises(errors.CompactionError, match="cannot read"):
        made.get("/x", dict[str, bool])
    with pytest.raises(errors.ConfigError, match="no service of iceberg-compaction"):
        made.get("/x", dict[str, bool])
    assert "secret" not in repr(made)


def test_a_token_is_sent_though_a_netrc_file_knows_the_host_and_proxies_are_heeded(
    moody: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\nmachine service.test login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    server = moody((200, {}, b'{"ok": true}'))
    assert transport.Transport(url=server.url, token="t").get("/x", dict[str, bool]) == {"ok": True}
    proxy = moody((200, {}, b'{"ok": true}'))
    monkeypatch.setenv("http_proxy", proxy.url)
    assert transport.Transport(url="http://service.test", token="t").get("/x", dict[str, bool]) == {"ok": True}
    assert [headers["Authorization"] for _, headers in (*server.seen, *proxy.seen)] == ["Bearer t"] * 2


def call(service: Service, *words: str, ends: int = 0, token: str | None = None) -> str:
    environ = {"ICEBERG_COMPACTION_TOKEN": token or service.token(Role.ADMIN), "COLUMNS": "120"}
    result = CliRunner().invoke(app, ["--server", service.url, *words], env=environ)
    assert result.exit_code == ends, result.output
    return result.output


def test_commands_with_a_server(service: Service) -> None:
    assert "6 files" in call(service, "plan", "--table", "shop.carts")
    assert "shop.carts" in call(service, "run", "--table", "shop.carts", "--dry-run")
    shown = call(service, "run", "--table", "shop.carts", "--target-file-size", "64MB", "--no-progress")
    assert "6 files" in shown
    (record,) = json.loads(call(service, "history", "--table", "shop.carts", "--output", "json"))
    run_id = record["run_id"]
    assert "compacted" in call(service, "report", run_id)
    assert "compacted" in call(service, "watch", run_id, "--no-progress")
    assert "proved" in call(service, "verify", run_id)
    assert "undone" in call(service, "undo", run_id, "--no-progress")
    assert "ended" in call(service, "cancel", run_id)
    assert "shop.carts" in call(service, "doctor", "--table", "shop.carts")
    assert "shop.carts" in call(service, "explain", "shop.carts")
    assert "queued as" in call(service, "run", "--table", "shop.returns", "--no-wait")
    plan = json.loads(call(service, "expire", "--table", "shop.carts", "--dry-run", "--output", "json"))
    assert plan["table"] == "shop.carts"
    for verb in ("expire", "manifests", "statistics", "maintain"):
        assert "shop.carts" in call(service, verb, "--table", "shop.carts", "--dry-run")
    assert "shop.carts" in call(service, "manifests", "--table", "shop.carts", "--no-progress")


def test_commands_with_a_server_get_a_sentence_for_trouble(service: Service) -> None:
    assert "error: " in call(service, "run", "--table", "shop.nothing", ends=1)
    assert "The token is not accepted" in call(service, "history", token="ict_no", ends=1)
    assert "no such command" in call(service, "orphan", ends=2).lower()
    result = CliRunner().invoke(app, ["--server"])
    assert result.exit_code == 2
    assert "--server needs the URL" in result.output
    result = CliRunner().invoke(app, ["--server=http://127.0.0.1:9", "history"])
    assert result.exit_code == 1
    assert "does not answer" in result.output


def test_a_run_is_named_as_history_shows_it(service: Service, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_COMPACTION_TOKEN", service.token(Role.ADMIN))
    work = client.compact("shop.returns", wait=True)

    def said(*words: str) -> str:
        return CliRunner().invoke(app, ["--server", service.url, *words]).output

    assert work.run_id in said("report", work.run_id[:8], "--output", "json")
    assert work.run_id in said("report", "latest", "--output", "json")
    assert "too short" in said("report", work.run_id[:3])
    assert "begins with 'zzzz'" in said("report", "zzzz")
    assert "give the id of the run" in said("undo", "latest")
    assert "give the id of the run" in said("cancel", "latest")
    assert "ended already" in said("cancel", work.run_id[:8])
