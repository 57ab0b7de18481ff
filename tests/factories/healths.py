"""The health of tables that no lake has: sick ones with a writer, partitions, fixes and growth."""

from __future__ import annotations

from tests.factories import histories, inventories

from iceberg_compaction.inspect import assess, health_request
from iceberg_compaction.model.policies import Policy, resolve_sizes
from iceberg_compaction.model.table_health import GrowthDay, TableHealth

MIB = 2**20


def sick(name: str = "shop.events", app: str = "5f1c") -> TableHealth:
    """Forty small files in four partitions, by one Flink job."""
    rows = inventories.files([MIB] * 40, partitions=[f'{{"day": "<{n % 4}>"}}' for n in range(40)])
    past = histories.history(
        histories.commits(
            40, engine="flink", app=app, added_files=4, added_bytes=4, changed_partitions=1, total_files=5
        ),
        metadata_files=100,
        partitioned=True,
    )
    stock = inventories.view(rows, table=name, snapshots=400)
    checkup = health_request.Checkup(policy=Policy(), sizes=resolve_sizes(Policy(), {}), sick=True, history=past)
    return assess.assess(stock, checkup)


def day(number: int, total: int | None) -> GrowthDay:
    """A day of January 2026 with one commit of `number` files."""
    return GrowthDay(
        day=f"2026-01-{number:02d}",
        commits=1,
        added_files=number,
        removed_files=0,
        added_bytes=0,
        removed_bytes=0,
        added_records=0,
        removed_records=0,
        total_files=total,
        total_bytes=None,
        total_records=None,
        added_files_by_writer={},
    )
