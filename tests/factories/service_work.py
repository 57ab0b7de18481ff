"""Work of a service, in the words of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.model.work import WorkRequest
from iceberg_compaction.model.work_board import WorkLimits

if TYPE_CHECKING:
    from iceberg_compaction.record.rules.work_book import ClaimedWork, WorkBook

NO_LIMITS = WorkLimits()


def request(work_id: str, at_ms: int = 0, **more: Any) -> WorkRequest:
    """A request about a table of its own."""
    return WorkRequest(**{"work_id": work_id, "catalog": "c", "table": f"db.{work_id}", "requested_ms": at_ms, **more})


def claimed(book: WorkBook, now_ms: int = 10, worker: str = "w", **limits: Any) -> ClaimedWork:
    """Work that there must be."""
    work = book.claim(worker, now_ms, WorkLimits(**limits))
    assert work is not None
    return work


def claim_all(book: WorkBook, now_ms: int = 10, **limits: Any) -> list[str]:
    """The ids of all work that may begin at this moment, in the order in which workers get it."""
    ids = []
    while (work := book.claim("w", now_ms, WorkLimits(**limits))) is not None:
        ids.append(work.work_id)
    return ids
