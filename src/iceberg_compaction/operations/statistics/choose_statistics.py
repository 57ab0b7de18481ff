"""Chooses the statistics that a snapshot lacks, from table metadata alone. Those of an older snapshot serve as long as
nothing has changed since that they count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from iceberg_compaction import errors
from iceberg_compaction.execute.worker.sketch import value_hashes
from iceberg_compaction.metadata.partitions import unified_partition
from iceberg_compaction.model import plurals, statistics_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

THETA = "apache-datasketches-theta-v1"
_CHANGES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")
_TOTALS = ("total-data-files", "total-delete-files", "total-records", "total-files-size")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStatistics:
    """What a snapshot lacks, and what it has."""

    partitions: bool
    columns: tuple[str, ...]
    kept: tuple[tuple[str, str], ...] = ()  # a kind of statistics that is not made, and why


def choose(table: Table, snapshot: Snapshot, goal: statistics_plan.StatisticsGoal) -> ChosenStatistics:
    """ConfigError: a column is not there, or its values cannot be counted."""
    kept = []
    partitions = goal.partitions
    if partitions and not unified_partition.is_partitioned(table):
        partitions = False
        kept.append(("partition statistics", "the table is not partitioned"))
    elif partitions and (owner := _with_partition_statistics(table.metadata, snapshot)) is not None:
        partitions = False
        kept.append(("partition statistics", _present(owner, snapshot)))
    schema = schema_of(table, snapshot)
    wanted = columns(schema, goal.columns)
    owner, counted = _counted(table.metadata, snapshot)
    has = {name for name in wanted if schema.find_field(name).field_id in counted}
    if has and owner is not None:
        kept.append((plurals.count(len(has), "column"), _present(owner, snapshot)))
    return ChosenStatistics(
        partitions=partitions, columns=tuple(name for name in wanted if name not in has), kept=tuple(kept)
    )


def schema_of(table: Table, snapshot: Snapshot) -> Schema:
    """The schema that the snapshot was written with."""
    return table.schemas().get(snapshot.schema_id, table.schema()) if snapshot.schema_id is not None else table.schema()


def columns(schema: Schema, names: tuple[str, ...]) -> tuple[str, ...]:
    """The columns to count by their names in the schema."""
    able = [field.name for field in schema.fields if value_hashes.is_counted(field.field_type)]
    if statistics_plan.ALL_COLUMNS in names and statistics_plan.ALL_COLUMNS not in able:
        return tuple(able)
    for name in names:
        if name not in {field.name for field in schema.fields}:
            raise errors.ConfigError(f"There is no column {name!r}; distinct values can be counted of {_list(able)}.")
        if name not in able:
            kind = schema.find_field(name).field_type
            raise errors.ConfigError(
                f"Distinct values of {name} cannot be counted, as its type is {kind}; they can of {_list(able)}."
            )
    return tuple(dict.fromkeys(names))


def _list(names: list[str]) -> str:
    return ", ".join(names[:20]) or "none"


def _present(owner: Snapshot, snapshot: Snapshot) -> str:
    if owner.snapshot_id == snapshot.snapshot_id:
        return f"snapshot {snapshot.snapshot_id} has them"
    return f"those of snapshot {owner.snapshot_id} still hold"


def _with_partition_statistics(metadata: TableMetadata, snapshot: Snapshot) -> Snapshot | None:
    """The snapshot whose partition statistics are those of the given one."""
    owned = {each.snapshot_id for each in metadata.partition_statistics}
    return next((each for each in _alike(metadata, snapshot, _same_files) if each.snapshot_id in owned), None)


def _counted(metadata: TableMetadata, snapshot: Snapshot) -> tuple[Snapshot | None, set[int]]:
    """The newest snapshot with sketches of the same rows, and the fields of these."""
    fields = {
        each.snapshot_id: {blob.fields[0] for blob in each.blob_metadata if blob.type == THETA and blob.fields}
        for each in metadata.statistics
    }
    for each in _alike(metadata, snapshot, _same_rows):
        if counted := fields.get(each.snapshot_id):
            return each, counted
    return None, set()


def _alike(
    metadata: TableMetadata, snapshot: Snapshot, is_same: Callable[[Snapshot, Snapshot], bool]
) -> Iterator[Snapshot]:
    """The snapshot and its ancestors, as long as each is the same as its parent."""
    by_id = {each.snapshot_id: each for each in metadata.snapshots}
    current: Snapshot | None = snapshot
    while current is not None:
        yield current
        parent = None if current.parent_snapshot_id is None else by_id.get(current.parent_snapshot_id)
        if parent is None or not is_same(parent, current):
            return
        current = parent


def _same_rows(parent: Snapshot, snapshot: Snapshot) -> bool:
    """A replace exchanges files for others with the same rows."""
    return (snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE) or _same_files(
        parent, snapshot
    )


def _same_files(parent: Snapshot, snapshot: Snapshot) -> bool:
    """Whether both summaries tell so: no file came or went, and all totals are there and the same."""
    if parent.summary is None or snapshot.summary is None:
        return False
    before, after = parent.summary.additional_properties, snapshot.summary.additional_properties
    if any(after.get(name, "0") != "0" for name in _CHANGES):
        return False
    return all(name in after and after[name] == before.get(name) for name in _TOTALS)
