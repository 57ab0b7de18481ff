"""Notices reach webhooks: those that want them, in their format, after failures, once each."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from iceberg_compaction.interfaces.service.notices import service_notices
from iceberg_compaction.interfaces.service.notices.notice_queue import NoticeQueue
from iceberg_compaction.interfaces.service.service_settings import WebhookSettings
from iceberg_compaction.model.notice import Notice, NoticeKind
from iceberg_compaction.model.run_figures import HealthEntry, TableFigures
from iceberg_compaction.model.work import Work, WorkRequest, WorkState
from iceberg_compaction.record.entries.memory import MemoryEntries

pytestmark = pytest.mark.server


class Receiver:
    """A real HTTP server that answers as it is told, and keeps what it got."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.got: list[tuple[dict[str, str], Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((dict(self.headers), content))
                status = outer.answers.pop(0) if outer.answers else 200
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", f"{outer.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook?key=SECRET"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(content) for _, content in self.got]


@pytest.fixture
def receiver() -> Any:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Clock:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def queue(*webhooks: WebhookSettings, entries: Any = None) -> tuple[NoticeQueue, Clock]:
    clock = Clock()
    return NoticeQueue(entries=entries or MemoryEntries(), webhooks=webhooks, clock=clock), clock


def notice(number: int = 1, **more: Any) -> Notice:
    facts = {"kind": NoticeKind.FAILED, "at_ms": 1_000_000, "sentence": "It failed: <!channel> & more.", **more}
    return Notice(notice_id=f"n{number}", **facts)


def deliver_all(notices: NoticeQueue) -> None:
    while notices.deliver_one("w"):
        pass


def test_a_webhook_gets_what_it_wants_in_its_format(receiver: Receiver) -> None:
    plain = WebhookSettings(url=receiver.url, events=("failed", "done"), secret="s3cret")
    slack = WebhookSettings(url=receiver.url + "&slack", format="slack", tenants=("shop",))
    notices, _ = queue(plain, slack)
    wanted = notice(1, catalog="lake", table="shop.t", tenant="shop", run_id="abcdef0123456789")
    assert notices.post(wanted) == 2
    assert notices.post(notice(2, tenant="other")) == 1
    assert notices.post(notice(3)) == 1
    assert notices.post(notice(4, kind=NoticeKind.WORSE, tenant="web")) == 0
    deliver_all(notices)
    assert not notices.deliver_one("w")
    texts = [body["text"] for body in receiver.bodies if "text" in body]
    assert texts == [":x: *lake.shop.t* It failed: &lt;!channel&gt; &amp; more. (run abcdef01)"]
    assert [Notice.model_validate(body).notice_id for body in receiver.bodies if "text" not in body] == [
        "n1",
        "n2",
        "n3",
    ]
    for headers, content in receiver.got:
        signature = hmac.new(b"s3cret", content, hashlib.sha256).hexdigest()
        assert ("X-Signature-256" in headers) == ("text" not in json.loads(content))
        assert headers.get("X-Signature-256", f"sha256={signature}") == f"sha256={signature}"


@pytest.mark.parametrize("status", [500, 429, 404, 302])
def test_what_is_not_taken_is_sent_again_later_and_after_a_restart(receiver: Receiver, status: int) -> None:
    entries = MemoryEntries()
    webhook = WebhookSettings(url=receiver.url)
    notices, clock = queue(webhook, entries=entries)
    receiver.answers = [status, status]
    notices.post(notice())
    notices.post(notice())  # the same once more is not sent twice
    assert notices.deliver_one("w")
    assert not notices.deliver_one("w")  # not at once
    notices, clock = queue(webhook, entries=entries)
    clock.now_ms += 1_000
    assert notices.deliver_one("w")
    clock.now_ms += 2_000
    assert notices.deliver_one("w")
    clock.now_ms += 10**9
    assert not notices.deliver_one("w")
    assert len(receiver.got) == 3
    assert {headers["X-Notice-Id"] for headers, _ in receiver.got} == {"n1"}


def test_a_receiver_that_is_gone_is_given_up_without_its_secret_in_a_log(
    receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    url = receiver.url
    receiver.server.server_close()
    notices, clock = queue(WebhookSettings(url=url))
    notices.post(notice())
    attempts = 0
    while attempts < 50:
        clock.now_ms += 10**7
        if not notices.deliver_one("w"):
            break
        attempts += 1
    assert attempts == 12
    assert "given up" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_notice_for_a_webhook_that_left_the_settings_is_dropped(receiver: Receiver) -> None:
    entries = MemoryEntries()
    notices, _ = queue(WebhookSettings(url=receiver.url), entries=entries)
    notices.post(notice())
    others, _ = queue(WebhookSettings(url=receiver.url + "&other"), entries=entries)
    deliver_all(others)
    deliver_all(notices)
    assert receiver.got == []


def ended(state: WorkState, result: dict[str, Any] | None = None) -> Work:
    request = WorkRequest(work_id="w1", catalog="lake", table="shop.t", tenant="shop", requested_ms=1)
    return Work(request=request, state=state, sentence="It broke.", result=result)


def test_ends_of_work_become_notices() -> None:
    kinds = {state: [each.kind for each in service_notices.of_work(ended(state), 5)] for state in WorkState}
    assert kinds == {
        WorkState.QUEUED: [],
        WorkState.RUNNING: [],
        WorkState.DONE: [NoticeKind.DONE],
        WorkState.FAILED: [NoticeKind.FAILED],
        WorkState.CANCELLED: [],
    }
    unknown = {"group_outcomes": [{"outcome": "landed"}, {"outcome": "unknown"}]}
    for result in (unknown, {"steps": [{"outcome": {}}, {"outcome": unknown}]}):
        both = service_notices.of_work(ended(WorkState.FAILED, result), 5)
        assert [each.kind for each in both] == [NoticeKind.FAILED, NoticeKind.UNKNOWN_COMMIT]
        assert len({each.notice_id for each in both}) == 2
        assert both[0].sentence == "compact: It broke."


@pytest.mark.parametrize(
    ("scores", "worse"),
    [
        ([50, 60, 70, 80], True),
        ([50, 60, 70, 80, 10], True),
        ([77, 78, 79, 80], False),  # by little
        ([50, 60, 60, 80], False),
        ([50, 60, 70], False),
        ([50, None, 70, 80], False),
        ([80, 70, 60, 50], False),
    ],
)
def test_a_table_is_worse_if_its_score_only_falls(scores: list[int | None], worse: bool) -> None:
    figures = {"snapshot_id": 1, "data_files": 1, "small_files": 1, "large_files": 0, "bytes": 1, "records": 1}
    looks = [
        HealthEntry(
            at_ms=9,
            catalog="c",
            table="t",
            figures=TableFigures(**figures, delete_files=0, snapshots=1, target_file_bytes=1, score=score),
        )
        for score in scores
    ]
    assert service_notices.is_worse(looks) is worse
