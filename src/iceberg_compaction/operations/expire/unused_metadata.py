"""Schemas and partition specs that nothing uses any more once snapshots have expired. A table and the snapshots that
stay come in; the ids that may go, and notes on what stays and why, go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.metadata.reach import listed_manifests
from iceberg_compaction.operations.past_runs import run_commits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_EQUALITY_DELETES = "total-equality-deletes"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedMetadata:
    """What may leave the metadata."""

    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def find(table: Table, kept: Sequence[Snapshot]) -> UnusedMetadata:
    """Reads the manifest lists of the snapshots that stay, as these say which partition specs are in use."""
    metadata = table.metadata
    specs = {metadata.default_spec_id, *listed_manifests.read(table.io, kept)["spec_id"].unique().to_pylist()}
    spec_ids = tuple(each.spec_id for each in metadata.partition_specs if each.spec_id not in specs)
    notes = ("Sort orders stay: Iceberg's protocol has no request to remove one.",)
    if any(run_commits.properties(each).get(_EQUALITY_DELETES, "1") != "0" for each in kept):
        # An equality delete may name a column that only an old schema has (R23).
        return UnusedMetadata(
            spec_ids=spec_ids,
            notes=(*notes, "Old schemas stay: equality deletes may need a column that only one of them has."),
        )
    used = {metadata.current_schema_id, *(each.schema_id for each in kept)}
    if None in used:
        return UnusedMetadata(
            spec_ids=spec_ids, notes=(*notes, "Old schemas stay: a snapshot does not say which one it has.")
        )
    schema_ids = tuple(each.schema_id for each in metadata.schemas if each.schema_id not in used)
    return UnusedMetadata(schema_ids=schema_ids, spec_ids=spec_ids, notes=notes)
