"""A request to cancel a run is in the store until the run has ended."""

from __future__ import annotations

from iceberg_compaction.model.cancel_request import CancelRequest
from iceberg_compaction.record import cancel_requests
from iceberg_compaction.record.entries.memory import MemoryEntries

FIRST, SECOND = (CancelRequest(by=name, machine="north", at_ms=0) for name in ("ada", "bob"))


def test_the_first_request_counts_until_the_run_has_ended() -> None:
    entries = MemoryEntries()
    assert cancel_requests.find(entries, "a") is None
    assert cancel_requests.add(entries, "a", FIRST) == FIRST
    assert cancel_requests.add(entries, "a", SECOND) == FIRST
    assert cancel_requests.find(entries, "b") is None
    cancel_requests.remove(entries, "a")
    assert cancel_requests.find(entries, "a") is None


def test_a_request_that_cannot_be_read_is_a_request() -> None:
    entries = MemoryEntries()
    entries.change({"cancel/a": '{"format": 99}'})
    request = cancel_requests.find(entries, "a")
    assert request is not None
    assert "somebody" in request.words
