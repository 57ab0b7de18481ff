"""Runs as the journal knows them, that are somebody else's."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from iceberg_compaction.catalog import catalog_identity
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import run_record
from iceberg_compaction.record.runs import Run

if TYPE_CHECKING:
    from pyiceberg.table import Table


def make_start(table: Table, run_id: str, where: run_record.Process, **more: Any) -> run_record.RunStart:
    """What is written down of a run on the table that begins now, in some process."""
    location = table.location()
    return run_record.RunStart(
        run_id=run_id,
        table=".".join(table.name()),
        table_uuid=str(table.metadata.table_uuid),
        table_location=location,
        data_path=f"{location}/data",
        metadata_path=f"{location}/metadata",
        branch="main",
        process=where,
        started_ms=wiring.new_run().clock(),
        catalog=catalog_identity.identity(table),
        **more,
    )


def make_run(**given: Any) -> Run:
    """A run of our own that nobody remembers. It does not really wait, unless it is told how to."""
    surroundings = {"run_id": uuid.uuid4().hex, "clock": wiring.new_run().clock, "pause": lambda seconds: None}
    return Run(**{**surroundings, **given})
