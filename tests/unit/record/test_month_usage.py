"""What tenants have used in a month."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from iceberg_compaction import errors
from iceberg_compaction.interfaces import usage_files
from iceberg_compaction.model.outcome import Compacted, Failed
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.record.entries.memory import MemoryEntries
from iceberg_compaction.record.service import month_usage
from iceberg_compaction.record.store import RunStore


def record(number: int, table: str, when: datetime, **more: Any) -> RunRecord:
    facts = {
        "table": table,
        "sentence": "",
        "run_id": f"run{number}",
        "snapshot_id": 1,
        "effort": Effort(copied_bytes=10, copy_seconds=0.5, encoded_bytes=5, encode_seconds=0.25),
        "requests": StorageRequests(gets=2, puts=1),
        "bytes_added": 7,
        "cost": 0.5,
        "seconds": 2.0,
        **more,
    }
    end = Failed(**facts) if more.get("groups_failed") else Compacted(**facts)
    ms = int(when.timestamp() * 1000)
    return RunRecord(run_id=f"run{number}", table=table, version="1", started_ms=ms, finished_ms=ms, outcome=end)


def request(**more: Any) -> month_usage.UsageRequest:
    return month_usage.UsageRequest(
        **{
            "month": "2026-12",
            "tenant_of": lambda table: table.split(".")[0] if table.startswith("t") else None,
            **more,
        }
    )


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)


def test_runs_are_added_up_by_tenant_within_the_month() -> None:
    store = RunStore(MemoryEntries())
    last = utc(2026, 12, 31, 23, 59, 59)
    for number, (table, when, more) in enumerate(
        [
            ("t1.a", utc(2026, 12, 1), {}),
            ("t1.b", last, {"groups_failed": 1}),
            ("t2.a", utc(2026, 12, 5), {}),
            ("other.a", utc(2026, 12, 5), {}),
            ("other.b", utc(2026, 12, 5), {"tenant": "by-policy"}),
            ("t1.a", utc(2026, 11, 30, 23, 59, 59), {}),
            ("t1.a", utc(2027, 1, 1), {}),
        ]
    ):
        store.save(record(number, table, when, **more))
    rows = month_usage.usage(store, request())
    assert [(row.tenant, row.runs, row.failed) for row in rows] == [
        (None, 1, 0),
        ("by-policy", 1, 0),
        ("t1", 2, 1),
        ("t2", 1, 0),
    ]
    assert rows[2].model_dump(exclude={"month", "tenant", "runs", "failed"}) == {
        "bytes_read": 30,
        "bytes_written": 14,
        "requests": 6,
        "compute_seconds": 1.5,
        "run_seconds": 4.0,
        "cost": 1.0,
    }
    assert [row.tenant for row in month_usage.usage(store, request(may_see=lambda tenant: tenant == "t2"))] == ["t2"]
    assert month_usage.usage(store, request(month="2025-01")) == []


@pytest.mark.parametrize("same_moment", [0, 12])
def test_every_run_counts_once_however_many_are_read_at_a_time(
    monkeypatch: pytest.MonkeyPatch, same_moment: int
) -> None:
    monkeypatch.setattr(month_usage, "_AT_ONCE", 5)
    store = RunStore(MemoryEntries())
    for number in range(23):
        second = 7 if number < same_moment else number
        store.save(record(number, "t1.a", utc(2026, 12, 2, 0, 0, second)))
    (row,) = month_usage.usage(store, request())
    assert row.runs == 23


@pytest.mark.parametrize("month", ["", "2026", "2026-00", "2026-13", "26-01", "2026-1", "9999-12x", "x" * 500])
def test_what_is_no_month_is_refused(month: str) -> None:
    with pytest.raises(errors.ConfigError, match="no month"):
        month_usage.month_bounds(month)


def test_names_in_a_csv_are_no_formulas() -> None:
    store = RunStore(MemoryEntries())
    store.save(record(1, "x.a", utc(2026, 12, 2), tenant="=1+1"))
    text = usage_files.csv_text(month_usage.usage(store, request()))
    assert text.splitlines()[0].startswith("month,tenant,runs,failed,bytes_read")
    assert text.splitlines()[1].startswith("2026-12,'=1+1,1,0,15,7,3,0.75,2,0.5")
