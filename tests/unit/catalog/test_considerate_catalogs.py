"""Catalogs that are asked gently: at a pace, and only for tables that have changed."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import lake as lakes
from tests.factories import serving

from iceberg_compaction import Compactor, errors
from iceberg_compaction.catalog import paced_catalog, rest
from iceberg_compaction.catalog.changes import table_pointers
from iceberg_compaction.storage.s3 import request_pace

if TYPE_CHECKING:
    from pathlib import Path


def test_requests_keep_their_distance() -> None:
    clock, waits = {"now": 100.0}, []

    def sleep(seconds: float) -> None:
        waits.append(round(seconds, 3))
        clock["now"] += seconds

    pace = request_pace.RequestPace(per_second=4, monotonic=lambda: clock["now"], sleep=sleep)
    for _ in range(8):
        pace.wait()
    assert waits == [0.25, 0.25, 0.25]  # the first second is free
    clock["now"] += 60
    for _ in range(6):
        pace.wait()
    assert waits[3:] == [0.25]


def test_a_catalog_keeps_the_pace(tmp_path: Path) -> None:
    catalog, turns = lakes.local_catalog(tmp_path), []
    lakes.make_table(catalog, "db.t")
    pace = request_pace.RequestPace(per_second=1, monotonic=lambda: 0.0, sleep=turns.append)
    paced_catalog.pace(catalog, pace)
    for _ in range(3):
        catalog.load_table("db.t").append(pa.table({"id": [1], "name": ["a"], "amount": [1.0]}))
    assert len(turns) >= 4  # commits count as well
    catalog.close()


class TableServer(BaseHTTPRequestHandler):
    """A REST catalog with one table, which has an ETag."""

    protocol_version = "HTTP/1.1"
    asked: list[tuple[int, str | None]] = []
    answer: dict[str, Any] = {}
    etag = '"one"'

    def do_GET(self) -> None:
        if "/tables/" not in self.path:
            return self._send(200, {"defaults": {}, "overrides": {}})
        wanted = self.headers.get("If-None-Match")
        status = 304 if wanted == self.etag else 200
        self.asked.append((status, wanted))
        return self._send(status, self.answer if status == 200 else None)

    def _send(self, status: int, content: dict[str, Any] | None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("ETag", self.etag)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *given: Any) -> None:
        """Nobody reads it."""


def test_a_table_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    source = lakes.local_catalog(tmp_path)
    table = lakes.make_table(source, "db.t")
    metadata = json.loads(table.metadata.model_dump_json())
    TableServer.answer = {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}
    with serving.serving(serving.QuietServer(("127.0.0.1", 0), TableServer)) as address:
        catalog = rest.TimedRestCatalog("c", uri=f"http://{address}")
        loaded, etag = table_pointers.load_unless(catalog, "db.t", "")
        assert loaded is not None
        assert etag == '"one"'
        assert table_pointers.load_unless(catalog, "db.t", etag) == (None, etag)
        catalog.load_table("db.t")  # others get the table, whatever the scheduler knows
        TableServer.etag = '"two"'
        loaded, etag = table_pointers.load_unless(catalog, "db.t", etag)
        assert (loaded is not None, etag) == (True, '"two"')
        catalog.close()
    assert TableServer.asked == [(200, None), (304, '"one"'), (200, None), (200, '"one"')]
    source.close()
    assert table_pointers.pointers(catalog) is None


@pytest.mark.server
def test_requests_to_s3_keep_the_pace_of_the_catalogs_property(
    s3_lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    pace = request_pace.RequestPace(per_second=10, monotonic=lambda: 0.0, sleep=waits.append)
    monkeypatch.setattr(request_pace, "_shared", lambda per_second, process: pace if per_second == 10 else None)
    lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("paced")), 6)
    properties = {**s3_lake.settings.properties, request_pace.PROPERTY: "10"}
    settings = s3_lake.settings.model_copy(update={"properties": properties})
    with Compactor(settings, engine="inline") as compactor:
        outcome = compactor.compact_table(s3_lake.name("paced"))
    assert outcome.kind.value == "compacted"
    assert outcome.requests.total > 15
    assert len(waits) >= outcome.requests.total - 12  # those of the first second need not wait
    assert waits[-1] > 0.5


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "fast", ""])
def test_what_is_no_pace_is_refused(given: str) -> None:
    with pytest.raises(errors.ConfigError, match="requests-per-second must be a number above 0"):
        request_pace.of_properties({request_pace.PROPERTY: given})
