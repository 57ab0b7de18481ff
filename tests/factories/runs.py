"""Runs as the journal knows them, that are somebody else's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.catalog import identity
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import record

if TYPE_CHECKING:
    from pyiceberg.table import Table


def make_start(table: Table, run_id: str, where: record.Process, **more: Any) -> record.RunStart:
    """What is written down of a run on the table that begins now, in some process."""
    location = table.location()
    return record.RunStart(
        run_id=run_id,
        table=".".join(table.name()),
        table_uuid=str(table.metadata.table_uuid),
        table_location=location,
        data_path=f"{location}/data",
        metadata_path=f"{location}/metadata",
        branch="main",
        process=where,
        started_ms=wiring.new_run().clock(),
        catalog=identity.identity(table),
        **more,
    )
