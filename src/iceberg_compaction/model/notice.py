"""Something that people want to hear of, such as a run that failed: sent to webhooks as it is, or as words."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model.value import Count, Value


class NoticeKind(str, Enum):
    """What has happened. Closed set."""

    FAILED = "failed"  # a run
    DONE = "done"  # a run, whatever it did
    SUSPENDED = "suspended"  # a table that failed again and again
    BUDGET = "budget"  # of an hour is spent, so that work waits
    UNKNOWN_COMMIT = "unknown-commit"  # the catalog did not say whether a commit landed
    WORSE = "worse"  # the health of a table only falls


class Notice(Value):
    """One notice. `notice_id` is the same in every attempt to deliver it."""

    notice_id: str
    kind: NoticeKind
    at_ms: Count
    sentence: str
    catalog: str = ""
    table: str = ""
    tenant: str | None = None
    run_id: str | None = None
