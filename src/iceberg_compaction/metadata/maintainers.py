"""Other tools that rewrite a table, recognised by the summaries of their snapshots. docs/reference/maintainers.md names
the mark of each, and where it is known from."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from iceberg_compaction import errors
from iceberg_compaction.metadata import snapshot_log
from iceberg_compaction.model import partition_key, plurals, snapshot_history
from iceberg_compaction.model.maintainer import Maintainer
from iceberg_compaction.model.policies import Others
from iceberg_compaction.model.table_view import DATA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.table_view import TableView

OURS = ("iceberg-compaction", "compaction.run-id")  # the engine's name, and a property of each of its snapshots
# Services by the beginning of a property, the engine's name included, or by a property with its value.
_SERVICES = (
    ("amoro", "Amoro", "snapshot.producer", "OPTIMIZE"),
    ("seaweedfs", "SeaweedFS maintenance", "maintenance", None),
    ("databricks", "Databricks", "databricks", None),
    ("snowflake", "Snowflake", "snowflake", None),
)
_ENGINES = {
    "spark": "Iceberg's procedures on Spark",
    "trino": "Trino's optimize",
    "flink": "Iceberg's maintenance on Flink",
}
_S3_TABLES = "--table-s3"  # the end of the name of each bucket that S3 Tables makes


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRewrites:
    """A maintainer, and the sequence numbers of its snapshots; format version 1 has none."""

    maintainer: Maintainer
    sequence_numbers: frozenset[int]


def consider(view: TableView, metadata: TableMetadata, others: Others, now_ms: int) -> TableView:
    """The view with the maintainers that the table has, and with the files marked that are left to them. Raises
    MaintainedError if the policy refuses such a table."""
    if view.pin is None:
        return view
    rewrites = read(metadata, view.pin.branch)
    view = replace(view, maintainers=tuple(each.maintainer for each in rewrites))
    active = [each for each in rewrites if each.maintainer.is_active(now_ms)]
    if not active or others is Others.REPORT:
        return view
    if others is Others.REFUSE:
        words = plurals.listed([each.maintainer.words for each in active])
        raise errors.MaintainedError(
            f"Table {view.table} has another maintainer: {words}. Nothing was done, because others is refuse; turn one "
            "of them off, or choose yield or report."
        )
    return replace(view, yielded=pa.array(_left_to(active, view)))


def read(metadata: TableMetadata, branch: str) -> tuple[ForeignRewrites, ...]:
    """All maintainers but this one, the most recent first."""
    found: dict[tuple[str, str, bool], list[Snapshot]] = defaultdict(list)
    for snapshot in snapshot_log.line(metadata, branch):
        summary = {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)
        maintainer = _maintainer(snapshot, summary, metadata.location)
        if maintainer is not None:
            found[maintainer].append(snapshot)
    rewrites = [_rewrites(*key, snapshots) for key, snapshots in found.items()]
    return tuple(sorted(rewrites, key=lambda each: -each.maintainer.last_ms))


def _maintainer(snapshot: Snapshot, summary: Mapping[str, str], location: str) -> tuple[str, str, bool] | None:
    """Name, label and whether it is a service of the whole table. None: the snapshot is no rewrite by others."""
    engine, _ = snapshot_log.writer_of(summary)
    if engine == OURS[0] or OURS[1] in summary:
        return None
    is_replace = snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE
    for name, label, mark, value in _SERVICES:
        marked = summary.get(mark) == value if value else any(key.startswith(mark) for key in summary) or mark in engine
        if marked and (is_replace or value):
            return name, label, True
    removes = any(summary.get(key, "0") != "0" for key in ("deleted-data-files", "removed-delete-files"))
    if not is_replace or not removes:
        return None  # a rewrite of manifests alone leaves every file where it was
    if engine == snapshot_history.UNKNOWN and _S3_TABLES in location.partition("://")[2].partition("/")[0]:
        return "s3-tables", "S3 Tables", True
    if engine == snapshot_history.UNKNOWN:
        return engine, "A maintainer that left no name", False
    return engine, _ENGINES.get(engine, engine.capitalize()), False


def is_amoro(summary: Mapping[str, str]) -> bool:
    """Whether Amoro's optimizer made the snapshot, which commits other operations than `replace` as well."""
    _, _, mark, value = _SERVICES[0]
    return summary.get(mark) == value


def _rewrites(name: str, label: str, whole_table: bool, snapshots: Sequence[Snapshot]) -> ForeignRewrites:
    times = sorted(snapshot.timestamp_ms for snapshot in snapshots)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    return ForeignRewrites(
        maintainer=Maintainer(
            name=name,
            label=label,
            whole_table=whole_table,
            rewrites=len(times),
            first_ms=times[0],
            last_ms=times[-1],
            median_interval_seconds=round(statistics.median(gaps) / 1000, 3) if gaps else None,
        ),
        sequence_numbers=frozenset(snapshot.sequence_number or 0 for snapshot in snapshots),
    )


def _left_to(active: Sequence[ForeignRewrites], view: TableView) -> NDArray[np.bool_]:
    """The files of partitions that maintainers have rewritten. The number of a live file names the commit that added
    it; where files have no numbers, all are left alone."""
    numbers = {number for each in active for number in each.sequence_numbers}
    if 0 in numbers or any(each.maintainer.whole_table for each in active):
        return np.ones(view.files.num_rows, np.bool_)
    theirs = np.isin(view.files["file_sequence_number"].to_numpy(), sorted(numbers))
    theirs &= view.files["content"].to_numpy() == DATA
    rows = view.files.select(["spec_id", "partition"]).filter(pa.array(theirs))
    partitions = rows["partition"].cast(pa.string()).to_pylist()
    return partition_key.lie_in(view.files, set(zip(rows["spec_id"].to_pylist(), partitions, strict=True)))
